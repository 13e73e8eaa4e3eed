/**
 * Verdicts by R13 and R14: facts from the prober go in, a column of R10's table comes out. State is kept by target
 * key, so it is shared by services and zones and outlives list refreshes, reloads and restarts of either process.
 */
import type { Column } from '../catalog/row.js';
import type { FailureKind, ProbeResult } from '../prober/feed.js';
import type { BootMs, Instant, Ms, WallMs } from '../system/clock.js';
import { AgeQueues } from './age-queues.js';
import { History, type Run } from './history.js';
import { type Family, familyOf } from './networks.js';
import { type SuspectEvent, Suspicion } from './suspect.js';
import {
  AGE_INTERVALS,
  fail,
  forgetWord,
  inheritedRecord,
  isLongDead,
  isPaused,
  isSame,
  type JudgeSettings,
  leaveOutSilence,
  newRecord,
  pass,
  restartCounters,
  type Standing,
  standingOf,
  undoFailures,
  type Verdict,
  type VerdictRecord,
  view,
} from './verdict-record.js';

export type { JudgeSettings, Standing, Verdict } from './verdict-record.js';

/** A verdict in a snapshot, in wall time (R29). */
export interface VerdictSeed {
  readonly column: Column;
  readonly interval: Ms;
  readonly lastResult?: WallMs;
  readonly lastSuccess?: WallMs;
  readonly failingSince?: WallMs;
  /** Of the time since then. */
  readonly unseen?: Ms;
  /** It fails, and nothing has counted since the last result. */
  readonly paused?: true;
  readonly failure?: FailureKind;
  readonly detail?: string;
  readonly flaps?: number;
  readonly lastDown?: WallMs;
  readonly proven?: true;
  readonly foreign?: true;
  readonly draining?: true;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** How long a verdict outlives the last row that refers to it. */
const PARKED_MS: Ms = 600_000;
/** A result from further ahead than this is not from this machine's clock. */
const FUTURE_MS: Ms = 1_000;

const NONE: readonly SuspectEvent[] = [];
export const NO_WORD: Verdict = {
  column: 'no-word',
  hard: false,
  longDead: false,
  wrongIdentity: false,
  draining: false,
};

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
  readonly #suspicion: Suspicion<VerdictRecord>;
  readonly #history = new History();
  #events: SuspectEvent[] = [];
  readonly #records = new Map<string, VerdictRecord>();
  /** Those that have a word. */
  readonly #byAge = new AgeQueues<VerdictRecord>();
  /** Keys that no row refers to any more, with since when, oldest first. */
  readonly #parked = new Map<string, BootMs>();
  /** How late the resolver itself is; verdicts may be older by that much (R13). */
  lag: Ms = 0;

  constructor(facts: KeyFacts) {
    this.#facts = facts;
    this.#suspicion = new Suspicion(({ key }) => facts.services(key));
  }

  /** A row refers to the key from now on. A verdict that was parked counts its age anew (R13). */
  retain(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || !this.#parked.delete(key)) return;
    this.#restartAge(record, now);
    this.#seedSuspicion(record);
  }

  /** No row refers to the key any more. */
  release(key: string, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || this.#parked.has(key)) return;
    this.#parked.set(key, now);
    this.#byAge.remove(record);
    this.#happened(this.#suspicion.forget(record, now), now);
  }

