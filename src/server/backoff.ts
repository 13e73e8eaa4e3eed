/** Exponential back-off. Pure. */
import type { Ms } from '../system/clock.js';

export class Backoff {
  readonly #first: Ms;
  readonly #longest: Ms;
  #failures = 0;

  constructor(first: Ms, longest: Ms) {
    this.#first = first;
    this.#longest = longest;
  }

  /** How long to wait after one more failure. */
  next(): Ms {
    return Math.min(this.#longest, this.#first * 2 ** this.#failures++);
  }

  get failures(): number {
    return this.#failures;
  }

  reset(): void {
    this.#failures = 0;
  }
}
