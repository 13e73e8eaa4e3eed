/** How long a source is left alone after a failure (R3). Pure: time and chance are passed in. */
import type { BootMs, Ms } from '../system/clock.js';
import { type BackoffLimits, nextBackoff } from './backoff.js';

/** How a source is spared (R3). */
export interface SourcePace {
  /** Waits after failures. */
  readonly backoff: BackoffLimits;
  /** After a restart with a snapshot the first poll is spread over so long; 0 for what is on this host. */
  readonly firstSpread: Ms;
  /** After a long outage polls are spread over so long; 0 for what is on this host. */
  readonly recoverySpread: Ms;
}

/** Of what many hosts ask. */
export const SHARED_PACE: SourcePace = {
  backoff: { base: 500, cap: 60_000 },
  firstSpread: 10_000,
  recoverySpread: 60_000,
};

/** After an outage the reads of all hosts are spread over this part of its length, within bounds. */
const SPREAD_SHARE = 1 / 5;

/**
 * R3: decorrelated jitter a source, under a cap that grows with the outage: after a short one everybody is soon back,
 * after a long one the reads of a fleet arrive over a minute.
 */
export class Pace {
  readonly #limits: BackoffLimits;
  readonly #spread: Ms;
  readonly #random: () => number;
  #since: BootMs | undefined;
  #previous: Ms | undefined;

  /** @param random in [0, 1) */
  constructor({ backoff, recoverySpread }: Omit<SourcePace, 'firstSpread'>, random: () => number) {
    this.#limits = backoff;
    this.#spread = recoverySpread;
    this.#random = random;
  }

  /** The wait after one more failure. */
  failed(now: BootMs): Ms {
    this.#since ??= now;
    this.#previous = nextBackoff(this.#previous, this.#current(now - this.#since), this.#random);
    return this.#previous;
  }

  succeeded(): void {
    this.#since = undefined;
    this.#previous = undefined;
  }

  #current(outage: Ms): BackoffLimits {
    if (this.#spread === 0) return this.#limits;
    const { base, cap } = this.#limits;
    // Below three times the base there would be no room for jitter.
    const window = Math.max(3 * base, Math.min(this.#spread, outage * SPREAD_SHARE));
    return { base, cap: Math.min(cap, window) };
  }
}
