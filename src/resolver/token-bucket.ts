/** So much at once, and after that one each time. Pure: time is passed in. */
import type { BootMs, Ms } from '../system/clock.js';

export class TokenBucket {
  readonly #gap: Ms;
  readonly #burst: number;
  #tokens: number;
  #at: BootMs | undefined;

  /** @param gap from one token to the next */
  constructor(gap: Ms, burst: number) {
    this.#gap = gap;
    this.#burst = burst;
    this.#tokens = burst;
  }

  /** Whether there was one. */
  take(now: BootMs): boolean {
    this.#tokens = Math.min(this.#burst, this.#tokens + Math.max(0, now - (this.#at ?? now)) / this.#gap);
    this.#at = now;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
