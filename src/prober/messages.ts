/** Reading the lines of `prober.sock`: whatever comes in is a checked message, or a counted drop. */
import { isIP } from 'node:net';
import type { BootMs, Ms } from '../system/clock.js';
import {
  FAILURE_KINDS,
  type FailureKind,
  type FromProber,
  MAX_DETAIL,
  PROBE_TYPES,
  type ProbeResult,
  type ProbeType,
  type Target,
  type ToProber,
} from './feed.js';

/** Both processes read the same clock; this is for its grain. */
const CLOCK_GRAIN_MS = 1_000;
const MAX_TIMER_MS = 0x7fffffff;
/** However far intervals are stretched: a word that counted for longer would outlive whoever gave it. */
const MAX_RESULT_INTERVAL_MS: Ms = 24 * 3_600_000;

/** Options of targets that are text. */
const TEXTS = [
  'body',
  'identityBody',
  'drainHeader',
  'group',
  'tlsName',
  'grpcService',
  'query',
  'send',
  'farewell',
  'expect',
] as const satisfies readonly (keyof Target)[];

type KnownKey = (key: string) => string | undefined;

type Fields = Readonly<Record<string, unknown>>;

export interface Checked<T> {
  /** Absent when the line as a whole was dropped. */
  readonly message?: T;
  /** Items inside the line that were dropped, or 1 for a whole line. */
  readonly dropped: number;
  /** What of it made no sense, for people. Absent when all did: a result for what is not probed any more does. */
  readonly odd?: string;
}

/**
 * A line from the prober. `known` gives a key as it was handed out, if it was (R36); a result for any other, from the
 * future, or with a field of another type is dropped, and the rest of its line stands. Unknown fields are passed over:
 * the prober may be the newer of the two.
 */
export function readFromProber(line: string, known: KnownKey, now: BootMs): Checked<FromProber> {
  const fields = parseObject(line);
  if (fields === undefined) return NO_OBJECT;
  if (fields.op === 'results' && Array.isArray(fields.results)) {
    const results: ProbeResult[] = [];
    let odd: string | undefined;
    for (const item of fields.results) {
      const result = readResult(item, known, now);
      if (typeof result === 'object') results.push(result);
      else odd = result ?? odd;
    }
    const dropped = fields.results.length - results.length;
    return { message: { op: 'results', results }, dropped, ...(odd === undefined ? {} : { odd }) };
  }
  const message = readHello(fields) ?? readAlive(fields, now);
  return message === undefined ? oddMessage(fields) : { message, dropped: 0 };
}

/** A line from the resolver. Unknown fields are passed over: the resolver may be the newer of the two. */
export function readToProber(line: string): Checked<ToProber> {
  const fields = parseObject(line);
  if (fields === undefined) return NO_OBJECT;
  if (fields.op === 'replaced') return { message: { op: 'replaced' }, dropped: 0 };
  if (fields.op === 'targets' && Array.isArray(fields.targets)) {
    const targets = fields.targets.filter(isTarget);
    return withOdd({ op: 'targets', targets }, fields.targets.length - targets.length);
  }
  if (fields.op === 'change' && Array.isArray(fields.add) && Array.isArray(fields.remove)) {
    const add = fields.add.filter(isTarget);
    const remove = fields.remove.filter((key) => typeof key === 'string');
    const dropped = fields.add.length - add.length + fields.remove.length - remove.length;
    return withOdd({ op: 'change', add, remove }, dropped);
  }
  if (fields.op === 'now' && Array.isArray(fields.keys)) {
    const keys = fields.keys.filter((key) => typeof key === 'string');
    return withOdd({ op: 'now', keys }, fields.keys.length - keys.length);
  }
  return oddMessage(fields);
}

const NO_OBJECT = { dropped: 1, odd: 'a line that is no JSON object' };

function oddMessage({ op }: Fields): Checked<never> {
  return { dropped: 1, odd: `a message ${plain(JSON.stringify(op) ?? 'without op')} of another form` };
}

function withOdd(message: ToProber, dropped: number): Checked<ToProber> {
  return { message, dropped, ...(dropped === 0 ? {} : { odd: `what is to be probed, of another form: ${dropped}` }) };
}

const ODD_RESULT = 'a result of another form';

