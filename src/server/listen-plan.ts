import { isIPv4, isIPv6 } from 'node:net';
/** From the configured listen addresses to the sockets that serve them. Pure. */
import type { ListenAddress } from '../config/types.js';

/** One socket to bind, for UDP and for TCP alike. */
export interface SocketPlan {
  /** Identity over reloads: a socket whose key stays is not closed. */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly family: 4 | 6;
  /** Bound to the unspecified address: the address that was asked must be learnt for each query. */
  readonly wildcard: boolean;
  /** `[::]` without a `0.0.0.0` beside it serves IPv4 too. */
  readonly dual: boolean;
  /** Index of the listen address that queries belong to. */
  readonly listen: number;
  /** Listed addresses that this wildcard covers: a second socket for them could not be bound. */
  readonly covers: readonly CoveredAddress[];
}

export interface CoveredAddress {
  readonly address: string;
  readonly listen: number;
}

const isWildcard = (address: string) => address === '0.0.0.0' || address === '::';

/** Whether a socket on a wildcard takes queries to `address`. */
function takes(wildcard: string, dual: boolean, address: string): boolean {
  if (wildcard === '0.0.0.0') return isIPv4(address);
  return dual ? true : isIPv6(address);
}

/** One plan a socket. Doubles collapse: the first one's index stands. */
export function planSockets(listen: readonly ListenAddress[]): SocketPlan[] {
  const listed = (address: string, port: number) => listen.some((a) => a.address === address && a.port === port);
  const plans: (SocketPlan & { covers: CoveredAddress[] })[] = [];
  const add = ({ address, port }: ListenAddress, index: number): void => {
    if (plans.some((p) => p.address === address && p.port === port)) return;
    const dual = address === '::' && !listed('0.0.0.0', port);
    const wildcard = isWildcard(address);
    plans.push({
      key: `${address}|${port}|${dual ? 'dual' : 'single'}`,
      address,
      port,
      family: isIPv4(address) ? 4 : 6,
      wildcard,
      dual,
      listen: index,
      covers: [],
    });
  };
  listen.forEach((entry, index) => {
    if (isWildcard(entry.address)) add(entry, index);
  });
  const wildcards = [...plans];
  listen.forEach((entry, index) => {
    if (isWildcard(entry.address)) return;
    const cover = wildcards.find((p) => p.port === entry.port && takes(p.address, p.dual, entry.address));
    if (!cover) add(entry, index);
    else if (!cover.covers.some((c) => c.address === entry.address))
      cover.covers.push({ address: entry.address, listen: index });
  });
  return plans;
}

/** The socket that serves a listed address, if the plans were made from a list that holds it. */
export function socketFor(plans: readonly SocketPlan[], entry: ListenAddress): SocketPlan | undefined {
  return (
    plans.find((p) => p.address === entry.address && p.port === entry.port) ??
    plans.find((p) => p.port === entry.port && p.covers.some((c) => c.address === entry.address))
  );
}

/** The listen index of a query that came to `asked` (without a scope, v4-mapped given as IPv4). */
export function listenIndex(plan: SocketPlan, asked: string): number {
  if (plan.covers.length === 0) return plan.listen;
  return plan.covers.find((c) => c.address === asked)?.listen ?? plan.listen;
}

/** `address:port` as people write it. */
export function hostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
