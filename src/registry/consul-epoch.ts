/** The trust domain, a name of the whole of Consul's data: the epoch of its lists (R7). */
import type { Ms } from '../system/clock.js';
import type { ConsulClient } from './consul-client.js';
import { isFailure } from './http-failure.js';

const ROOTS_MS: Ms = 3_000;

/** Undefined where there is none (Consul without its mesh), or where it cannot be read now: the last word stands. */
export async function readTrustDomain(
  client: ConsulClient,
  origin: string,
  stale: boolean,
  signal: AbortSignal,
): Promise<string | undefined> {
  const reply = await client.get(origin, 'connect/ca/roots', { stale }, signal, ROOTS_MS);
  const { TrustDomain } = ((isFailure(reply) ? undefined : reply.body) ?? {}) as { TrustDomain?: unknown };
  return typeof TrustDomain === 'string' && /^[\w.-]{1,253}$/.test(TrustDomain) ? TrustDomain : undefined;
}
