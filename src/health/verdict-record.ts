/** One key's verdict (R13): what is kept of it, and what a result does to it. */
import type { Column } from '../catalog/row.js';
import type { FailureKind, ProbeResult } from '../prober/feed.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Aging } from './age-queues.js';
import type { Witness } from './suspect.js';

/** How results of a key are judged. */
export interface JudgeSettings {
  readonly rise: number;
  readonly fall: number;
  readonly longDead: Ms;
}

/** What R10 to R12 and R19 go by. */
export interface Standing {
  readonly column: Column;
  /** Fails, and hard: by its latest failure, or soft without one success for `longDead` (R12). */
  readonly hard: boolean;
  /** R14: it had failed for `longDead` at its last result. */
  readonly longDead: boolean;
  /** R19: another service was found there since the last pass, and it was held back since. */
  readonly wrongIdentity: boolean;
  /** It says itself that it drains (R10). */
  readonly draining: boolean;
}

/** All of it, for people. */
export interface Verdict extends Standing {
  readonly lastResult?: BootMs;
  readonly lastSuccess?: BootMs;
  readonly failingSince?: BootMs;
  readonly lastFailure?: string;
}

/** What a run of failures changes, as it was before it. */
type Before = Pick<
  VerdictRecord,
  'column' | 'flaps' | 'lastDown' | 'failingSince' | 'unseen' | 'failure' | 'detail' | 'foreign' | 'estranged'
>;

export interface VerdictRecord extends Aging<VerdictRecord>, Witness {
  readonly key: string;
  longDead: Ms;
  column: Column;
  passes: number;
  fails: number;
  /** The interval it was measured at. */
  interval: Ms;
  /** Results that are void (R16) are none. */
  lastResult: BootMs | undefined;
  lastSuccess: BootMs | undefined;
  failingSince: BootMs | undefined;
  /** How much of the time since then nobody looked, or what was found was void. */
  unseen: Ms;
  failure: FailureKind | undefined;
  detail: string | undefined;
  /** R19: another service was found there since the last pass. */
  foreign: boolean;
  /** R19: and held back for it, or after it. No silence ends that. */
  estranged: boolean;
  /** It said so at its last pass. */
  draining: boolean;
  /** First pass of the present run of passes. */
  steadySince: BootMs | undefined;
  flaps: number;
  lastDown: BootMs | undefined;
  /** From where the verdict's age counts. */
  ageFrom: BootMs;
  /** It has passed once with these settings, on this host (R18). */
  proven: boolean;
  /** Set while it fails. */
  before: Before | undefined;
}

/** A verdict older than so many of the intervals it was measured at is no word (R13). */
export const AGE_INTERVALS = 3;
/** A second fall within so many intervals of the last one, and what that one was held for, is a flap. */
const FLAP_MEMORY_INTERVALS = 120;
/** The first flap's hold; each further one doubles it. */
const FLAP_HOLD_INTERVALS = 12;
const FLAP_HOLD_MAX_MS: Ms = 600_000;

const HARD: ReadonlySet<FailureKind> = new Set(['refused', 'reset', 'unroutable', 'wrong-identity']);

/** In no queue of ages, and no witness of R16. */
const NOWHERE = { queued: false, older: undefined, newer: undefined, stance: undefined };

export function newRecord(key: string, { longDead }: JudgeSettings, now: BootMs): VerdictRecord {
  return {
    key,
    longDead,
    column: 'no-word',
    passes: 0,
    fails: 0,
    interval: 0,
    lastResult: undefined,
    lastSuccess: undefined,
    failingSince: undefined,
    unseen: 0,
    failure: undefined,
    detail: undefined,
    foreign: false,
    estranged: false,
    draining: false,
    steadySince: undefined,
    flaps: 0,
    lastDown: undefined,
    ageFrom: now,
    proven: false,
    before: undefined,
    ...NOWHERE,
  };
}

/** The record of a key whose settings were others until now: the counters start anew, and nothing is proven (R13, R18). */
export function inheritedRecord(key: string, { longDead }: JudgeSettings, old: VerdictRecord): VerdictRecord {
  const counters = { passes: 0, fails: 0, steadySince: undefined, proven: false, before: undefined };
  return { ...old, key, longDead, ...counters, ...NOWHERE };
}

export function pass(record: VerdictRecord, { rise }: JudgeSettings, { at, draining }: ProbeResult): void {
  record.fails = 0;
  record.before = undefined;
  record.passes++;
  record.steadySince ??= at;
  record.lastSuccess = at;
  record.proven = true;
  record.failingSince = undefined;
  record.unseen = 0;
  record.foreign = false;
  record.estranged = false;
  record.draining = draining === true;
  if (record.column === 'passes') return;
  const back = record.column === 'no-word' || (record.passes >= rise && at - record.steadySince >= flapHold(record));
  if (!back) return;
  record.column = 'passes';
  record.failure = undefined;
  record.detail = undefined;
}

