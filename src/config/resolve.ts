/** From a file that has passed the schema to the configuration: what must hold between options, paths, defaults. */
import { isIP } from 'node:net';
import { dirname, resolve as resolvePath } from 'node:path';
import { showListen } from './addresses.js';
import type { KeyPath } from './errors.js';
import { checkNameServers } from './name-server-load.js';
import { isOnDemand } from './on-demand.js';
import type { Places } from './places.js';
import { resolveConsulNames, shadowed } from './resolve-consul-names.js';
import { ResolveFault } from './resolve-fault.js';
import { checkServers, resolveForward } from './resolve-forward.js';
import { resolveRegistry } from './resolve-registry.js';
import { checkFault } from './schema/check.js';
import type { ConfigValues } from './schema/config.js';
import type { CheckConfig, Config, ListenAddress, ServiceSettings, ZoneConfig } from './types.js';

type ZoneValues = ConfigValues['zones'][number];

/** sun_path has 108 bytes with its end. */
const MAX_SOCKET_PATH = 107;

/** Throws a ResolveFault. Relative paths start from the folder of `file`. */
export function resolveConfig(values: ConfigValues, file: string, places: Places): Config {
  const folder = dirname(resolvePath(file));
  checkDistinct(values.listen, ['listen']);
  if (values.admin && values.listen.some((address) => same(address, values.admin!))) {
    throw new ResolveFault(['admin'], `${showListen(values.admin)} is in listen already, expected another port`);
  }
  const runDir = values.runDir === undefined ? places.runDir : resolvePath(folder, values.runDir);
  if (Buffer.byteLength(`${runDir}/control.sock`) > MAX_SOCKET_PATH) {
    throw new ResolveFault(['runDir'], `expected a path short enough for sockets in it (${MAX_SOCKET_PATH} bytes)`);
  }
  const { source } = values.prober;
  for (const [i, address] of source.entries()) {
    if (source.slice(0, i).some((other) => isIP(other) === isIP(address)))
      throw new ResolveFault(['prober', 'source', i], 'expected one address of each family');
  }
  const zones = values.zones.map((zone, i) => resolveZone(zone, ['zones', i], values.listen, folder));
  checkZoneNames(zones);
  checkTargets(zones);
  checkNameServers(zones);
  checkServers(values.bootstrap, ['bootstrap'], values.listen);
  const forward = resolveForward(values, (path) => resolvePath(folder, path));
  return {
    version: 1,
    file: resolvePath(file),
    listen: values.listen,
    workers: values.workers,
    transport: values.transport,
    stateDir: values.stateDir === undefined ? places.stateDir : resolvePath(folder, values.stateDir),
    runDir,
    ...(values.admin ? { admin: values.admin } : {}),
    zones,
    ...(forward ? { forward } : {}),
    tcp: values.tcp,
    ...(values.bootstrap.length > 0 ? { bootstrap: values.bootstrap } : {}),
    prober: values.prober,
    register: { path: resolvePath(folder, values.register.path) },
    log: values.log,
  };
}

function resolveZone(zone: ZoneValues, at: KeyPath, listen: readonly ListenAddress[], folder: string): ZoneConfig {
  if (zone.registry && zone.registries) {
    throw new ResolveFault([...at, 'registries'], 'expected either registry or registries, not both');
  }
  const registries = zone.registries ?? (zone.registry ? [zone.registry] : undefined);
  if (!registries) {
    throw new ResolveFault([...at, 'registry'], 'missing, expected a map such as { type: file, path: services.yaml }');
  }
  const datacenters = resolveConsulNames(zone, registries, at, listen);
  if (zone.listen) checkView(zone.listen, [...at, 'listen'], listen);
  const { registry: _one, registries: _many, listen: view, maxAnswers, addressSpace, services, check, ...rest } = zone;
  const resolved = registries.map((registry, i) => {
    const where = zone.registries ? [...at, 'registries', i] : [...at, 'registry'];
    return resolveRegistry(registry, where, zone, at, folder);
  });
  const texts = resolved.map((registry) => JSON.stringify(registry));
  const asked = resolved.findIndex(isOnDemand);
  if (asked >= 0 && resolved.length > 1) {
    throw new ResolveFault(
      [...at, 'registries', asked, 'mirror'],
      'expected all: a registry on demand is the only one of its zone (R33)',
    );
  }
  for (const [i, text] of texts.entries()) {
    if (texts.indexOf(text) < i) throw new ResolveFault([...at, 'registries', i], 'this registry is there twice');
  }
  return {
    ...rest,
    datacenters,
    registries: resolved,
    check: resolveCheck(check, [...at, 'check']),
    services: resolveServices(services, check, [...at, 'services']),
    ...(view ? { listen: view } : {}),
    ...(maxAnswers === undefined ? {} : { maxAnswers }),
    ...(addressSpace === undefined ? {} : { addressSpace }),
  };
}

