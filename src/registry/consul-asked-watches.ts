/**
 * How services that are known on demand are kept fresh: those that were asked last have a blocking query each, which
 * tells of changes at once. All are read in turn, so that they are confirmed: the one that was read longest ago first,
 * and rarely while nothing in the registry has moved since.
 */
import type { Ms } from '../system/clock.js';
import type { AskedReads, ReadFailure, Reading } from './consul-asked-reads.js';
import type { AskedPart } from './consul-asked-service.js';
import { sleep } from './consul-watch.js';
import { gateOf } from './source-gates.js';

/** Fewer where others watch the same server. */
const WATCHED = 30;
/** The release marks. */
const MORE_WAITS = 1;
const READERS = 6;
const READ_MS: Ms = 5_000;
/** A blocking query is answered after so long when nothing changed. */
const WAIT_MS: Ms = 30_000;
/** A few answers to a watch may come at once, then so many. */
const GAP_MS: Ms = 1_000;
const BURST_MS: Ms = 3_000;
/** So many services that cannot be read are a fault of the registry, not of theirs. */
const MOST_FAILED = 3;
/** What seems not to have changed is read again all the same, since servers lag behind one another. */
const SURE_MS: Ms = 60_000;
/** What is new among the known is seen within this. */
const LOOK_MS: Ms = 500;

export interface AskedWatchesOptions {
  readonly reads: AskedReads;
  readonly reading: Pick<Reading, 'origin'>;
  /** Each service is read, or has answered, once in this time, unless nothing has moved. */
  readonly interval: Ms;
  /** All that is known, in any order. */
  readonly parts: () => AskedPart[];
  /** Something was read of it. */
  readonly news: (part: AskedPart) => void;
}

export class AskedWatches {
  readonly #options: AskedWatchesOptions;
  readonly #signal: AbortSignal;
  readonly #watched = new Map<AskedPart, AbortController>();
  readonly #failing = new Map<AskedPart, string>();
  #end: (reason: string) => void = () => undefined;

  constructor(options: AskedWatchesOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  /** Until the signal, or until something is wrong: resolves with what. */
  run(): Promise<string> {
    return new Promise((resolve) => {
      this.#end = resolve;
      const leave = gateOf(this.#options.reading.origin).join(MORE_WAITS, () => this.retune());
      const stop = (): void => {
        leave();
        resolve('stopped');
      };
      this.#signal.addEventListener('abort', stop, { once: true });
      this.retune();
      for (let i = 0; i < READERS; i++) this.#keepReading().catch((error) => this.#threw(error));
    });
  }

  /** What is known has changed, or who was asked last. */
  retune(): void {
    if (this.#signal.aborted) return;
    const parts = this.#options.parts();
    const most = Math.min(WATCHED, gateOf(this.#options.reading.origin).share);
    const wanted = new Set(parts.sort((a, b) => a.service.rank - b.service.rank).slice(0, most));
    for (const [part, controller] of this.#watched) {
      if (wanted.has(part)) continue;
      this.#watched.delete(part);
      controller.abort();
    }
    for (const part of wanted) if (!this.#watched.has(part)) this.#begin(part);
    const known = new Set(parts);
    for (const part of this.#failing.keys()) if (!known.has(part)) this.#failing.delete(part);
  }

  #begin(part: AskedPart): void {
    const controller = new AbortController();
    const stop = (): void => controller.abort();
    this.#signal.addEventListener('abort', stop, { once: true });
    this.#watched.set(part, controller);
    this.#watch(part, controller.signal)
      .catch((error) => this.#threw(error))
      .finally(() => this.#signal.removeEventListener('abort', stop));
  }

  /** What nobody thought of ends all watches: they are begun anew. */
  #threw(error: unknown): void {
    this.#end(error instanceof Error ? error.message : String(error));
  }

  async #watch(part: AskedPart, signal: AbortSignal): Promise<void> {
    const { reads, reading, interval } = this.#options;
    let saved = BURST_MS;
    let last = performance.now();
    while (!signal.aborted) {
      const failure = await reads.read(part, { ...reading, signal, deadline: READ_MS, wait: WAIT_MS });
      if (signal.aborted) return;
      this.#took(part, failure);
      const now = performance.now();
      saved = Math.min(BURST_MS, saved + now - last) - GAP_MS;
      last = now;
      await sleep(failure === undefined ? Math.max(0, -saved) : interval, signal);
    }
  }

  async #keepReading(): Promise<void> {
    const { reads, reading } = this.#options;
    const signal = this.#signal;
    while (!signal.aborted) {
      const now = performance.now();
      const { part, due } = this.#next();
      if (part === undefined || due > now) {
        await sleep(Math.min(LOOK_MS, due - now), signal);
        continue;
      }
      part.busy = true;
      const failure = await reads.read(part, { ...reading, signal, deadline: READ_MS }).finally(() => {
        part.busy = false;
      });
      if (signal.aborted) return;
      if (failure !== undefined) part.checkedAt = performance.now();
      this.#took(part, failure);
    }
  }

  /** The service whose turn it is, and when. */
  #next(): { readonly part: AskedPart | undefined; readonly due: number } {
    let part: AskedPart | undefined;
    let due = Number.POSITIVE_INFINITY;
    for (const one of this.#options.parts()) {
      if (one.busy) continue;
      const at = one.checkedAt + (this.#options.reads.isAsOfNow(one) ? SURE_MS : this.#options.interval);
      if (at < due) {
        due = at;
        part = one;
      }
    }
    return { part, due };
  }

  #took(part: AskedPart, failure: ReadFailure | undefined): void {
    if (failure === undefined) this.#failing.delete(part);
    else this.#failing.set(part, failure.reason);
    if (this.#failing.size >= MOST_FAILED || failure?.wentBack) this.#end(failure?.reason ?? '');
    else this.#options.news(part);
  }
}
