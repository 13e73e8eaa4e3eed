/**
 * When services are looked at again whose verdicts changed. That costs as much as they have rows, however few of them
 * changed: so after much of it further changes of large services gather for a while, and are judged together. Pure.
 */
import type { BootMs, Ms } from '../system/clock.js';

/** What is looked at takes a tenth of that or so: the control thread has its time for all else. */
const MS_A_ROW: Ms = 0.02;
/** So much goes at once after a quiet time, and whatever is begun: what is small never waits. */
const AT_ONCE_MS: Ms = 25;
/** What was looked at delays others no longer than this. */
const MOST_MS: Ms = 1_000;
/** Of the interval that a change was measured at: what is left of R17's 20 % beside the schedule's play. */
const SHARE = 0.05;

/** Something that is judged as a whole. */
export interface Judged {
  readonly rows: { readonly size: number };
}

export class JudgingPace<One extends Judged> {
  /** Those that wait, the longest first, with when they have to be judged at the latest. */
  readonly #waiting = new Map<One, BootMs>();
  /** When what was judged is paid for. */
  #paid: BootMs = Number.NEGATIVE_INFINITY;
  /** No later than the first that has to be judged. */
  #latest: BootMs = Number.POSITIVE_INFINITY;

  /** It is to be judged. `interval`: at which the change was measured; 0: at once. */
  add(one: One, interval: Ms, now: BootMs): void {
    const latest = Math.min(this.#waiting.get(one) ?? Number.POSITIVE_INFINITY, now + SHARE * interval);
    this.#waiting.set(one, latest);
    this.#latest = Math.min(this.#latest, latest);
  }

  /** Those that are to be judged now. */
  take(now: BootMs): One[] {
    const taken: One[] = [];
    if (this.#latest <= now) {
      this.#latest = Number.POSITIVE_INFINITY;
      for (const [one, latest] of this.#waiting) {
        if (latest <= now) this.#take(one, taken, now);
        else this.#latest = Math.min(this.#latest, latest);
      }
    }
    for (const one of this.#waiting.keys()) {
      if (now < this.#next) break;
      this.#take(one, taken, now);
    }
    return taken;
  }

  /** When `take` has something; Infinity when nothing waits. */
  nextDue(): BootMs {
    return this.#waiting.size === 0 ? Number.POSITIVE_INFINITY : Math.min(this.#latest, this.#next);
  }

  get #next(): BootMs {
    return this.#paid - AT_ONCE_MS;
  }

  #take(one: One, taken: One[], now: BootMs): void {
    this.#waiting.delete(one);
    taken.push(one);
    this.#paid = Math.min(now + MOST_MS, Math.max(this.#paid, now) + one.rows.size * MS_A_ROW);
  }
}
