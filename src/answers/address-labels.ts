/** IPv4 addresses in the labels of a question (R23), read in place: it is on the query path. */
import { lower } from './naming/label-bytes.js';

const HYPHEN = 0x2d;
const ZERO = 0x30;
/** Lengths and letters of the labels of a reverse name after its four numbers. */
const IN_ADDR = [7, ...Buffer.from('in-addr')];

/** The address of a label `10-0-0-1`, in canonical form; -1 when it is none. `label`: the offset of its length octet. */
export function quadLabel(bytes: Uint8Array, label: number): number {
  const end = label + 1 + bytes[label]!;
  let address = 0;
  let octets = 0;
  let start = label + 1;
  for (let at = start; at <= end; at++) {
    if (at < end && bytes[at] !== HYPHEN) continue;
    const value = octet(bytes, start, at);
    if (value < 0 || octets === 4) return -1;
    address = address * 256 + value;
    octets++;
    start = at + 1;
  }
  return octets === 4 ? address : -1;
}

/** The address of a name `1.0.0.10.in-addr.arpa`, whose last label is known to be `arpa`; -1 when it is none. */
export function reverseQuad(bytes: Uint8Array, labels: Uint16Array, count: number): number {
  if (count !== 6) return -1;
  const last = labels[4]!;
  for (let i = 0; i < IN_ADDR.length; i++) if (lower(bytes[last + i]!) !== IN_ADDR[i]) return -1;
  let address = 0;
  for (let i = 3; i >= 0; i--) {
    const label = labels[i]!;
    const value = octet(bytes, label + 1, label + 1 + bytes[label]!);
    if (value < 0) return -1;
    address = address * 256 + value;
  }
  return address;
}

/** A number of 0 to 255 without leading zeros; -1 when it is none. */
function octet(bytes: Uint8Array, start: number, end: number): number {
  const digits = end - start;
  if (digits < 1 || digits > 3 || (digits > 1 && bytes[start] === ZERO)) return -1;
  let value = 0;
  for (let at = start; at < end; at++) {
    const digit = bytes[at]! - ZERO;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value > 255 ? -1 : value;
}
