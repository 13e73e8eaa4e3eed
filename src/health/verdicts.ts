/**
 * Verdicts by R13 and R14: facts from the prober go in, a column of R10's table comes out. State is kept by target
 * key, so it is shared by services and zones and outlives list refreshes, reloads and restarts of either process.
 */
import type { Column } from '../catalog/row.js';
import type { FailureKind, ProbeResult } from '../prober/feed.js';
import type { BootMs, Instant, Ms, WallMs } from '../system/clock.js';

/** How results of a key are judged. */
export interface JudgeSettings {
  readonly rise: number;
  readonly fall: number;
  readonly longDead: Ms;
}

export interface Verdict {
  readonly column: Column;
  /** Fails, and hard: by its latest failure, or soft without one success for `longDead` (R12). */
  readonly hard: boolean;
  /** R14: it had failed for `longDead` at its last result. */
  readonly longDead: boolean;
  readonly lastResult?: BootMs;
  readonly lastSuccess?: BootMs;
  readonly failingSince?: BootMs;
  readonly lastFailure?: string;
}

/** A verdict in a snapshot, in wall time (R29). */
export interface VerdictSeed {
  readonly column: Column;
  readonly interval: Ms;
  readonly lastResult?: WallMs;
  readonly lastSuccess?: WallMs;
  readonly failingSince?: WallMs;
  readonly failure?: FailureKind;
  readonly detail?: string;
  readonly flaps?: number;
  readonly lastDown?: WallMs;
}

interface Record {
  longDead: Ms;
  column: Column;
  passes: number;
  fails: number;
  /** The interval it was measured at. */
  interval: Ms;
  lastResult: BootMs | undefined;
  lastSuccess: BootMs | undefined;
  failingSince: BootMs | undefined;
  failure: FailureKind | undefined;
  detail: string | undefined;
  /** First pass of the present run of passes. */
  steadySince: BootMs | undefined;
  flaps: number;
  lastDown: BootMs | undefined;
  /** From where the verdict's age counts. */
  ageFrom: BootMs;
}

/** A verdict older than so many of the intervals it was measured at is no word (R13). */
const AGE_INTERVALS = 3;
/** A second fall within so many intervals of the last one is a flap. */
const FLAP_MEMORY_INTERVALS = 120;
/** The first flap's hold; each further one doubles it. */
const FLAP_HOLD_INTERVALS = 12;
const FLAP_HOLD_MAX_MS: Ms = 600_000;
/** How long a verdict outlives the last row that refers to it. */
const PARKED_MS: Ms = 600_000;
/** A result from further ahead than this is not from this machine's clock. */
const FUTURE_MS: Ms = 1_000;

const HARD: ReadonlySet<FailureKind> = new Set(['refused', 'reset', 'unroutable', 'wrong-identity']);

export const NO_WORD: Verdict = { column: 'no-word', hard: false, longDead: false };

export class VerdictStore {
  readonly #records = new Map<string, Record>();
  /** Keys by interval in the order of their ages, so that the oldest of each is at the front. */
  readonly #byAge = new Map<Ms, Map<string, Record>>();
  /** Keys that no row refers to any more, with since when, oldest first. */
  readonly #parked = new Map<string, BootMs>();
  /** How late the resolver itself is; verdicts may be older by that much (R13). */
  lag: Ms = 0;

  /** A row refers to the key from now on. A verdict that was parked counts its age anew (R13). */
  retain(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record !== undefined && this.#parked.delete(key)) this.#restartAge(key, record, now);
  }

  /** No row refers to the key any more. */
  release(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || this.#parked.has(key)) return;
    this.#parked.set(key, now);
    this.#byAge.get(record.interval)?.delete(key);
  }

