/** `POST /v1/reports` on public.sock: what clients of the host say of failed connections, checked and within limits (R20). */
import { isIP } from 'node:net';
import { canonicalAddress } from '../config/addresses.js';
import type { BootMs, Ms, WallMs } from '../system/clock.js';
import type { ClientReport, ReportReceipt } from './documents.js';

const FAILURES: readonly string[] = ['refused', 'reset', 'timeout', 'unreachable', 'other'];
const KEYS: readonly string[] = ['service', 'address', 'port', 'protocol', 'failure', 'at'];
export const MAX_REPORTS = 50;
const MAX_NAME = 255;
/** What happened longer ago says nothing about now. */
const MAX_AGE_MS: Ms = 10_000;
/** The clocks of a client and of this process are one; this is for its grain. */
const CLOCK_GRAIN_MS: Ms = 1_000;

/** Reports a second, and how many may come at once: of one user of the host, and of all. */
const CLIENT_RATE = 20;
const CLIENT_BURST = 100;
const TOTAL_RATE = 200;
const TOTAL_BURST = 1_000;
/** Users that are told apart. */
const MAX_CLIENTS = 1_000;

/** The document's reports, or what is wrong with it in words for the author of a client. */
export function readReports(body: unknown): ClientReport[] | string {
  if (!isObject(body) || !Array.isArray(body.reports)) return 'expected {"reports": [...]}';
  if (body.reports.length > MAX_REPORTS) return `reports: expected at most ${MAX_REPORTS}`;
  const reports: ClientReport[] = [];
  for (const [i, item] of body.reports.entries()) {
    const report = readReport(item);
    if (typeof report === 'string') return `reports[${i}]${report}`;
    reports.push(report);
  }
  return reports;
}

function readReport(item: unknown): ClientReport | string {
  if (!isObject(item)) return ': expected an object';
  const unknown = Object.keys(item).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) return `: unknown key ${JSON.stringify(unknown.slice(0, 50))}`;
  const { service, address, port, protocol = 'tcp', failure, at } = item;
  if (service !== undefined && (typeof service !== 'string' || service === '' || service.length > MAX_NAME))
    return '.service: expected a name such as orders.svc.internal';
  const canonical = typeof address === 'string' && isIP(address) !== 0 ? canonicalAddress(address) : undefined;
  if (canonical === undefined) return '.address: expected an IP address';
  if (!Number.isInteger(port) || Number(port) < 1 || Number(port) > 65535) return '.port: expected 1 to 65535';
  if (protocol !== 'tcp' && protocol !== 'udp') return '.protocol: expected tcp or udp';
  if (typeof failure !== 'string' || !FAILURES.includes(failure))
    return `.failure: expected one of ${FAILURES.join(', ')}`;
  if (at !== undefined && (typeof at !== 'number' || !Number.isFinite(at)))
    return '.at: expected milliseconds since 1970';
  return {
    address: canonical,
    port: Number(port),
    protocol,
    failure: failure as ClientReport['failure'],
    ...(service === undefined ? {} : { service: service.toLowerCase().replace(/\.$/, '') }),
    ...(at === undefined ? {} : { at }),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A bucket of tokens that fills at `rate` a second. */
class Bucket {
  #tokens: number;
  #at: BootMs;

  constructor(
    readonly rate: number,
    readonly burst: number,
    now: BootMs,
  ) {
    this.#tokens = burst;
    this.#at = now;
  }

  /** Up to `wanted` tokens. */
  take(wanted: number, now: BootMs): number {
    this.#tokens = Math.min(this.burst, this.#tokens + ((now - this.#at) / 1_000) * this.rate);
    this.#at = now;
    const taken = Math.min(wanted, Math.floor(this.#tokens));
    this.#tokens -= taken;
    return taken;
  }
}

/** Which reports may be judged: none that is old, and not more than a client, and all together, may send. */
export class ReportLimits {
  readonly #clients = new Map<string, Bucket>();
  readonly #all: Bucket;

  constructor(now: BootMs) {
    this.#all = new Bucket(TOTAL_RATE, TOTAL_BURST, now);
  }

  /** `client`: who sends, as far as they can be told apart. */
  admit(
    reports: readonly ClientReport[],
    client: string,
    now: BootMs,
    wall: WallMs,
  ): { readonly admitted: readonly ClientReport[]; readonly receipt: ReportReceipt } {
    const timely = reports.filter(
      ({ at }) => at === undefined || (wall - at <= MAX_AGE_MS && at - wall <= CLOCK_GRAIN_MS),
    );
    const room = this.#bucket(client, now).take(timely.length, now);
    const admitted = timely.slice(0, this.#all.take(room, now));
    return {
      admitted,
      receipt: {
        accepted: admitted.length,
        late: reports.length - timely.length,
        limited: timely.length - admitted.length,
      },
    };
  }

  #bucket(client: string, now: BootMs): Bucket {
    let bucket = this.#clients.get(client);
    if (bucket === undefined) bucket = new Bucket(CLIENT_RATE, CLIENT_BURST, now);
    // The one that was heard longest ago goes.
    this.#clients.delete(client);
    this.#clients.set(client, bucket);
    if (this.#clients.size > MAX_CLIENTS) this.#clients.delete(this.#clients.keys().next().value!);
    return bucket;
  }
}
