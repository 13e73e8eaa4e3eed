/** The target of a registration, by the type of its registry. */
import { registryIdentity } from '../registry/identity.js';
import { ConsulTarget } from './consul-target.js';
import type { Registration } from './entry.js';
import { EtcdTarget } from './etcd-target.js';
import { FileTarget } from './file-target.js';
import type { Target } from './target.js';
import type { WatchedProcess } from './watched-process.js';

export interface TargetContext {
  /** See `owner.ts`. */
  readonly owner: string;
  readonly watched?: WatchedProcess;
}

/** @throws Error for a registry that cannot be registered in, which a plan refuses before. */
export function openTarget({ registry, entry, ttl }: Registration, { owner, watched }: TargetContext): Target {
  switch (registry.type) {
    case 'file': {
      const { service, id } = entry;
      return new FileTarget(registry, { service, id, owner, ttl, ...(watched === undefined ? {} : { watched }) });
    }
    case 'etcd':
      return new EtcdTarget(registry, { ttl, owner });
    case 'consul':
      return new ConsulTarget(registry, { id: entry.id, ttl, owner });
    default:
      throw new Error(`nothing can be registered in a registry of type ${registry.type}`);
  }
}

/** The registry in which it is, and its id there: two of one key would be one entry. */
export function registrationKey({ registry, entry }: Registration): string {
  // An agent of Consul knows ids only, whatever the service.
  return `${registryIdentity(registry)} ${registry.type === 'consul' ? '' : `${entry.service}/`}${entry.id}`;
}
