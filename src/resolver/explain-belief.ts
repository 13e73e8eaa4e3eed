/** Whose word a name is, and whether its registry is heard (R1, R4, R32). */
import type { Service } from '../catalog/service.js';
import type { BootMs } from '../system/clock.js';
import { describeAge } from './status-text.js';
import type { Zone } from './zone.js';

/** Why nobody can say that a name is not there. */
export function neverWords({ sources }: Zone): string {
  if (!sources.layers.several) {
    return sources.from === 'none'
      ? 'the zone has never had a list or a snapshot (R25)'
      : 'only what was asked for is known of the registry: there has been no list of all so far (R25, R33)';
  }
  const silent = sources.all.filter(({ from, isPart }) => from === 'none' || isPart).map(({ identity }) => identity);
  return `nobody knows whether the name is there: no list and no snapshot so far of ${silent.join(', ')} (R25, R32)`;
}

/** What is not heard, and what is stale. */
export function zoneWords(zone: Zone, stale: boolean, now: BootMs): string[] {
  const { all, layers } = zone.sources;
  const words: string[] = [];
  for (const { hearing, identity } of all) {
    if (hearing.heard) continue;
    const who = layers.several ? `${identity} has` : 'the registry has';
    const since = describeAge(now - hearing.since.boot).text;
    const frozen = layers.several ? 'nothing of it moves' : 'nothing moves, capacity is frozen';
    words.push(`${who} not been heard for ${since}: ${hearing.reason}; ${frozen} (R4)`);
  }
  if (stale && !layers.several) words.push(staleWords(zone.hearing.lastConfirmed, now));
  return words;
}

function staleWords(lastConfirmed: BootMs | undefined, now: BootMs): string {
  const since = lastConfirmed === undefined ? 'before a restart' : `${describeAge(now - lastConfirmed).text} ago`;
  return `stale: last confirmed ${since}; answered as before (R1)`;
}

/** R32: whose the name is, where several could have it. */
export function beliefWords(zone: Zone, service: Service | undefined, below: string, now: BootMs): string[] {
  const { all, layers } = zone.sources;
  if (!layers.several) return [];
  if (service === undefined) {
    const keeper = layers.keeperOf(below.split('.').at(-1) ?? '');
    if (keeper === undefined) return [];
    return [`${keeper.identity} had it and has it no more: what later registries say of it does not count (R32)`];
  }
  const parts = layers.partsOf(service).map(({ layer }) => layer);
  const who = parts.map(({ identity }) => identity).join(', ');
  const others = all.some((layer) => !parts.includes(layer) && layer.catalog.services.has(service.name));
  const why =
    zone.config.merge === 'union' ? 'the endpoints of all registries that have it' : 'the first in order of belief';
  const stale = parts.filter((source) => source.isStale(now, zone.config.softTtl));
  return [
    `from ${who}: ${why}${others ? ', and later ones have it too' : ''} (R32)`,
    ...stale.map((source) => staleWords(source.hearing.lastConfirmed, now)),
  ];
}
