/** The implementation of each `naming` (R21). */
import type { ZoneSpec } from '../contract.js';
import { ConsulNaming } from './consul.js';
import type { Naming } from './naming.js';
import { Rfc2782Naming } from './rfc2782.js';

/** `wire`: the zone's name. */
export function namingOf(spec: Pick<ZoneSpec, 'naming' | 'datacenters'>, wire: Uint8Array): Naming {
  return spec.naming === 'consul' ? new ConsulNaming(wire, spec.datacenters ?? []) : new Rfc2782Naming(wire);
}