  /** Changed settings reset counters, not the verdict, its last success or its failing-since (R13). */
  inherit(from: string, to: string, { longDead }: JudgeSettings, now: BootMs): void {
    const old = this.#records.get(from);
    if (old === undefined || this.#records.has(to)) return;
    const record = { ...old, longDead, passes: 0, fails: 0, steadySince: undefined };
    this.#records.set(to, record);
    this.#restartAge(to, record, now);
  }

  /**
   * Takes one result in. `fresh`: the row was newly added while others of its service are answered, so its first
   * failure counts at once (R13). Returns whether the verdict changed in a way that R10 to R12 can see.
   */
  apply(result: ProbeResult, settings: JudgeSettings, fresh: boolean, now: BootMs): boolean {
    if (result.at > now + FUTURE_MS) return false;
    let record = this.#records.get(result.key);
    if (record === undefined) this.#records.set(result.key, (record = newRecord(settings, now)));
    if (record.lastResult !== undefined && result.at <= record.lastResult) return false;
    record.longDead = settings.longDead;
    const before = view(record);
    if (record.column !== 'no-word' && this.#expiry(record) < result.at) this.#forgetWord(record);
    const first = record.lastResult === undefined;
    this.#byAge.get(record.interval)?.delete(result.key);
    record.interval = result.interval;
    record.lastResult = result.at;
    record.ageFrom = result.at;
    if (result.failure === undefined) pass(record, settings, result.at);
    else fail(record, settings, result, first && fresh);
    if (record.column !== 'no-word') this.#queue(result.key, record);
    const after = view(record);
    // A success of one that is still failing: the floor and the cap go by who passed last (R11, R12).
    const revived = after.column === 'fails' && result.failure === undefined;
    return (
      revived || before.column !== after.column || before.hard !== after.hard || before.longDead !== after.longDead
    );
  }

  get(key: string): Verdict {
    const record = this.#records.get(key);
    return record === undefined ? NO_WORD : view(record);
  }

  lastSuccess(key: string): BootMs | undefined {
    return this.#records.get(key)?.lastSuccess;
  }

  hasResults(key: string): boolean {
    return this.#records.get(key)?.lastResult !== undefined;
  }

  /** Lets words run out that are too old (R13). Returns the keys whose verdict changed. */
  expire(now: BootMs): string[] {
    const changed: string[] = [];
    for (const queue of this.#byAge.values()) {
      for (const [key, record] of queue) {
        if (this.#expiry(record) >= now) break;
        queue.delete(key);
        this.#forgetWord(record);
        changed.push(key);
      }
    }
    for (const [key, since] of this.#parked) {
      if (now - since <= PARKED_MS) break;
      this.#parked.delete(key);
      this.#records.delete(key);
    }
    return changed;
  }

  /** When the next word runs out; Infinity when none will. */
  nextExpiry(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const queue of this.#byAge.values()) {
      const head = queue.values().next();
      if (!head.done) next = Math.min(next, this.#expiry(head.value) + 1);
    }
    return next;
  }

  /** A restart, a reload or a clock gap starts the age of every word again (R13). */
  restartAges(now: BootMs): void {
    for (const queue of [...this.#byAge.values()]) {
      for (const [key, record] of [...queue]) this.#restartAge(key, record, now);
    }
  }

  export(key: string, now: Instant): VerdictSeed | undefined {
    const record = this.#records.get(key);
    if (record === undefined || record.lastResult === undefined) return undefined;
    const wall = (at: BootMs | undefined): WallMs | undefined =>
      at === undefined ? undefined : now.wall - (now.boot - at);
    return omitUndefined({
      column: record.column,
      interval: record.interval,
      lastResult: wall(record.lastResult),
      lastSuccess: wall(record.lastSuccess),
      failingSince: wall(record.failingSince),
      failure: record.failure,
      detail: record.detail,
      flaps: record.flaps === 0 ? undefined : record.flaps,
      lastDown: wall(record.lastDown),
    });
  }

  /**
   * Takes a verdict from a snapshot. `wall` is when the snapshot was last in force: a word that stood then was as
   * good then as at its last result, which is why only changes need to be written.
   */
  restore(key: string, seed: VerdictSeed, settings: JudgeSettings, wall: WallMs, now: Instant): void {
    if (this.#records.has(key)) return;
    const record = newRecord(settings, now.boot);
    this.#records.set(key, record);
    const boot = (at: WallMs | undefined): BootMs | undefined =>
      at === undefined ? undefined : Math.min(now.boot, now.boot - (now.wall - at));
    const inForce = boot(wall) ?? now.boot;
    record.column = seed.column;
    record.interval = seed.interval;
    record.lastResult =
      seed.column === 'no-word' ? boot(seed.lastResult) : Math.max(inForce, boot(seed.lastResult) ?? inForce);
    record.lastSuccess =
      seed.column === 'passes' ? Math.max(inForce, boot(seed.lastSuccess) ?? inForce) : boot(seed.lastSuccess);
    record.failingSince = boot(seed.failingSince);
    record.failure = seed.failure;
    record.detail = seed.detail;
    record.flaps = seed.flaps ?? 0;
    record.lastDown = boot(seed.lastDown);
    this.#restartAge(key, record, now.boot);
  }

  #expiry(record: Record): BootMs {
    return record.ageFrom + AGE_INTERVALS * record.interval + this.lag;
  }

  #queue(key: string, record: Record): void {
    let queue = this.#byAge.get(record.interval);
    if (queue === undefined) this.#byAge.set(record.interval, (queue = new Map()));
    queue.delete(key);
    queue.set(key, record);
  }

  #restartAge(key: string, record: Record, now: BootMs): void {
    record.ageFrom = now;
    if (record.column !== 'no-word') this.#queue(key, record);
  }

  #forgetWord(record: Record): void {
    record.column = 'no-word';
    record.passes = 0;
    record.fails = 0;
    record.steadySince = undefined;
  }
}

function newRecord({ longDead }: JudgeSettings, now: BootMs): Record {
  return {
    longDead,
    column: 'no-word',
    passes: 0,
    fails: 0,
    interval: 0,
    lastResult: undefined,
    lastSuccess: undefined,
    failingSince: undefined,
    failure: undefined,
    detail: undefined,
    steadySince: undefined,
    flaps: 0,
    lastDown: undefined,
    ageFrom: now,
  };
}

function pass(record: Record, { rise }: JudgeSettings, at: BootMs): void {
  record.fails = 0;
  record.passes++;
  record.steadySince ??= at;
  record.lastSuccess = at;
  record.failingSince = undefined;
  if (record.column === 'passes') return;
  const back = record.column === 'no-word' || (record.passes >= rise && at - record.steadySince >= flapHold(record));
  if (!back) return;
  record.column = 'passes';
  record.failure = undefined;
  record.detail = undefined;
}

function fail(record: Record, { fall }: JudgeSettings, result: ProbeResult, atOnce: boolean): void {
  record.passes = 0;
  record.fails++;
  record.steadySince = undefined;
  record.failingSince ??= result.at;
  record.failure = result.failure;
  record.detail = result.detail;
  if (record.column === 'fails' || !(atOnce || record.fails >= fall)) return;
  record.column = 'fails';
  const memory = FLAP_MEMORY_INTERVALS * record.interval;
  record.flaps = record.lastDown !== undefined && result.at - record.lastDown <= memory ? record.flaps + 1 : 1;
  record.lastDown = result.at;
}

/** How long a flapping endpoint has to pass in a row before it is back. */
function flapHold(record: Record): Ms {
  if (record.flaps < 2) return 0;
  return Math.min(FLAP_HOLD_MAX_MS, FLAP_HOLD_INTERVALS * record.interval * 2 ** (record.flaps - 2));
}

function view(record: Record): Verdict {
  const { lastResult, failingSince, failure } = record;
  const longDead =
    lastResult !== undefined && failingSince !== undefined && lastResult - failingSince >= record.longDead;
  const fails = record.column === 'fails';
  return omitUndefined({
    column: record.column,
    hard: fails && (longDead || (failure !== undefined && HARD.has(failure))),
    longDead,
    lastResult,
    lastSuccess: record.lastSuccess,
    failingSince,
    lastFailure: record.detail ?? failure,
  });
}

/** Leaves out what is undefined, as `exactOptionalPropertyTypes` asks. */
function omitUndefined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  for (const key of Object.keys(value) as (keyof T)[]) if (value[key] === undefined) delete value[key];
  return value as { [K in keyof T]: Exclude<T[K], undefined> };
}
