/** A registration that has passed the schema, in the zone it is for: its registry, and what must hold between them. */
import { hostname } from 'node:os';
import { section } from '../config/options.js';
import { resolveCheck } from '../config/resolve.js';
import { ResolveFault } from '../config/resolve-fault.js';
import { checkOptions } from '../config/schema/check.js';
import type { RegistrationValues } from '../config/schema/registration.js';
import type { CheckConfig, Config, RegistryConfig, ZoneConfig } from '../config/types.js';
import type { Registration } from './entry.js';

/** In which something can be registered. */
const WRITABLE: readonly string[] = ['file', 'etcd', 'consul'];
const OF_UDP: readonly string[] = ['udp', 'dns', 'exec'];

/** Throws a ResolveFault. */
export function resolveRegistration(values: RegistrationValues, config: Pick<Config, 'zones'>): Registration {
  const zone = zoneOf(values.zone, config.zones);
  const registry = registryOf(zone);
  const { name, port, address, id, protocol, portName, tags, priority, weight, ttl, whenHealthy, drain } = values;
  const check = checkOf(values);
  const entry: Registration['entry'] = {
    service: name,
    id: id ?? defaultId(name, port),
    ...(address === undefined ? {} : { address }),
    port,
    protocol,
    ...(portName === undefined ? {} : { portName }),
    tags: [...new Set(tags)],
    ...(priority === undefined ? {} : { priority }),
    ...(weight === undefined ? {} : { weight }),
  };
  checkWritable(registry, entry);
  return { zone: zone.name, registry, entry, ttl, ...(check === undefined ? {} : { check }), whenHealthy, drain };
}

function zoneOf(wanted: string | undefined, zones: readonly ZoneConfig[]): ZoneConfig {
  const names = [...new Set(zones.map(({ name }) => name))];
  if (wanted === undefined && names.length > 1) {
    throw new ResolveFault(['zone'], `missing, expected one of ${names.join(', ')}`);
  }
  const zone = zones.find(({ name }) => name === (wanted ?? names[0]));
  if (zone === undefined) throw new ResolveFault(['zone'], `expected a zone of the configuration: ${names.join(', ')}`);
  return zone;
}

/** The first in order of belief that can be written to. */
function registryOf(zone: ZoneConfig): RegistryConfig {
  const registry = zone.registries.find(({ type }) => WRITABLE.includes(type));
  if (registry === undefined) {
    const types = zone.registries.map(({ type }) => type).join(', ');
    throw new ResolveFault(['zone'], `nothing can be registered in the registry of ${zone.name} (${types})`);
  }
  if (registry.type === 'file' && /\.(?:ya?ml|json)$/.test(registry.path)) {
    const problem = `the registry of ${zone.name} is one file, ${registry.path}: a registrar needs a directory of them`;
    throw new ResolveFault(['zone'], problem);
  }
  return registry;
}

function checkOf({ check, whenHealthy, protocol }: RegistrationValues): CheckConfig | undefined {
  if (check === undefined && !whenHealthy) return undefined;
  const config = resolveCheck(check ?? DEFAULT_CHECK, ['check']);
  if (config.type === 'none' && whenHealthy)
    throw new ResolveFault(['check', 'type'], 'expected a check with whenHealthy');
  if (protocol === 'udp' && !OF_UDP.includes(config.type)) {
    throw new ResolveFault(['check', 'type'], `expected ${OF_UDP.join(', ')}: the service is of UDP`);
  }
  return config.type === 'none' ? undefined : config;
}

const CHECK = section(checkOptions, '', { required: true });
const DEFAULT_CHECK = CHECK.schema.parse({}) as Parameters<typeof resolveCheck>[0];

/** What a registry has no word for. */
function checkWritable(registry: RegistryConfig, { service, id, tags, priority, weight }: Registration['entry']): void {
  if (registry.type === 'consul' && weight === 0) {
    throw new ResolveFault(['weight'], 'expected 1 or more: Consul has no weight of 0');
  }
  if (registry.type === 'etcd' && registry.layout === 'skydns') {
    for (const [key, value] of [
      ['priority', priority],
      ['weight', weight],
    ] as const) {
      if (value === 0)
        throw new ResolveFault([key], 'expected 1 or more: in the layout skydns 0 stands for the default');
    }
    for (const [path, label] of [
      [['name'], service],
      [['id'], id],
      ...tags.map((tag, i) => [['tags', i], tag] as const),
    ] as const) {
      if (!/^[A-Za-z0-9-]+$/.test(label)) {
        throw new ResolveFault(path, `expected letters, digits and hyphens, since it is a label in the layout skydns`);
      }
    }
  }
}

function defaultId(name: string, port: number): string {
  const host = hostname()
    .split('.')[0]!
    .replace(/[^A-Za-z0-9-]/g, '-');
  const whole = `${name}-${host === '' ? 'host' : host}-${port}`;
  return whole.length <= 63 ? whole : `${whole.slice(0, 56 - String(port).length)}-${port}`;
}
