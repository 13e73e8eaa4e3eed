/** The loop that all adapters share: when to ask, how long to wait, what to pass on (R2, R3, R6, R7). */
import { setMaxListeners } from 'node:events';
import type { LimitsConfig } from '../config/types.js';
import type { Clock, Ms } from '../system/clock.js';
import type { Adapter, Delivery, Failure, Follower, Observation } from './adapter.js';
import { Following } from './following.js';
import { ListMemory } from './list-memory.js';
import type { LookUp } from './look-up.js';
import { LATE, OneFlight } from './one-flight.js';
import { Pace } from './pace.js';
import type { Report } from './registry.js';
import { epochOf, RevisionMemory, type SeenRevision } from './revision-memory.js';
import { type After, after as realAfter } from './timers.js';

export interface SyncLoopOptions {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly limits: LimitsConfig;
  /** Takes a report; the loop goes on when it is done. */
  readonly emit: (report: Report) => Promise<void> | void;
  readonly watchFailed: (reason: string) => void;
  /** The source is asked with other credentials from now on: these files were replaced. */
  readonly renewed?: (files: readonly string[]) => void;
  /** R6: what the source was known to have come to before this loop began. */
  readonly seen?: SeenRevision | undefined;
  /** Absent: the timers of node. */
  readonly after?: After;
}

/** However often it is woken. */
const LEAST_PAUSE_MS: Ms = 20;
/** A watch that lasted so long was a good one, however quiet. */
const GOOD_WATCH_MS: Ms = 10_000;
/** R30: hosts that were suspended together do not ask together. A part of `firstSpread`. */
const RELIST_SHARE = 1 / 5;
/** Polls of hosts that were started together drift apart. A part of `interval`. */
const POLL_JITTER = 1 / 10;

export class SyncLoop {
  readonly adapter: Adapter;
  readonly #options: SyncLoopOptions;
  readonly #after: After;
  readonly #flight: OneFlight;
  readonly #memory = new ListMemory();
  readonly #revisions = new RevisionMemory();
  readonly #pace: Pace;
  /** Of watches: each that breaks costs a list. */
  readonly #watchPace: Pace;
  readonly #ended = new AbortController();
  /** The last list was over the limits: that nothing is newer says nothing of what is here. */
  #refused = false;
  #stopped = false;
  #failing = false;
  #woken = false;
  #relisting = false;
  #endPause: (() => void) | undefined;
  #following: Following | undefined;
  /** The report that is being passed on. */
  #emitting: Promise<void> = Promise.resolve();
  /** The source's last word was not believed. */
  #unbelievable = false;
  /** What was told of the watch last, so that it is told once. */
  #watchFault: string | undefined;

