/** A binary heap by due time whose entries know their place, so that any of them can be taken out. */

export interface Due {
  due: number;
  /** Place in the heap; -1 when not in it. Kept by the heap. */
  place: number;
}

export class DueHeap<T extends Due> {
  readonly #entries: T[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest entry. */
  peek(): T | undefined {
    return this.#entries[0];
  }

  add(entry: T): void {
    entry.place = this.#entries.length;
    this.#entries.push(entry);
    this.#up(entry);
  }

  /** Takes an entry out; nothing when it is not in. */
  remove(entry: T): void {
    const place = entry.place;
    if (place === -1) return;
    entry.place = -1;
    const last = this.#entries.pop()!;
    if (last === entry) return;
    last.place = place;
    this.#entries[place] = last;
    this.#up(last);
    this.#down(last);
  }

  clear(): void {
    for (const entry of this.#entries) entry.place = -1;
    this.#entries.length = 0;
  }

  #up(entry: T): void {
    while (entry.place > 0) {
      const parent = this.#entries[(entry.place - 1) >> 1]!;
      if (parent.due <= entry.due) return;
      this.#swap(parent, entry);
    }
  }

  #down(entry: T): void {
    for (;;) {
      const left = this.#entries[2 * entry.place + 1];
      const right = this.#entries[2 * entry.place + 2];
      const child = right !== undefined && left !== undefined && right.due < left.due ? right : left;
      if (child === undefined || child.due >= entry.due) return;
      this.#swap(entry, child);
    }
  }

  #swap(a: T, b: T): void {
    const place = a.place;
    a.place = b.place;
    b.place = place;
    this.#entries[a.place] = a;
    this.#entries[b.place] = b;
  }
}
