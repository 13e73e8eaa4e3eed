/** What tells the zones of a configuration apart. */
import type { ZoneConfig } from '../config/types.js';

/**
 * Zones by what tells them apart: the name, and where several views have it (R31) the addresses that they are asked at.
 * It is also the name of a zone's snapshot, so it does not change with settings that do not matter for that.
 */
export function zoneKeys(zones: readonly ZoneConfig[]): Map<string, ZoneConfig> {
  const views = new Map<string, number>();
  for (const { name } of zones) views.set(name, (views.get(name) ?? 0) + 1);
  return new Map(zones.map((zone) => [views.get(zone.name) === 1 ? zone.name : viewKey(zone), zone]));
}

function viewKey({ name, listen = [] }: ZoneConfig): string {
  const addresses = listen.map(({ address, port }) => `${address}#${port}`);
  return `${name}@${addresses.sort().join(',')}`;
}
