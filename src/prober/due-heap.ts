/**
 * A heap by due time whose entries know their place, so that any of them can be taken out. It is broad and keeps the
 * times beside the entries, since each entry that it touches is far away in memory.
 */

const BRANCHES = 4;

export interface Due {
  /** Stays as it is while in the heap. */
  due: number;
  /** Place in the heap; -1 when not in it. Kept by the heap. */
  place: number;
}

export class DueHeap<T extends Due> {
  readonly #entries: T[] = [];
  readonly #dues: number[] = [];

  get size(): number {
    return this.#entries.length;
  }

  /** The earliest entry. */
  peek(): T | undefined {
    return this.#entries[0];
  }

  add(entry: T): void {
    this.#up(entry, this.#entries.length);
  }

  /** Takes an entry out; nothing when it is not in. */
  remove(entry: T): void {
    const place = entry.place;
    if (place === -1) return;
    entry.place = -1;
    const last = this.#entries.pop()!;
    this.#dues.pop();
    if (last === entry) return;
    if (place > 0 && last.due < this.#dues[parentOf(place)]!) this.#up(last, place);
    else this.#down(last, place);
  }

  clear(): void {
    for (const entry of this.#entries) entry.place = -1;
    this.#entries.length = 0;
    this.#dues.length = 0;
  }

  /** Puts it at a free place, or above, where those that were there move down. */
  #up(entry: T, free: number): void {
    let place = free;
    while (place > 0) {
      const parent = parentOf(place);
      if (this.#dues[parent]! <= entry.due) break;
      this.#put(this.#entries[parent]!, place);
      place = parent;
    }
    this.#put(entry, place);
  }

  /** Puts it at a free place, or below, where those that were there move up. */
  #down(entry: T, free: number): void {
    const dues = this.#dues;
    let place = free;
    for (;;) {
      let child = BRANCHES * place + 1;
      const end = Math.min(child + BRANCHES, dues.length);
      if (child >= end) break;
      for (let i = child + 1; i < end; i++) if (dues[i]! < dues[child]!) child = i;
      if (dues[child]! >= entry.due) break;
      this.#put(this.#entries[child]!, place);
      place = child;
    }
    this.#put(entry, place);
  }

  #put(entry: T, place: number): void {
    entry.place = place;
    this.#entries[place] = entry;
    this.#dues[place] = entry.due;
  }
}

function parentOf(place: number): number {
  return ((place - 1) / BRANCHES) | 0;
}
