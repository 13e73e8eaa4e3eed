/** The adapter of a registry, by its type. */
import type { Cidr, LimitsConfig, RegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import { EtcdRegistry } from './etcd.js';
import { FileRegistry } from './file.js';
import { HttpRegistry } from './http.js';
import type { Adapter } from './sync.js';

/** What an adapter is told of its zone. */
export interface AdapterZone {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
}

export function openAdapter(config: RegistryConfig, { softTtl, limits, allowAddresses }: AdapterZone): Adapter {
  const zone = { softTtl, limits, allowAddresses };
  switch (config.type) {
    case 'file':
      return new FileRegistry(config, zone);
    case 'etcd':
      return new EtcdRegistry(config, zone);
    case 'http':
      return new HttpRegistry(config, zone);
  }
}
