import type { SharedZone } from '../answers/shared.js';
import { NEAR_PREFIXES } from '../config/near-prefixes.js';
import { prefixBytes } from '../dns/addresses.js';
import type { Peer } from './reply.js';

/** Who may ask, as words. */
export type Allowed = Pick<SharedZone, 'allow4' | 'allow6'>;

/** Of prefixes such as `10.0.0.0/8`; what is none is left out. */
export function allowed(prefixes: readonly string[]): Allowed {
  const parsed = prefixes.map((text) => prefixBytes(text)).filter((prefix) => prefix !== undefined);
  const words = (bytes: number): Int32Array =>
    Int32Array.from(
      parsed
        .filter(({ mask }) => mask.length === bytes)
        .flatMap(({ network, mask }) =>
          [network, mask].flatMap((part) => Array.from({ length: bytes / 4 }, (_, i) => word(part, i * 4))),
        ),
    );
  return { allow4: words(4), allow6: words(16) };
}

const near = allowed(NEAR_PREFIXES);

/**
 * Where anybody may ask, the sender of a datagram may be anybody's address: one that is not near gets no more than
 * three times what was sent (RFC 9000 s.8.1 has the same figure), and the rest over TCP.
 */
const MOST_TIMES = 3;

/** Most bytes of a reply to a datagram of `length` bytes, where anybody may ask. */
export function strangerLimit(peer: Peer, length: number): number {
  return isNear(peer) ? Number.POSITIVE_INFINITY : MOST_TIMES * length;
}

function isNear(peer: Peer): boolean {
  return allows(near, peer);
}

/** May this client ask (R31)? */
export function allows(who: Allowed, peer: Peer): boolean {
  const { bytes, offset } = peer;
  if (peer.family === 4) {
    const { allow4 } = who;
    const address = word(bytes, offset);
    for (let i = 0; i < allow4.length; i += 2) if ((address & allow4[i + 1]!) === allow4[i]) return true;
    return false;
  }
  const { allow6 } = who;
  for (let i = 0; i < allow6.length; i += 8) {
    let part = 0;
    while (part < 4 && (word(bytes, offset + part * 4) & allow6[i + 4 + part]!) === allow6[i + part]) part++;
    if (part === 4) return true;
  }
  return false;
}

function word(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
}
