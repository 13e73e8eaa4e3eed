/**
 * Which service of a zone is answered under which label. Of several that fold to one, one that the registry lists has
 * it before one that only the guard keeps, and then the first in byte order (R22).
 */
export class Labels {
  readonly #isListed: (service: string) => boolean;
  readonly #fold: (name: string) => string | undefined;
  /** Services by the label they claim, in byte order. */
  readonly #claims = new Map<string, readonly string[]>();
  readonly #labels = new Map<string, readonly string[]>();
  /** Services without a name of their own. */
  readonly unnamed = new Set<string>();

  /** `fold`: the label under which a name can be answered, or undefined when it has none. */
  constructor(isListed: (service: string) => boolean, fold: (name: string) => string | undefined) {
    this.#isListed = isListed;
    this.#fold = fold;
  }

  /** Claims the service's labels: its own, when it is one, and its alias. Returns those that it claims no more. */
  add(service: string, alias?: string): readonly string[] {
    const before = this.of(service);
    if (alias === undefined && before.length === 1 && before[0] === service) return [];
    const now = [...new Set([service, alias])]
      .map((name) => (name === undefined ? undefined : this.#fold(name)))
      .filter((label) => label !== undefined);
    if (now.length === 0) this.unnamed.add(service);
    else this.unnamed.delete(service);
    if (before.join() === now.join()) return [];
    const gone = before.filter((label) => !now.includes(label));
    for (const label of gone) this.#unclaim(label, service);
    for (const label of now) {
      const claims = this.#claims.get(label) ?? [];
      if (claims.includes(service)) continue;
      // Nearly always a label is its service's name, and nobody else's.
      const alone = claims.length === 0 && now.length === 1 && label === service;
      this.#claims.set(label, alone ? now : [...claims, service].sort(byBytes));
    }
    if (now.length === 0) this.#labels.delete(service);
    else this.#labels.set(service, now);
    return gone;
  }

  /** Gives the service's labels back. Returns them. */
  remove(service: string): readonly string[] {
    this.unnamed.delete(service);
    const labels = this.of(service);
    this.#labels.delete(service);
    for (const label of labels) this.#unclaim(label, service);
    return labels;
  }

  /** The labels that a service claims. */
  of(service: string): readonly string[] {
    return this.#labels.get(service) ?? [];
  }

  owner(label: string): string | undefined {
    const claims = this.#claims.get(label);
    if (claims === undefined || claims.length < 2) return claims?.[0];
    return claims.find((service) => this.#isListed(service)) ?? claims[0];
  }

  /** The labels under which the service itself is answered. */
  owned(service: string): readonly string[] {
    return this.of(service).filter((label) => this.owner(label) === service);
  }

  /** Shown conflicts: who has a label, and who goes without. */
  conflicts(): string[] {
    const shown: string[] = [];
    for (const [label, claims] of this.#claims) {
      const owner = this.owner(label);
      for (const other of claims) if (other !== owner) shown.push(`${other} has no name: ${label} belongs to ${owner}`);
    }
    return shown;
  }

  #unclaim(label: string, service: string): void {
    const left = (this.#claims.get(label) ?? []).filter((name) => name !== service);
    if (left.length === 0) this.#claims.delete(label);
    else this.#claims.set(label, left);
  }
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
