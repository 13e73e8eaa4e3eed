/** Addresses and prefixes as the configuration writes them, brought to canonical text (RFC 5952). */
import { isIP, SocketAddress } from 'node:net';
import type { Cidr, ListenAddress } from './types.js';

/** An IP address in canonical text; a v4-mapped one as IPv4. Undefined for anything else, scoped addresses too. */
export function canonicalAddress(text: string): string | undefined {
  if (text.includes('%')) return undefined;
  const family = isIP(text);
  if (family === 4) return text;
  if (family === 0) return undefined;
  const address = new SocketAddress({ address: text, family: 'ipv6' }).address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address);
  return mapped ? mapped[1]! : address;
}

/** `127.0.0.1:53` or `[::1]:53`; the port is 1 to 65535. */
export function parseListen(text: string): ListenAddress | undefined {
  const match = /^(?:\[([^\]]+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text);
  if (!match) return undefined;
  const address = canonicalAddress(match[1] ?? match[2]!);
  const port = Number(match[3]);
  if (address === undefined || port < 1 || port > 65535) return undefined;
  return { address, port };
}

export function showListen({ address, port }: ListenAddress): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

export type CidrResult = { readonly cidr: Cidr } | { readonly wrong: string };

/** `10.0.0.0/8`, `fd00::/8`, or a bare address for itself alone. Bits beyond the prefix are an error that names the fix. */
export function parseCidr(text: string): CidrResult {
  const wrong = { wrong: 'expected a prefix such as 10.0.0.0/8 or fd00::/8' };
  const match = /^([^/]+)(?:\/(\d{1,3}))?$/.exec(text);
  if (!match) return wrong;
  const address = canonicalAddress(match[1]!);
  if (address === undefined) return wrong;
  if (isIP(match[1]!) === 6 && isIP(address) === 4) {
    return { wrong: `write a v4-mapped prefix as IPv4, such as ${address}/32` };
  }
  const width = isIP(address) === 4 ? 32 : 128;
  const length = match[2] === undefined ? width : Number(match[2]);
  if (length > width) return { wrong: `expected a prefix length of at most ${width}` };
  const bytes = addressBytes(address);
  const network = bytes.map((byte, i) => byte & (0xff << (8 - Math.min(8, Math.max(0, length - 8 * i)))) & 0xff);
  const base = bytesToAddress(network);
  if (base !== address) return { wrong: `bits are set beyond /${length}: expected ${base}/${length} or ${address}` };
  return { cidr: `${address}/${length}` };
}

/** The 4 or 16 bytes of an address in canonical text. */
function addressBytes(address: string): number[] {
  if (isIP(address) === 4) return address.split('.').map(Number);
  const [head = '', tail] = address.split('::') as [string?, string?];
  const words = (part: string): number[] =>
    part === ''
      ? []
      : part.split(':').flatMap((word) => {
          if (!word.includes('.')) return [Number.parseInt(word, 16)];
          const [a, b, c, d] = word.split('.').map(Number) as [number, number, number, number];
          return [(a << 8) | b, (c << 8) | d];
        });
  const left = words(head);
  const right = tail === undefined ? [] : words(tail);
  const middle = new Array<number>(8 - left.length - right.length).fill(0);
  return [...left, ...middle, ...right].flatMap((word) => [word >> 8, word & 0xff]);
}

function bytesToAddress(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join('.');
  const words: string[] = [];
  for (let i = 0; i < 16; i += 2) words.push(((bytes[i]! << 8) | bytes[i + 1]!).toString(16));
  return canonicalAddress(words.join(':')) ?? words.join(':');
}
