/** How long a source is left alone after a failure (R3). Pure: time and chance are passed in. */
import type { BootMs, Ms } from '../system/clock.js';
import { type BackoffLimits, nextBackoff } from './backoff.js';

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

  /**
   * @param spread the widest window over which reads are spread after an outage; 0: the limits alone count
   * @param random in [0, 1)
   */
  constructor(limits: BackoffLimits, spread: Ms, random: () => number) {
    this.#limits = limits;
    this.#spread = spread;
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
