/** The servers of one source, each of which can tell all of it: asked in turn, the one that answered last first. */
import type { Failure } from './adapter.js';
import { isFailure } from './http-failure.js';

export class Members {
  /** As they are told to people. */
  readonly #places: readonly string[];
  #first = 0;

  constructor(places: readonly string[]) {
    this.#places = places;
  }

  /** The numbers of all, in the order in which they are to be asked now. */
  *inTurn(): Generator<number> {
    const count = this.#places.length;
    const first = this.#first;
    for (let turn = 0; turn < count; turn++) yield (first + turn) % count;
  }

  answered(index: number): void {
    this.#first = index;
  }

  /** What the first gives that does not fail, or why none does. */
  async ask<T extends object>(signal: AbortSignal, ask: (index: number) => Promise<T | Failure>): Promise<T | Failure> {
    const failures = new Map<number, Failure>();
    for (const index of this.inTurn()) {
      if (signal.aborted) break;
      const result = await ask(index);
      if (!isFailure(result)) {
        this.answered(index);
        return result;
      }
      failures.set(index, result);
    }
    // The next round begins elsewhere: a server may accept everything and answer nothing.
    this.#first = (this.#first + 1) % this.#places.length;
    return this.together(failures);
  }

  /** The same failures give the same words, in whatever order the servers were asked. */
  together(failures: ReadonlyMap<number, Failure>): Failure {
    if (failures.size === 0) return { kind: 'unreachable', reason: 'no answer in time' };
    const told = [...failures].sort(([a], [b]) => a - b);
    const reason = told.map(([index, failure]) => `${this.#places[index]}: ${failure.reason}`).join('; ');
    const kind = told.some(([, failure]) => failure.kind === 'unbelievable') ? 'unbelievable' : 'unreachable';
    // One that does not ask for time may be asked again.
    const retryAfter = Math.min(...told.map(([, failure]) => failure.retryAfter ?? 0));
    return retryAfter > 0 ? { kind, reason, retryAfter } : { kind, reason };
  }
}
