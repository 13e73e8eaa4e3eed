import type { SharedZone } from '../answers/shared.js';
import type { Peer } from './plan.js';

/** May this client ask this zone (R31)? */
export function allows(zone: SharedZone, peer: Peer): boolean {
  const { bytes, offset } = peer;
  if (peer.family === 4) {
    const { allow4 } = zone;
    const address = word(bytes, offset);
    for (let i = 0; i < allow4.length; i += 2) if ((address & allow4[i + 1]!) === allow4[i]) return true;
    return false;
  }
  const { allow6 } = zone;
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