  constructor(adapter: Adapter, options: SyncLoopOptions) {
    this.adapter = adapter;
    // Many look-ups listen to it.
    setMaxListeners(0, this.#ended.signal);
    this.#options = options;
    this.#after = options.after ?? realAfter;
    this.#flight = new OneFlight(this.#after);
    this.#pace = new Pace(adapter.pace, options.random);
    this.#watchPace = new Pace(adapter.pace, options.random);
    if (options.seen !== undefined) (adapter.seed === undefined ? this.#revisions : adapter).seed?.(options.seen);
  }

  /** @param restored true when the zone already answers from a snapshot: the first poll may wait (R3) */
  start(restored: boolean): void {
    this.adapter.watch?.(() => this.wake(), this.#options.watchFailed);
    void this.#run(restored ? this.#options.random() * this.adapter.pace.firstSpread : 0);
  }

  /** Polls now, or once more after the poll that is under way. */
  wake(): void {
    this.#woken = true;
    this.#endPause?.();
  }

  /** R30: the next good report is a whole list again. */
  relist(): void {
    this.#memory.forget();
    this.#relisting = this.adapter.pace.firstSpread > 0;
    this.#following?.stop();
    this.wake();
  }

  /**
   * R33: asks the source for one service. What is found is part of what it has from then on; `take` is called with it
   * when no report is under way that would not have it yet.
   */
  async lookUp(service: string, take: (found: LookUp) => void): Promise<void> {
    const { onDemand } = this.adapter;
    if (onDemand === undefined)
      return take({ kind: 'failed', reason: 'its registry is not asked for single services' });
    if (this.#unbelievable) return take({ kind: 'failed', reason: 'the registry is not believed' });
    let found: LookUp;
    try {
      found = await onDemand.lookUp(service, this.#ended.signal);
    } catch (error) {
      found = { kind: 'failed', reason: error instanceof Error ? error.message : String(error) };
    }
    await this.#emitting;
    if (this.#stopped) return;
    if (found.kind !== 'found') return take(found);
    const over = this.#memory.add(found.listing, this.#options.limits);
    if (over !== undefined) onDemand.know([], [found.listing.name]);
    take(over === undefined ? found : { kind: 'failed', reason: over });
    // It is heard, so there is no reason to wait any longer.
    if (this.#failing) this.wake();
  }

  /** R33: services to follow from now on, and no more. */
  know(add: readonly string[], drop: readonly string[]): void {
    this.adapter.onDemand?.know(add, drop);
    this.#memory.drop(drop);
  }

  stop(): void {
    this.#stopped = true;
    this.#ended.abort();
    this.#following?.stop();
    this.adapter.close();
    this.#endPause?.();
  }

  async #run(first: Ms): Promise<void> {
    let pause = first;
    while (!this.#stopped) {
      await this.#pause(pause);
      if (this.#relisting) {
        this.#relisting = false;
        this.#woken = false;
        await this.#pause(this.#options.random() * this.adapter.pace.firstSpread * RELIST_SHARE);
      }
      if (this.#stopped) return;
      this.#woken = false;
      pause = await this.#turn().catch((error) => this.#threw(error));
    }
  }

  /** What nobody thought of is a fault of this source, and of no other that is asked here (R31). */
  async #threw(error: unknown): Promise<Ms> {
    this.#following?.stop();
    this.#following = undefined;
    // What was on its way may not have arrived.
    this.#memory.forget();
    const reason = error instanceof Error ? error.message : String(error);
    return await this.#failed({ kind: 'unreachable', reason }).catch(() => this.adapter.interval);
  }

  /** One poll and, of a source that can be followed, what comes after it. Returns the pause until the next. */
  async #turn(): Promise<Ms> {
    const { adapter } = this;
    const observation = this.#judge(await this.#poll());
    if (this.#stopped) return 0;
    if (observation.kind === 'unreachable' || observation.kind === 'unbelievable') return this.#failed(observation);
    this.#failing = false;
    this.#unbelievable = false;
    this.#pace.succeeded();
    await this.#emit(observation);
    if (adapter.follower !== undefined) return this.#stopped || this.#woken ? 0 : this.#follow(adapter.follower);
    const jitter = adapter.pace.firstSpread > 0 ? this.#options.random() * POLL_JITTER : 0;
    return adapter.interval * (1 - jitter);
  }

  async #follow(follower: Follower): Promise<Ms> {
    const { clock } = this.#options;
    const began = clock.now().boot;
    let useful = false;
    const following = new Following(follower, {
      interval: this.adapter.interval,
      credentials: this.adapter.credentials,
      clock,
      after: this.#after,
      take: (delivery) => this.#take(delivery),
      useful: () => {
        useful = true;
        this.#watchFault = undefined;
      },
    });
    this.#following = following;
    const end = await following.run();
    this.#following = undefined;
    const now = clock.now().boot;
    if (now - began >= GOOD_WATCH_MS) this.#watchPace.succeeded();
    if (end.kind === 'stopped') return 0;
    if (end.kind === 'unreachable' || end.kind === 'unbelievable') return this.#failed(end);
    if (end.kind === 'broken' && !useful && this.#watchFault !== end.reason) {
      this.#watchFault = end.reason;
      this.#options.watchFailed(end.reason);
    }
    // The list before it was a good one: as long as only the watch fails, lists confirm in its place.
    return Math.min(this.#watchPace.failed(now), this.adapter.interval);
  }

  /** Passes on what a watch delivered; a failure when it cannot be believed. */
  async #take(delivery: Delivery): Promise<Failure | undefined> {
    if (delivery.kind === 'confirmed') {
      await this.#emit(delivery);
      return undefined;
    }
    const reason = this.#memory.overLimit(delivery, this.#options.limits);
    if (reason !== undefined) return { kind: 'unbelievable', reason };
    if (delivery.revision !== undefined) this.#revisions.passed(delivery.epoch, delivery.revision);
    await this.#emit(this.#memory.takeChange(this.#ofLineage(delivery)));
    return undefined;
  }

  async #failed({ kind, reason, retryAfter }: Failure): Promise<Ms> {
    const pause = this.#pace.failed(this.#options.clock.now().boot);
    this.#failing = true;
    this.#unbelievable = kind === 'unbelievable';
    await this.#emit({ kind, reason });
    if (retryAfter === undefined) return pause;
    // A source asks all hosts for the same wait: what chance adds to ours keeps them out of step.
    return kind === 'unreachable' ? retryAfter + pause : Math.max(pause, retryAfter);
  }

  async #emit(observation: Observation): Promise<void> {
    if (this.#stopped) return;
    const emitting = Promise.resolve(this.#options.emit({ ...observation, at: this.#options.clock.now().boot }));
    this.#emitting = emitting.catch(() => undefined);
    await emitting;
  }

  async #poll(): Promise<Observation | Failure> {
    const { adapter } = this;
    const fresh = this.#memory.empty || this.#refused;
    try {
      const result = await this.#flight.run(async (signal) => {
        const renewed = (await adapter.credentials?.take()) ?? [];
        if (renewed.length > 0) this.#options.renewed?.(renewed);
        return await adapter.poll({ signal, fresh });
      }, adapter.deadline);
      if (result !== LATE) return result;
      return { kind: 'unreachable', reason: `no answer within ${adapter.deadline / 1000} s` };
    } catch (error) {
      return { kind: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
    }
  }

  #judge(observation: Observation | Failure): Observation | Failure {
    if (observation.kind !== 'list') return observation;
    const reason = this.#memory.overLimit(observation, this.#options.limits);
    this.#refused = reason !== undefined;
    if (reason !== undefined) return { kind: 'unbelievable', reason };
    const { epoch, revision } = observation;
    const now = this.#options.clock.now().boot;
    const judged = revision !== undefined && this.adapter.seed === undefined;
    const regress = judged ? this.#revisions.judge(epoch, revision, now) : undefined;
    return regress === undefined
      ? this.#memory.take(this.#ofLineage(observation))
      : { kind: 'unbelievable', ...regress };
  }

  #ofLineage<T extends { readonly epoch: string }>(report: T): T {
    const { lineage } = this.#revisions;
    return this.adapter.lineage ? { ...report, epoch: epochOf(report.epoch, lineage) } : report;
  }

  #pause(ms: Ms): Promise<void> {
    const rest = this.#woken ? LEAST_PAUSE_MS : Math.max(LEAST_PAUSE_MS, ms);
    return new Promise((resolve) => {
      const end = (): void => {
        callOff();
        this.#endPause = undefined;
        resolve();
      };
      const callOff = this.#after(ms === 0 && !this.#woken ? 0 : rest, end);
      if (rest > LEAST_PAUSE_MS) this.#endPause = end;
    });
  }
}
