/** Names that are looked up at name servers: all registries that have one in common share what it is asked (R2). */
import { showListen } from './addresses.js';
import { ResolveFault } from './resolve-fault.js';
import type { DnsRegistryConfig, ZoneConfig } from './types.js';
import { formatDuration } from './units.js';

/** Names of one registry that are looked up at once, at most. Registries take turns so. */
const AT_ONCE = 32;

/** Throws a ResolveFault where a zone's names are not read in time beside those of all others. */
export function checkNameServers(zones: readonly ZoneConfig[]): void {
  const all = zones.flatMap(({ registries }) => registries.filter(looksUp));
  for (const [i, { softTtl, registries }] of zones.entries()) {
    for (const registry of registries.filter(looksUp)) {
      const { interval, names } = registry;
      const { beside, at } = mostBeside(registry, all);
      const count = names.length + beside;
      // A name takes some three questions, of which a server is asked one every 27 ms; then there is the interval.
      const least = Math.max(2 * interval, 120 * count, interval + 81 * count);
      if (softTtl >= least) continue;
      const others = beside === 0 ? '' : `, beside ${beside} of other registries at ${at},`;
      throw new ResolveFault(
        ['zones', i, 'softTtl'],
        `expected ${formatDuration(Math.ceil(least / 1000) * 1000)} or more: a read every ${formatDuration(interval)} (registry.interval) of ${names.length} names${others} confirms it no sooner (R2)`,
      );
    }
  }
}

type LookedUp = DnsRegistryConfig & { readonly names: readonly string[] };

function looksUp(registry: ZoneConfig['registries'][number]): registry is LookedUp {
  return registry.type === 'dns' && registry.names !== undefined;
}

/** Names of others that are looked up during one read, at the server that has most of them. */
function mostBeside(registry: LookedUp, all: readonly LookedUp[]): { readonly beside: number; readonly at: string } {
  const loads = registry.servers.map(showListen).map((at) => {
    const others = all.filter(
      (other) => other !== registry && other.servers.some((server) => showListen(server) === at),
    );
    return { at, beside: others.reduce((sum, other) => sum + during(registry, other), 0) };
  });
  return loads.reduce((a, b) => (b.beside > a.beside ? b : a));
}

/** A large registry has more of the turns than a small one, and no more names than it has. */
function during({ names }: LookedUp, other: LookedUp): number {
  const turns = Math.min(AT_ONCE, other.names.length) / Math.min(AT_ONCE, names.length);
  return Math.min(other.names.length, Math.ceil(names.length * turns));
}
