/**
 * Whether a prober that lives probes what it was told to. One that hangs in part, or of another version, says that it
 * is alive all the same, and what it says nothing of is answered, dead or not (R14). Pure.
 */
import type { BootMs, Ms } from '../system/clock.js';

/** So long at a time is compared: what was handed out just now has not arrived everywhere. */
const WINDOW_MS: Ms = 10_000;
/** It speaks once a second. After a longer silence, of it, of us or of the machine, all is looked at anew. */
const SILENT_MS: Ms = 3_500;
/** Without a single result for so many of the shortest interval nothing is probed. */
const IDLE_INTERVALS = 3;

export class ProberCoverage {
  #began: BootMs;
  #lastResult: BootMs;
  #lastWord: BootMs;
  /** The shortest interval as the last window ended, where it was quiet: what became shorter since may not have come yet. */
  #shortest: Ms = Number.POSITIVE_INFINITY;
  /** In this window: the fewest that it had, and the most that it said to have. */
  #fewest = Number.POSITIVE_INFINITY;
  #most = 0;
  /** Targets that it does not probe, as of the last window. */
  unprobed = 0;

  constructor(now: BootMs) {
    this.#began = now;
    this.#lastResult = now;
    this.#lastWord = now;
  }

  /** Results have come. */
  heard(now: BootMs): void {
    this.#lastResult = now;
  }

  /**
   * With each word of it.
   * @param handed targets that were handed out
   * @param said how many it says to have
   * @param interval the shortest at which one is probed, as it is really kept
   */
  note(handed: number, said: number, interval: () => Ms, now: BootMs): void {
    const wasSilent = now - this.#lastWord > SILENT_MS;
    this.#lastWord = now;
    if (wasSilent) this.#restart(now);
    if (wasSilent || handed === 0) this.#lastResult = now;
    this.#fewest = Math.min(this.#fewest, handed);
    this.#most = Math.max(this.#most, said);
    if (now - this.#began < WINDOW_MS) return;
    const quiet = now - this.#lastResult;
    const shortest = quiet > WINDOW_MS ? interval() : Number.POSITIVE_INFINITY;
    const isIdle = quiet > IDLE_INTERVALS * Math.max(shortest, this.#shortest);
    this.#shortest = shortest;
    this.unprobed = isIdle ? this.#fewest : Math.max(0, this.#fewest - this.#most);
    this.#restart(now);
  }

  #restart(now: BootMs): void {
    this.#began = now;
    this.#fewest = Number.POSITIVE_INFINITY;
    this.#most = 0;
  }
}
