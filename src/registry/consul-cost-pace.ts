/** How soon a list that costs the registry and this host something is asked for again. Pure: time is passed in. */
import type { Ms } from '../system/clock.js';

export class CostPace {
  readonly #share: number;
  #at: Ms = 0;
  #cost: Ms = 0;

  /** @param share of the time, it may be asked for and taken in for so long */
  constructor(share: number) {
    this.#share = share;
  }

  /** It was asked for at `began`, and taken in at `now`. */
  took(began: Ms, now: Ms): void {
    this.#at = now;
    this.#cost = now - began;
  }

  /** When it was taken in last. */
  get at(): Ms {
    return this.#at;
  }

  /** Not before then. */
  get due(): Ms {
    return this.#at + this.#cost / this.#share;
  }
}
