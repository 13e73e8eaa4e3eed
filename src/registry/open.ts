/** The adapter of a registry, by its type. */
import type { Cidr, LimitsConfig, RegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import { EtcdRegistry } from './etcd.js';
import { FileRegistry } from './file.js';
import { filtered } from './filter.js';
import { HttpRegistry } from './http.js';
import type { Adapter } from './sync.js';

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
}

export function openAdapter(config: RegistryConfig, { softTtl, limits, allowAddresses }: AdapterZone): Adapter {
  const { filter } = config;
  if (filter === undefined) return openKind(config, { softTtl, limits, allowAddresses });
  // The limits are the zone's, and what is not in its part is not its own.
  const adapter = openKind(config, { softTtl, limits: { ...limits, ...UNCOUNTED }, allowAddresses });
  return filtered(adapter, filter);
}

function openKind(config: RegistryConfig, zone: AdapterZone): Adapter {
  switch (config.type) {
    case 'file':
      return new FileRegistry(config, zone);
    case 'etcd':
      return new EtcdRegistry(config, zone);
    case 'http':
      return new HttpRegistry(config, zone);
  }
}
