/** What a prober is still to be told: an entry a target, however often that changes before it reads. Pure. */
import type { Target } from '../prober/feed.js';
import { fitLine } from '../prober/lines.js';

export class UntoldTargets {
  readonly #lineBytes: number;
  /** A target, or null for one that is gone. */
  readonly #all: Map<string, Target | null>;

  /** @param lineBytes one line to the prober has at most about so many */
  constructor(all: ReadonlyMap<string, Target>, lineBytes: number) {
    this.#all = new Map(all);
    this.#lineBytes = lineBytes;
  }

  get size(): number {
    return this.#all.size;
  }

  put(key: string, target: Target | null): void {
    this.#all.set(key, target);
  }

  /** What the next line says: of those that are gone first, and targets only when there are no more. */
  takeChange(): { readonly add: Target[]; readonly remove: string[] } {
    const gone: string[] = [];
    for (const [key, target] of this.#all) if (target === null) gone.push(key);
    const remove = gone.slice(0, fitLine(gone, 0, this.#lineBytes));
    for (const key of remove) this.#all.delete(key);
    return { add: remove.length < gone.length ? [] : this.takeTargets(), remove };
  }

  /** Targets for one line. */
  takeTargets(): Target[] {
    const targets: Target[] = [];
    let bytes = 0;
    for (const target of this.#all.values()) {
      if (target === null) continue;
      bytes += JSON.stringify(target).length;
      if (targets.length > 0 && bytes > this.#lineBytes) break;
      targets.push(target);
    }
    for (const target of targets) this.#all.delete(target.key);
    return targets;
  }
}
