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
  /** Since when a probe's word is waited for; not while it is out. */
  awaiting: BootMs | undefined;
  probed: BootMs | undefined;
  /** It is out until then. */
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

  get isEmpty(): boolean {
    return this.#cases.size === 0;
  }

  /** One failed attempt. `hold`: how long the row would be out. Returns whether it has to be probed now. */
  report(row: Row, failure: ReportedFailure, hold: Ms, now: BootMs): boolean {
    let one = this.#cases.get(row);
    if (one === undefined) {
      if (this.#cases.size >= MAX_CASES) return false;
      const fresh = { count: 0, awaiting: undefined, probed: undefined, until: undefined };
      this.#cases.set(row, (one = { ...fresh, last: now, failure, hold }));
    }
    if (now - one.last > REPORT_MEMORY_MS) one.count = 0;
    one.count++;
    one.last = now;
    one.failure = failure;
    one.hold = hold;
    if (one.until === undefined) one.awaiting ??= now;
    if (one.probed !== undefined && now - one.probed < PROBE_EVERY_MS) return false;
    one.probed = now;
    return true;
  }

  /** What a probe said that ended at `at`. Returns whether the row came to be out, or back. */
  outcome(row: Row, failed: boolean, at: BootMs): boolean {
    const one = this.#cases.get(row);
    if (one === undefined) return false;
    const wasOut = one.until !== undefined;
    if (!failed) {
      // One that was taken before the attempt failed says nothing about it.
      if (at < one.last) return false;
      this.#cases.delete(row);
      return wasOut;
    }
    if (one.awaiting === undefined || at < one.awaiting) return false;
    this.#eject(one, at);
    return true;
  }

  /** Runs the clocks. Returns the rows that came to be out, or back. */
  expire(now: BootMs): Row[] {
    const changed: Row[] = [];
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
    for (const { until, awaiting, count, last } of this.#cases.values()) {
      if (until !== undefined) next = Math.min(next, until);
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
    one.until = now + one.hold;
    one.awaiting = undefined;
  }
}
