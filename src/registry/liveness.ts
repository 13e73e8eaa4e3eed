/** R2 for a source that is watched: when it has to be asked whether the watch is still worth something. Pure. */
import type { BootMs, Ms } from '../system/clock.js';

export class Liveness {
  readonly #interval: Ms;
  #due: BootMs;
  /** Since when the source is known to be ahead of what the watch delivered. */
  #behind: BootMs | undefined;

  /** @param interval between two reads: half of `softTtl` */
  constructor(interval: Ms, now: BootMs) {
    this.#interval = interval;
    this.#due = now + interval;
  }

  /** When the next liveness read is due. */
  get due(): BootMs {
    return this.#due;
  }

  /** An event, a progress notice, or a read that found the watch up to date. */
  confirmed(now: BootMs): void {
    this.#due = now + this.#interval;
    this.#behind = undefined;
  }

  /**
   * A read found the source ahead of the watch. True when the watch had a whole interval to deliver and did not:
   * counted from the change itself that is within `softTtl`.
   */
  behind(now: BootMs): boolean {
    this.#behind ??= now;
    this.#due = now + this.#interval;
    return now - this.#behind >= this.#interval;
  }
}
