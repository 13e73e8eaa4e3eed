/** Results on their way to the resolver: sent in batches, the oldest dropped when it does not read. Pure. */
import type { BootMs, Ms } from '../system/clock.js';
import type { ProbeResult } from './feed.js';

/** The first result after a quiet time goes at once; those behind it wait so long at most. */
export const BATCH_MS: Ms = 50;
/** At most three bytes each, so that a line is shorter than what is read (feed.ts). */
const LINE_CHARACTERS = 128 * 1024;
/** Text that is JSON as it is. */
const PLAIN = /^[ !#-[\]-~]*$/;
/** `.000` to `.999`. */
const THOUSANDTHS = Array.from({ length: 1_000 }, (_, i) => `.${String(i).padStart(3, '0')}`);

/** Keeps results as the JSON that they are sent as. */
export class Outbox {
  #results: string[] = [];
  #sent: BootMs = Number.NEGATIVE_INFINITY;
  /** Results that were dropped unsent. */
  dropped = 0;

  /** @param bound results that are kept, at most */
  constructor(readonly bound: number) {}

  get size(): number {
    return this.#results.length;
  }

  add(result: ProbeResult): void {
    this.#results.push(written(result));
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
  next(now: BootMs): readonly string[] {
    if (this.#results.length === 0) return [];
    this.#sent = now;
    let length = 0;
    const over = this.#results.findIndex((text, i) => {
      length += text.length + 1;
      return i > 0 && length > LINE_CHARACTERS;
    });
    return this.#results.splice(0, over === -1 ? this.#results.length : over);
  }
}

/** As JSON, times to a microsecond: it takes a quarter of what JSON.stringify does. */
function written(result: ProbeResult): string {
  const { key, at, interval, took, failure, draining } = result;
  if (failure !== undefined || draining === true) return JSON.stringify(result);
  const text = PLAIN.test(key) ? `"${key}"` : JSON.stringify(key);
  return `{"key":${text},"at":${thousandths(at)},"interval":${interval},"took":${thousandths(took)}}`;
}

/** Rounded down: no result is from the future. */
function thousandths(ms: Ms): string {
  const whole = Math.floor(ms);
  return whole + THOUSANDTHS[Math.floor((ms - whole) * 1_000)]!;
}
