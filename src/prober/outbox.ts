/** Results on their way to the resolver: sent in batches, the oldest dropped when it does not read. Pure. */
import type { BootMs, Ms } from '../system/clock.js';
import type { ProbeResult } from './feed.js';
import { fitLine } from './lines.js';

/** The first result after a quiet time goes at once; those behind it wait so long at most. */
export const BATCH_MS: Ms = 50;
const LINE_BYTES = 128 * 1024;

export class Outbox {
  #results: ProbeResult[] = [];
  #sent: BootMs = Number.NEGATIVE_INFINITY;
  /** Results that were dropped unsent. */
  dropped = 0;

  /** @param bound results that are kept, at most */
  constructor(readonly bound: number) {}

  get size(): number {
    return this.#results.length;
  }

  add(result: ProbeResult): void {
    this.#results.push(result);
    // Cut in large steps: shifting an array of this size for each result would cost more than a probe.
    if (this.#results.length <= this.bound * 1.25) return;
    const over = this.#results.length - this.bound;
    this.#results.splice(0, over);
    this.dropped += over;
  }

  /** How long to wait before the next line may go. */
  wait(now: BootMs): Ms {
    return Math.max(0, this.#sent + BATCH_MS - now);
  }

  /** The next results, as many as one line takes; none when there are none. */
  next(now: BootMs): readonly ProbeResult[] {
    if (this.#results.length === 0) return [];
    this.#sent = now;
    return this.#results.splice(0, fitLine(this.#results, 0, LINE_BYTES));
  }
}
