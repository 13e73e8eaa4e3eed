/** Walking over records of a message without following anything. */
import { MAX_LABEL } from '../dns/constants.js';

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
