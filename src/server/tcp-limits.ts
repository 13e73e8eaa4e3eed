/** Limits of the TCP side (RFC 7766 s.6.2, RFC 9210 s.4). */
import { readFileSync } from 'node:fs';
import type { Ms } from '../system/clock.js';

export interface TcpLimits {
  readonly maxConnections: number;
  /** For one client address that is not loopback: on loopback all clients share one. */
  readonly maxConnectionsPerClient: number;
  /** A connection without a whole message for so long is closed. */
  readonly idleTimeout: Ms;
  /** From the first byte of a message to its last; also how long unread answers may make no headway. */
  readonly messageTimeout: Ms;
}

const DEFAULT_TCP_LIMITS: TcpLimits = {
  maxConnections: 1_024,
  maxConnectionsPerClient: 128,
  idleTimeout: 10_000,
  messageTimeout: 5_000,
};

/**
 * The limits with their defaults, the cap kept below what descriptors allow: without one left the kernel's queue can
 * only be thrown away, the newest with the rest.
 */
export function tcpLimits(wanted: Partial<TcpLimits>, descriptors: number = descriptorLimit()): TcpLimits {
  const limits = { ...DEFAULT_TCP_LIMITS, ...wanted };
  return { ...limits, maxConnections: Math.max(1, Math.min(limits.maxConnections, Math.floor(descriptors / 2))) };
}

function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return soft === undefined ? Number.POSITIVE_INFINITY : Number(soft);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
