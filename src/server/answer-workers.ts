/**
 * Makes the workers of answer threads, and keeps a spare of UDP: its code loaded, waiting for its start message. It
 * holds no socket and no place in the table, and nothing wakes it, until a thread dies and it takes its place.
 */
import { Worker } from 'node:worker_threads';
import type { Ms } from '../system/clock.js';
import { Backoff } from './backoff.js';
import type { ToThread } from './messages.js';
import type { AnswerServerOptions, CreateWorker } from './settings.js';
import type { UdpWorkerData } from './udp-worker.js';

/** After the start and after its use: what happens then comes first. */
const SPARE_AFTER_MS: Ms = 5_000;
/** Between spares that die while they wait. */
const SPARE_LONGEST_MS: Ms = 600_000;
const STOP_TIMEOUT_MS: Ms = 2_000;

const FILES = {
  udp: new URL('./udp-worker.js', import.meta.url),
  tcp: new URL('./tcp-worker.js', import.meta.url),
};

export class AnswerWorkers {
  /** Whether UDP threads load the native calls as they start. */
  native: boolean;
  readonly #create: CreateWorker;
  readonly #spareAfter: Ms;
  readonly #backoff: Backoff;
  #spare: Worker | undefined;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: Pick<AnswerServerOptions, 'createWorker' | 'spareAfter'>, native: boolean) {
    this.#create = options.createWorker ?? ((file, workerOptions) => new Worker(file, workerOptions));
    this.native = native;
    this.#spareAfter = options.spareAfter ?? SPARE_AFTER_MS;
    this.#backoff = new Backoff(this.#spareAfter, SPARE_LONGEST_MS);
  }

  /** A worker that loads its code and waits. It does not keep the process alive. */
  create(kind: 'udp' | 'tcp', name: string): Worker {
    const workerData: UdpWorkerData = { native: this.native };
    const worker = this.#create(FILES[kind], { name, workerData });
    worker.unref();
    return worker;
  }

  /** The spare, from now on the caller's; undefined while there is none. */
  takeSpare(): Worker | undefined {
    const spare = this.#spare;
    if (!spare) return undefined;
    this.#spare = undefined;
    this.#backoff.reset();
    return spare;
  }

  /** Makes a spare in a while, unless there is one or it is on its way. */
  keepSpare(wait: Ms = this.#spareAfter): void {
    if (this.#stopped || this.#spare || this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#makeSpare();
    }, wait).unref();
  }

  /** Resolves when no spare is left. There will be no other. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    const spare = this.takeSpare();
    if (spare === undefined) return;
    // One that is terminated while it loads the native calls takes the process with it, so it is asked to end.
    const ended = new Promise((resolve) => spare.once('exit', resolve));
    spare.postMessage({ type: 'stop' } satisfies ToThread);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, STOP_TIMEOUT_MS);
    });
    await Promise.race([ended, late]);
    clearTimeout(timer);
    await spare.terminate();
  }

  #makeSpare(): void {
    try {
      const spare = this.create('udp', 'udp-spare');
      this.#spare = spare;
      // It can die as it waits, for want of memory say, and nobody misses it.
      const lost = (): void => {
        if (this.#spare !== spare) return;
        this.#spare = undefined;
        this.keepSpare(this.#backoff.next());
      };
      spare.on('error', lost).on('exit', lost);
    } catch {
      this.keepSpare(this.#backoff.next());
    }
  }
}
