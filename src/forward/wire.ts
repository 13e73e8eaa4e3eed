/** Walking over records of a message without following anything. */
import { HEADER_BYTES, MAX_LABEL, MAX_NAME } from '../dns/constants.js';

/** One past the name at `at`; a pointer ends it. -1 when it is not all there. */
export function skipName(bytes: Uint8Array, at: number): number {
  for (;;) {
    const size = bytes[at];
    if (size === undefined) return -1;
    if (size === 0) return at + 1;
    if (size >= 0xc0) return at + 2 <= bytes.length ? at + 2 : -1;
    if (size > MAX_LABEL) return -1;
    at += size + 1;
  }
}

/**
 * As `skipName`, of a name that can be read: its pointers point back and behind the header (RFC 1035 s.4.1.4), so that
 * they come to an end, and it has no more than 255 octets. -1 otherwise.
 */
export function readableName(bytes: Uint8Array, start: number): number {
  let end = -1;
  let least = start;
  let octets = 1;
  let at = start;
  for (;;) {
    const size = bytes[at];
    if (size === undefined) return -1;
    if (size >= 0xc0) {
      if (at + 2 > bytes.length) return -1;
      if (end < 0) end = at + 2;
      const to = u16(bytes, at) & 0x3fff;
      if (to >= least || to < HEADER_BYTES) return -1;
      least = to;
      at = to;
      continue;
    }
    if (size > MAX_LABEL) return -1;
    if (size === 0) return end < 0 ? at + 1 : end;
    octets += size + 1;
    if (octets > MAX_NAME) return -1;
    at += size + 1;
  }
}

export function u16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!;
}

export function u32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

export function putU16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 8;
  bytes[at + 1] = value;
}

export function putU32(bytes: Uint8Array, at: number, value: number): void {
  putU16(bytes, at, value >>> 16);
  putU16(bytes, at + 2, value & 0xffff);
}
