/**
 * Writes the open-addressed index that readers probe without a lock. A name appears, changes and goes by one store
 * of its block number; the slot's hash is written before.
 */
import { SLOT_DELETED, SLOT_EMPTY } from './shared.js';

const FIRST_SLOTS = 1024;

export class NameIndex {
  shared = new SharedArrayBuffer(FIRST_SLOTS * 8);
  /** Names in it. */
  size = 0;
  #words = new Int32Array(this.shared);
  /** Slots that are not empty: names and deleted ones. */
  #taken = 0;

  get slots(): number {
    return this.#words.length / 2;
  }

  /** True when one more name would make probing slow: then `rebuild` first. */
  get full(): boolean {
    return (this.#taken + 1) * 2 > this.slots;
  }

  /** A new array for the same names, with room for twice as many as it now has. The old one stays as it is, for readers. */
  rebuild(): void {
    let slots = FIRST_SLOTS;
    while (slots < (this.size + 1) * 4) slots *= 2;
    const old = this.#words;
    this.shared = new SharedArrayBuffer(slots * 8);
    this.#words = new Int32Array(this.shared);
    this.#taken = 0;
    this.size = 0;
    for (let at = 0; at < old.length; at += 2) {
      const block = old[at + 1]!;
      if (block !== SLOT_EMPTY && block !== SLOT_DELETED) this.insert(old[at]!, block);
    }
  }

  /** An equal array that may change without readers of the old one noticing. */
  copy(): void {
    const old = this.#words;
    this.shared = new SharedArrayBuffer(old.length * 4);
    this.#words = new Int32Array(this.shared);
    this.#words.set(old);
  }

  /** Adds a name that is not in it. */
  insert(hash: number, block: number): void {
    const mask = this.slots - 1;
    let slot = hash & mask;
    while (this.#words[slot * 2 + 1]! > SLOT_DELETED) slot = (slot + 1) & mask;
    if (this.#words[slot * 2 + 1] === SLOT_EMPTY) this.#taken++;
    this.#words[slot * 2] = hash;
    Atomics.store(this.#words, slot * 2 + 1, block);
    this.size++;
  }

  replace(slot: number, block: number): void {
    Atomics.store(this.#words, slot * 2 + 1, block);
  }

  remove(slot: number): void {
    const mask = this.slots - 1;
    Atomics.store(this.#words, slot * 2 + 1, SLOT_DELETED);
    this.size--;
    // Deleted slots before an empty one end no probe early: they may be empty too.
    for (let at = slot; this.#words[((at + 1) & mask) * 2 + 1] === SLOT_EMPTY; at = (at - 1) & mask) {
      if (this.#words[at * 2 + 1] !== SLOT_DELETED) break;
      Atomics.store(this.#words, at * 2 + 1, SLOT_EMPTY);
      this.#taken--;
    }
  }

  /** Calls `visit` with the block number of each name; the callback may remove the slot that it is given. */
  forEach(visit: (block: number, slot: number) => void): void {
    for (let slot = 0; slot < this.slots; slot++) {
      const block = this.#words[slot * 2 + 1]!;
      if (block !== SLOT_EMPTY && block !== SLOT_DELETED) visit(block, slot);
    }
  }
}
