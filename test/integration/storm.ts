/** Counts what a source is asked: never more than 50 requests begin within a second, whatever breaks. */
import assert from 'node:assert/strict';

const MOST = 50;
const SECOND_MS = 1_000;
/** Two clocks are in it: what was begun within a second may arrive within a little less. */
const SLACK = 1.2;

export class StormWatch {
  readonly #times: number[] = [];

  count(): void {
    this.#times.push(performance.now());
  }

  /** The most that came within one second. */
  get busiest(): number {
    let most = 0;
    let from = 0;
    for (const [at, time] of this.#times.entries()) {
      while (this.#times[from]! <= time - SECOND_MS) from++;
      most = Math.max(most, at - from + 1);
    }
    return most;
  }

  /** @param askers zones that asked here */
  check(askers = 1): void {
    assert.ok(this.busiest <= askers * MOST * SLACK, `a storm: ${this.busiest} requests in a second`);
  }
}
