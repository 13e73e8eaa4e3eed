/** Which services have to be read, in which order, and how far it is known that nothing else changed. */

/** What was read of one service. */
export interface ServiceRead {
  /** The greatest `ModifyIndex` of its instances. */
  readonly newest: bigint;
  /** An instance that was there is not there any more. */
  readonly lost: boolean;
  /** `X-Consul-Index`. */
  readonly index: bigint;
}

/**
 * Consul tells by the index of its list of services that some instance changed, and by the list and the checks mostly
 * which one: not when only an address, a port or metadata is another. What does not explain itself is looked for in all
 * services: at once when nothing does, and slowly when something does, since one change may hide another.
 */
export class ReadPlan {
  /** To be read at once. */
  readonly #wanted = new Set<string>();
  /** The index of the list of services that a service was last read at. */
  readonly #verified = new Map<string, bigint>();
  #index = 0n;
  /** The list told of it itself: a service came or went. */
  #told = true;
  /** The greatest index of an instance that was read, and of a service that had lost one. */
  #newest = 0n;
  #lost = 0n;

  /** The list of services has this index now. `told`: a service came or went in it. */
  moved(index: bigint, told: boolean): void {
    if (index === this.#index) return;
    this.#index = index;
    this.#told = told;
  }

  want(names: Iterable<string>): void {
    for (const name of names) this.#wanted.add(name);
  }

  forget(name: string): void {
    this.#wanted.delete(name);
    this.#verified.delete(name);
  }

  /** The index at which a read begins. */
  begin(name: string): bigint {
    this.#wanted.delete(name);
    return this.#index;
  }

  /** A read that began at `at` is done. */
  done(name: string, at: bigint, read: ServiceRead): void {
    this.#verified.set(name, at);
    if (read.newest > this.#newest) this.#newest = read.newest;
    if (read.lost && read.index > this.#lost) this.#lost = read.index;
  }

  /** It could not be read. */
  failed(name: string): void {
    this.#wanted.add(name);
  }

  get wanted(): string[] {
    return [...this.#wanted];
  }

  /** True when something changed and nothing that was read says what. */
  get unexplained(): boolean {
    return !this.#told && this.#newest < this.#index && this.#lost < this.#index;
  }

  /** Services that were not read since the index moved; those that were read longest ago first. */
  unverified(names: Iterable<string>): string[] {
    const behind: { name: string; at: bigint }[] = [];
    for (const name of names) {
      const at = this.#verified.get(name) ?? 0n;
      if (at < this.#index && !this.#wanted.has(name)) behind.push({ name, at });
    }
    return behind.sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)).map(({ name }) => name);
  }
}
