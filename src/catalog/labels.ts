/** A letter-digit-hyphen label, after lower-casing (R22). */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
/** Has a meaning of its own below a zone (R23). */
const RESERVED = 'ip';

/** The label under which a name can be answered, or undefined when it has none (R22). */
export function foldLabel(name: string): string | undefined {
  const label = name.toLowerCase();
  return LABEL.test(label) ? label : undefined;
}

/** Which service of a zone is answered under which label; of two that fold to one, the first in byte order has it (R22). */
export class Labels {
  /** Services by the label they claim, in byte order. */
  readonly #claims = new Map<string, string[]>();
  readonly #labels = new Map<string, string>();
  /** Services without a name of their own. */
  readonly unnamed = new Set<string>();

  /** Claims the service's label, in place of one it had. Returns it, or undefined when the service gets no name. */
  add(service: string, alias?: string): string | undefined {
    const folded = foldLabel(alias ?? service);
    const label = folded === RESERVED ? undefined : folded;
    if (label !== undefined && this.#labels.get(service) === label) return label;
    this.remove(service);
    if (label === undefined) {
      this.unnamed.add(service);
      return undefined;
    }
    this.#labels.set(service, label);
    this.#claims.set(label, [...(this.#claims.get(label) ?? []), service].sort(byBytes));
    return label;
  }

  /** Gives the service's label back. Returns it. */
  remove(service: string): string | undefined {
    this.unnamed.delete(service);
    const label = this.#labels.get(service);
    if (label === undefined) return undefined;
    this.#labels.delete(service);
    const left = (this.#claims.get(label) ?? []).filter((name) => name !== service);
    if (left.length === 0) this.#claims.delete(label);
    else this.#claims.set(label, left);
    return label;
  }

  /** The label that a service claims. */
  of(service: string): string | undefined {
    return this.#labels.get(service);
  }

  owner(label: string): string | undefined {
    return this.#claims.get(label)?.[0];
  }

  /** Shown conflicts: who has a label, and who goes without. */
  conflicts(): string[] {
    const shown: string[] = [];
    for (const [label, [first, ...others]] of this.#claims) {
      for (const other of others) shown.push(`${other} has no name: ${label} belongs to ${first}`);
    }
    return shown;
  }
}

function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