export function fail(record: VerdictRecord, { fall }: JudgeSettings, result: ProbeResult, atOnce: boolean): void {
  if (record.fails === 0) {
    const { column, flaps, lastDown, failingSince, unseen, failure, detail, foreign, estranged } = record;
    record.before = { column, flaps, lastDown, failingSince, unseen, failure, detail, foreign, estranged };
  }
  record.passes = 0;
  record.fails++;
  record.steadySince = undefined;
  record.failingSince ??= result.at;
  record.failure = result.failure;
  record.detail = result.detail;
  if (result.failure === 'wrong-identity') record.foreign = true;
  const isDown = record.column === 'fails';
  if (!isDown && !atOnce && record.fails < fall) return;
  record.estranged = record.foreign;
  if (isDown) return;
  record.column = 'fails';
  const { lastDown, lastSuccess = Number.NEGATIVE_INFINITY } = record;
  // One that has not passed since it fell was never back, whatever silence made of it.
  if (lastDown !== undefined && lastSuccess <= lastDown) return;
  // The time that it was held for is none that it stood.
  const memory = FLAP_MEMORY_INTERVALS * record.interval + flapHold(record);
  record.flaps = lastDown !== undefined && result.at - lastDown <= memory ? record.flaps + 1 : 1;
  record.lastDown = result.at;
}

/**
 * A result that counts is to be taken in, measured at `at`: time without any before it is none of failing (R12, R14). What
 * had no word since then begins anew; what was dead for long by its last result stays so.
 */
export function leaveOutSilence(record: VerdictRecord, at: BootMs): void {
  const { lastResult, failingSince, column, fails } = record;
  if (lastResult === undefined || failingSince === undefined || isLongDead(record)) return;
  const silence = at - lastResult;
  if (silence <= AGE_INTERVALS * record.interval) return;
  if (column !== 'no-word' || fails > 0) record.unseen += silence;
  else {
    record.failingSince = undefined;
    record.unseen = 0;
  }
}

/** R13: its word ran out. */
export function forgetWord(record: VerdictRecord): void {
  record.column = 'no-word';
  record.foreign = record.estranged;
  record.passes = 0;
  record.fails = 0;
  record.steadySince = undefined;
  record.before = undefined;
}

/** R16: its present run of failures never was. */
export function undoFailures(record: VerdictRecord): void {
  if (record.before !== undefined) Object.assign(record, record.before);
  record.before = undefined;
  record.fails = 0;
}

/** Counters start from nothing; what was decided stands. */
export function restartCounters(record: VerdictRecord): void {
  record.passes = 0;
  record.fails = 0;
  record.steadySince = undefined;
  record.before = undefined;
  if (record.column !== 'passes') return;
  record.failingSince = undefined;
  record.unseen = 0;
}

/** How long a flapping endpoint has to pass in a row before it is back. */
function flapHold(record: VerdictRecord): Ms {
  if (record.flaps < 2) return 0;
  return Math.min(FLAP_HOLD_MAX_MS, FLAP_HOLD_INTERVALS * record.interval * 2 ** (record.flaps - 2));
}

/** Nothing has counted since its last result: this host slept or was restarted, or what was found was void. */
export function isPaused({ ageFrom, lastResult }: VerdictRecord): boolean {
  return ageFrom !== lastResult;
}

/** R14: of all the time that it was seen since its last success, so much. */
export function isLongDead({ lastResult, failingSince, unseen, longDead }: VerdictRecord): boolean {
  return lastResult !== undefined && failingSince !== undefined && lastResult - failingSince - unseen >= longDead;
}

export function standingOf(record: VerdictRecord): Standing {
  const { column, failure } = record;
  const longDead = isLongDead(record);
  const fails = column === 'fails';
  return {
    column,
    hard: fails && (longDead || (failure !== undefined && HARD.has(failure))),
    longDead,
    draining: record.draining && column !== 'no-word',
    wrongIdentity: record.estranged,
  };
}

export function isSame(a: Standing, b: Standing): boolean {
  return (
    a.column === b.column &&
    a.hard === b.hard &&
    a.longDead === b.longDead &&
    a.wrongIdentity === b.wrongIdentity &&
    a.draining === b.draining
  );
}

export function view(record: VerdictRecord): Verdict {
  const { lastResult, lastSuccess, failingSince, detail, failure } = record;
  const lastFailure = detail ?? failure;
  return { ...standingOf(record), ...omitUndefined({ lastResult, lastSuccess, failingSince, lastFailure }) };
}

/** Leaves out what is undefined, as `exactOptionalPropertyTypes` asks. */
export function omitUndefined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  for (const key of Object.keys(value) as (keyof T)[]) if (value[key] === undefined) delete value[key];
  return value as { [K in keyof T]?: Exclude<T[K], undefined> };
}