  /**
   * Changed settings reset counters, not the verdict, its last success or its failing-since (R13). To be called before
   * `retain`: settings that come back find what was known under those between, if that is newer than their own word.
   */
  inherit(from: string, to: string, settings: JudgeSettings, now: BootMs): void {
    const old = this.#records.get(from);
    const known = this.#records.get(to);
    if (old === undefined || (known !== undefined && !(this.#parked.has(to) && isNewer(old, known)))) return;
    this.#parked.delete(to);
    const record = inheritedRecord(to, settings, old);
    record.proven = known?.proven ?? false;
    this.#records.set(to, record);
    this.#restartAge(record, now);
    this.#suspicion.rename(old, record);
  }

  /** The key will be probed less often from now on: its word has to last until the next result (R13, R17). */
  slow(key: string, interval: Ms, now: BootMs): void {
    const record = this.#records.get(key);
    if (record === undefined || record.interval >= interval || this.#parked.has(key)) return;
    this.#byAge.remove(record);
    record.interval = interval;
    this.#restartAge(record, now);
  }

  /**
   * Takes one result in. `isFresh`: whether the row was newly added while others of its service are answered, so its
   * first failure counts at once (R13). Returns whether the verdict changed in a way that R10 to R12 can see, or that
   * has to be remembered (R29).
   */
  apply(result: ProbeResult, settings: JudgeSettings, isFresh: () => boolean, now: BootMs): boolean {
    if (result.at > now + FUTURE_MS) return false;
    const record = this.#records.get(result.key) ?? this.#newRecord(result.key, settings, now);
    if (record.lastResult !== undefined && result.at <= record.lastResult) return false;
    record.longDead = settings.longDead;
    const before = standingOf(record);
    const provenBefore = record.proven;
    const pausedBefore = isPaused(record);
    if (this.#expiry(record) < result.at) forgetWord(record);
    const isVoid = this.#suspect(record, result);
    this.#byAge.remove(record);
    this.#history.note(result, isVoid, () => passesOf(record));
    const first = record.lastResult === undefined;
    if (!isVoid) leaveOutSilence(record, result.at);
    // One that was under way when the interval became longer does not tell when the next one comes.
    record.interval = Math.max(coarse(result.interval), this.#facts.interval(result.key) ?? 0);
    record.ageFrom = result.at;
    if (isVoid) {
      if (record.column !== 'no-word') this.#byAge.put(record);
      return before.column !== record.column || (record.column === 'fails' && !pausedBefore);
    }
    record.lastResult = result.at;
    if (result.failure === undefined) pass(record, settings, result);
    else fail(record, settings, result, first && isFresh());
    if (record.column !== 'no-word') this.#byAge.put(record);
    const after = standingOf(record);
    // A success of one that is still failing: the floor and the cap go by who passed last (R11, R12).
    const revived = after.column === 'fails' && result.failure === undefined;
    const resumed = after.column === 'fails' && pausedBefore;
    return revived || resumed || record.proven !== provenBefore || !isSame(before, after);
  }

  get(key: string): Verdict {
    const record = this.#records.get(key);
    return record === undefined ? NO_WORD : view(record);
  }

  /** What R10 to R12 and R19 go by. */
  standing(key: string): Standing {
    const record = this.#records.get(key);
    return record === undefined ? NO_WORD : standingOf(record);
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

  /** Lets words run out that are too old (R13). Returns the keys whose verdict changed. */
  expire(now: BootMs): string[] {
    const changed: string[] = [];
    for (const queue of this.#byAge.queues()) {
      for (const record of queue) {
        if (this.#expiry(record) >= now) break;
        this.#byAge.remove(record);
        forgetWord(record);
        this.#happened(this.#suspicion.silent(record, now), now);
        changed.push(record.key);
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

  /** R16: the addresses of this host, which stand beside loopback. */
  set own(addresses: ReadonlySet<string>) {
    this.#suspicion.own = addresses;
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
    if (failure === undefined || !this.#suspicion.some) return false;
    const address = this.#facts.address(key);
    return address !== undefined && this.#suspicion.voids(address, failure) && !this.#facts.disowned(key);
  }

  /** R18: it has passed once with these settings. */
  isProven(key: string): boolean {
    return this.#records.get(key)?.proven === true;
  }

  /** When the next word runs out, or 0 when there is something to tell of R16 already; Infinity when neither will be. */
  nextExpiry(): BootMs {
    let next = this.#events.length === 0 ? Number.POSITIVE_INFINITY : 0;
    for (const { oldest } of this.#byAge.queues()) next = Math.min(next, this.#expiry(oldest!) + 1);
    return next;
  }

  /** A restart, a reload or a clock gap starts the age of every word again (R13). */
  restartAges(now: BootMs): void {
    const aging = [...this.#byAge.queues()].flatMap((queue) => [...queue]);
    for (const record of aging) this.#restartAge(record, now);
    // So do counts where there is no word yet.
    for (const record of this.#records.values()) if (record.column === 'no-word') record.ageFrom = now;
  }

  export(key: string, now: Instant): VerdictSeed | undefined {
    const record = this.#records.get(key);
    if (record === undefined || record.lastResult === undefined) return undefined;
    const { lastSuccess, failingSince, unseen, failure, detail, lastDown } = record;
    const wall = (at: BootMs): WallMs => Math.round(now.wall - (now.boot - at));
    const seed: Writable<VerdictSeed> = {
      column: record.column,
      interval: record.interval,
      lastResult: wall(record.lastResult),
    };
    if (lastSuccess !== undefined) seed.lastSuccess = wall(lastSuccess);
    if (failingSince !== undefined) seed.failingSince = wall(failingSince);
    if (unseen !== 0) seed.unseen = unseen;
    if (record.column === 'fails' && isPaused(record)) seed.paused = true;
    if (failure !== undefined) seed.failure = failure;
    if (detail !== undefined) seed.detail = detail;
    if (record.flaps !== 0) seed.flaps = record.flaps;
    if (lastDown !== undefined) seed.lastDown = wall(lastDown);
    if (record.proven) seed.proven = true;
    if (record.column === 'no-word' ? record.estranged : record.foreign) seed.foreign = true;
    if (record.draining) seed.draining = true;
    return seed;
  }

  /**
   * Takes a verdict from a snapshot. `wall` is when the snapshot was last in force: a word that stood then was as
   * good then as at its last result, which is why only changes need to be written. Not so where nothing counted since
   * that result, nor where a failure may have been passed over.
   */
  restore(key: string, seed: VerdictSeed, settings: JudgeSettings, wall: WallMs, now: Instant): void {
    if (this.#records.has(key)) return;
    const record = this.#newRecord(key, settings, now.boot);
    const boot = (at: WallMs | undefined): BootMs | undefined =>
      at === undefined ? undefined : Math.min(now.boot, now.boot - (now.wall - at));
    const inForce = boot(wall) ?? now.boot;
    record.column = seed.column;
    record.interval = Math.max(seed.interval, this.#facts.interval(key) ?? 0);
    const stood = seed.column === 'passes' ? seed.failingSince === undefined : seed.column === 'fails' && !seed.paused;
    record.lastResult = stood ? Math.max(inForce, boot(seed.lastResult) ?? inForce) : boot(seed.lastResult);
    record.lastSuccess =
      seed.column === 'passes' ? Math.max(inForce, boot(seed.lastSuccess) ?? inForce) : boot(seed.lastSuccess);
    record.failingSince = boot(seed.failingSince);
    record.unseen = seed.unseen ?? 0;
    // That a row came to be dead for long is written when it happens: in what looks so since, this host slept.
    if (seed.lastResult !== undefined && isLongDead(record)) {
      const inForceAt = record.lastResult;
      record.lastResult = boot(seed.lastResult);
      if (isLongDead(record)) record.lastResult = inForceAt;
    }
    record.failure = seed.failure;
    record.detail = seed.detail;
    record.flaps = seed.flaps ?? 0;
    record.lastDown = boot(seed.lastDown);
    record.proven = seed.proven === true;
    record.foreign = seed.foreign === true;
    record.estranged = record.foreign && record.column !== 'passes';
    record.draining = seed.draining === true;
    this.#restartAge(record, now.boot);
    this.#seedSuspicion(record);
  }

  #newRecord(key: string, settings: JudgeSettings, now: BootMs): VerdictRecord {
    const record = newRecord(key, settings, now);
    this.#records.set(key, record);
    return record;
  }

  #expiry(record: VerdictRecord): BootMs {
    return record.ageFrom + AGE_INTERVALS * record.interval + this.lag;
  }

  #restartAge(record: VerdictRecord, now: BootMs): void {
    record.ageFrom = now;
    if (record.column !== 'no-word') this.#byAge.put(record);
  }

  /** R16. Returns whether the result is void. */
  #suspect(record: VerdictRecord, result: ProbeResult): boolean {
    const { at, interval, failure } = result;
    const address = this.#facts.address(record.key);
    if (address === undefined) return false;
    this.#happened(this.#suspicion.note(record, address, failure, at, interval), at);
    return this.isVoid(result);
  }

  /** R16: its last result is known to have passed. */
  #seedSuspicion(record: VerdictRecord): void {
    if (record.lastSuccess === undefined || record.failingSince !== undefined) return;
    const address = this.#facts.address(record.key);
    if (address !== undefined) this.#suspicion.seed(record, address);
  }

  #happened(events: readonly SuspectEvent<VerdictRecord>[], now: BootMs): void {
    for (const event of events) {
      if (event.kind === 'began') {
        for (const record of event.keys) if (!this.#facts.disowned(record.key)) this.#undo(record, now);
        this.#events.push({ ...event, keys: event.keys.map(({ key }) => key) });
      } else {
        this.#events.push(event);
        for (const [key, record] of this.#records) {
          const address = this.#facts.address(key);
          if (address === undefined || familyOf(address) === event.family) restartCounters(record);
        }
      }
    }
  }

  #undo(record: VerdictRecord, now: BootMs): void {
    this.#byAge.remove(record);
    undoFailures(record);
    this.#restartAge(record, now);
  }
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
