/** One of Consul's lists, from the leader where another server cannot be believed (R6). */
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import type { ConsulClient, ConsulReply } from './consul-client.js';
import { isFailure } from './http-failure.js';

export interface ListSource {
  /** Undefined: the agent's own. */
  readonly dc: string | undefined;
  readonly client: ConsulClient;
  /** Any server may answer. */
  readonly stale: boolean;
  /** One that has heard of its leader so lately. */
  readonly maxLag: Ms;
}

/** With `doubt` when another server than the leader could not be believed, and that has no word. */
export type ListReply = ConsulReply & { readonly index: bigint; readonly doubt?: string };

const LIST_MS: Ms = 10_000;

/**
 * @param known the index of the list that is known
 * @param raw the body is not parsed
 */
export async function readList(
  source: ListSource,
  origin: string,
  path: string,
  known: bigint | undefined,
  signal: AbortSignal,
  raw = false,
): Promise<ListReply | Failure> {
  const { client, dc, stale } = source;
  const read = (anyServer: boolean): Promise<ConsulReply | Failure> =>
    client.get(origin, path, { dc, stale: anyServer, raw }, signal, LIST_MS);
  const reply = await read(stale);
  if (isFailure(reply)) return dc === undefined ? reply : { ...reply, reason: `datacenter ${dc}: ${reply.reason}` };
  const { index } = reply;
  if (index === undefined) {
    return { kind: 'unbelievable', reason: `${path}: no X-Consul-Index: this is not Consul` };
  }
  if (!stale) return { ...reply, index };
  const lag = lagOf(reply, source.maxLag);
  const behind = known !== undefined && index < known;
  if (lag === undefined && !behind) return { ...reply, index };
  const leader = await read(false);
  if (!isFailure(leader) && leader.index !== undefined) return { ...leader, index: leader.index };
  if (behind) {
    const from = `${known} to ${index}`;
    return { kind: 'unbelievable', reason: `${path}: the index went back from ${from}, and no leader answers` };
  }
  return { ...reply, index, doubt: lag ?? 'no leader' };
}

/** Why a server's word is not that of its leader. */
export function lagOf({ knownLeader, lastContact }: ConsulReply, maxLag: Ms): string | undefined {
  if (!knownLeader) return 'the servers of Consul have no leader';
  if (lastContact <= maxLag) return undefined;
  return `the server that answers has not heard of its leader for more than ${maxLag / 1000} s`;
}
