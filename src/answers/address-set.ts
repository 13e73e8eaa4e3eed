/**
 * The IPv4 addresses that have a name in a zone (R23), in shared memory, with one writer: a large zone has a million of
 * them, and what is answered for one follows from the address alone. Readers probe without a lock. Two words a slot:
 * the address, and the zone's number + 1 (0: never used, -1: deleted), which is written last.
 */

const FIRST_SLOTS = 256;
const EMPTY = 0;
const DELETED = -1;

/** Where probing for an address begins, among any power of two of slots. */
export function addressHash(address: number): number {
  const mixed = Math.imul(address, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

export class AddressSet {
  shared = new SharedArrayBuffer(FIRST_SLOTS * 8);
  /** Pairs of an address and a zone. */
  size = 0;
  #words = new Int32Array(this.shared);
  /** Slots that are not empty: those of addresses, and deleted ones. */
  #taken = 0;

  /** True when one more would make probing slow: then `rebuild` first. */
  get full(): boolean {
    return (this.#taken + 1) * 3 > this.#words.length;
  }

  has(zone: number, address: number): boolean {
    return this.#find(zone, address) >= 0;
  }

  /** Adds an address; nothing happens when it is there. */
  add(zone: number, address: number): void {
    if (!this.has(zone, address)) this.#insert(address | 0, zone + 1);
  }

  delete(zone: number, address: number): void {
    const slot = this.#find(zone, address);
    if (slot >= 0) this.#remove(slot);
  }

  /** Whether the zone has any. */
  some(zone: number): boolean {
    for (let at = 1; at < this.#words.length; at += 2) if (this.#words[at] === zone + 1) return true;
    return false;
  }

  clear(zone: number): void {
    for (let slot = this.#words.length / 2 - 1; slot >= 0; slot--) {
      if (this.#words[slot * 2 + 1] === zone + 1) this.#remove(slot);
    }
  }

  /** A new array for the same addresses, with room for as many again. The old one stays as it is, for readers. */
  rebuild(): void {
    let slots = FIRST_SLOTS;
    while (slots < (this.size + 1) * 2) slots *= 2;
    const old = this.#words;
    this.shared = new SharedArrayBuffer(slots * 8);
    this.#words = new Int32Array(this.shared);
    this.#taken = 0;
    this.size = 0;
    for (let at = 0; at < old.length; at += 2) if (old[at + 1]! > EMPTY) this.#insert(old[at]!, old[at + 1]!);
  }

  /** An equal array that may change without readers of the old one noticing. */
  copy(): void {
    const old = this.#words;
    this.shared = new SharedArrayBuffer(old.length * 4);
    this.#words = new Int32Array(this.shared);
    this.#words.set(old);
  }

  #find(zone: number, address: number): number {
    const mask = this.#words.length / 2 - 1;
    for (let slot = addressHash(address) & mask; ; slot = (slot + 1) & mask) {
      const owner = this.#words[slot * 2 + 1]!;
      if (owner === EMPTY) return -1;
      if (owner === zone + 1 && this.#words[slot * 2] === (address | 0)) return slot;
    }
  }

  #insert(address: number, owner: number): void {
    const mask = this.#words.length / 2 - 1;
    let slot = addressHash(address) & mask;
    while (this.#words[slot * 2 + 1]! > EMPTY) slot = (slot + 1) & mask;
    if (this.#words[slot * 2 + 1] === EMPTY) this.#taken++;
    this.#words[slot * 2] = address;
    Atomics.store(this.#words, slot * 2 + 1, owner);
    this.size++;
  }

  #remove(slot: number): void {
    const mask = this.#words.length / 2 - 1;
    Atomics.store(this.#words, slot * 2 + 1, DELETED);
    this.size--;
    // Deleted slots before an empty one end no probe early: they may be empty too.
    for (let at = slot; this.#words[((at + 1) & mask) * 2 + 1] === EMPTY; at = (at - 1) & mask) {
      if (this.#words[at * 2 + 1] !== DELETED) break;
      Atomics.store(this.#words, at * 2 + 1, EMPTY);
      this.#taken--;
    }
  }
}
