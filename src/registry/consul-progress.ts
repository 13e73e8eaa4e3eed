/** How far a datacenter is as a whole, and whether what watches it keeps up. */
import type { Presence } from './adapter.js';

/** The indexes of the catalog and of the checks as a whole: what a source has to tell of changes of anything. */
export interface TableIndexes {
  readonly catalog: bigint;
  readonly checks: bigint;
}

/** No node and no check has these: the answer is nothing but the index. */
export const NO_NODE = { 'node-meta': 'holdfast-liveness:read' };
export const NO_STATE = 'health/state/none';

/**
 * Under churn the watches are always a little behind: what counts is that they have come as far as the registry was at
 * the read before.
 */
export class Progress {
  /** What the last read found. */
  #target: TableIndexes | undefined;

  /** Everything was listed. */
  listed(): void {
    this.#target = undefined;
  }

  /** @param taken up to which everything was taken in; @param now what a liveness read finds */
  judge(taken: TableIndexes, now: TableIndexes): Presence {
    // Lower ones come from a server that lags, or from another lineage: a list tells.
    if (now.catalog < taken.catalog || now.checks < taken.checks) return { kind: 'lost' };
    const reached = (goal: TableIndexes): boolean => taken.catalog >= goal.catalog && taken.checks >= goal.checks;
    if (this.#target !== undefined && !reached(this.#target)) return { kind: 'behind' };
    const first = this.#target === undefined;
    this.#target = now;
    return !first || reached(now) ? { kind: 'same' } : { kind: 'behind' };
  }
}
