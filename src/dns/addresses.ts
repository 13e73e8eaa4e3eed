/** Addresses as bytes, and the names that stand for them. */
import { nameToWire } from './names.js';

const DOT = 0x2e;
const GROUPS = 8;
const GROUP = /^[0-9a-f]{1,4}$/i;

/** 4 or 16 bytes, network order; a v4-mapped IPv6 address gives 4. Undefined when `text` is no IP address. */
export function addressBytes(text: string): Uint8Array | undefined {
  const bytes = familyBytes(text);
  return bytes?.length === 16 && isMapped(bytes) ? bytes.slice(12) : bytes;
}

/**
 * As `addressBytes`, but a v4-mapped IPv6 address stays one of 16 bytes (RFC 4291 s.2.2). By hand: an answer thread
 * reads a handful of addresses as it starts, and to load a package for them takes a tenth of that time.
 */
export function familyBytes(text: string): Uint8Array | undefined {
  if (!text.includes(':')) return dottedQuad(text);
  const halves = text.split('::');
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half, i) => groupsOf(half, i === halves.length - 1));
  if (head === undefined || (halves.length === 2 && tail === undefined)) return undefined;
  const left = GROUPS - head.length - (tail?.length ?? 0);
  if (tail === undefined ? left !== 0 : left < 1) return undefined;
  const groups = tail === undefined ? head : [...head, ...new Array<number>(left).fill(0), ...tail];
  return Uint8Array.from(groups.flatMap((group) => [group >> 8, group & 255]));
}

/** The groups between colons; the last may be an IPv4 address where the text ends. Undefined when one is wrong. */
function groupsOf(text: string, last: boolean): number[] | undefined {
  if (text === '') return [];
  const groups: number[] = [];
  const parts = text.split(':');
  for (const [i, part] of parts.entries()) {
    if (GROUP.test(part)) groups.push(Number.parseInt(part, 16));
    else {
      const four = last && i === parts.length - 1 ? quad(part) : -1;
      if (four < 0) return undefined;
      groups.push(four >>> 16, four & 0xffff);
    }
  }
  return groups;
}

function isMapped(bytes: Uint8Array): boolean {
  for (let i = 0; i < 10; i++) if (bytes[i] !== 0) return false;
  return bytes[10] === 255 && bytes[11] === 255;
}

/**
 * An IPv4 address as one number, -1 when `text` is none: decimal octets without leading zeros. By hand and without
 * garbage, since a large zone has a million of them.
 */
export function quad(text: string): number {
  let whole = 0;
  let octets = 0;
  let value = 0;
  let digits = 0;
  for (let i = 0; i <= text.length; i++) {
    const code = i === text.length ? DOT : text.charCodeAt(i);
    if (code === DOT) {
      if (digits === 0 || octets === 4) return -1;
      whole = whole * 256 + value;
      octets++;
      value = 0;
      digits = 0;
    } else if (code < 0x30 || code > 0x39 || (digits > 0 && value === 0)) return -1;
    else {
      value = value * 10 + code - 0x30;
      digits++;
      if (value > 255) return -1;
    }
  }
  return octets === 4 ? whole : -1;
}

function dottedQuad(text: string): Uint8Array | undefined {
  const whole = quad(text);
  return whole < 0 ? undefined : Uint8Array.of(whole >>> 24, whole >>> 16, whole >>> 8, whole);
}

/** R23: `10-0-0-1`, or the eight groups of an IPv6 address: `fd00-0-0-0-0-0-0-1`. */
export function targetLabel(address: Uint8Array): string {
  if (address.length === 4) return address.join('-');
  const groups: string[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((address[i]! << 8) | address[i + 1]!).toString(16));
  return groups.join('-');
}

/** Length of the label that `targetLabel` gives for an address in text; of an IPv4 address it is the text's. */
export function targetLabelLength(address: string): number {
  return address.includes(':') ? targetLabel(addressBytes(address)!).length : address.length;
}

/** The name of the address in `in-addr.arpa` or `ip6.arpa`, in wire form. */
export function reverseName(address: Uint8Array): Uint8Array {
  const labels: string[] = [];
  for (let i = address.length - 1; i >= 0; i--) {
    const byte = address[i]!;
    if (address.length === 4) labels.push(String(byte));
    else labels.push((byte & 15).toString(16), (byte >> 4).toString(16));
  }
  return nameToWire(labels.join('.') + (address.length === 4 ? '.in-addr.arpa' : '.ip6.arpa'))!;
}

/** Network and mask of a prefix such as `10.0.0.0/8` or `::1/128`, 4 or 16 bytes each. Undefined when it is none. */
export function prefixBytes(text: string): { network: Uint8Array; mask: Uint8Array } | undefined {
  const slash = text.lastIndexOf('/');
  const address = addressBytes(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined) return undefined;
  const mapped = address.length === 4 && text.includes(':');
  if (slash === text.length - 1) return undefined;
  const bits = slash < 0 ? address.length * 8 : Number(text.slice(slash + 1)) - (mapped ? 96 : 0);
  if (!Number.isInteger(bits) || bits < 0 || bits > address.length * 8) return undefined;
  const mask = new Uint8Array(address.length);
  for (let i = 0; i < bits; i++) mask[i >> 3]! |= 0x80 >> (i & 7);
  return { network: address.map((byte, i) => byte & mask[i]!), mask };
}
