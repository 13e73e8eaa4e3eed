/** The identity of a registry: what a snapshot and a report belong to. */
import type { RegistryConfig } from '../config/types.js';

/** One registry, without secrets, such as `file:/etc/holdfast/services.yaml`. */
export function registryIdentity(config: RegistryConfig): string {
  return `${config.type}:${config.path}`;
}

/** All registries of a zone, in order of belief: the `registry` of its snapshot (R29). */
export function zoneIdentity(registries: readonly RegistryConfig[]): string {
  return registries.map(registryIdentity).join(' ');
}
