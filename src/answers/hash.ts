/**
 * The hash of names over their wire form, from the last octet before the root label to the first. Right to left and
 * label by label, because every suffix's hash then falls off on the way, and a zone is found by its suffix.
 */
const HASH_PRIME = 0x9e3779b1;
/** Makes a letter lower case. Other octets become equal to one another too, which a comparison of the names tells. */
const LOWER = 0x20;
const LOWER_WORD = 0x20202020;
const MOST_LABELS = 128;

const starts = new Uint8Array(MOST_LABELS);

export function hashStart(seed: number): number {
  return (0x811c9dc5 ^ seed) | 0;
}

/** Takes the octets of a label from `last` back to `start`, its length octet, into the hash of what stands behind it. */
export function hashLabel(hash: number, bytes: Uint8Array, start: number, last: number): number {
  let mixed = hash;
  let at = last;
  for (; at - start >= 3; at -= 4) {
    const word = bytes[at]! | (bytes[at - 1]! << 8) | (bytes[at - 2]! << 16) | (bytes[at - 3]! << 24);
    mixed = Math.imul(mixed ^ (word | LOWER_WORD), HASH_PRIME);
    mixed ^= mixed >>> 15;
  }
  for (; at >= start; at--) mixed = Math.imul(mixed ^ (bytes[at]! | LOWER), HASH_PRIME);
  return mixed;
}

/** Hash of the uncompressed name that begins at `start` and ends (root label included) before `end`. */
export function hashName(seed: number, bytes: Uint8Array, start: number, end: number): number {
  let labels = 0;
  for (let at = start; at < end - 1; at += bytes[at]! + 1) starts[labels++] = at - start;
  let hash = hashStart(seed);
  let last = end - 2;
  for (let label = labels - 1; label >= 0; label--) {
    const from = start + starts[label]!;
    hash = hashLabel(hash, bytes, from, last);
    last = from - 1;
  }
  return hash;
}

/** The index's hash of a name within a zone. */
export function zoneHash(hash: number, zone: number): number {
  const mixed = Math.imul(hash ^ Math.imul(zone + 1, 0x9e3779b1), 0x85ebca6b);
  return mixed ^ (mixed >>> 15);
}
