/** Release marks in Consul's key-value store (R9): `PREFIX/.release/NAME` with a time such as 2031-05-04T09:30:00Z. */
import type { ConsulClient, ConsulReply } from './consul-client.js';
import { watchList } from './consul-watch.js';
import { readRelease } from './etcd-layout.js';
import { isFailure } from './http-failure.js';
import { Notes } from './notes.js';
import type { Rejected, ReleaseMark } from './registry.js';

const READ_MS = 5_000;

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
    if (isFailure(reply)) {
      this.#index = undefined;
      this.rejected = [{ where: this.#path, reason: `release marks cannot be read: ${reply.reason}` }];
    } else {
      this.#index = reply.index;
      this.#take(reply);
    }
  }

  /** Until `signal`. Where marks cannot be watched they are read with the next list. */
  async follow(origin: string, stale: boolean, signal: AbortSignal, news: () => void): Promise<void> {
    if (this.#index === undefined) return;
    const watched = { client: this.#client, origin, path: this.#path };
    const query = { stale, more: { recurse: 'true' } };
    const take = (reply: ConsulReply): boolean => {
      const before = JSON.stringify([this.releases, this.rejected]);
      this.#take(reply);
      const changed = JSON.stringify([this.releases, this.rejected]) !== before;
      if (changed) news();
      return changed;
    };
    await watchList({ ...watched, query }, this.#index, take, signal);
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
