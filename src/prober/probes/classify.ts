/** From what the system and the parsers say to what it means for the endpoint (R12), or for us (R15). */
import { readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import type { FailureKind } from '../feed.js';
import { closedTooEarly, endedByPeer, failure, local, type Outcome } from './attempt.js';

const REMOTE: Readonly<Record<string, FailureKind>> = {
  ECONNREFUSED: 'refused',
  ECONNRESET: 'reset',
  ECONNABORTED: 'reset',
  EPIPE: 'reset',
  EHOSTUNREACH: 'unroutable',
  EHOSTDOWN: 'unroutable',
  ETIMEDOUT: 'timeout',
  EPROTO: 'bad-status',
};

/** What answered does not speak the protocol. */
const FOREIGN = /^(HPE_|ERR_SSL_|ERR_TLS_|ERR_HTTP_)/;
/** Or says goodbye to the connection, or to the stream. */
const HTTP2 = /^ERR_HTTP2_/;

/** How long a look at the routing table is good for. */
const FORGET_MS = 5_000;

export interface SystemFault {
  readonly code?: string | undefined;
  readonly syscall?: string | undefined;
  readonly message?: string | undefined;
}

/**
 * Judges an error of a socket. What is not known to be the endpoint's fault is taken for ours: a mistake on that
 * side holds nothing back.
 */
export function classify(error: SystemFault, address: string, routed = hasDefaultRoute): Outcome {
  const code = error.code ?? '';
  if (code === 'ENETUNREACH')
    return routed(isIPv6(address) ? 6 : 4) ? failure('unroutable', code) : local('ENETUNREACH, no default route');
  // Node gives this code, without a system call, to a connection that was closed in good order but too early.
  if (code === 'ECONNRESET' && error.syscall === undefined) return closedTooEarly();
  const kind = REMOTE[code];
  if (kind === 'reset' || HTTP2.test(code)) return endedByPeer(kind ?? 'bad-status', code);
  if (kind !== undefined) return failure(kind, code);
  if (FOREIGN.test(code)) return failure('bad-status', code);
  return local(code === '' ? (error.message ?? 'unknown error') : code);
}

const routes = new Map<4 | 6, { readonly at: number; readonly has: boolean }>();

/** Whether the host has a default route; remembered for some seconds, since all targets fail at once. */
export function hasDefaultRoute(family: 4 | 6): boolean {
  const now = performance.now();
  const known = routes.get(family);
  if (known !== undefined && now - known.at < FORGET_MS) return known.has;
  const has = readDefaultRoute(family);
  routes.set(family, { at: now, has });
  return has;
}

/** A table that cannot be read has none: then the failure is local and holds nothing back. */
function readDefaultRoute(family: 4 | 6): boolean {
  try {
    return family === 4
      ? defaultIn4(readFileSync('/proc/net/route', 'utf8'))
      : defaultIn6(readFileSync('/proc/net/ipv6_route', 'utf8'));
  } catch {
    return false;
  }
}

/** `/proc/net/route`: interface, destination, gateway, flags, three counts, mask. */
export function defaultIn4(table: string): boolean {
  return table.split('\n').some((line) => {
    const fields = line.split('\t');
    return fields[1] === '00000000' && fields[7]?.trim() === '00000000' && isUsable(fields[3]);
  });
}

/** `/proc/net/ipv6_route`: destination, its length, source, its length, next hop, metric, two counts, flags, device. */
export function defaultIn6(table: string): boolean {
  return table.split('\n').some((line) => {
    const fields = line.trim().split(/\s+/);
    return fields[0] === '0'.repeat(32) && fields[1] === '00' && isUsable(fields[8]);
  });
}

const RTF_UP = 0x1;
/** An `unreachable` route: IPv6 always lists one as its last default. */
const RTF_REJECT = 0x200;

function isUsable(flags: string | undefined): boolean {
  const bits = Number.parseInt(flags ?? '', 16);
  return (bits & RTF_UP) !== 0 && (bits & RTF_REJECT) === 0;
}
