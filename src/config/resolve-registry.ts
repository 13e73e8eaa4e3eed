/** A registry section that has passed the schema: what must hold between its options and those of its zone. */
import { resolve as resolvePath } from 'node:path';
import type { Ms } from '../system/clock.js';
import type { KeyPath } from './errors.js';
import { ResolveFault } from './resolve-fault.js';
import type { RegistryValues } from './schema/registry.js';
import type {
  ConsulRegistryConfig,
  DnsRegistryConfig,
  EtcdRegistryConfig,
  FileRegistryConfig,
  FilterConfig,
  HttpRegistryConfig,
  KindConfig,
  RegistryConfig,
  TlsConfig,
} from './types.js';
import { formatDuration } from './units.js';

interface ZonePart {
  readonly name: string;
  readonly softTtl: Ms;
}

/** Liveness reads nearer to one another than a second could not be told from a slow network (R2). */
const WATCHED_LEAST_SOFT_TTL_MS: Ms = 2_000;

/**
 * @param at the registry's own place in the file
 * @param zoneAt that of its zone
 * @throws ResolveFault
 */
export function resolveRegistry(
  values: RegistryValues,
  at: KeyPath,
  zone: ZonePart,
  zoneAt: KeyPath,
  folder: string,
): RegistryConfig {
  const kind = resolveKind(values, at, zone, zoneAt, folder);
  const { tag, prefix, services } = values.filter ?? {};
  const filter: FilterConfig = {
    ...(tag === undefined ? {} : { tag }),
    ...(prefix === undefined ? {} : { prefix }),
    ...(services === undefined ? {} : { services }),
  };
  return Object.keys(filter).length === 0 ? kind : { ...kind, filter };
}

function resolveKind(values: RegistryValues, at: KeyPath, zone: ZonePart, zoneAt: KeyPath, folder: string): KindConfig {
  switch (values.type) {
    case 'file':
      return resolveFile(values, at, folder);
    case 'etcd': {
      requireSoftTtl(zone, zoneAt, 'etcd');
      const { layout, endpoints, port } = values;
      const config: EtcdRegistryConfig = {
        type: 'etcd',
        endpoints,
        layout,
        prefix: layout === 'skydns' ? skydnsPrefix(values.prefix, zone.name) : (values.prefix ?? '/holdfast'),
        ...(port === undefined ? {} : { port }),
        ...resolvePassword(values, at, folder),
        ...resolveTls(values, at, folder),
      };
      return config;
    }
    case 'consul': {
      requireSoftTtl(zone, zoneAt, 'Consul');
      const { address, addresses, tokenFile, datacenter, namespace, partition, stale, maxLag, kvPrefix, mirror } =
        values;
      if (address !== undefined && addresses !== undefined) {
        throw new ResolveFault([...at, 'addresses'], 'expected either address or addresses, not both');
      }
      const config: ConsulRegistryConfig = {
        type: 'consul',
        addresses: addresses ?? [address ?? 'http://127.0.0.1:8500'],
        ...(tokenFile === undefined ? {} : { tokenFile: resolvePath(folder, tokenFile) }),
        ...(datacenter === undefined ? {} : { datacenter }),
        ...(namespace === undefined ? {} : { namespace }),
        ...(partition === undefined ? {} : { partition }),
        stale,
        maxLag,
        kvPrefix: kvPrefix ?? `holdfast/${zone.name}`,
        mirror,
        ...resolveTls(values, at, folder),
      };
      return config;
    }
    case 'dns':
      return resolveDns(values, at, zone, zoneAt, folder);
    case 'http': {
      if (zone.softTtl < 2 * values.interval) {
        const least = formatDuration(2 * values.interval);
        throw new ResolveFault(
          [...zoneAt, 'softTtl'],
          `expected ${least} or more: the list is read every ${formatDuration(values.interval)} (registry.interval), and a good read confirms it (R2)`,
        );
      }
      const { url, interval, serviceLabel, port, tokenFile } = values;
      if (tokenFile !== undefined && values.username !== undefined) {
        throw new ResolveFault([...at, 'tokenFile'], 'expected either tokenFile or username, not both');
      }
      const config: HttpRegistryConfig = {
        type: 'http',
        url,
        interval,
        serviceLabel,
        ...(port === undefined ? {} : { port }),
        ...(tokenFile === undefined ? {} : { tokenFile: resolvePath(folder, tokenFile) }),
        ...resolvePassword(values, at, folder),
        ...resolveTls(values, at, folder),
      };
      return config;
    }
  }
}

