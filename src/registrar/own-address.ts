/** The address under which others reach this host, when nobody says it. */
import { networkInterfaces } from 'node:os';

const LINK_LOCAL = /^(?:169\.254\.|fe[89ab])/i;
const LOOPBACK = '127.0.0.1';

/**
 * The first address that is neither loopback nor link-local, IPv4 first; loopback when there is none. `before` is kept
 * for as long as this host has it: the order of interfaces tells nothing.
 */
export function ownAddress(before?: string, interfaces = networkInterfaces()): string {
  const usable = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter(({ internal, address }) => !internal && !LINK_LOCAL.test(address));
  if (usable.some(({ address }) => address === before)) return before!;
  return (usable.find(({ family }) => family === 'IPv4') ?? usable[0])?.address ?? LOOPBACK;
}
