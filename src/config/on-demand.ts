import type { RegistryConfig } from './types.js';

/** R33: services are looked up when they are asked for. */
export function isOnDemand(registry: RegistryConfig): boolean {
  return registry.type === 'consul' && registry.mirror === 'asked';
}
