/** When the long list of all checks is read. Pure: time is passed in. */
import type { Ms } from '../system/clock.js';
import { CostPace } from './consul-cost-pace.js';

/** Where nothing asks for it sooner: that a check tests something else shows there alone. */
const EVERY_MS: Ms = 300_000;
const COST_SHARE = 1 / 5;

export class AllChecks {
  /** Up to which index it is known. */
  index = 0n;
  readonly #pace = new CostPace(COST_SHARE);

  /** It was asked for at `began`, and taken in at `now`. */
  took(index: bigint, began: Ms, now: Ms): void {
    this.index = index;
    this.#pace.took(began, now);
  }

  /**
   * When it is to be read.
   * @param newest the index of checks now
   * @param wanted from when on it may tell what nothing else does; Infinity: there is no such thing
   */
  due(newest: bigint, wanted: Ms): Ms {
    const first = newest > this.index ? Math.min(wanted, this.#pace.at + EVERY_MS) : wanted;
    return Math.max(first, this.#pace.due);
  }
}
