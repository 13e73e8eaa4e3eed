/**
 * The services that are asked most, each watched by itself (R3): whatever happens to one of them is known at once, in
 * however large a catalog, and where nothing else would say which one it was.
 */
import type { Ms } from '../system/clock.js';
import { sleep } from './consul-watch.js';

/** One that could not be watched is tried again after so long. */
const RETRY_MS: Ms = 30_000;

export class HotWatches {
  readonly #running = new Map<string, AbortController>();
  readonly #watch: (name: string, signal: AbortSignal) => Promise<unknown>;

  /** @param watch goes on until `signal`, or until something is wrong */
  constructor(watch: (name: string, signal: AbortSignal) => Promise<unknown>) {
    this.#watch = watch;
  }

  has(name: string): boolean {
    return this.#running.has(name);
  }

  /** These from now on, and no others. */
  set(names: readonly string[]): void {
    const wanted = new Set(names);
    for (const [name, abort] of this.#running) {
      if (wanted.has(name)) continue;
      this.#running.delete(name);
      abort.abort();
    }
    for (const name of wanted) {
      if (this.#running.has(name)) continue;
      const abort = new AbortController();
      this.#running.set(name, abort);
      void this.#keep(name, abort.signal);
    }
  }

  async #keep(name: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#watch(name, signal);
      await sleep(RETRY_MS, signal);
    }
  }
}
