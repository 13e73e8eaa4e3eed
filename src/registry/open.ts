/** The adapter of a registry, by its type. */
import type { LookupFunction } from 'node:net';
import type { Cidr, FilterConfig, LimitsConfig, RegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Adapter } from './adapter.js';
import { ConsulRegistry } from './consul.js';
import { AskedConsul } from './consul-asked.js';
import type { ConsulRegistryOptions } from './consul-source.js';
import { DnsRegistry } from './dns.js';
import { EtcdRegistry } from './etcd.js';
import { FileRegistry } from './file.js';
import { filtered, isOthers } from './filter.js';
import { HttpRegistry } from './http.js';
import type { SeenRevision } from './revision-memory.js';

/** As far as `limits.maxBody` lets them come. */
const UNCOUNTED = {
  maxServices: Number.MAX_SAFE_INTEGER,
  maxEndpoints: Number.MAX_SAFE_INTEGER,
  maxEndpointsPerService: Number.MAX_SAFE_INTEGER,
};

/** What an adapter is told of its zone. */
export interface AdapterZone {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  readonly naming: 'rfc2782' | 'consul';
  /** With `naming: consul`: those that are answered. */
  readonly datacenters: readonly string[];
  /** Of host names of the registry itself, see registry-hosts.ts. */
  readonly lookup?: LookupFunction | undefined;
  /** R6: what the registry was known to have come to before. */
  readonly seen?: SeenRevision | undefined;
}

export function openAdapter(config: RegistryConfig, zone: AdapterZone): Adapter {
  const { filter } = config;
  if (filter === undefined) return openKind(config, zone);
  // The limits are the zone's, and what is not in its part is not its own.
  const adapter = openKind(config, { ...zone, limits: { ...zone.limits, ...UNCOUNTED } });
  return filtered(adapter, filter);
}

function openKind(config: RegistryConfig, whole: AdapterZone): Adapter {
  const { softTtl, limits, allowAddresses, lookup } = whole;
  const zone = { softTtl, limits, allowAddresses, lookup };
  switch (config.type) {
    case 'file':
      return new FileRegistry(config, { ...zone, filter: config.filter });
    case 'etcd':
      return new EtcdRegistry(config, { ...zone, ...readPart(config.filter) });
    case 'consul':
      return openConsul(config, {
        ...zone,
        datacenters: whole.naming === 'consul' ? whole.datacenters : [],
        seen: whole.seen,
      });
    case 'dns':
      return new DnsRegistry(config, zone);
    case 'http':
      return new HttpRegistry(config, { ...zone, filter: config.filter });
  }
}

function openConsul(config: Extract<RegistryConfig, { type: 'consul' }>, options: ConsulRegistryOptions): Adapter {
  if (config.mirror === 'asked') return new AskedConsul(config, options);
  return new ConsulRegistry(config, { ...options, ...readPart(config.filter) });
}

/** What is not in the part need not be read, and whatever is wrong with it is no fault of the part. */
function readPart(filter: FilterConfig | undefined): { readonly wanted?: (service: string) => boolean } {
  return filter === undefined ? {} : { wanted: (service) => !isOthers(filter, service) };
}
