/**
 * Counters of one thread that answers: u32 in shared memory, written by that thread alone with plain `++`, read by the
 * control thread. They wrap after 4 G; `CounterTotals` keeps the whole sums.
 */
import { TYPE } from '../dns/constants.js';

/** Queries by type, in the order of their words from `COUNTER.type`. The last takes all others. */
export const COUNTED_TYPES = ['A', 'AAAA', 'SRV', 'PTR', 'TXT', 'SOA', 'NS', 'ANY', 'other'] as const;
/** Replies by rcode: words from `COUNTER.rcode`, by number, 16 is BADVERS. */
export const COUNTED_RCODES = 17;
/** Upper bounds of the latency histogram in µs are 2^0 to 2^22; one more word for what took longer. */
export const LATENCY_BUCKETS = 24;

export const COUNTER = {
  udp: 0,
  tcp: 1,
  /** No reply: shorter than a header. */
  tooShort: 2,
  /** No reply: a response itself. */
  response: 3,
  malformed: 4,
  /** Refused by a zone's `allow`. */
  refusedClient: 5,
  /** Refused because no zone has the name. */
  refusedForeign: 6,
  truncated: 7,
  /** Answers with EDE 3 or 19, EDNS or not. */
  stale: 8,
  /** Answers of upstreams that a thread had kept, fresh. */
  forwardKept: 9,
  /** Likewise, stale. */
  forwardKeptStale: 10,
  type: 16,
  rcode: 32,
  /** Written by the transport, once a batch. */
  latency: 56,
  /** Sum of latencies in µs, for the histogram's mean. */
  latencySum: 80,
} as const;

/** Words of a counter array: `new Uint32Array(new SharedArrayBuffer(COUNTER_WORDS * 4))`. */
export const COUNTER_WORDS = 96;

/** The word of a query type. */
export function typeCounter(type: number): number {
  switch (type) {
    case TYPE.A:
      return COUNTER.type;
    case TYPE.AAAA:
      return COUNTER.type + 1;
    case TYPE.SRV:
      return COUNTER.type + 2;
    case TYPE.PTR:
      return COUNTER.type + 3;
    case TYPE.TXT:
      return COUNTER.type + 4;
    case TYPE.SOA:
      return COUNTER.type + 5;
    case TYPE.NS:
      return COUNTER.type + 6;
    case TYPE.ANY:
      return COUNTER.type + 7;
    default:
      return COUNTER.type + 8;
  }
}

/** The word of the latency histogram for a time in µs. */
export function latencyCounter(us: number): number {
  const bucket = us <= 1 ? 0 : 32 - Math.clz32(Math.ceil(us) - 1);
  return COUNTER.latency + Math.min(bucket, LATENCY_BUCKETS - 1);
}

/** Sums over threads and over wraps. Read at least once in the time that a counter takes to wrap. */
export class CounterTotals {
  /** By counter word. */
  readonly totals = new Float64Array(COUNTER_WORDS);
  readonly #last = new WeakMap<Uint32Array, Uint32Array>();

  /** Takes what a thread counted since the last call with the same array. */
  add(counters: Uint32Array): void {
    const last = this.#last.get(counters) ?? new Uint32Array(COUNTER_WORDS);
    for (let i = 0; i < COUNTER_WORDS; i++) {
      const now = counters[i]!;
      this.totals[i]! += (now - last[i]!) >>> 0;
      last[i] = now;
    }
    this.#last.set(counters, last);
  }
}
