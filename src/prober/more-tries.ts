/** How many tries beyond the second there may be (R17), so that many deaths at once add next to none. Pure. */
import type { BootMs } from '../system/clock.js';

/** Of the budget. Half a percent of lost packets takes less than a tenth of a promille. */
const SHARE = 0.05;
/** Unused ones are kept for so long at most. */
const KEPT_S = 1;

export class MoreTries {
  #left = 0;
  #at: BootMs = Number.NEGATIVE_INFINITY;

  /** @param budget probes a second, at most */
  constructor(public budget: number) {}

  take(now: BootMs): boolean {
    const rate = this.budget * SHARE;
    this.#left = Math.min(Math.max(1, rate * KEPT_S), this.#left + Math.max(0, now - this.#at) * (rate / 1_000));
    this.#at = now;
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }
}
