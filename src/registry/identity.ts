/** The identity of a registry: what a snapshot and a report belong to. */
import type { ListenAddress, RegistryConfig } from '../config/types.js';

/** One registry, without secrets, such as `file:/etc/holdfast/services.yaml`; a part of one with its filter. */
export function registryIdentity(config: RegistryConfig): string {
  const { tag, prefix, services } = config.filter ?? {};
  const filter = [
    ...(tag === undefined ? [] : [`tag=${tag}`]),
    ...(prefix === undefined ? [] : [`prefix=${prefix}`]),
    ...(services === undefined ? [] : [`services=${services.join(',')}`]),
  ];
  return `${config.type}:${registryPlace(config)}${filter.length === 0 ? '' : `[${filter.join(' ')}]`}`;
}

/** Where a registry is: a path, a URL, or the members of a cluster with the prefix. */
export function registryPlace(config: RegistryConfig): string {
  switch (config.type) {
    case 'file':
      return config.path;
    case 'etcd':
      return `${[...config.endpoints].sort().join(',')}${config.prefix}`;
    case 'consul': {
      const { addresses, datacenter, partition, namespace } = config;
      const parts = [datacenter, partition, namespace].map((part) => (part === undefined ? '' : `/${part}`));
      return `${[...addresses].sort().join(',')}${parts.join('')}`;
    }
    case 'dns':
      return `${config.servers.map(server).join(',')}/${config.names?.join(',') ?? config.zone}`;
    case 'http':
      return config.url;
  }
}

function server({ address, port }: ListenAddress): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** All registries of a zone, in order of belief: the `registry` of its snapshot (R29). */
export function zoneIdentity(registries: readonly RegistryConfig[]): string {
  return registries.map(registryIdentity).join(' ');
}