function requireSoftTtl(zone: ZonePart, zoneAt: KeyPath, registry: string): void {
  if (zone.softTtl >= WATCHED_LEAST_SOFT_TTL_MS) return;
  const least = formatDuration(WATCHED_LEAST_SOFT_TTL_MS);
  throw new ResolveFault([...zoneAt, 'softTtl'], `expected ${least} or more: ${registry} cannot confirm sooner (R2)`);
}

function resolveFile(
  { path, format, serviceLabel, port }: Extract<RegistryValues, { type: 'file' }>,
  at: KeyPath,
  folder: string,
): FileRegistryConfig {
  const file = { type: 'file', path: resolvePath(folder, path) } as const;
  if (format === 'targets') {
    const targets = { serviceLabel: serviceLabel ?? 'job', ...(port === undefined ? {} : { port }) };
    return { ...file, targets };
  }
  if (serviceLabel !== undefined) throw new ResolveFault([...at, 'serviceLabel'], 'expected only with format: targets');
  if (port !== undefined) throw new ResolveFault([...at, 'port'], 'expected only with format: targets');
  return file;
}

function resolveDns(
  values: Extract<RegistryValues, { type: 'dns' }>,
  at: KeyPath,
  zone: ZonePart,
  zoneAt: KeyPath,
  folder: string,
): DnsRegistryConfig {
  const { servers, transfer, names, interval, port, notify, tsigKeyFile } = values;
  if (transfer === undefined && names === undefined) {
    throw new ResolveFault([...at, 'transfer'], 'missing, expected transfer: axfr, or names');
  }
  for (const option of ['transfer', 'zone', 'notify'] as const) {
    if (names !== undefined && values[option] !== undefined) {
      throw new ResolveFault([...at, option], `expected either names or ${option}, not both`);
    }
  }
  if (zone.softTtl < 2 * interval) {
    throw new ResolveFault(
      [...zoneAt, 'softTtl'],
      `expected ${formatDuration(2 * interval)} or more: a read every ${formatDuration(interval)} (registry.interval) confirms it no sooner (R2)`,
    );
  }
  return {
    type: 'dns',
    servers,
    zone: values.zone ?? zone.name,
    interval,
    ...(names === undefined ? {} : { names }),
    ...(port === undefined ? {} : { port }),
    ...(notify === undefined ? {} : { notify }),
    ...(tsigKeyFile === undefined ? {} : { tsigKeyFile: resolvePath(folder, tsigKeyFile) }),
  };
}

/** `/skydns/internal/svc` for the zone svc.internal. */
function skydnsPrefix(prefix: string | undefined, zone: string): string {
  return [prefix ?? '/skydns', ...zone.split('.').reverse()].join('/');
}

function resolvePassword(
  { username, passwordFile }: { readonly username?: string | undefined; readonly passwordFile?: string | undefined },
  at: KeyPath,
  folder: string,
): { readonly username: string; readonly passwordFile: string } | undefined {
  if (username === undefined && passwordFile === undefined) return undefined;
  if (username === undefined) throw new ResolveFault([...at, 'passwordFile'], 'expected username beside it');
  if (passwordFile === undefined) throw new ResolveFault([...at, 'username'], 'expected passwordFile beside it');
  return { username, passwordFile: resolvePath(folder, passwordFile) };
}

function resolveTls(
  values: { readonly [K in keyof TlsConfig]: string | undefined },
  at: KeyPath,
  folder: string,
): TlsConfig {
  if (values.certFile !== undefined && values.keyFile === undefined) {
    throw new ResolveFault([...at, 'certFile'], 'expected keyFile beside it');
  }
  if (values.keyFile !== undefined && values.certFile === undefined) {
    throw new ResolveFault([...at, 'keyFile'], 'expected certFile beside it');
  }
  const files = (['caFile', 'certFile', 'keyFile'] as const).flatMap((name) => {
    const file = values[name];
    return file === undefined ? [] : [[name, resolvePath(folder, file)] as const];
  });
  const { tlsName } = values;
  return { ...Object.fromEntries(files), ...(tlsName === undefined ? {} : { tlsName }) };
}
