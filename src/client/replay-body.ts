/**
 * The body of a request for more than one try. What can be read only once is kept as it is read, up to a limit, so
 * that another try gets it from the start. A try that reads nothing leaves it untouched.
 */

import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';

type Chunk = string | Uint8Array;
type Body = Dispatcher.DispatchOptions['body'];

export class ReplayBody {
  readonly #body: unknown;
  readonly #source: AsyncIterator<Chunk> | Iterator<Chunk> | undefined;
  readonly #limit: number;
  /** From `#first` on. */
  #kept: Chunk[] = [];
  #first = 0;
  #size = 0;
  #pull: Promise<void> | undefined;
  #ended = false;
  /** What the source failed with. */
  error: unknown;

  /** `limit`: bytes to keep. */
  constructor(body: unknown, limit: number) {
    this.#body = body;
    this.#limit = limit;
    const source = (body ?? {}) as Partial<AsyncIterable<Chunk> & Iterable<Chunk>>;
    if (typeof body !== 'object' || body === null || isWhole(body)) return;
    this.#source = source[Symbol.asyncIterator]?.() ?? source[Symbol.iterator]?.();
  }

  /** Whether a try can have all of it. */
  get replayable(): boolean {
    return this.#first === 0 && this.error === undefined;
  }

  /** Whether several tries can have it at a time: nothing has to be read for them. */
  get complete(): boolean {
    return this.#source === undefined || (this.#ended && this.replayable);
  }

  /** For one try. */
  read(): Body {
    return (this.#source === undefined ? this.#body : this.#chunks()) as Body;
  }

  /** Nobody reads any more. */
  close(): void {
    if (this.#body instanceof Readable) {
      if (!this.#ended) this.#body.on('error', () => {}).destroy();
    } else if (this.#source !== undefined && !this.#ended) {
      void Promise.resolve(this.#pull)
        .then(() => this.#source?.return?.())
        .catch(() => {});
    }
  }

  async *#chunks(): AsyncGenerator<Chunk> {
    for (let at = 0; ; at++) {
      while (at >= this.#first + this.#kept.length) {
        if (this.error !== undefined) throw this.error;
        if (this.#ended) return;
        this.#pull ??= this.#next();
        await this.#pull;
      }
      if (at < this.#first) throw new Error('the beginning of the body is gone');
      yield this.#kept[at - this.#first]!;
    }
  }

  async #next(): Promise<void> {
    try {
      const { done, value } = await this.#source!.next();
      if (done) {
        this.#ended = true;
        return;
      }
      this.#size += typeof value === 'string' ? Buffer.byteLength(value) : value.byteLength;
      if (this.#size > this.#limit) {
        this.#first += this.#kept.length;
        this.#kept = [];
      }
      this.#kept.push(value);
    } catch (error) {
      this.error = error ?? new Error('the body failed');
    } finally {
      this.#pull = undefined;
    }
  }
}

/** Bytes, and what undici turns into bytes anew for each request. */
function isWhole(body: object): boolean {
  if (ArrayBuffer.isView(body) || body instanceof ArrayBuffer) return true;
  const tag = (body as { [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'FormData' || tag === 'Blob' || tag === 'File';
}
