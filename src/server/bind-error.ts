/** What to tell a person whose listen address cannot be bound. */
import type { ListenAddress } from '../config/types.js';
import { hostPort } from './listen-plan.js';
import { findPortHolders, type PortHolder } from './port-holder.js';

/** A failed bind, as it crosses from a worker. */
export interface BindFailure {
  /** errno's name, such as `EADDRINUSE`. */
  readonly code: string;
  readonly message: string;
}

/** The sentence, with whoever holds the port now. `key` is where the configuration has the address. */
export async function explainBindFailure(
  { address, port }: ListenAddress,
  protocol: 'udp' | 'tcp',
  failure: BindFailure,
  key: 'listen' | 'admin' = 'listen',
): Promise<string> {
  const holders = failure.code === 'EADDRINUSE' ? await findPortHolders(address, port, protocol) : [];
  return describeBindFailure(address, port, protocol, failure, holders, key);
}

/** One sentence: what, who, what to do. */
export function describeBindFailure(
  address: string,
  port: number,
  protocol: 'udp' | 'tcp',
  failure: BindFailure,
  holders: readonly PortHolder[],
  key = 'listen',
): string {
  const what = `${hostPort(address, port)} (${protocol.toUpperCase()})`;
  switch (failure.code) {
    case 'EADDRINUSE': {
      const who = holders.length
        ? `is in use by ${holders.map((h) => `${h.name} (pid ${h.pid})`).join(' and ')}`
        : 'is in use by a process that this user may not see (as root: ss -lunp and ss -ltnp)';
      return `${what} ${who}: ${remedy(holders, key)}`;
    }
    case 'EACCES':
      return `${what} may not be bound by this user: ports below 1024 need root or CAP_NET_BIND_SERVICE (in a unit: AmbientCapabilities=CAP_NET_BIND_SERVICE)`;
    case 'EADDRNOTAVAIL':
      return `${what}: no interface of this host has that address`;
    case 'EAFNOSUPPORT':
      return `${what}: this host has no ${address.includes(':') ? 'IPv6' : 'IPv4'}`;
    default:
      return `${what}: ${failure.message}`;
  }
}

function remedy(holders: readonly PortHolder[], key: string): string {
  if (holders.some((h) => h.name.startsWith('systemd-resolve')))
    return `set DNSStubListener=no in /etc/systemd/resolved.conf, or give another address under "${key}"`;
  return `stop it, or give another address or port under "${key}"`;
}
