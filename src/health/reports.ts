/**
 * R20: what clients say of connections that failed. It brings a probe at once. When that fails, two witnesses agree and
 * the endpoint is out for a while; so it is when several attempts failed and no probe answers in time. A pass acquits.
 * Pure.
 */
import type { BootMs, Ms } from '../system/clock.js';

/** How an attempt of a client failed. */
export const REPORTED_FAILURES = ['refused', 'reset', 'timeout', 'unreachable', 'other'] as const;
export type ReportedFailure = (typeof REPORTED_FAILURES)[number];

/** So many failed attempts are enough when there is no probe to ask. */
const ENOUGH = 2;
/** A probe that has not answered by then does not answer in time. */
const ANSWER_MS: Ms = 150;
/** Reports older than this are forgotten. */
export const REPORT_MEMORY_MS: Ms = 10_000;
/** An endpoint is probed because of reports at most this often. */
const PROBE_EVERY_MS: Ms = 1_000;
/** Endpoints that are reported at once, at most. Each is looked at whenever time is. */
const MAX_CASES = 1_000;

interface Case {
  count: number;
  last: BootMs;
  failure: ReportedFailure;
  /** Since when a probe's word is waited for; not while it is out, nor before one may be asked for. */
  awaiting: BootMs | undefined;
  /** When it came to be out, and until when it is. */
  out: BootMs | undefined;
  until: BootMs | undefined;
  /** How long it would be out. */
  hold: Ms;
}

/** What is known of an endpoint that is out. */
export interface Ejection {
  readonly count: number;
  readonly failure: ReportedFailure;
  readonly until: BootMs;
}

export class Reports<Row> {
  readonly #cases = new Map<Row, Case>();
  /** When a probe was asked for last, the first before the others; what is over a second ago is of no use. */
  readonly #probed = new Map<Row, BootMs>();

  get isEmpty(): boolean {
    return this.#cases.size === 0;
  }

  /** One failed attempt. `hold`: how long the row would be out. Returns whether it has to be probed now. */
  report(row: Row, failure: ReportedFailure, hold: Ms, now: BootMs): boolean {
    let one = this.#cases.get(row);
    if (one === undefined) {
      if (this.#cases.size >= MAX_CASES) return false;
      const fresh = { count: 0, awaiting: undefined, out: undefined, until: undefined };
      this.#cases.set(row, (one = { ...fresh, last: now, failure, hold }));
    }
    if (now - one.last > REPORT_MEMORY_MS) one.count = 0;
    one.count++;
    one.last = now;
    one.failure = failure;
    one.hold = hold;
    return this.#mayProbe(row, now) && this.#ask(row, one, now);
  }

  /** Those of which more was said after a probe than it could know: they are to be probed now. */
  due(now: BootMs): Row[] {
    return [...this.#cases]
      .filter(([row, one]) => wantsProbe(one) && this.#mayProbe(row, now) && this.#ask(row, one, now))
      .map(([row]) => row);
  }

  /** What a probe said that ended at `at`. Returns whether the row came to be out, or back. */
  outcome(row: Row, failed: boolean, at: BootMs): boolean {
    const one = this.#cases.get(row);
    if (one === undefined) return false;
    if (!failed) return this.#acquit(row, one, at);
    if (one.until !== undefined || at < (one.awaiting ?? one.last)) return false;
    this.#eject(one, at);
    return true;
  }

  /** Runs the clocks. Returns the rows that came to be out, or back. */
  expire(now: BootMs): Row[] {
    const changed: Row[] = [];
    this.#forgetProbes(now);
    for (const [row, one] of this.#cases) {
      if (one.until !== undefined) {
        if (one.until > now) continue;
        this.#cases.delete(row);
        changed.push(row);
      } else if (one.awaiting !== undefined && one.count >= ENOUGH && one.awaiting + ANSWER_MS <= now) {
        this.#eject(one, now);
        changed.push(row);
      } else if (one.last + REPORT_MEMORY_MS <= now) this.#cases.delete(row);
    }
    return changed;
  }

  /** When `expire` has something to do; Infinity when it never will. */
  nextExpiry(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const [row, one] of this.#cases) {
      const { until, awaiting, count, last } = one;
      if (until !== undefined) next = Math.min(next, until);
      else if (wantsProbe(one)) next = Math.min(next, (this.#probed.get(row) ?? 0) + PROBE_EVERY_MS);
      else if (awaiting !== undefined && count >= ENOUGH) next = Math.min(next, awaiting + ANSWER_MS);
      else next = Math.min(next, last + REPORT_MEMORY_MS);
    }
    return next;
  }

  ejection(row: Row): Ejection | undefined {
    const one = this.#cases.get(row);
    return one?.until === undefined ? undefined : { count: one.count, failure: one.failure, until: one.until };
  }

  #eject(one: Case, now: BootMs): void {
    one.out = now;
    one.until = now + one.hold;
    one.awaiting = undefined;
  }

  /**
   * A probe passed that ended at `at`. One that was taken before the attempt failed says nothing about it; but clients
   * may go on and on, and it is their word against that of the probe which they brought. Returns whether it is back.
   */
  #acquit(row: Row, one: Case, at: BootMs): boolean {
    const isLatest = at >= one.last;
    const asked = this.#probed.get(row);
    const isAnswer = asked !== undefined && at >= asked && asked > (one.out ?? Number.NEGATIVE_INFINITY);
    if (!isLatest && !isAnswer) return false;
    const wasOut = one.until !== undefined;
    if (isLatest) this.#cases.delete(row);
    else Object.assign(one, { count: 1, awaiting: undefined, out: undefined, until: undefined });
    return wasOut;
  }

  #mayProbe(row: Row, now: BootMs): boolean {
    this.#forgetProbes(now);
    return !this.#probed.has(row);
  }

  #ask(row: Row, one: Case, now: BootMs): true {
    if (one.until === undefined) one.awaiting ??= now;
    this.#probed.set(row, now);
    return true;
  }

  #forgetProbes(now: BootMs): void {
    for (const [row, at] of this.#probed) {
      if (now - at < PROBE_EVERY_MS) return;
      this.#probed.delete(row);
    }
  }
}

function wantsProbe({ until, awaiting }: Case): boolean {
  return until === undefined && awaiting === undefined;
}
