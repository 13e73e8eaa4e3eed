import { quad } from '../dns/addresses.js';

const FIRST_SLOTS = 64;

/** How many rows have an address. IPv4 addresses are numbers in plain memory: a large zone has a million. */
export class AddressCounts {
  /** Counts of addresses that are no IPv4 address. */
  readonly #others = new Map<string, number>();
  /** Open addressing; a slot is in use where its count is not 0. */
  #keys = new Uint32Array(FIRST_SLOTS);
  #counts = new Uint32Array(FIRST_SLOTS);
  #size = 0;

  get(address: string): number {
    const number = quad(address);
    return number < 0 ? (this.#others.get(address) ?? 0) : this.#counts[this.#slotOf(number)]!;
  }

  /** Adds to the count; returns what it was. It does not fall below 0. */
  add(address: string, change: 1 | -1): number {
    const number = quad(address);
    if (number < 0) return this.#addOther(address, change);
    const slot = this.#slotOf(number);
    const before = this.#counts[slot]!;
    if (before + change > 0) {
      this.#keys[slot] = number;
      this.#counts[slot] = before + change;
      if (before === 0 && ++this.#size * 3 > this.#keys.length * 2) this.#grow();
    } else if (before > 0) this.#remove(slot);
    return before;
  }

  *addresses(): Iterable<string> {
    for (let slot = 0; slot < this.#keys.length; slot++) {
      const key = this.#keys[slot]!;
      if (this.#counts[slot] !== 0) yield `${key >>> 24}.${(key >>> 16) & 255}.${(key >>> 8) & 255}.${key & 255}`;
    }
    yield* this.#others.keys();
  }

  #addOther(address: string, change: number): number {
    const before = this.#others.get(address) ?? 0;
    if (before + change > 0) this.#others.set(address, before + change);
    else this.#others.delete(address);
    return before;
  }

  /** The slot of an address, or the one that it would take. */
  #slotOf(address: number): number {
    const mask = this.#keys.length - 1;
    let slot = hash(address) & mask;
    while (this.#counts[slot] !== 0 && this.#keys[slot] !== address) slot = (slot + 1) & mask;
    return slot;
  }

  /** Those behind it that would no longer be found move up. */
  #remove(slot: number): void {
    const mask = this.#keys.length - 1;
    this.#size--;
    let hole = slot;
    for (let at = (slot + 1) & mask; this.#counts[at] !== 0; at = (at + 1) & mask) {
      const home = hash(this.#keys[at]!) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      this.#keys[hole] = this.#keys[at]!;
      this.#counts[hole] = this.#counts[at]!;
      hole = at;
    }
    this.#counts[hole] = 0;
  }

  #grow(): void {
    const [keys, counts] = [this.#keys, this.#counts];
    this.#keys = new Uint32Array(keys.length * 2);
    this.#counts = new Uint32Array(keys.length * 2);
    for (let slot = 0; slot < keys.length; slot++) {
      if (counts[slot] === 0) continue;
      const to = this.#slotOf(keys[slot]!);
      this.#keys[to] = keys[slot]!;
      this.#counts[to] = counts[slot]!;
    }
  }
}

function hash(address: number): number {
  const mixed = Math.imul(address, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}
