/** Which services are read at once while it is looked for what changed, and how often. Pure: time is passed in. */
import type { Ms } from '../system/clock.js';

const EVERY_MS: Ms = 1_000;
/** So many of those that were asked when it began, and then one each time: what finds it in any case has its turn. */
const AT_FIRST = 4;
const MOST = 16;

export class SeekPace {
  #at: Ms = Number.NEGATIVE_INFINITY;
  readonly #picked = new Set<string>();

  /** False where the last one began just now. */
  begin(now: Ms): boolean {
    if (now - this.#at < EVERY_MS) return false;
    this.#at = now;
    this.#picked.clear();
    return true;
  }

  /** Of these names those that are to be read, each once. */
  pick(names: readonly string[]): string[] {
    const most = Math.min(MOST, this.#picked.size === 0 ? AT_FIRST : this.#picked.size + 1);
    const picked: string[] = [];
    for (const name of names) {
      if (this.#picked.size >= most) break;
      if (this.#picked.has(name)) continue;
      this.#picked.add(name);
      picked.push(name);
    }
    return picked;
  }
}
