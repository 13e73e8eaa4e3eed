/** What a registrar wants a registry to hold. */
import type { CheckConfig, RegistryConfig } from '../config/types.js';
import type { Protocol } from '../registry/registry.js';
import type { Ms } from '../system/clock.js';

/** One endpoint as its registry is to list it. */
export interface Entry {
  readonly service: string;
  readonly id: string;
  /** An IP address in canonical text. */
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly portName?: string;
  readonly tags: readonly string[];
  /** Absent: what the registry takes without one. */
  readonly priority?: number;
  readonly weight?: number;
  readonly state: 'passing' | 'critical' | 'draining';
}

/** A registration as somebody asked for it. Plain data: it comes from another process. */
export interface Registration {
  readonly zone: string;
  readonly registry: RegistryConfig;
  /** Without an address: that of this host. */
  readonly entry: Omit<Entry, 'state' | 'address'> & { readonly address?: string };
  /** How long the registry keeps it without a sign of life. */
  readonly ttl: Ms;
  /** The local check, if any. */
  readonly check?: CheckConfig;
  /** Registered only while the check passes. Otherwise a failing check is told as a critical state. */
  readonly whenHealthy: boolean;
  /** How long it is marked as draining before it is removed. */
  readonly drain: Ms;
}

/** From one comparison of what is wanted with what the registry holds to the next. */
export function periodOf(ttl: Ms): Ms {
  return ttl / 3;
}
