/** Who has an address, port and protocol: rows by their place, over all services and zones (R19, R20). */
import type { Row } from '../registry/registry.js';

export type Place = Pick<Row, 'address' | 'port' | 'protocol'>;

/**
 * Nearly all places have one holder, and a large zone has very many places: they are found by a number, which takes no
 * memory of its own, and told apart by the rows themselves.
 */
export class Places<Holder extends { readonly row: Place }> {
  readonly #at = new Map<number, Holder | Holder[]>();
  #contested = new Set<Holder>();

  add(holder: Holder): void {
    const number = numberOf(holder.row);
    const known = this.#at.get(number);
    this.#at.set(number, known === undefined ? holder : [...asList(known), holder]);
    if (known !== undefined) this.contest(holder.row);
  }

  remove(holder: Holder): void {
    const number = numberOf(holder.row);
    const known = this.#at.get(number);
    if (known === undefined) return;
    const left = asList(known).filter((one) => one !== holder);
    if (left.length === 0) this.#at.delete(number);
    else this.#at.set(number, left.length === 1 ? left[0]! : left);
    if (left.length > 0) this.contest(holder.row);
  }

  /** Something changed about who has the place. */
  contest(place: Place): void {
    for (const holder of this.at(place)) this.#contested.add(holder);
  }

  /** Those whose place came to be another's, too, or no longer, since the last call. */
  takeContested(): Iterable<Holder> {
    const contested = this.#contested;
    if (contested.size > 0) this.#contested = new Set();
    return contested;
  }

  at(place: Place): readonly Holder[] {
    const known = this.#at.get(numberOf(place));
    return known === undefined ? [] : asList(known).filter(({ row }) => isSame(row, place));
  }
}

function asList<Holder extends object>(known: Holder | Holder[]): Holder[] {
  return Array.isArray(known) ? known : [known];
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
