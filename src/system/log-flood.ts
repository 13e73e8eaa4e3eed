/** Keeps a log readable in an outage: of the same event a few lines a minute, then how many there were. */
import type { BootMs, Ms } from './clock.js';

export const LINES_PER_MINUTE = 10;
const MINUTE_MS: Ms = 60_000;
/** More different events than this within a minute are not told apart any more. */
const MAX_KEYS = 1000;

export interface Suppressed {
  readonly key: string;
  readonly count: number;
}

/** Pure bookkeeping; the time is passed in. */
export class FloodGate {
  readonly #seen = new Map<string, { since: BootMs; count: number }>();

  /** Whether a line of this event may be written now. */
  admit(key: string, now: BootMs): boolean {
    let entry = this.#seen.get(key);
    if (!entry) {
      if (this.#seen.size >= MAX_KEYS) return false;
      this.#seen.set(key, (entry = { since: now, count: 0 }));
    }
    return ++entry.count <= LINES_PER_MINUTE;
  }

  /** Whether anything is waiting for its minute to end. */
  get pending(): boolean {
    return this.#seen.size > 0;
  }

  /** Ends the minutes that are over, and says what was left out in them. */
  collect(now: BootMs): Suppressed[] {
    const suppressed: Suppressed[] = [];
    for (const [key, { since, count }] of this.#seen) {
      if (now - since < MINUTE_MS) continue;
      this.#seen.delete(key);
      if (count > LINES_PER_MINUTE) suppressed.push({ key, count: count - LINES_PER_MINUTE });
    }
    return suppressed;
  }
}
