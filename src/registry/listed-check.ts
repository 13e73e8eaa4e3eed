/** A check as registry data may give it: type, port, path, TLS name and status, nothing else (R18). */
import { nameToWire } from '../dns/names.js';
import type { ListedCheck } from './registry.js';
import { isPort } from './rows.js';
import { entriesOf } from './tree.js';

const TYPES = ['tcp', 'http', 'https', 'grpc', 'none'] as const;

/** A number, or text of digits: YAML values come as text. NaN for anything else. */
export function toInteger(value: unknown): number {
  if (typeof value === 'number') return value;
  return typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : Number.NaN;
}

/** The check, or why it is of no use, as a sentence without its subject. */
export function readCheck(value: unknown): ListedCheck | string {
  const entries = entriesOf(value);
  if (entries === undefined) return 'check must be a mapping, such as {type: http, path: /healthz}';
  const check: { -readonly [K in keyof ListedCheck]: ListedCheck[K] } = {};
  for (const [key, item] of entries) {
    if (item === null) continue;
    if (key === 'type') {
      const type = TYPES.find((known) => known === item);
      if (type === undefined) return `check.type must be one of ${TYPES.join(', ')}`;
      check.type = type;
    } else if (key === 'port') {
      check.port = toInteger(item);
      if (!isPort(check.port)) return 'check.port must be 1 to 65535';
    } else if (key === 'path') {
      if (typeof item !== 'string' || !/^\/[\x21-\x7e]{0,1000}$/.test(item)) return 'check.path must be a path from /';
      check.path = item;
    } else if (key === 'tlsName') {
      if (typeof item !== 'string' || item.startsWith('.') || nameToWire(item) === undefined)
        return 'check.tlsName must be a host name';
      check.tlsName = item;
    } else if (key === 'status') {
      const status = readStatus(item);
      if (status === undefined) return 'check.status must be statuses such as 200 or 200-399, or a list of them';
      check.status = status;
    } else {
      return `check.${key} is not known: a registry may give type, port, path, tlsName and status`;
    }
  }
  return check;
}

function readStatus(value: unknown): [number, number][] | undefined {
  const items = Array.isArray(value) ? value : [value];
  const ranges: [number, number][] = [];
  for (const item of items) {
    const match = /^([1-5]\d\d)(?:-([1-5]\d\d))?$/.exec(String(item));
    if (match === null) return undefined;
    const from = Number(match[1]);
    const to = Number(match[2] ?? match[1]);
    if (to < from) return undefined;
    ranges.push([from, to]);
  }
  return ranges.length > 0 && ranges.length <= 20 ? ranges : undefined;
}
