/** Limits of the TCP side (RFC 7766 s.6.2, RFC 9210 s.4). */
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

export const DEFAULT_TCP_LIMITS: TcpLimits = {
  maxConnections: 1_024,
  maxConnectionsPerClient: 128,
  idleTimeout: 10_000,
  messageTimeout: 5_000,
};
