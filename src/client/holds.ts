/**
 * Endpoints that failed are held back for a while: tried only when nothing else is left. After that while one request
 * at a time finds out whether it is over. Pure: time is passed in.
 */
import type { Ms } from '../system/clock.js';

/** The longest that an endpoint is held back without being tried. */
export const MAX_HOLD_MS: Ms = 60_000;
/** A trial without an end by then is taken as given up. */
const TRIAL_MS: Ms = 60_000;
/** What failed so long ago counts as new. */
const FORGET_MS: Ms = 600_000;
const MAX_KEPT = 10_000;
/** Waits differ by this share either way, so that clients do not come back in step. */
const JITTER = 0.2;

interface Record {
  /** Failures in a row. */
  failures: number;
  failedAt: Ms;
  until: Ms;
  trialSince: Ms | undefined;
}

export class Holds {
  readonly #base: Ms;
  readonly #random: () => number;
  readonly #records = new Map<string, Record>();

  /** `base`: the first hold. `random` returns a number in [0, 1). */
  constructor(base: Ms, random: () => number) {
    this.#base = base;
    this.#random = random;
  }

  /** Held back, or somebody is finding out. */
  isHeld(key: string, now: Ms): boolean {
    const record = this.#records.get(key);
    if (record === undefined) return false;
    if (now < record.until) return true;
    return record.trialSince !== undefined && now - record.trialSince < TRIAL_MS;
  }

  /** It is tried: if its while is over, by this one alone. Returns whether this is such a trial. */
  tried(key: string, now: Ms): boolean {
    const record = this.#records.get(key);
    if (record === undefined || this.isHeld(key, now)) return false;
    record.trialSince = now;
    return true;
  }

  /** The trial came to no end. */
  abandoned(key: string): void {
    const record = this.#records.get(key);
    if (record !== undefined) record.trialSince = undefined;
  }

  /** A failure while it is held back does not lengthen that. */
  failed(key: string, now: Ms): void {
    const before = this.#records.get(key);
    if (before !== undefined && now < before.until) return;
    const recent = before !== undefined && now - before.failedAt < FORGET_MS;
    const failures = recent ? before.failures + 1 : 1;
    const hold = Math.min(MAX_HOLD_MS, this.#base * 2 ** Math.min(16, failures - 1));
    const until = now + hold * (1 - JITTER + 2 * JITTER * this.#random());
    this.#records.delete(key);
    this.#records.set(key, { failures, failedAt: now, until, trialSince: undefined });
    if (this.#records.size > MAX_KEPT) this.#records.delete(this.#records.keys().next().value!);
  }

  /** As far as can be seen it is well; what is held back still is not believed. */
  reached(key: string, now: Ms): void {
    const record = this.#records.get(key);
    if (record !== undefined && now >= record.until) this.#records.delete(key);
  }

  succeeded(key: string): void {
    this.#records.delete(key);
  }

  /** Keys that are held back, and for how much longer. */
  list(now: Ms): Map<string, Ms> {
    const held = [...this.#records].filter(([, { until }]) => now < until);
    return new Map(held.map(([key, { until }]) => [key, until - now]));
  }
}
