/** Waiting for what may never end: a read of a frozen disk, a registry that accepts and says nothing. */
import type { Ms } from '../system/clock.js';
import { type After, after as realAfter } from './timers.js';

/** What `OneFlight.run` returns when the wait was over first. */
export const LATE = Symbol('late');

/**
 * One operation at a time, each waited for only so long. An operation that is late goes on alone: its result is
 * dropped and none other starts before it has ended, so that a frozen disk costs one thread and no more.
 */
export class OneFlight {
  readonly #after: After;
  #pending: Promise<void> | undefined;

  constructor(after: After = realAfter) {
    this.#after = after;
  }

  /** Starts `operation` and waits at most `ms`. Its signal is aborted when it is late. Rejects as `operation` does. */
  async run<T>(operation: (signal: AbortSignal) => Promise<T>, ms: Ms): Promise<T | typeof LATE> {
    const abort = new AbortController();
    let callOff = (): void => undefined;
    const late = new Promise<typeof LATE>((resolve) => {
      callOff = this.#after(ms, () => resolve(LATE));
    });
    try {
      // Of several that waited the first has begun when the next one looks again.
      while (this.#pending !== undefined) if ((await Promise.race([this.#pending, late])) === LATE) return LATE;
      const flight = operation(abort.signal);
      const ended = flight.then(
        () => undefined,
        () => undefined,
      );
      this.#pending = ended;
      void ended.then(() => {
        if (this.#pending === ended) this.#pending = undefined;
      });
      return await Promise.race([flight, late]);
    } finally {
      callOff();
      abort.abort();
    }
  }
}
