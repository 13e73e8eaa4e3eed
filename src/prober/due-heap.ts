/**
 * A heap by due time from which any entry can be taken out. It is broad and moves numbers only, which lie side by side:
 * each entry that it touched would be far away in memory.
 */

const BRANCHES = 4;

export interface Due {
  /** Stays as it is while in the heap. */
  due: number;
  /** Its number in the heap; -1 when not in it. Kept by the heap. */
  slot: number;
}

export class DueHeap<T extends Due> {
  /** By slot: the entry, and its place in the heap. */
  readonly #entries: (T | undefined)[] = [];
  readonly #places: number[] = [];
  readonly #free: number[] = [];
  /** By place: when it is due, and its slot. */
  readonly #dues: number[] = [];
  readonly #slots: number[] = [];

  get size(): number {
    return this.#dues.length;
  }

  /** When the earliest entry is due; Infinity when there is none. */
  get next(): number {
    return this.#dues.length === 0 ? Number.POSITIVE_INFINITY : this.#dues[0]!;
  }

  /** The earliest entry. */
  peek(): T | undefined {
    return this.#dues.length === 0 ? undefined : this.#entries[this.#slots[0]!];
  }

  add(entry: T): void {
    const slot = this.#free.pop() ?? this.#entries.length;
    entry.slot = slot;
    this.#entries[slot] = entry;
    this.#up(entry.due, slot, this.#dues.length);
  }

  /** Takes an entry out; nothing when it is not in. */
  remove(entry: T): void {
    const { slot } = entry;
    if (slot === -1) return;
    entry.slot = -1;
    this.#entries[slot] = undefined;
    this.#free.push(slot);
    const place = this.#places[slot]!;
    const due = this.#dues.pop()!;
    const last = this.#slots.pop()!;
    if (last === slot) return;
    if (place > 0 && due < this.#dues[parentOf(place)]!) this.#up(due, last, place);
    else this.#down(due, last, place);
  }

  /** Puts it at a free place, or above, where those that were there move down. */
  #up(due: number, slot: number, free: number): void {
    const dues = this.#dues;
    let place = free;
    while (place > 0) {
      const parent = parentOf(place);
      if (dues[parent]! <= due) break;
      this.#put(dues[parent]!, this.#slots[parent]!, place);
      place = parent;
    }
    this.#put(due, slot, place);
  }

  /** Puts it at a free place, or below, where those that were there move up. */
  #down(due: number, slot: number, free: number): void {
    const dues = this.#dues;
    let place = free;
    for (;;) {
      let child = BRANCHES * place + 1;
      const end = Math.min(child + BRANCHES, dues.length);
      if (child >= end) break;
      for (let i = child + 1; i < end; i++) if (dues[i]! < dues[child]!) child = i;
      if (dues[child]! >= due) break;
      this.#put(dues[child]!, this.#slots[child]!, place);
      place = child;
    }
    this.#put(due, slot, place);
  }

  #put(due: number, slot: number, place: number): void {
    this.#dues[place] = due;
    this.#slots[place] = slot;
    this.#places[slot] = place;
  }
}

function parentOf(place: number): number {
  return ((place - 1) / BRANCHES) | 0;
}
