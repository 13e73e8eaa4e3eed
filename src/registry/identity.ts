/** The identity of a registry: what a snapshot and a report belong to. */
import { createHash } from 'node:crypto';
import { showListen } from '../config/addresses.js';
import type { RegistryConfig } from '../config/types.js';

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
      // What is known on demand is no list of all, and the other way round (R29).
      return `${[...addresses].sort().join(',')}${parts.join('')}${config.mirror === 'asked' ? '#asked' : ''}`;
    }
    case 'dns':
      return `${config.servers.map(showListen).join(',')}/${config.names?.join(',') ?? config.zone}`;
    case 'http':
      return shownUrl(config.url);
  }
}

/** A URL as it may be shown and kept: what it asks for may be a secret, and stands as a digest that tells it apart. */
export function shownUrl(text: string): string {
  const at = text.indexOf('?');
  if (at === -1) return text;
  return `${text.slice(0, at)}?${createHash('sha256').update(text.slice(at)).digest('hex').slice(0, 8)}`;
}

/** All registries of a zone, in order of belief: the `registry` of its snapshot (R29). */
export function zoneIdentity(registries: readonly RegistryConfig[]): string {
  return registries.map(registryIdentity).join(' ');
}
