/** Who has an address, port and protocol: rows by their place, over all services and zones (R19, R20). */

/** Nearly all places have one holder, and a large zone has very many places. */
export class Places<Holder extends object> {
  readonly #at = new Map<string, Holder | Holder[]>();

  /** `place` is a row's key, see `rowKey`. */
  add(place: string, holder: Holder): void {
    const known = this.#at.get(place);
    if (known === undefined) this.#at.set(place, holder);
    else this.#at.set(place, [...asList(known), holder]);
  }

  remove(place: string, holder: Holder): void {
    const known = this.#at.get(place);
    if (known === undefined) return;
    const left = asList(known).filter((one) => one !== holder);
    if (left.length === 0) this.#at.delete(place);
    else this.#at.set(place, left.length === 1 ? left[0]! : left);
  }

  at(place: string): readonly Holder[] {
    const known = this.#at.get(place);
    return known === undefined ? [] : asList(known);
  }
}

function asList<Holder extends object>(known: Holder | Holder[]): Holder[] {
  return Array.isArray(known) ? known : [known];
}
