/** What only a zone with `naming: consul` has, and what must hold between that and its registries. */
import type { KeyPath } from './errors.js';
import { ResolveFault } from './resolve-fault.js';
import { checkServers } from './resolve-forward.js';
import type { ConfigValues } from './schema/config.js';
import type { RegistryValues } from './schema/registry.js';
import type { ListenAddress, ZoneConfig } from './types.js';

const DEFAULT_DATACENTER = 'dc1';

/** The zone's datacenters. Throws a ResolveFault. */
export function resolveConsulNames(
  zone: ConfigValues['zones'][number],
  registries: readonly RegistryValues[],
  at: KeyPath,
  listen: readonly ListenAddress[],
): readonly string[] {
  const { naming, agentDns } = zone;
  if (naming !== 'consul' && agentDns.length > 0) {
    throw new ResolveFault([...at, 'agentDns'], 'expected only with naming: consul');
  }
  checkServers(agentDns, [...at, 'agentDns'], listen);
  const read = registries.flatMap((registry) => (registry.type === 'consul' ? (registry.datacenter ?? []) : []));
  const datacenters = zone.datacenters ?? (read.length > 0 ? [...new Set(read)] : [DEFAULT_DATACENTER]);
  if (new Set(datacenters).size < datacenters.length) {
    throw new ResolveFault([...at, 'datacenters'], 'a datacenter is there twice');
  }
  const other = naming === 'consul' ? read.find((datacenter) => !datacenters.includes(datacenter)) : undefined;
  if (other !== undefined) {
    throw new ResolveFault([...at, 'datacenters'], `expected ${other} among them, whose catalog the registry reads`);
  }
  return datacenters;
}

/** With `naming: consul`, of which datacenter the targets of `parent` lie in a zone below it; undefined: of none. */
export function shadowed(parent: ZoneConfig, { name }: ZoneConfig): string | undefined {
  if (parent.naming !== 'consul') return undefined;
  const child = `.${name}`;
  return parent.datacenters.find((datacenter) =>
    ['node', 'addr']
      .map((kind) => `.${kind}.${datacenter}.${parent.name}`)
      .some((place) => place.endsWith(child) || child.endsWith(place)),
  );
}
