/**
 * Keeps one registration as it is wanted. Level-triggered: each period what is wanted is compared with what the
 * registry holds, whatever happened before. It tries for ever, and never faster than its back-off allows.
 */

import type { Failure } from '../registry/adapter.js';
import { type BackoffLimits, nextBackoff } from '../registry/backoff.js';
import { LATE, OneFlight } from '../registry/one-flight.js';
import { type After, after as realAfter } from '../registry/timers.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Entry } from './entry.js';
import { type Gone, isFailure, type Kept, type Target } from './target.js';

export type KeeperState =
  /** Nothing is wanted, and nothing of ours is there. */
  | { readonly kind: 'absent' }
  /** Wanted, and not acknowledged for a TTL or ever. */
  | { readonly kind: 'trying'; readonly reason?: string }
  /** The registry has acknowledged it within the last period. `wrote`: it was not there before. */
  | { readonly kind: 'registered'; readonly wrote: boolean }
  /** Acknowledged within the TTL; the tries since then failed. */
  | { readonly kind: 'unconfirmed'; readonly reason: string }
  /** A younger registrar has the id. */
  | { readonly kind: 'taken'; readonly by: string }
  /** Not wanted any more, and perhaps still there. */
  | { readonly kind: 'leaving'; readonly reason?: string };

export interface KeeperOptions {
  readonly target: Target;
  readonly ttl: Ms;
  readonly period: Ms;
  /** Told when the state or its reason changes, and each time that something had to be written. */
  readonly onState: (state: KeeperState) => void;
  readonly now: () => BootMs;
  /** For tests. */
  readonly after?: After;
  /** In [0, 1). */
  readonly random?: () => number;
}

const LEAST_WAIT_MS: Ms = 500;
const MAX_DEADLINE_MS: Ms = 10_000;
/** Of a period: a call that hangs, and the wait after it, are over within one. */
const CALL_SHARE = 3 / 4;
const WAIT_SHARE = 1 / 8;
/** The part of a period that is left to chance, so that the hosts of a fleet do not ask in step. */
const PLAY = 0.2;

