/** Which names are asked most, lately (R3). Pure: time is passed in. */
import type { BootMs, Ms } from '../system/clock.js';

/** After so long a question counts half. */
const HALF_LIFE_MS: Ms = 120_000;
/** Below this a name is forgotten. */
const LEAST = 0.05;

interface Score {
  value: number;
  at: BootMs;
}

export class Popularity {
  readonly #scores = new Map<string, Score>();

  /** The name was asked, however often, since it was last told. */
  ask(name: string, now: BootMs): void {
    const score = this.#scores.get(name);
    if (score === undefined) this.#scores.set(name, { value: 1, at: now });
    else {
      score.value = valueAt(score, now) + 1;
      score.at = now;
    }
  }

  forget(name: string): void {
    this.#scores.delete(name);
  }

  /** The names that are asked most, the first first. */
  most(count: number, now: BootMs): string[] {
    const found: { readonly name: string; readonly value: number }[] = [];
    for (const [name, score] of this.#scores) {
      const value = valueAt(score, now);
      if (value < LEAST) this.#scores.delete(name);
      else found.push({ name, value });
    }
    found.sort((a, b) => b.value - a.value || (a.name < b.name ? -1 : 1));
    return found.slice(0, count).map(({ name }) => name);
  }
}

function valueAt({ value, at }: Score, now: BootMs): number {
  return value * 0.5 ** ((now - at) / HALF_LIFE_MS);
}
