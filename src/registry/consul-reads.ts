/** Which services and nodes have to be read, in which order, and how far it is known that nothing else changed. */

/** What was read of a service, or of a node. */
export interface UnitRead {
  /** The greatest `ModifyIndex` of its instances. */
  readonly newest: bigint;
  /** An instance that was there is not there any more. */
  readonly lost: boolean;
  /** `X-Consul-Index`. */
  readonly index: bigint;
}

/** What instances can be read by, all of them. */
export type Unit = 'service' | 'node';

/**
 * Consul tells by the index of its list of services that some instance changed, and by that list and those of checks
 * mostly which one: not when only an address, a port or metadata is another. What does not explain itself is looked for
 * in all services, or on all nodes: at once when nothing does, and slowly when something does, since one change may hide
 * another.
 */
export class ReadPlan {
  /** Services to be read at once. */
  readonly #wanted = new Set<string>();
  /** The index of the list of services that each was last read at, the lowest first. */
  readonly #verified = { service: new Map<string, bigint>(), node: new Map<string, bigint>() };
  #index = 0n;
  /** The list told of it itself: a service came or went. */
  #told = true;
  /** The greatest index of an instance that was read, and of a service or node that had lost one. */
  #newest = 0n;
  #lost = 0n;
  /** The list of checks was compared since the index was this, and the summary of all services. */
  #traced = 0n;
  #summed = 0n;
  /** Services that are being read. */
  readonly #underWay = new Set<string>();

  /** The list of services has this index now. `told`: a service came or went in it. */
  moved(index: bigint, told: boolean): void {
    // It may have been known before the list came.
    this.#told = told || (index === this.#index && this.#told);
    this.#index = index;
  }

  /** The index at which something begins that may explain it. */
  get index(): bigint {
    return this.#index;
  }

  want(names: Iterable<string>): void {
    for (const name of names) this.#wanted.add(name);
  }

  forget(name: string): void {
    this.#wanted.delete(name);
    this.#verified.service.delete(name);
  }

  /** The index at which a read of a service begins. */
  begin(name: string): bigint {
    this.#wanted.delete(name);
    this.#underWay.add(name);
    return this.#index;
  }

  /** The read of a service has ended. */
  end(name: string): void {
    this.#underWay.delete(name);
  }

  /** True while something is being read, or is about to be, that may explain what changed. */
  isBusy(except: ReadonlyMap<string, unknown>): boolean {
    if (this.#underWay.size > 0) return true;
    for (const name of this.#wanted) if (!except.has(name)) return true;
    return false;
  }

  /** Something was read. */
  found(read: UnitRead): void {
    if (read.newest > this.#newest) this.#newest = read.newest;
    if (read.lost && read.index > this.#lost) this.#lost = read.index;
  }

  /** A read that began at `at` is done: it stands as it was then. */
  verified(unit: Unit, name: string, at: bigint): void {
    const verified = this.#verified[unit];
    verified.delete(name);
    verified.set(name, at);
  }

  /** It could not be read. */
  failed(name: string): void {
    this.#wanted.add(name);
  }

  get wanted(): string[] {
    return [...this.#wanted];
  }

  /** The whole list of checks, asked for at `at`, was compared. */
  compared(at: bigint): void {
    this.#traced = at;
  }

  /** The whole list of checks had its chance to explain it. */
  get isCompared(): boolean {
    return this.#traced >= this.#index;
  }

  /** The summary of all services, asked for at `at`, was compared. */
  summed(at: bigint): void {
    this.#summed = at;
  }

  /** True when the summary had its chance to explain it: it shows all that come and go. */
  get isSummed(): boolean {
    return this.#summed >= this.#index;
  }

  /** True when something changed and nothing that was read says what. */
  get unexplained(): boolean {
    return !this.#told && this.#newest < this.#index && this.#lost < this.#index;
  }

  /** True when the list of checks had its chance to explain it: an instance that came or went mostly has a check. */
  get traceless(): boolean {
    return this.unexplained && this.isCompared;
  }

  isVerified(unit: Unit, name: string): boolean {
    return (this.#verified[unit].get(name) ?? -1n) >= this.#index;
  }

  /** Up to `most` of those that were not read since the index moved; those that were read longest ago first. */
  unverified(unit: Unit, names: ReadonlyMap<string, unknown>, most: number): string[] {
    const verified = this.#verified[unit];
    const behind: string[] = [];
    const add = (name: string): boolean => {
      if (unit === 'node' || !this.#wanted.has(name)) behind.push(name);
      return behind.length >= most;
    };
    for (const name of verified.keys()) if (!names.has(name)) verified.delete(name);
    if (verified.size < names.size) {
      for (const name of names.keys()) if (!verified.has(name) && add(name)) return behind;
    }
    for (const [name, at] of verified) if (at >= this.#index || add(name)) break;
    return behind;
  }
}
