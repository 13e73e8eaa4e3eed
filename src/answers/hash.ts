/**
 * The hash of names: FNV-1a over the lower-cased wire form, from the last octet before the root label to the first.
 * Right to left, because every suffix's hash then falls off on the way, and a zone is found by its suffix.
 */
import { FOLD } from '../dns/names.js';

export const HASH_PRIME = 0x01000193;

export function hashStart(seed: number): number {
  return (0x811c9dc5 ^ seed) | 0;
}

/** Hash of the uncompressed name at `start` that ends (root label included) before `end`. */
export function hashName(seed: number, bytes: Uint8Array, start: number, end: number): number {
  let hash = hashStart(seed);
  for (let at = end - 2; at >= start; at--) hash = Math.imul(hash ^ FOLD[bytes[at]!]!, HASH_PRIME);
  return hash;
}

/** The index's hash of a name within a zone. */
export function zoneHash(hash: number, zone: number): number {
  const mixed = Math.imul(hash ^ Math.imul(zone + 1, 0x9e3779b1), 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
