/** What was dropped on the way in: the first hundred in words, the others as a number. */
import type { Rejected } from './registry.js';

const SHOWN = 100;

export class Notes {
  readonly #shown: Rejected[] = [];
  #more = 0;

  add(where: string, reason: string): void {
    if (this.#shown.length < SHOWN) this.#shown.push({ where, reason });
    else this.#more++;
  }

  /** @param where stands for those that are not shown */
  list(where: string): Rejected[] {
    if (this.#more === 0) return [...this.#shown];
    return [...this.#shown, { where, reason: `and ${this.#more} more` }];
  }
}
