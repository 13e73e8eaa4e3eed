import { setImmediate as immediate } from 'node:timers/promises';
import type { After } from '../src/registry/timers.js';

/** Time that moves only when it is told to: a clock and its timers. */
export class FakeTime {
  now = 1000;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();
  readonly after: After = (ms, run) => {
    const timer = { at: this.now + ms, run };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };
  readonly clock = { now: () => ({ boot: this.now, wall: 0 }) };

  /** Lets everything happen that is due within `ms`. */
  async pass(ms: number): Promise<void> {
    const until = this.now + ms;
    for (;;) {
      // Promises that hang on one another settle in these turns.
      for (let turn = 0; turn < 5; turn++) await immediate();
      const due = [...this.#timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.now = Math.max(this.now, due.at);
      this.#timers.delete(due);
      due.run();
    }
    this.now = until;
  }
}
