/**
 * What probes of an endpoint said lately, for people: equal results in a row are one run. Only keys that have failed
 * have a history; those that always pass cost nothing. Pure.
 */
import type { FailureKind, ProbeResult } from '../prober/feed.js';
import type { BootMs, Ms } from '../system/clock.js';

/** So many results are kept, and so many runs of failures that are older. */
const RESULTS = 100;
const OLD_FAILURES = 20;
/**
 * Endpoints with a history, at most: those that failed last. The worst of them take 10 KB each. So many of the others go
 * at once: finding the first of a map from which much was taken means to walk over all that was.
 */
const MAX_KEYS = 2_000;
const LET_GO = 200;

export interface Run {
  /** Absent: they passed. */
  readonly failure?: FailureKind;
  readonly detail?: string;
  /** R16: they did not count. */
  readonly isVoid: boolean;
  readonly count: number;
  readonly first: BootMs;
  readonly last: BootMs;
  /** The longest that one of them took. */
  readonly took: Ms;
}

type Growing = { -readonly [K in keyof Run]: Run[K] };

export class History {
  readonly #runs = new Map<string, Growing[]>();

  /** `before`: the passes before the first failure, which nothing was kept of. */
  note({ key, at, took, failure, detail }: ProbeResult, isVoid: boolean, before: () => Run | undefined): void {
    let runs = this.#runs.get(key);
    if (failure !== undefined) {
      if (runs === undefined) {
        const passes = before();
        runs = passes === undefined ? [] : [passes];
      } else this.#runs.delete(key);
      this.#runs.set(key, runs);
      if (this.#runs.size > MAX_KEYS) this.#letGo();
    }
    if (runs === undefined) return;
    const last = runs.at(-1);
    if (last !== undefined && last.failure === failure && last.detail === detail && last.isVoid === isVoid) {
      last.count++;
      last.last = at;
      last.took = Math.max(last.took, took);
      return;
    }
    const run: Growing = { isVoid, count: 1, first: at, last: at, took };
    if (failure !== undefined) run.failure = failure;
    if (detail !== undefined) run.detail = detail;
    runs.push(run);
    trim(runs);
  }

  /** Oldest first; undefined when it has not failed. */
  of(key: string): readonly Run[] | undefined {
    return this.#runs.get(key);
  }

  forget(key: string): void {
    this.#runs.delete(key);
  }

  #letGo(): void {
    let left = LET_GO;
    for (const key of this.#runs.keys()) {
      if (left-- === 0) return;
      this.#runs.delete(key);
    }
  }
}

/** Leaves the latest results, and of what is older the latest failures. */
function trim(runs: Growing[]): void {
  let covered = 0;
  let from = runs.length;
  while (from > 0 && covered < RESULTS) covered += runs[--from]!.count;
  if (from === 0) return;
  const failures = runs.slice(0, from).filter((run) => run.failure !== undefined);
  runs.splice(0, from, ...failures.slice(-OLD_FAILURES));
}
