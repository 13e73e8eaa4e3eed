/** One key's verdict, and how it is judged. */
import { VerdictStore } from '../src/health/verdicts.js';
import type { FailureKind } from '../src/prober/feed.js';

export const INTERVAL = 5_000;
export const SETTINGS = { rise: 2, fall: 3, longDead: 600_000 };

/** One key, probed each 5 s. */
export class Probed {
  at = 0;

  constructor(
    readonly key = '10.0.0.1',
    readonly store = new VerdictStore({
      address: (key) => key,
      interval: () => INTERVAL,
      services: (key) => [key],
      disowned: () => false,
    }),
  ) {}

  say(times: number, failure?: FailureKind, fresh = false): void {
    for (let n = 0; n < times; n++) {
      this.at += INTERVAL;
      const result = { key: this.key, at: this.at, interval: INTERVAL, took: 1 };
      this.store.apply(failure === undefined ? result : { ...result, failure }, SETTINGS, () => fresh, this.at);
    }
  }

  /** How many passes in a row bring it back. */
  passesUntilBack(): number {
    for (let n = 1; ; n++) {
      this.say(1);
      if (this.column === 'passes') return n;
    }
  }

  get column(): string {
    return this.store.get(this.key).column;
  }
}
