/**
 * Verdicts by R13 and R14: facts from the prober go in, a column of R10's table comes out. State is kept by target
 * key, so it is shared by services and zones and outlives list refreshes, reloads and restarts of either process.
 */
import type { Column } from '../catalog/row.js';
import type { FailureKind, ProbeResult } from '../prober/feed.js';
import type { BootMs, Instant, Ms, WallMs } from '../system/clock.js';
import { History, type Run } from './history.js';
import { type Family, familyOf } from './networks.js';
import { type SuspectEvent, Suspicion } from './suspect.js';
import {
  fail,
  type JudgeSettings,
  newRecord,
  omitUndefined,
  pass,
  restartCounters,
  undoFailures,
  type Verdict,
  type VerdictRecord,
  view,
} from './verdict-record.js';

export type { JudgeSettings, Verdict } from './verdict-record.js';

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
  readonly proven?: true;
  readonly foreign?: true;
  readonly draining?: true;
}

/** A verdict older than so many of the intervals it was measured at is no word (R13). */
const AGE_INTERVALS = 3;
/** How long a verdict outlives the last row that refers to it. */
const PARKED_MS: Ms = 600_000;
/** A result from further ahead than this is not from this machine's clock. */
const FUTURE_MS: Ms = 1_000;

const NONE: readonly SuspectEvent[] = [];
export const NO_WORD: Verdict = { column: 'no-word', hard: false, longDead: false };

/** What is probed under a key, and for whom. */
export interface KeyFacts {
  /** Undefined when nobody holds it. */
  address(key: string): string | undefined;
  /** The interval at which it is to be probed. */
  interval(key: string): Ms | undefined;
  /** The services, one value each. */
  services(key: string): Iterable<unknown>;
  /** R16: a registry that is heard has dropped all of its rows, or calls them critical. */
  disowned(key: string): boolean;
}

export class VerdictStore {
  readonly #facts: KeyFacts;
  readonly #suspicion: Suspicion<unknown>;
  readonly #history = new History();
  #events: SuspectEvent[] = [];
  readonly #records = new Map<string, VerdictRecord>();
  /** Keys by interval in the order of their ages, so that the oldest of each is at the front. */
  readonly #byAge = new Map<Ms, Map<string, VerdictRecord>>();
  /** Keys that no row refers to any more, with since when, oldest first. */
  readonly #parked = new Map<string, BootMs>();
  /** How late the resolver itself is; verdicts may be older by that much (R13). */
  lag: Ms = 0;

  constructor(facts: KeyFacts) {
    this.#facts = facts;
    this.#suspicion = new Suspicion((key) => facts.services(key));
  }

  /** A row refers to the key from now on. A verdict that was parked counts its age anew (R13). */
  retain(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || !this.#parked.delete(key)) return;
    this.#restartAge(key, record, now);
    this.#seedSuspicion(key, record);
  }

  /** No row refers to the key any more. */
  release(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || this.#parked.has(key)) return;
    this.#parked.set(key, now);
    this.#unqueue(key, record);
    this.#happened(this.#suspicion.forget(key, now), now);
  }

