/** What upstreams have answered, bounded by bytes. Age makes an entry stale and removes nothing; want of room does. */
import { LRUCache } from 'lru-cache';
import type { Ms } from '../system/clock.js';
import type { UpstreamReply } from './upstream-message.js';

/** What an entry takes beside its message: key, offsets, objects. */
const ENTRY_BYTES = 400;
/** RFC 9520 s.3.2: at least 1 s and at most 5 min; it doubles while the name goes on failing. */
const FAILURE_FIRST_MS: Ms = 5_000;
const FAILURE_LONGEST_MS: Ms = 30_000;
const MAX_FAILURES = 4_096;
const MAX_FAILURE_BYTES = 4 * 1024 * 1024;
const NO_OPTIONS = new Uint8Array(0);

export interface CacheEntry {
  readonly reply: UpstreamReply;
  /** Boot time. */
  readonly storedAt: Ms;
  readonly expiresAt: Ms;
  /** No refresh before this, once one has failed (RFC 8767 s.5). */
  retryAt: Ms;
  /** The group's epoch then (UpstreamGroup). */
  failedIn: number;
  /** Threads give it again by themselves. */
  kept: boolean;
}

export interface CachedFailure {
  readonly until: Ms;
  readonly wait: Ms;
  /** The reply of an upstream that failed, or why there is none. */
  readonly reply: UpstreamReply | undefined;
  readonly ede: { readonly code: number; readonly text?: string };
  /** The group's epoch (UpstreamGroup): in another one the failure says nothing any more. */
  readonly epoch: number;
}

export class ForwardCache {
  readonly #entries: LRUCache<string, CacheEntry>;
  readonly #failures = new LRUCache<string, CachedFailure>({
    max: MAX_FAILURES,
    maxSize: MAX_FAILURE_BYTES,
    sizeCalculation: (failure, key) => sizeOf(failure, key),
  });
  readonly #maxStale: Ms;

  constructor(maxBytes: number, maxStale: Ms) {
    this.#entries = new LRUCache<string, CacheEntry>({
      maxSize: maxBytes,
      sizeCalculation: (entry, key) => sizeOf(entry, key),
    });
    this.#maxStale = maxStale;
  }

  get size(): { entries: number; bytes: number } {
    return { entries: this.#entries.size, bytes: this.#entries.calculatedSize };
  }

  /** Fresh or stale; undefined when there is none, or when it has been stale for longer than is allowed. */
  get(key: string, now: Ms): CacheEntry | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined || now - entry.expiresAt > this.#maxStale ? undefined : entry;
  }

  /**
   * Keeps a reply that may be kept, in place of what was there. One that may not still says that what was there is not so
   * any more, unless it was cut. `always`: also one without a lifetime, for when there is nothing newer.
   */
  put(key: string, reply: UpstreamReply, now: Ms, always: boolean): void {
    this.#failures.delete(key);
    if (reply.lifetime === 0 && !always) {
      if (!reply.truncated) this.#entries.delete(key);
      return;
    }
    const expiresAt = now + reply.lifetime * 1000;
    this.#entries.set(key, { reply: alone(reply), storedAt: now, expiresAt, retryAt: 0, failedIn: 0, kept: false });
  }

  failure(key: string, now: Ms): CachedFailure | undefined {
    const failure = this.#failures.get(key);
    return failure === undefined || failure.until <= now ? undefined : failure;
  }

  /** A failure never takes the place of data: it is kept beside. */
  fail(key: string, failure: Pick<CachedFailure, 'reply' | 'ede' | 'epoch'>, now: Ms): void {
    const before = this.#failures.get(key);
    const again = before !== undefined && before.epoch === failure.epoch;
    const wait = again ? Math.min(before.wait * 2, FAILURE_LONGEST_MS) : FAILURE_FIRST_MS;
    this.#failures.set(key, { ...failure, reply: failure.reply && alone(failure.reply), wait, until: now + wait });
  }
}

function sizeOf({ reply }: Pick<CachedFailure, 'reply'>, key: string): number {
  const message = reply === undefined ? 0 : reply.bytes.length + reply.ends.length * 4;
  return ENTRY_BYTES + message + key.length * 2;
}

/** Options are for who asked; kept, they would only take room. */
function alone(reply: UpstreamReply): UpstreamReply {
  return { ...reply, options: NO_OPTIONS };
}
