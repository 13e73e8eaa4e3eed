/** The watch of one service of a datacenter that is mirrored (see consul-hot.ts). */
import type { Ms } from '../system/clock.js';
import { type ListSource, lagOf } from './consul-list.js';
import type { ConsulReader } from './consul-reader.js';
import { type Take, watchList } from './consul-watch.js';
import { isFailure } from './http-failure.js';

const READ_MS: Ms = 5_000;

export interface WatchedService extends ListSource {
  readonly name: string;
  readonly origin: string;
  readonly reader: ConsulReader;
  /** An answer was taken in, or failed to be. */
  readonly took: () => void;
}

/**
 * Goes on until `signal`, or until something is wrong. Consul answers a watch of one service from what it streams to
 * its agents, and then says that there is no leader, nor whether the token sees all: so that it woke is all that such
 * an answer tells, and the service is read.
 */
export async function watchService(watched: WatchedService, signal: AbortSignal): Promise<void> {
  const { client, dc, stale, maxLag, origin, name, reader, took } = watched;
  const path = `health/service/${encodeURIComponent(name)}`;
  const query = { dc, stale };
  const take: Take = (reply) => {
    if (!reply.knownLeader) {
      reader.plan.want([name]);
      reader.wake();
      return true;
    }
    const fault = lagOf(reply, maxLag) ?? reader.takeWatched(name, reply)?.reason;
    took();
    return fault ?? true;
  };
  const first = await client.get(origin, path, query, signal, READ_MS);
  if (signal.aborted || isFailure(first) || first.index === undefined || take(first, first.index) !== true) return;
  await watchList({ client, origin, query, path }, first.index, take, signal);
}
