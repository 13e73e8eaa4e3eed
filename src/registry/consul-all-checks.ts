/** When the long list of all checks is read. Pure: time is passed in. */
import type { Ms } from '../system/clock.js';

/** Where nothing asks for it sooner: that a check tests something else shows there alone. */
const EVERY_MS: Ms = 300_000;
/** Of the time, it may be asked for and taken in for so long. */
const COST_SHARE = 1 / 5;

export class AllChecks {
  /** Up to which index it is known. */
  index = 0n;
  #at: Ms = 0;
  #cost: Ms = 0;

  /** It was asked for at `began`, and taken in at `now`. */
  took(index: bigint, began: Ms, now: Ms): void {
    this.index = index;
    this.#at = now;
    this.#cost = now - began;
  }

  /**
   * When it is to be read.
   * @param newest the index of checks now
   * @param wanted from when on it may tell what nothing else does; Infinity: there is no such thing
   */
  due(newest: bigint, wanted: Ms): Ms {
    const first = newest > this.index ? Math.min(wanted, this.#at + EVERY_MS) : wanted;
    return Math.max(first, this.#at + this.#cost / COST_SHARE);
  }
}
