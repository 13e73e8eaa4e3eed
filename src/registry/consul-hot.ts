/**
 * The services that are asked most, each watched by itself (R3): whatever happens to one of them is known at once, in
 * however large a catalog, and where nothing else would say which one it was.
 */
import type { Ms } from '../system/clock.js';
import { nextBackoff } from './backoff.js';
import { sleep } from './consul-watch.js';
import { type After, after as realAfter } from './timers.js';

/** One that ended is begun again after so long. */
const RETRY = { base: 2_000, cap: 30_000 };
/** One that lasted so long was a good one. */
const GOOD_MS: Ms = 60_000;

interface Running {
  readonly abort: AbortController;
  /** False while it waits to be begun again. */
  up: boolean;
}

export interface HotWatchesOptions {
  /** Goes on until `signal`, or until something is wrong. */
  readonly watch: (name: string, signal: AbortSignal) => Promise<unknown>;
  /** One of them ended by itself: until it is begun again its service has to be read like any other. */
  readonly ended: () => void;
  /** In [0, 1). */
  readonly random?: () => number;
  readonly now?: () => Ms;
  /** Absent: the timers of node. */
  readonly after?: After;
}

export class HotWatches {
  readonly #running = new Map<string, Running>();
  readonly #options: Required<HotWatchesOptions>;

  constructor(options: HotWatchesOptions) {
    this.#options = { random: Math.random, now: () => performance.now(), after: realAfter, ...options };
  }

  /** What happens to it is told by its watch. */
  has(name: string): boolean {
    return this.#running.get(name)?.up === true;
  }

  /** These from now on, and no others. */
  set(names: readonly string[]): void {
    const wanted = new Set(names);
    for (const [name, { abort }] of this.#running) {
      if (wanted.has(name)) continue;
      this.#running.delete(name);
      abort.abort();
    }
    for (const name of wanted) {
      if (this.#running.has(name)) continue;
      const running = { abort: new AbortController(), up: true };
      this.#running.set(name, running);
      void this.#keep(name, running);
    }
  }

  async #keep(name: string, running: Running): Promise<void> {
    const { watch, ended, random, now, after } = this.#options;
    const { signal } = running.abort;
    let pause: Ms | undefined;
    while (!signal.aborted) {
      const began = now();
      running.up = true;
      try {
        await watch(name, signal);
      } catch {
        // Whatever it was, it ends this watch alone.
      }
      if (signal.aborted) return;
      running.up = false;
      ended();
      pause = nextBackoff(now() - began >= GOOD_MS ? undefined : pause, RETRY, random);
      await sleep(pause, signal, undefined, after);
    }
  }
}
