/**
 * How many second copies of requests may be sent while a service is slow as a whole: it is not asked twice as much for
 * that. Pure: time is passed in.
 */
import type { Ms } from '../system/clock.js';

/** A fifth of the requests, so many a second, and so many besides. */
const SHARE = 0.2;
const A_SECOND = 10;
const RESERVE = 100;

export class RetryBudget {
  #tokens = RESERVE;
  #at: Ms;

  constructor(now: Ms) {
    this.#at = now;
  }

  /** A request of the program. */
  asked(): void {
    this.#tokens = Math.min(RESERVE, this.#tokens + SHARE);
  }

  /** Whether one more may be sent; it is counted. */
  take(now: Ms): boolean {
    this.#tokens = Math.min(RESERVE, this.#tokens + (Math.max(0, now - this.#at) / 1_000) * A_SECOND);
    this.#at = now;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
