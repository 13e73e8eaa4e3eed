import type { BootMs } from '../system/clock.js';
import type { HeardMs } from './row.js';

/** The clock of the guard: it runs while the registry is heard and stands otherwise; it never goes back (R4). */
export class HeardClock {
  #total: HeardMs = 0;
  #runningSince: BootMs | undefined;

  /** Goes on from where it stood before a restart. */
  restore(total: HeardMs): void {
    this.#total = total;
  }

  get running(): boolean {
    return this.#runningSince !== undefined;
  }

  at(now: BootMs): HeardMs {
    return this.#total + (this.#runningSince === undefined ? 0 : Math.max(0, now - this.#runningSince));
  }

  run(now: BootMs): void {
    this.#runningSince ??= now;
  }

  stop(now: BootMs): void {
    this.#total = this.at(now);
    this.#runningSince = undefined;
  }

  /** The boot time at which the clock will show `heard`, were it to run on; Infinity while it stands. */
  bootAt(heard: HeardMs, now: BootMs): BootMs {
    return this.#runningSince === undefined ? Number.POSITIVE_INFINITY : now + (heard - this.at(now));
  }
}