  /**
   * Changed settings reset counters, not the verdict, its last success or its failing-since (R13). To be called before
   * `retain`: settings that come back find what was known under those between, if that is newer than their own word.
   */
  inherit(from: string, to: string, { longDead }: JudgeSettings, now: BootMs): void {
    const old = this.#records.get(from);
    const known = this.#records.get(to);
    if (old === undefined || (known !== undefined && !(this.#parked.has(to) && isNewer(old, known)))) return;
    this.#parked.delete(to);
    const proven = known?.proven ?? false;
    const record = { ...old, longDead, passes: 0, fails: 0, steadySince: undefined, proven, before: undefined };
    this.#records.set(to, record);
    this.#restartAge(to, record, now);
    this.#suspicion.rename(from, to);
  }

  /** The key will be probed less often from now on: its word has to last until the next result (R13, R17). */
  slow(key: string, interval: Ms, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || record.interval >= interval || this.#parked.has(key)) return;
    this.#unqueue(key, record);
    record.interval = interval;
    this.#restartAge(key, record, now);
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
    const provenBefore = record.proven;
    if (record.column !== 'no-word' && this.#expiry(record) < result.at) this.#forgetWord(record);
    const isVoid = this.#suspect(result);
    this.#unqueue(result.key, record);
    this.#history.note(result, isVoid, () => passesOf(record));
    const first = record.lastResult === undefined;
    record.interval = coarse(result.interval);
    record.ageFrom = result.at;
    if (isVoid) {
      if (record.column !== 'no-word') this.#queue(result.key, record);
      return before.column !== record.column;
    }
    record.lastResult = result.at;
    if (result.failure === undefined) pass(record, settings, result);
    else fail(record, settings, result, first && fresh);
    if (record.column !== 'no-word') this.#queue(result.key, record);
    const after = view(record);
    // A success of one that is still failing: the floor and the cap go by who passed last (R11, R12).
    const revived = after.column === 'fails' && result.failure === undefined;
    const proven = record.proven !== provenBefore;
    return (
      revived ||
      proven ||
      before.column !== after.column ||
      before.hard !== after.hard ||
      before.longDead !== after.longDead ||
      before.wrongIdentity !== after.wrongIdentity ||
      before.draining !== after.draining
    );
  }

  get(key: string): Verdict {
    const record = this.#records.get(key);
    return record === undefined ? NO_WORD : view(record);
  }

  /** The latest results, in runs of equal ones, oldest first. */
  results(key: string): readonly Run[] {
    const runs = this.#history.of(key);
    if (runs !== undefined) return runs;
    const record = this.#records.get(key);
    const passes = record === undefined ? undefined : passesOf(record);
    return passes === undefined ? [] : [passes];
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
        this.#unqueue(key, record);
        this.#forgetWord(record);
        this.#happened(this.#suspicion.silent(key, now), now);
        changed.push(key);
      }
    }
    for (const [key, since] of this.#parked) {
      if (now - since <= PARKED_MS) break;
      this.#parked.delete(key);
      this.#records.delete(key);
      this.#history.forget(key);
    }
    return changed;
  }

  /** R16: how full the host's connection tracking table is, 0 to 1. */
  conntrack(fill: number, now: BootMs): void {
    this.#happened(this.#suspicion.conntrack(fill, now), now);
  }

  /** What began and ended of R16 since the last call. The verdicts of the keys that it names may have changed. */
  takeSuspectEvents(): readonly SuspectEvent[] {
    if (this.#events.length === 0) return NONE;
    const events = this.#events;
    this.#events = [];
    return events;
  }

  /** R16: since when failures by timeout or no route are void in a family; undefined when they count. */
  suspectedSince(family: Family): BootMs | undefined {
    return this.#suspicion.since(family);
  }

  /** R16: whether a result counts for nothing at present. */
  isVoid({ key, failure }: ProbeResult): boolean {
    const address = failure === undefined ? undefined : this.#facts.address(key);
    return address !== undefined && this.#suspicion.voids(address, failure!) && !this.#facts.disowned(key);
  }

  /** R18: it has passed once with these settings. */
  isProven(key: string): boolean {
    return this.#records.get(key)?.proven === true;
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
      proven: record.proven ? (true as const) : undefined,
      foreign: record.foreign ? (true as const) : undefined,
      draining: record.draining ? (true as const) : undefined,
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
    record.interval = Math.max(seed.interval, this.#facts.interval(key) ?? 0);
    record.lastResult =
      seed.column === 'no-word' ? boot(seed.lastResult) : Math.max(inForce, boot(seed.lastResult) ?? inForce);
    record.lastSuccess =
      seed.column === 'passes' ? Math.max(inForce, boot(seed.lastSuccess) ?? inForce) : boot(seed.lastSuccess);
    record.failingSince = boot(seed.failingSince);
    record.lastResult = notLongDeadYet(record, boot(seed.lastResult));
    record.failure = seed.failure;
    record.detail = seed.detail;
    record.flaps = seed.flaps ?? 0;
    record.lastDown = boot(seed.lastDown);
    record.proven = seed.proven === true;
    record.foreign = seed.foreign === true;
    record.draining = seed.draining === true;
    this.#restartAge(key, record, now.boot);
    this.#seedSuspicion(key, record);
  }

  #expiry(record: VerdictRecord): BootMs {
    return record.ageFrom + AGE_INTERVALS * record.interval + this.lag;
  }

  #queue(key: string, record: VerdictRecord): void {
    let queue = this.#byAge.get(record.interval);
    if (queue === undefined) this.#byAge.set(record.interval, (queue = new Map()));
    queue.delete(key);
    queue.set(key, record);
  }

  #restartAge(key: string, record: VerdictRecord, now: BootMs): void {
    record.ageFrom = now;
    if (record.column !== 'no-word') this.#queue(key, record);
  }

  #unqueue(key: string, record: VerdictRecord): void {
    const queue = this.#byAge.get(record.interval);
    // A queue lives only while it is in use.
    if (queue?.delete(key) && queue.size === 0) this.#byAge.delete(record.interval);
  }

