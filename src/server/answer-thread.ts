/** One answer thread as the control thread holds it: started again when it dies, stopped by its flag, counted. */
import { writeSync } from 'node:fs';
import type { Worker, WorkerOptions } from 'node:worker_threads';
import { COUNTER_WORDS } from './counters.js';
import { CONTROL_WORDS, EVENT_FD, type FromThread, STOP, type ToThread, TRANSPORT_COUNTERS } from './messages.js';

export type CreateWorker = (file: URL, options: WorkerOptions) => Worker;

export interface AnswerThreadEvents {
  readonly message: (message: FromThread) => void;
  /** It ended without having been told to. The owner calls `spawn` again. */
  readonly died: (error: unknown) => void;
}

/** A thread inside a native loop sees the flag when its poll ends, at most this late without a wake-up. */
const NATIVE_POLL_MS = 1_000;
const STOP_TIMEOUT_MS = 2 * NATIVE_POLL_MS;
const ONE = new Uint8Array(new BigUint64Array([1n]).buffer);

export class AnswerThread {
  readonly name: string;
  /** Written by the thread, kept over its restarts. */
  readonly counters = new Uint32Array(new SharedArrayBuffer(COUNTER_WORDS * 4));
  readonly transportCounters = new Uint32Array(new SharedArrayBuffer(TRANSPORT_COUNTERS.length * 4));
  readonly control = new Int32Array(new SharedArrayBuffer(CONTROL_WORDS * 4)).fill(-1, EVENT_FD, EVENT_FD + 1);
  readonly #file: URL;
  readonly #data: unknown;
  readonly #create: CreateWorker;
  readonly #events: AnswerThreadEvents;
  #worker: Worker | undefined;
  #ended: Promise<void> = Promise.resolve();
  #stopping = false;

  constructor(name: string, file: URL, data: unknown, create: CreateWorker, events: AnswerThreadEvents) {
    this.name = name;
    this.#file = file;
    this.#data = data;
    this.#create = create;
    this.#events = events;
  }

  /** Starts the thread. It does not keep the process alive until `ref`. */
  spawn(): void {
    const worker = this.#create(this.#file, { name: this.name, workerData: this.#data });
    let failure: unknown;
    this.#worker = worker;
    worker.unref();
    worker.on('message', (message: FromThread) => {
      if (this.#worker === worker) this.#events.message(message);
    });
    worker.on('error', (error) => {
      failure = error;
    });
    this.#ended = new Promise((resolve) => {
      worker.on('exit', (code) => {
        resolve();
        if (this.#worker === worker) this.#worker = undefined;
        if (!this.#stopping) this.#events.died(failure ?? `ended with code ${code}`);
      });
    });
  }

  get alive(): boolean {
    return this.#worker !== undefined;
  }

  ref(): void {
    this.#worker?.ref();
  }

  /** A thread inside a native loop is woken to read it. */
  post(message: ToThread): void {
    this.#worker?.postMessage(message);
    this.wake();
  }

  wake(): void {
    const fd = Atomics.load(this.control, EVENT_FD);
    if (fd < 0) return;
    try {
      writeSync(fd, ONE);
    } catch {
      // EAGAIN: it has been woken so often that the counter is full.
    }
  }

  /** The flag alone, for the exit of the process: a thread inside a native loop would hold it up. */
  flagStop(): void {
    Atomics.store(this.control, STOP, 1);
    this.wake();
  }

  /** Resolves when the thread has ended; it may take a second to let answers leave. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.post({ type: 'stop' });
    this.flagStop();
    const worker = this.#worker;
    if (!worker) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_TIMEOUT_MS);
    });
    await Promise.race([this.#ended, late]);
    clearTimeout(timer);
    if (this.#worker) await worker.terminate();
  }
}
