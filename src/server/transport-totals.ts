/** Sums of the transport counters of all threads, beyond the 32 bits of a thread's own words. */
import { TRANSPORT_COUNTERS, type TransportCounter } from './messages.js';

export type TransportTotals = Readonly<Record<TransportCounter, number>>;

export class TransportTotalizer {
  readonly #last = new Map<Uint32Array, Uint32Array>();
  readonly #totals = TRANSPORT_COUNTERS.map(() => 0);

  /** Adds what came since the last reading, which has to be less than 2^32 a word. */
  read(threads: Iterable<Uint32Array>): TransportTotals {
    for (const words of threads) {
      const last = this.#last.get(words);
      const now = words.slice();
      this.#totals.forEach((total, i) => {
        this.#totals[i] = total + ((now[i]! - (last?.[i] ?? 0)) >>> 0);
      });
      this.#last.set(words, now);
    }
    return Object.fromEntries(TRANSPORT_COUNTERS.map((name, i) => [name, this.#totals[i]!])) as TransportTotals;
  }
}
