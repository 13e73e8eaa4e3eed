/**
 * A list in the order of coming, linked through what is in it. What every result of a probe moves is kept so: a map
 * that gives and takes as much hashes each time, and has thousands of empty places before its first entry.
 */

export interface Linked<T> {
  older: T | undefined;
  newer: T | undefined;
}

export class Chain<T extends Linked<T>> {
  oldest: T | undefined;
  #newest: T | undefined;
  size = 0;

  /** To the end. It may be in no chain yet. */
  add(one: T): void {
    one.older = this.#newest;
    if (this.#newest === undefined) this.oldest = one;
    else this.#newest.newer = one;
    this.#newest = one;
    this.size++;
  }

  /** It must be in this one. */
  remove(one: T): void {
    const { older, newer } = one;
    if (older === undefined) this.oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    one.older = undefined;
    one.newer = undefined;
    this.size--;
  }

  /** From the oldest on; the one that is given may be removed meanwhile. */
  *[Symbol.iterator](): Iterator<T> {
    for (let one = this.oldest; one !== undefined; ) {
      const { newer }: Linked<T> = one;
      yield one;
      one = newer;
    }
  }
}
