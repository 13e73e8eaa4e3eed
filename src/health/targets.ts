import type { CheckConfig } from '../config/types.js';
import type { Target } from '../prober/feed.js';
import type { Row } from '../registry/registry.js';
import type { Ms } from '../system/clock.js';

/** What to probe for a row under a check; undefined when it is not probed: UDP, or a check of type none (R17). */
export function targetOf(row: Row, check: CheckConfig): Target | undefined {
  if (check.type === 'none' || row.protocol !== 'tcp') return undefined;
  const port = check.port ?? row.port;
  const base = { address: row.address, port, type: check.type, interval: check.interval, timeout: check.timeout };
  const judged = `${check.rise}|${check.fall}|${check.longDead}`;
  if (check.type === 'tcp') return { key: `tcp|${row.address}|${port}|${check.timeout}|${judged}`, ...base };
  const request = {
    path: check.path,
    method: check.method,
    ...(check.host === undefined ? {} : { host: check.host }),
    headers: check.headers,
    status: check.status,
  };
  return {
    key: `${check.type}|${row.address}|${port}|${check.timeout}|${judged}|${JSON.stringify(request)}`,
    ...base,
    ...request,
  };
}

/** Probe targets and who holds them: equal settings are one target, whatever service or zone it is for (R13). */
export class TargetSet<Holder> {
  readonly #targets = new Map<string, { target: Target; holders: Map<Holder, Ms> }>();
  readonly #changed = new Set<string>();

  /** Returns true when it is the first holder of the key. */
  hold(target: Target, holder: Holder): boolean {
    const entry = this.#targets.get(target.key);
    this.#changed.add(target.key);
    if (entry === undefined) {
      this.#targets.set(target.key, { target, holders: new Map([[holder, target.interval]]) });
      return true;
    }
    entry.holders.set(holder, target.interval);
    return false;
  }

  /** Returns true when nobody holds the key any more. */
  drop(key: string, holder: Holder): boolean {
    const entry = this.#targets.get(key);
    if (!entry?.holders.delete(holder)) return false;
    this.#changed.add(key);
    if (entry.holders.size > 0) return false;
    this.#targets.delete(key);
    return true;
  }

  holders(key: string): Iterable<Holder> {
    return this.#targets.get(key)?.holders.keys() ?? [];
  }

  all(): Target[] {
    return [...this.#targets.values()].map(effective);
  }

  get size(): number {
    return this.#targets.size;
  }

  /** What changed since the last call, for the prober. */
  takeChanges(): { add: Target[]; remove: string[] } {
    const add: Target[] = [];
    const remove: string[] = [];
    for (const key of this.#changed) {
      const entry = this.#targets.get(key);
      if (entry === undefined) remove.push(key);
      else add.push(effective(entry));
    }
    this.#changed.clear();
    return { add, remove };
  }
}

/** The shortest interval that a holder asks for. */
function effective(entry: { target: Target; holders: ReadonlyMap<unknown, Ms> }): Target {
  let interval = Number.POSITIVE_INFINITY;
  for (const one of entry.holders.values()) interval = Math.min(interval, one);
  return interval === entry.target.interval ? entry.target : { ...entry.target, interval };
}
