/** Names and addresses out of a file in the format of hosts(5). */
import { isIP } from 'node:net';
import { canonicalAddress } from '../config/addresses.js';
import { addressBytes, reverseName } from '../dns/addresses.js';
import { nameToWire } from '../dns/names.js';

export interface Hosts {
  /** By name in wire form and lower case, a byte a character; in the order of the file, none twice. */
  readonly addresses: ReadonlyMap<string, readonly Uint8Array[]>;
  /** From an address's name in `arpa` to the first name of its first line, both in wire form. */
  readonly names: ReadonlyMap<string, Uint8Array>;
  /** Lines, or names in them, that were left out. */
  readonly ignored: number;
  /** The first of them, as `line 3: ...`. */
  readonly examples: readonly string[];
}

export const NO_HOSTS: Hosts = { addresses: new Map(), names: new Map(), ignored: 0, examples: [] };

const LINES_A_TURN = 2_000;
const EXAMPLES_SHOWN = 3;
/** Host names as they are found in such files: with underscores, and with a dot at the end. */
const NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?$/i;

/** Reads in turns of some thousand lines, so that a long file holds nobody up. What makes no sense is left out. */
export function* readHosts(text: string): Generator<void, Hosts> {
  const addresses = new Map<string, Uint8Array[]>();
  const names = new Map<string, Uint8Array>();
  const reversed = new Map<string, Uint8Array>();
  const examples: string[] = [];
  let ignored = 0;
  let number = 0;
  for (let at = text.charCodeAt(0) === 0xfeff ? 1 : 0; at < text.length; ) {
    const end = text.indexOf('\n', at);
    const line = text.slice(at, end < 0 ? text.length : end);
    at = end < 0 ? text.length : end + 1;
    if (++number % LINES_A_TURN === 0) yield;
    const ignore = (problem: string): void => {
      ignored++;
      if (examples.length < EXAMPLES_SHOWN) examples.push(`line ${number}: ${problem}`);
    };
    const hash = line.indexOf('#');
    const words = (hash < 0 ? line : line.slice(0, hash)).split(/[ \t\r\f\v]+/).filter((word) => word !== '');
    if (words.length === 0) continue;
    const [first, ...given] = words as [string, ...string[]];
    const address = bytesOf(first);
    if (address === undefined) {
      // A record has no place for a scope.
      ignore(first.includes('%') ? 'an address with a scope' : 'no address');
      continue;
    }
    if (given.length === 0) ignore('no name');
    let canonical = true;
    for (const name of given) {
      const wire = NAME.test(name) && isIP(name) === 0 ? nameToWire(name.toLowerCase()) : undefined;
      if (wire === undefined) {
        ignore('not a host name');
        continue;
      }
      const key = Buffer.from(wire).toString('latin1');
      const known = addresses.get(key);
      if (known === undefined) addresses.set(key, [address]);
      else if (!known.some((other) => Buffer.compare(other, address) === 0)) known.push(address);
      if (canonical && !reversed.has(first) && address.some((byte) => byte !== 0)) reversed.set(first, wire);
      canonical = false;
    }
  }
  for (const [text, wire] of reversed) {
    const key = Buffer.from(reverseName(bytesOf(text)!)).toString('latin1');
    if (!names.has(key)) names.set(key, wire);
  }
  return { addresses, names, ignored, examples };
}

/** All at once. */
export function parseHosts(text: string): Hosts {
  const reading = readHosts(text);
  for (;;) {
    const { done, value } = reading.next();
    if (done) return value;
  }
}

let lastText = '';
let lastBytes: Uint8Array | undefined;

/** Block lists have the same address a hundred thousand times. */
function bytesOf(text: string): Uint8Array | undefined {
  if (text === lastText) return lastBytes;
  const canonical = canonicalAddress(text);
  lastText = text;
  lastBytes = canonical === undefined ? undefined : addressBytes(canonical);
  return lastBytes;
}
