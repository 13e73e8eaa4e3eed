/** One answer thread as the control thread holds it: started again when it dies, stopped by its flag, counted. */
import { closeSync, writeSync } from 'node:fs';
import type { Worker } from 'node:worker_threads';
import type { Ms } from '../system/clock.js';
import type { AnswerWorkers } from './answer-workers.js';
import { Backoff } from './backoff.js';
import { COUNTER_WORDS } from './counters.js';
import { handoverMemory } from './handover.js';
import {
  CONTROL_WORDS,
  EVENT_FD,
  type FromThread,
  PULSE,
  STOP,
  type ToThread,
  TRANSPORT_COUNTERS,
} from './messages.js';

export interface AnswerThreadEvents {
  readonly message: (thread: AnswerThread, message: FromThread) => void;
  /** It ended without having been told to, or is about to. `next`: what takes its place. */
  readonly died: (thread: AnswerThread, error: unknown, next: string) => void;
  /** It has been started again after a death and knows nothing yet. */
  readonly again: (thread: AnswerThread) => void;
}

export interface AnswerThreadOptions {
  readonly kind: 'udp' | 'tcp';
  /** Among the threads of its kind. */
  readonly index: number;
  readonly workers: AnswerWorkers;
  readonly events: AnswerThreadEvents;
}

/** A thread inside a native loop sees its flag within a second even when nothing wakes it. */
const STOP_TIMEOUT_MS = 2_000;
const RESPAWN_FIRST_MS = 50;
const RESPAWN_LONGEST_MS = 5_000;
/** After so long a life the next one begins at once. */
const CALM_MS = 10_000;
const ONE = new Uint8Array(new BigUint64Array([1n]).buffer);

export class AnswerThread {
  readonly kind: 'udp' | 'tcp';
  readonly index: number;
  readonly name: string;
  /** Written by the thread, kept over its restarts. */
  readonly counters = new Uint32Array(new SharedArrayBuffer(COUNTER_WORDS * 4));
  readonly transportCounters = new Uint32Array(new SharedArrayBuffer(TRANSPORT_COUNTERS.length * 4));
  readonly control = new Int32Array(new SharedArrayBuffer(CONTROL_WORDS * 4));
  /** What it gives to the control thread, kept over its restarts. */
  readonly handover = handoverMemory();
  /** Its slot in the table; -1 while it is no reader. */
  reader = -1;
  /** The last listen message that it has answered. */
  acknowledged = 0;
  readonly #options: AnswerThreadOptions;
  readonly #backoff = new Backoff(RESPAWN_FIRST_MS, RESPAWN_LONGEST_MS);
  #worker: Worker | undefined;
  #pulse = 0;
  #turnedAt: Ms = performance.now();
  #spawnedAt = 0;
  #respawn: NodeJS.Timeout | undefined;
  /** Settled while no thread runs, one that is about to end included. */
  #ended: Promise<unknown> = Promise.resolve();
  #stopping = false;

  /** Starts the thread. It does not keep the process alive until `ref`. */
  constructor(options: AnswerThreadOptions) {
    this.kind = options.kind;
    this.index = options.index;
    this.name = options.kind === 'udp' ? `udp-${options.index}` : 'tcp';
    this.#options = options;
    this.control[EVENT_FD] = -1;
    this.#run(this.#newWorker());
  }

  ref(): void {
    this.#worker?.ref();
  }

  /** For how long its loop has not turned, as far as calls of this have seen. `now` is monotonic. */
  stillFor(now: Ms): Ms {
    const pulse = Atomics.load(this.control, PULSE);
    if (pulse !== this.#pulse) this.#turnedAt = now;
    this.#pulse = pulse;
    return now - this.#turnedAt;
  }

  /** A thread inside a native loop is woken to read it. */
  post(message: ToThread): void {
    this.#worker?.postMessage(message);
    this.#wake();
  }

  /** The flag alone, for the exit of the process: a thread inside a native loop would hold it up. */
  flagStop(): void {
    Atomics.store(this.control, STOP, 1);
    this.#wake();
  }

  /** Resolves when the thread has ended; it may take a second to let answers leave. */
  async stop(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#respawn);
    this.post({ type: 'stop' });
    this.flagStop();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_TIMEOUT_MS);
    });
    await Promise.race([this.#ended, late]);
    clearTimeout(timer);
    await this.#worker?.terminate();
    const eventFd = Atomics.exchange(this.control, EVENT_FD, -1);
    if (eventFd >= 0) closeSync(eventFd);
  }

  #newWorker(): Worker {
    return this.#options.workers.create(this.kind, this.name);
  }

  #run(worker: Worker): void {
    const { events } = this.#options;
    let failure: unknown;
    this.#worker = worker;
    this.#spawnedAt = performance.now();
    const died = (error: unknown): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      if (!this.#stopping) this.#died(error);
    };
    worker.on('message', (message: FromThread) => {
      // Its end takes a while, and the next one need not wait for it.
      if (message.type === 'failed') died(message.error);
      else events.message(this, message);
    });
    worker.on('error', (error) => {
      failure = error;
    });
    const ended = new Promise<void>((resolve) => {
      worker.on('exit', (code) => {
        resolve();
        died(failure ?? `ended with code ${code}`);
      });
    });
    this.#ended = Promise.all([this.#ended, ended]);
  }

  #died(error: unknown): void {
    const { workers, events } = this.#options;
    if (performance.now() - this.#spawnedAt > CALM_MS) this.#backoff.reset();
    const first = this.#backoff.failures === 0;
    const wait = this.#backoff.next();
    // The first death in a while is made good at once, and only that takes the spare.
    const spare = first && this.kind === 'udp' ? workers.takeSpare() : undefined;
    events.died(this, error, spare ? 'the spare thread' : first ? 'a new thread' : `a new thread in ${wait} ms`);
    const again = (): void => {
      this.#run(spare ?? this.#newWorker());
      events.again(this);
    };
    if (first) again();
    else this.#respawn = setTimeout(again, wait);
    workers.keepSpare();
  }

  #wake(): void {
    const fd = Atomics.load(this.control, EVENT_FD);
    if (fd < 0) return;
    try {
      writeSync(fd, ONE);
    } catch {
      // EAGAIN: it has been woken so often that the counter is full.
    }
  }
}
