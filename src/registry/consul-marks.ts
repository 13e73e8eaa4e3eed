/** Release marks in Consul's key-value store (R9): `PREFIX/.release/NAME` with a time such as 2031-05-04T09:30:00Z. */
import type { Ms } from '../system/clock.js';
import { nextBackoff } from './backoff.js';
import type { ConsulClient, ConsulReply } from './consul-client.js';
import { sleep, watchList } from './consul-watch.js';
import { readRelease } from './etcd-layout.js';
import { isFailure } from './http-failure.js';
import { Notes } from './notes.js';
import type { Rejected, ReleaseMark } from './registry.js';

const READ_MS: Ms = 5_000;
/** Where they cannot be read or watched, they are read again after so long. */
const RETRY = { base: 2_000, cap: 30_000 };
/** A watch that lasted so long was a good one. */
const GOOD_MS: Ms = 60_000;

/** Marks help a fleet and are no part of what is answered: that they cannot be read is told, and no more. */
export class ConsulMarks {
  readonly #client: ConsulClient;
  readonly #prefix: string;
  readonly #path: string;
  #index: bigint | undefined;
  releases: readonly ReleaseMark[] = [];
  rejected: readonly Rejected[] = [];

  /** @param prefix of keys, without a slash at either end */
  constructor(client: ConsulClient, prefix: string) {
    this.#client = client;
    this.#prefix = `${prefix}/`;
    this.#path = `kv/${prefix.split('/').map(encodeURIComponent).join('/')}/.release/`;
  }

  async refresh(origin: string, stale: boolean, signal: AbortSignal): Promise<void> {
    const query = { stale, more: { recurse: 'true' } };
    const reply = await this.#client.get(origin, this.#path, query, signal, READ_MS);
    if (signal.aborted) return;
    if (isFailure(reply)) {
      this.#index = undefined;
      this.rejected = [{ where: this.#path, reason: `release marks cannot be read: ${reply.reason}` }];
    } else {
      this.#index = reply.index;
      this.#take(reply);
    }
  }

  /** Goes on from `refresh` until `signal`. That they cannot be had for a while ends nothing. @param news others are in force */
  async follow(origin: string, stale: boolean, signal: AbortSignal, news: () => void): Promise<void> {
    const watched = { client: this.#client, origin, path: this.#path, query: { stale, more: { recurse: 'true' } } };
    let told = this.#text();
    const tell = (): boolean => {
      const before = told;
      told = this.#text();
      if (told !== before) news();
      return told !== before;
    };
    const take = (reply: ConsulReply): boolean => {
      this.#take(reply);
      return tell();
    };
    let pause: Ms | undefined;
    while (!signal.aborted) {
      const began = performance.now();
      if (this.#index !== undefined) await watchList(watched, this.#index, take, signal);
      pause = nextBackoff(performance.now() - began >= GOOD_MS ? undefined : pause, RETRY, Math.random);
      await sleep(pause, signal);
      if (signal.aborted) return;
      await this.refresh(origin, stale, signal);
      tell();
    }
  }

  #text(): string {
    return JSON.stringify([this.releases, this.rejected]);
  }

  #take({ body }: ConsulReply): void {
    const notes = new Notes();
    const releases: ReleaseMark[] = [];
    for (const entry of Array.isArray(body) ? (body as unknown[]) : []) {
      const { Key, Value } = (entry ?? {}) as { Key?: unknown; Value?: unknown };
      if (typeof Key !== 'string' || !Key.startsWith(this.#prefix) || Key.endsWith('/')) continue;
      const value = typeof Value === 'string' ? Buffer.from(Value, 'base64').toString('utf8') : '';
      const mark = readRelease(Key.slice(this.#prefix.length), value);
      if (mark?.kind === 'release') releases.push({ service: mark.service, wall: mark.wall });
      else if (mark?.kind === 'bad') notes.add(Key, mark.reason);
    }
    this.releases = releases;
    this.rejected = notes.list(this.#path);
  }
}
