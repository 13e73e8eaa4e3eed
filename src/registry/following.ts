/** One watch from its beginning to its end: passes deliveries on, and asks whether it still lives (R2). */
import type { Clock, Ms } from '../system/clock.js';
import type { Credentials, Delivery, Failure, Follower, Presence } from './adapter.js';
import { ChangeBatch } from './change-batch.js';
import { Liveness } from './liveness.js';
import { LATE, OneFlight } from './one-flight.js';
import type { After } from './timers.js';

export interface FollowingOptions {
  /** From one confirmation to the next liveness read, and from one look at the credentials to the next. */
  readonly interval: Ms;
  /** What the watch begins with. */
  readonly credentials: Credentials | undefined;
  readonly clock: Clock;
  readonly after: After;
  /** Passes a delivery on; a failure when it cannot be believed. */
  readonly take: (delivery: Delivery) => Promise<Failure | undefined>;
  /** Something was confirmed: the watch is worth something. */
  readonly useful: () => void;
}

export type FollowingEnd =
  | { readonly kind: 'stopped' }
  /** The watch is of no use any more. The source may be well. */
  | { readonly kind: 'broken'; readonly reason: string }
  /** Nothing is wrong with the watch, but the source has to be read anew. */
  | { readonly kind: 'lost' }
  | Failure;

export class Following {
  readonly #follower: Follower;
  readonly #options: FollowingOptions;
  readonly #abort = new AbortController();
  readonly #flight: OneFlight;
  readonly #liveness: Liveness;
  readonly #batch = new ChangeBatch();
  /** A notice came that confirms without a change. */
  #confirmed = false;
  #asking = false;
  #presence: Presence | undefined;
  #end: FollowingEnd | undefined;
  #nudge: (() => void) | undefined;
  #endLooking: () => void = () => undefined;

  constructor(follower: Follower, options: FollowingOptions) {
    this.#follower = follower;
    this.#options = options;
    this.#flight = new OneFlight(options.after);
    this.#liveness = new Liveness(options.interval, options.clock.now().boot);
  }

  stop(): void {
    this.#finish({ kind: 'stopped' });
  }

  async run(): Promise<FollowingEnd> {
    const ended = (reason: string): void => this.#finish({ kind: 'broken', reason });
    this.#follower
      .follow(this.#abort.signal, (delivery) => this.#deliver(delivery))
      .then(ended, (error) => ended(error instanceof Error ? error.message : String(error)));
    this.#lookAtCredentials();
    while (this.#end === undefined) {
      await this.#rest();
      if (this.#end === undefined) await this.#passOn();
      if (this.#end === undefined) await this.#lookAfter();
    }
    this.#abort.abort();
    return this.#end;
  }

  #deliver(delivery: Delivery): void {
    if (this.#end !== undefined) return;
    const now = this.#options.clock.now().boot;
    if (!this.#follower.severalWatches) this.#liveness.confirmed(now);
    this.#options.useful();
    if (delivery.kind === 'change') this.#batch.add(delivery, now);
    else this.#confirmed = true;
    this.#nudge?.();
  }

  async #passOn(): Promise<void> {
    const now = this.#options.clock.now().boot;
    if (this.#batch.due <= now) {
      const change = this.#batch.take(now);
      this.#confirmed = false;
      const failure = change && (await this.#options.take(change));
      if (failure !== undefined) this.#finish(failure);
    } else if (this.#confirmed && this.#batch.due === Number.POSITIVE_INFINITY) {
      this.#confirmed = false;
      await this.#options.take({ kind: 'confirmed' });
    }
  }

  async #lookAfter(): Promise<void> {
    const presence = this.#presence;
    this.#presence = undefined;
    const now = this.#options.clock.now().boot;
    if (presence === undefined) {
      if (!this.#asking && now >= this.#liveness.due) void this.#ask();
    } else if (presence.kind === 'same') {
      this.#liveness.confirmed(now);
      this.#options.useful();
      await this.#options.take({ kind: 'confirmed' });
    } else if (presence.kind === 'later') this.#liveness.behind(now);
    else if (presence.kind === 'behind') {
      if (this.#liveness.behind(now)) {
        this.#finish({ kind: 'broken', reason: 'the watch does not deliver what the registry has' });
      }
    } else if (presence.kind === 'lost') this.#finish({ kind: 'lost' });
    else this.#finish(presence);
  }

  async #ask(): Promise<void> {
    const deadline = this.#follower.presenceDeadline;
    this.#asking = true;
    try {
      const presence = await this.#flight.run((signal) => this.#follower.present(signal), deadline);
      this.#presence =
        presence === LATE ? { kind: 'unreachable', reason: `no answer within ${deadline / 1000} s` } : presence;
    } catch (error) {
      this.#presence = { kind: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
    }
    this.#asking = false;
    this.#nudge?.();
  }

  /** Whatever is delivered: a watch shows what could be seen with what it began with. */
  #lookAtCredentials(): void {
    const { credentials, interval, after } = this.#options;
    if (credentials === undefined || this.#end !== undefined) return;
    this.#endLooking = after(interval, () => {
      void credentials.replaced().then((replaced) => {
        if (replaced) this.#finish({ kind: 'lost' });
        else this.#lookAtCredentials();
      });
    });
  }

  /** Until something is due. */
  #rest(): Promise<void> {
    if (this.#presence !== undefined || (this.#confirmed && this.#batch.due === Number.POSITIVE_INFINITY)) {
      return Promise.resolve();
    }
    const due = Math.min(this.#batch.due, this.#asking ? Number.POSITIVE_INFINITY : this.#liveness.due);
    return new Promise((resolve) => {
      const end = (): void => {
        callOff();
        this.#nudge = undefined;
        resolve();
      };
      const wait = Math.max(0, due - this.#options.clock.now().boot);
      const callOff = due === Number.POSITIVE_INFINITY ? () => undefined : this.#options.after(Math.ceil(wait), end);
      this.#nudge = end;
    });
  }

  #finish(end: FollowingEnd): void {
    this.#end ??= end;
    this.#endLooking();
    this.#abort.abort();
    this.#nudge?.();
  }
}
