/**
 * How much more than asked for may be sent: retries and second copies of requests that were sent already. A service
 * that is slow as a whole is not asked twice as much for it. Pure.
 */
/** A fifth of the requests, and so many besides. */
const SHARE = 0.2;
const RESERVE = 100;

export class RetryBudget {
  #tokens = RESERVE;

  /** A request of the program. */
  asked(): void {
    this.#tokens = Math.min(RESERVE, this.#tokens + SHARE);
  }

  /** Whether one more may be sent; it is counted. */
  take(): boolean {
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
