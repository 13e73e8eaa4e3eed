/** Who has an address, port and protocol: rows by their place, over all services and zones (R19, R20). */
import type { Row } from '../registry/registry.js';

export type Place = Pick<Row, 'address' | 'port' | 'protocol'>;

const MAPS = 64;

/**
 * Nearly all places have one holder, and a large zone has very many places: they are found by a number, which takes no
 * memory of its own, and told apart by the rows themselves. Some, as the one entrance of many services, have thousands.
 */
export class Places<Holder extends { readonly row: Place }> {
  /** In many maps: when one grows, all that is in it is put anew, which takes long with a million. */
  readonly #at: readonly Map<number, Holder | Set<Holder>>[] = Array.from({ length: MAPS }, () => new Map());
  /** Numbers of places. */
  readonly #contested = new Set<number>();

  add(holder: Holder): void {
    const number = numberOf(holder.row);
    const map = this.#mapOf(number);
    const known = map.get(number);
    if (known === undefined) {
      map.set(number, holder);
      return;
    }
    if (known instanceof Set) known.add(holder);
    else map.set(number, new Set([known, holder]));
    this.#contested.add(number);
  }

  remove(holder: Holder): void {
    const number = numberOf(holder.row);
    const map = this.#mapOf(number);
    const known = map.get(number);
    if (!(known instanceof Set)) {
      if (known === holder) map.delete(number);
      return;
    }
    known.delete(holder);
    if (known.size === 1) for (const left of known) map.set(number, left);
    this.#contested.add(number);
  }

  /** Something changed about who has the place. */
  contest(place: Place): void {
    this.#contested.add(numberOf(place));
  }

  /** Those whose place came to be another's, too, or no longer, since the last call. */
  takeContested(): readonly Holder[] {
    if (this.#contested.size === 0) return [];
    const numbers = [...this.#contested];
    this.#contested.clear();
    return numbers.flatMap((number) => this.#holders(number));
  }

  at(place: Place): readonly Holder[] {
    return this.#holders(numberOf(place)).filter(({ row }) => isSame(row, place));
  }

  /** Whether one of those at the place is so. */
  some(place: Place, test: (holder: Holder) => boolean): boolean {
    const number = numberOf(place);
    const known = this.#mapOf(number).get(number);
    if (known === undefined) return false;
    if (!(known instanceof Set)) return test(known) && isSame(known.row, place);
    for (const holder of known) if (test(holder) && isSame(holder.row, place)) return true;
    return false;
  }

  /** How many there are at the place, or at one that has the same number. */
  count(place: Place): number {
    const number = numberOf(place);
    const known = this.#mapOf(number).get(number);
    return known === undefined ? 0 : known instanceof Set ? known.size : 1;
  }

  #mapOf(number: number): Map<number, Holder | Set<Holder>> {
    return this.#at[number & (MAPS - 1)]!;
  }

  #holders(number: number): readonly Holder[] {
    const known = this.#mapOf(number).get(number);
    if (known === undefined) return [];
    return known instanceof Set ? [...known] : [known];
  }
}

function isSame(a: Place, b: Place): boolean {
  return a.port === b.port && a.address === b.address && a.protocol === b.protocol;
}

/** FNV-1a over the address and the port, cut to what V8 stores in place. */
function numberOf({ address, port }: Place): number {
  let hash = 0x811c9dc5 ^ port;
  for (let i = 0; i < address.length; i++) hash = Math.imul(hash ^ address.charCodeAt(i), 0x01000193);
  return hash >> 1;
}
