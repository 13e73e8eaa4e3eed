/** What was dropped on the way in: the first hundred in words, the others as a number. */
import type { Rejected } from './registry.js';

const SHOWN = 100;
/** A name in it may have any length. */
const MAX_PLACE = 500;

export class Notes {
  readonly #shown: Rejected[] = [];
  #more = 0;

  /** @param count more than one: they stand for so many */
  add(where: string, reason: string, count = 1): void {
    if (count === 1 && this.#shown.length < SHOWN) {
      const place = where.length > MAX_PLACE ? `${where.slice(0, MAX_PLACE)}...` : where;
      this.#shown.push({ where: place, reason });
    } else this.#more += count;
  }

  /** @param where stands for those that are not shown */
  list(where: string): Rejected[] {
    if (this.#more === 0) return [...this.#shown];
    return [...this.#shown, { where, reason: `and ${this.#more} more`, count: this.#more }];
  }
}