export class Keeper {
  readonly #options: KeeperOptions;
  readonly #after: After;
  readonly #random: () => number;
  readonly #limits: BackoffLimits;
  readonly #deadline: Ms;
  readonly #flight: OneFlight;
  #wanted: Entry | undefined;
  /** Something was asked for that may have been done, acknowledged or not. */
  #mayHold = false;
  #acknowledged: BootMs | undefined;
  #backoff: Ms | undefined;
  #state: KeeperState = { kind: 'absent' };
  #abort: AbortController | undefined;
  #again = false;
  #callOff: (() => void) | undefined;
  #stopped = false;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.#after = options.after ?? realAfter;
    this.#random = options.random ?? Math.random;
    const base = Math.min(LEAST_WAIT_MS, options.period * WAIT_SHARE);
    this.#limits = { base, cap: options.period * CALL_SHARE };
    this.#deadline = Math.min(MAX_DEADLINE_MS, options.period * CALL_SHARE);
    this.#flight = new OneFlight(this.#after);
  }

  get state(): KeeperState {
    return this.#state;
  }

  /** What the registry is to hold from now on; undefined: nothing. */
  want(entry: Entry | undefined): void {
    if (this.#stopped || sameEntry(entry, this.#wanted)) return;
    this.#wanted = entry;
    if (entry === undefined && this.#mayHold) this.#become({ kind: 'leaving' });
    if (entry !== undefined && this.#acknowledged === undefined) this.#become({ kind: 'trying' });
    this.nudge();
  }

  /** Compares at once: something has changed, or the clocks say that much time has passed unseen. */
  nudge(): void {
    if (this.#stopped) return;
    this.#callOff?.();
    this.#again = true;
    if (this.#abort === undefined) void this.#rounds();
    else this.#abort.abort();
  }

  /** Ends, and leaves what is there to somebody who has taken it over. */
  abandon(): void {
    this.#stopped = true;
    this.#callOff?.();
    this.#abort?.abort();
  }

  /** Removes what may be there, within `bound`. False: it could not be, and is left to its TTL. Never rejects. */
  async stop(bound: Ms): Promise<boolean> {
    this.abandon();
    if (!this.#mayHold) return true;
    const until = this.#options.now() + bound;
    let wait: Ms | undefined;
    for (;;) {
      const left = until - this.#options.now();
      if (left <= 0) return false;
      const result = await this.#ask(new AbortController(), (signal) => this.#options.target.remove(signal), left);
      if (result.kind === 'gone') {
        this.#become({ kind: 'absent' });
        return true;
      }
      if (isFailure(result)) this.#become({ kind: 'leaving', reason: result.reason });
      const pause = (wait = nextBackoff(wait, { base: 100, cap: 1000 }, this.#random));
      const rest = Math.max(0, until - this.#options.now());
      await new Promise<void>((done) => this.#after(Math.min(pause, rest), done));
    }
  }

  async #rounds(): Promise<void> {
    while (this.#again && !this.#stopped) {
      this.#again = false;
      const wanted = this.#wanted;
      const abort = new AbortController();
      this.#abort = abort;
      const began = this.#options.now();
      const result = await this.#round(wanted, abort);
      this.#abort = undefined;
      // What was aborted because something else is wanted now tells nothing.
      if (this.#again || this.#stopped) continue;
      const wait = this.#judge(wanted, result, this.#options.now() - began);
      if (wait !== undefined) this.#callOff = this.#after(wait, () => this.nudge());
    }
  }

  #round(wanted: Entry | undefined, abort: AbortController): Promise<Kept | Gone | Failure> {
    const { target } = this.#options;
    if (wanted !== undefined) {
      this.#mayHold = true;
      return this.#ask(abort, (signal) => target.keep(wanted, signal), this.#deadline);
    }
    return this.#mayHold ? this.#ask(abort, (signal) => target.remove(signal), this.#deadline) : Promise.resolve(GONE);
  }

  /** One call, waited for at most `deadline`. */
  async #ask<T extends Kept | Gone>(
    abort: AbortController,
    call: (signal: AbortSignal) => Promise<T | Failure>,
    deadline: Ms,
  ): Promise<T | Failure> {
    try {
      const result = await this.#flight.run((late) => {
        late.addEventListener('abort', () => abort.abort(), { once: true });
        // It may have waited for a call that hung, and not be wanted any more.
        return abort.signal.aborted ? Promise.resolve(CALLED_OFF) : call(abort.signal);
      }, deadline);
      return result === LATE ? { kind: 'unreachable', reason: `no answer within ${deadline / 1000} s` } : result;
    } catch (error) {
      return { kind: 'unreachable', reason: error instanceof Error ? error.message : String(error) };
    }
  }

  /** What a round has shown that took so long. Returns the wait to the next one; undefined: there is nothing to do. */
  #judge(wanted: Entry | undefined, result: Kept | Gone | Failure, took: Ms): Ms | undefined {
    const { ttl, period, now } = this.#options;
    if (isFailure(result)) {
      const { reason, retryAfter = 0 } = result;
      const lapsed = this.#acknowledged === undefined || now() - this.#acknowledged >= ttl;
      if (wanted === undefined) this.#become({ kind: 'leaving', reason });
      else this.#become(lapsed ? { kind: 'trying', reason } : { kind: 'unconfirmed', reason });
      this.#backoff = nextBackoff(this.#backoff, this.#limits, this.#random);
      return Math.max(this.#limits.base, this.#backoff - took, Math.min(retryAfter, period));
    }
    this.#backoff = undefined;
    if (result.kind === 'gone') {
      this.#mayHold = false;
      this.#acknowledged = undefined;
      this.#become({ kind: 'absent' });
      return undefined;
    }
    if (result.kind === 'taken') {
      this.#acknowledged = undefined;
      this.#become({ kind: 'taken', by: result.by });
    } else {
      this.#acknowledged = now();
      this.#become({ kind: 'registered', wrote: result.wrote });
    }
    return period * (1 - PLAY * this.#random());
  }

  #become(state: KeeperState): void {
    const news =
      state.kind !== this.#state.kind ||
      (state.kind === 'registered' ? state.wrote : reasonOf(state) !== reasonOf(this.#state));
    this.#state = state;
    if (news) this.#options.onState(state);
  }
}

const GONE: Gone = { kind: 'gone' };
const CALLED_OFF: Failure = { kind: 'unreachable', reason: 'called off' };

function reasonOf(state: KeeperState): string | undefined {
  return 'reason' in state ? state.reason : undefined;
}

function sameEntry(a: Entry | undefined, b: Entry | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
