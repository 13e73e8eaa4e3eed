/** The loop that all adapters share: when to ask, how long to wait, what to pass on (R2, R3, R6). */
import type { LimitsConfig } from '../config/types.js';
import type { Clock, Ms } from '../system/clock.js';
import { type BackoffLimits, nextBackoff } from './backoff.js';
import { ListMemory } from './list-memory.js';
import { LATE, OneFlight } from './one-flight.js';
import type { Report } from './registry.js';

type WithoutTime<T> = T extends unknown ? Omit<T, 'at'> : never;
/** A report before the loop has put the time to it. */
export type Observation = WithoutTime<Report>;

/** What a poll is told. */
export interface PollContext {
  /** Aborted when the loop no longer waits. */
  readonly signal: AbortSignal;
  /** True when the caller has no list: `confirmed` and `change` would tell it nothing. */
  readonly fresh: boolean;
}

/**
 * A source of lists. An adapter asks once a `poll` and reports; the loop owns time: pauses, back-off, deadlines.
 * A poll may wait inside for news (a blocking query) as long as `deadline` allows for it.
 */
export interface Adapter {
  /** See `identity.ts`. */
  readonly identity: string;
  /** From one good poll to the next. At most `softTtl / 2`, so that each confirms in time (R2). */
  readonly interval: Ms;
  /** A poll that takes longer counts as `unreachable`. */
  readonly deadline: Ms;
  /** Waits after failures. */
  readonly backoff: BackoffLimits;
  /** After a restart with a snapshot the first poll is spread over so long (R3); 0 for what is on this host. */
  readonly firstSpread: Ms;
  /** Expected failures are observations. A rejection is taken as `unreachable`. */
  poll(context: PollContext): Promise<Observation>;
  /** Called once: `wake` asks for a poll before its time, `failed` tells why there is no such help. */
  watch?(wake: () => void, failed: (reason: string) => void): void;
  /** Ends the watch. Polls may still be under way. */
  close(): void;
}

export interface SyncLoopOptions {
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly limits: LimitsConfig;
  /** Takes a report; the loop goes on when it is done. */
  readonly emit: (report: Report) => Promise<void> | void;
  readonly watchFailed: (reason: string) => void;
}

/** However often it is woken. */
const LEAST_PAUSE_MS: Ms = 20;

export class SyncLoop {
  readonly adapter: Adapter;
  readonly #options: SyncLoopOptions;
  readonly #flight = new OneFlight();
  readonly #memory = new ListMemory();
  #stopped = false;
  #woken = false;
  #endPause: (() => void) | undefined;

  constructor(adapter: Adapter, options: SyncLoopOptions) {
    this.adapter = adapter;
    this.#options = options;
  }

  /** @param restored true when the zone already answers from a snapshot: the first poll may wait (R3) */
  start(restored: boolean): void {
    this.adapter.watch?.(() => this.wake(), this.#options.watchFailed);
    void this.#run(restored ? this.#options.random() * this.adapter.firstSpread : 0);
  }

  /** Polls now, or once more after the poll that is under way. */
  wake(): void {
    this.#woken = true;
    this.#endPause?.();
  }

  /** R30: the next good report is a whole list again. */
  relist(): void {
    this.#memory.forget();
    this.wake();
  }

  stop(): void {
    this.#stopped = true;
    this.adapter.close();
    this.#endPause?.();
  }

  async #run(first: Ms): Promise<void> {
    let failures: Ms | undefined;
    let pause = first;
    while (!this.#stopped) {
      await this.#pause(pause);
      if (this.#stopped) return;
      this.#woken = false;
      const observation = this.#judge(await this.#poll());
      if (this.#stopped) return;
      const failed = observation.kind === 'unreachable' || observation.kind === 'unbelievable';
      failures = failed ? nextBackoff(failures, this.adapter.backoff, this.#options.random) : undefined;
      pause = failures ?? this.adapter.interval;
      await this.#options.emit({ ...observation, at: this.#options.clock.now().boot });
    }
  }

  async #poll(): Promise<Observation> {
    const { adapter } = this;
    const fresh = this.#memory.empty;
    try {
      const result = await this.#flight.run((signal) => adapter.poll({ signal, fresh }), adapter.deadline);
      if (result !== LATE) return result;
      return { kind: 'unreachable', reason: `no answer within ${adapter.deadline / 1000} s` };
    } catch (error) {
      return { kind: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
    }
  }

  #judge(observation: Observation): Observation {
    if (observation.kind !== 'list') return observation;
    const reason = overLimit(observation, this.#options.limits);
    return reason === undefined ? this.#memory.take(observation) : { kind: 'unbelievable', reason };
  }

  #pause(ms: Ms): Promise<void> {
    const rest = this.#woken ? LEAST_PAUSE_MS : Math.max(LEAST_PAUSE_MS, ms);
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#endPause = undefined;
        resolve();
      };
      const timer = setTimeout(end, ms === 0 ? 0 : rest);
      if (rest > LEAST_PAUSE_MS) this.#endPause = end;
    });
  }
}

/** R6: why a list is over the zone's limits, undefined when it is not. */
function overLimit(list: Extract<Observation, { kind: 'list' }>, limits: LimitsConfig): string | undefined {
  if (list.services.length > limits.maxServices) {
    return `${list.services.length} services, more than limits.maxServices (${limits.maxServices})`;
  }
  let rows = 0;
  for (const listing of list.services) {
    rows += listing.rows.length;
    if (listing.rows.length > limits.maxEndpointsPerService) {
      const most = `limits.maxEndpointsPerService (${limits.maxEndpointsPerService})`;
      return `service "${listing.name}" has ${listing.rows.length} endpoints, more than ${most}`;
    }
  }
  if (rows <= limits.maxEndpoints) return undefined;
  return `${rows} endpoints, more than limits.maxEndpoints (${limits.maxEndpoints})`;
}