  /** R16. Returns whether the result is void. */
  #suspect(result: ProbeResult): boolean {
    const { key, at, interval, failure } = result;
    const address = this.#facts.address(key);
    if (address === undefined) return false;
    this.#happened(this.#suspicion.note(key, address, failure, at, interval), at);
    return this.isVoid(result);
  }

  /** R16: its last result is known to have passed. */
  #seedSuspicion(key: string, { lastSuccess, failingSince }: VerdictRecord): void {
    if (lastSuccess === undefined || failingSince !== undefined) return;
    const address = this.#facts.address(key);
    if (address !== undefined) this.#suspicion.seed(key, address);
  }

  #happened(events: readonly SuspectEvent[], now: BootMs): void {
    for (const event of events) {
      this.#events.push(event);
      if (event.kind === 'began') {
        for (const key of event.keys) {
          const record = this.#records.get(key);
          if (record !== undefined && !this.#facts.disowned(key)) this.#undo(key, record, now);
        }
      } else {
        for (const [key, record] of this.#records) {
          const address = this.#facts.address(key);
          if (address === undefined || familyOf(address) === event.family) restartCounters(record);
        }
      }
    }
  }

  #undo(key: string, record: VerdictRecord, now: BootMs): void {
    this.#unqueue(key, record);
    undoFailures(record);
    this.#restartAge(key, record, now);
  }

  #forgetWord(record: VerdictRecord): void {
    record.column = 'no-word';
    record.passes = 0;
    record.fails = 0;
    record.steadySince = undefined;
    record.before = undefined;
  }
}

/**
 * The last result of a restored record. That a row came to be dead for long is written when it happens, so one whose
 * own last result was before that was not, however long this host slept since.
 */
function notLongDeadYet({ lastResult, failingSince, longDead }: VerdictRecord, own: BootMs | undefined) {
  if (lastResult === undefined || failingSince === undefined || own === undefined) return lastResult;
  return own - failingSince >= longDead ? lastResult : Math.min(lastResult, failingSince + longDead - 1);
}

function isNewer(one: VerdictRecord, other: VerdictRecord): boolean {
  return (one.lastResult ?? Number.NEGATIVE_INFINITY) > (other.lastResult ?? Number.NEGATIVE_INFINITY);
}

/** Stretched intervals are never the same twice; rounded up they share a queue of ages. */
function coarse(interval: Ms): Ms {
  const grain = interval >= 1_000 ? 100 : 10;
  return Math.ceil(interval / grain) * grain;
}

/** The present run of passes, as far as it is counted. */
function passesOf({ passes, steadySince, lastSuccess }: VerdictRecord): Run | undefined {
  if (passes === 0 || steadySince === undefined || lastSuccess === undefined) return undefined;
  return { isVoid: false, count: passes, first: steadySince, last: lastSuccess, took: 0 };
}