/** A result; what is wrong with it; or undefined for one of what is not known any more. */
function readResult(item: unknown, known: KnownKey, now: BootMs): ProbeResult | string | undefined {
  if (!isObject(item) || typeof item.key !== 'string') return ODD_RESULT;
  const { at, interval, took, failure, draining, detail } = item;
  // One text a key: those who look it up need not compare it.
  const key = known(item.key);
  if (key === undefined) return undefined;
  if (!isTime(at) || !isTime(took)) return ODD_RESULT;
  if (at > now + CLOCK_GRAIN_MS) return 'a result from the future';
  if (!isTime(interval) || interval === 0) return ODD_RESULT;
  if (failure !== undefined && !FAILURE_KINDS.includes(failure as FailureKind)) return ODD_RESULT;
  if (draining !== undefined && (draining !== true || failure !== undefined)) return ODD_RESULT;
  if (detail !== undefined && typeof detail !== 'string') return ODD_RESULT;
  const result: { -readonly [K in keyof ProbeResult]: ProbeResult[K] } = {
    key,
    at: Math.min(at, now),
    interval: Math.min(interval, MAX_RESULT_INTERVAL_MS),
    took,
  };
  if (failure !== undefined) result.failure = failure as FailureKind;
  if (draining !== undefined) result.draining = true;
  if (detail !== undefined) result.detail = plain(detail);
  return result;
}

function readHello(fields: Fields): FromProber | undefined {
  const { op, pid, version, wall } = fields;
  if (op !== 'hello') return undefined;
  if (!isTime(pid) || !Number.isInteger(pid) || typeof version !== 'string' || !isTime(wall)) return undefined;
  return { op, pid, version: plain(version), wall };
}

function readAlive(fields: Fields, now: BootMs): FromProber | undefined {
  const { op, at, targets, late, localErrors, stretch, reason, conntrack, portable } = fields;
  if (op !== 'alive') return undefined;
  if ((stretch !== undefined && !isTime(stretch)) || (reason !== undefined && typeof reason !== 'string'))
    return undefined;
  if (conntrack !== undefined && !isTime(conntrack)) return undefined;
  if (portable !== undefined && typeof portable !== 'string') return undefined;
  if (!isTime(at) || at > now + CLOCK_GRAIN_MS || !isTime(targets) || !isTime(late) || !isTime(localErrors))
    return undefined;
  return {
    op,
    at: Math.min(at, now),
    targets,
    late,
    localErrors,
    ...(stretch === undefined ? {} : { stretch }),
    ...(reason === undefined ? {} : { reason: plain(reason) }),
    ...(conntrack === undefined ? {} : { conntrack }),
    ...(portable === undefined ? {} : { portable: plain(portable) }),
  };
}

function isTarget(item: unknown): item is Target {
  if (!isObject(item)) return false;
  const { key, address, port, type, interval, timeout, path, method, host, headers, status } = item;
  const { protocol, identityHeader, minValidity, queryType, command } = item;
  return (
    typeof key === 'string' &&
    typeof address === 'string' &&
    isIP(address) !== 0 &&
    isTime(port) &&
    Number.isInteger(port) &&
    port >= 1 &&
    port <= 65_535 &&
    PROBE_TYPES.includes(type as ProbeType) &&
    (protocol === undefined || protocol === 'udp') &&
    TEXTS.every((name) => item[name] === undefined || typeof item[name] === 'string') &&
    (identityHeader === undefined || (isTexts(identityHeader) && identityHeader.length === 2)) &&
    (minValidity === undefined || isTime(minValidity)) &&
    (queryType === undefined || isTime(queryType)) &&
    (command === undefined ? type !== 'exec' : isTexts(command) && command.length > 0) &&
    isTime(interval) &&
    interval >= 1 &&
    interval <= MAX_TIMER_MS &&
    isTime(timeout) &&
    timeout >= 1 &&
    timeout <= MAX_TIMER_MS &&
    (path === undefined || typeof path === 'string') &&
    (method === undefined || method === 'GET' || method === 'HEAD') &&
    (host === undefined || typeof host === 'string') &&
    (headers === undefined || (isObject(headers) && Object.values(headers).every((v) => typeof v === 'string'))) &&
    (status === undefined || (Array.isArray(status) && status.every(isRange)))
  );
}

function isTexts(item: unknown): item is string[] {
  return Array.isArray(item) && item.every((one) => typeof one === 'string');
}

function isRange(item: unknown): boolean {
  return Array.isArray(item) && item.length === 2 && item.every(isTime);
}

function parseObject(line: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A number that can be a time or a count. JSON has no NaN, but 1e999 reads as Infinity. */
function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

/** Text of another process, fit for a log line and a terminal. */
function plain(text: string): string {
  return text.slice(0, MAX_DETAIL).replace(/[\u0000-\u001f\u007f-\u009f]/g, '?');
}