/** Throws a ResolveFault. */
export function resolveCheck(check: ZoneValues['check'], at: KeyPath): CheckConfig {
  const fault = checkFault(check);
  if (fault) throw new ResolveFault([...at, ...fault.at], fault.message);
  const failOpenWindow = Math.max(check.failOpenWindow, 3 * check.interval);
  return { ...withoutAbsent(check), failOpenWindow } as CheckConfig;
}

function resolveServices(
  services: ZoneValues['services'],
  zoneCheck: ZoneValues['check'],
  at: KeyPath,
): ZoneConfig['services'] {
  const aliases = new Map<string, string>();
  return Object.entries(services).map(([match, { check, alias, ...rest }]) => {
    if (alias !== undefined) {
      if (/[*?]/.test(match))
        throw new ResolveFault([...at, match, 'alias'], 'expected only for one service, not a glob');
      const other = aliases.get(alias);
      if (other !== undefined)
        throw new ResolveFault([...at, match, 'alias'], `${alias} is the alias of ${other} already`);
      aliases.set(alias, match);
    }
    if (check) {
      const fault = checkFault({ ...zoneCheck, ...(withoutAbsent(check) as Partial<ZoneValues['check']>) });
      if (fault) throw new ResolveFault([...at, match, 'check', ...fault.at], fault.message);
    }
    const settings = {
      ...withoutAbsent(rest),
      ...(alias === undefined ? {} : { alias }),
      ...(check ? { check: withoutAbsent(check) } : {}),
    };
    return { match, settings: settings as ServiceSettings };
  });
}

function withoutAbsent<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}

function checkDistinct(addresses: readonly ListenAddress[], at: KeyPath): void {
  for (const [i, address] of addresses.entries()) {
    if (addresses.slice(0, i).some((other) => same(other, address))) {
      throw new ResolveFault([...at, i], `${showListen(address)} is there twice`);
    }
  }
}

function checkView(view: readonly ListenAddress[], at: KeyPath, listen: readonly ListenAddress[]): void {
  checkDistinct(view, at);
  for (const [i, address] of view.entries()) {
    if (!listen.some((other) => same(other, address))) {
      throw new ResolveFault([...at, i], `expected one of the listen addresses, got ${showListen(address)}`);
    }
  }
}

/** No zone may own the names that another one's SRV records lead to (R21: the longest owns a name, alone). */
function checkTargets(zones: readonly ZoneConfig[]): void {
  for (const parent of zones) {
    for (const [i, child] of zones.entries()) {
      const datacenter = child.name.endsWith(`.${parent.name}`) ? shadowed(parent, child) : undefined;
      if (datacenter === undefined || areApart(parent, child)) continue;
      throw new ResolveFault(
        ['zones', i, 'name'],
        `${child.name} would hide names to which records of ${parent.name} lead: leave ${datacenter} out of its datacenters, or this zone out`,
      );
    }
  }
}

function areApart(one: ZoneConfig, other: ZoneConfig): boolean {
  return one.listen !== undefined && other.listen?.some((a) => one.listen!.some((b) => same(a, b))) === false;
}

/** One name may be several zones only where no address has two of them (R31). */
function checkZoneNames(zones: readonly ZoneConfig[]): void {
  for (const [i, zone] of zones.entries()) {
    for (const other of zones.slice(0, i)) {
      if (other.name !== zone.name) continue;
      if (JSON.stringify(other.agentDns) !== JSON.stringify(zone.agentDns)) {
        throw new ResolveFault(['zones', i, 'agentDns'], `expected the same in all views of ${zone.name}`);
      }
      if (!areApart(zone, other)) {
        throw new ResolveFault(
          ['zones', i, 'name'],
          `${zone.name} is there twice; views of one zone need listen addresses of their own`,
        );
      }
    }
  }
}

function same(a: ListenAddress, b: ListenAddress): boolean {
  return a.address === b.address && a.port === b.port;
}
