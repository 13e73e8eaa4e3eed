/** Rows as they come in: canonical addresses, sane values, no duplicates (R5, R18). */
import { BlockList, isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';
import type { Cidr } from '../config/types.js';
import { type Row, type RowState, rowKey } from './registry.js';

/**
 * The canonical text of an IP address: dotted quad, or RFC 5952. Brackets around IPv6 are taken off and
 * v4-mapped addresses become IPv4. Undefined for anything else, zone ids (`fe80::1%eth0`) included:
 * DNS has no room for them.
 */
export function normalizeAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (bare.includes('%') || !isIPv6(bare)) return undefined;
  const address = ipaddr.IPv6.parse(bare);
  return address.isIPv4MappedAddress() ? address.toIPv4Address().toString() : address.toRFC5952String();
}

const HOST = /^(?=.{1,253}$)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;

/** A host name as rows have it (R28), or undefined: what ends in a number is meant to be an address (RFC 1123 s.2.1). */
export function normalizeHost(text: string): string | undefined {
  const name = text.toLowerCase().replace(/\.$/, '');
  return HOST.test(name) && !/(?:^|\.)(?:\d+|0x[0-9a-f]*)$/.test(name) ? name : undefined;
}

/** Is the address of a row a host name? */
export function isHostName(address: string): boolean {
  return !address.includes(':') && !/^\d+\.\d+\.\d+\.\d+$/.test(address);
}

/** Which addresses a zone's rows may have (R18), and whether they need a port. */
export class AddressPolicy {
  /** An instance without a port has a row, whose port is 0. */
  readonly portless: boolean;
  readonly #local: boolean;
  readonly #allowed = new BlockList();

  /**
   * @param allow the zone's `allowAddresses`
   * @param local true for a registry on this host's own disk: loopback and link-local are allowed there
   */
  constructor(allow: readonly Cidr[], local: boolean, portless = false) {
    this.#local = local;
    this.portless = portless;
    for (const cidr of allow) {
      const [network = '', length = ''] = cidr.split('/');
      const address = normalizeAddress(network);
      if (address === undefined) continue;
      const family = isIPv4(address) ? 'ipv4' : 'ipv6';
      const most = family === 'ipv4' ? 32 : 128;
      const prefix = length === '' ? most : Number(length);
      if (Number.isInteger(prefix) && prefix >= 0 && prefix <= most) this.#allowed.addSubnet(address, prefix, family);
    }
  }

  /** Why a canonical address loses its row, in words that complete "the address is ..."; undefined when it may stay. */
  fault(address: string): string | undefined {
    if (isHostName(address)) return undefined;
    const kind = specialKind(address);
    if (kind === undefined) return undefined;
    if (this.#local && (kind === 'loopback' || kind === 'link-local')) return undefined;
    if (this.#allowed.check(address, isIPv4(address) ? 'ipv4' : 'ipv6')) return undefined;
    return kind;
  }
}

function specialKind(address: string): string | undefined {
  if (!address.includes(':')) {
    const first = Number.parseInt(address, 10);
    if (address === '0.0.0.0') return 'unspecified';
    if (first === 0) return 'in 0.0.0.0/8';
    if (first === 127) return 'loopback';
    if (address.startsWith('169.254.')) return 'link-local';
    if (first >= 224 && first <= 239) return 'multicast';
    return address === '255.255.255.255' ? 'broadcast' : undefined;
  }
  if (address === '::') return 'unspecified';
  if (address === '::1') return 'loopback';
  const first = Number.parseInt(address, 16);
  if ((first & 0xffc0) === 0xfe80) return 'link-local';
  return (first & 0xff00) === 0xff00 ? 'multicast' : undefined;
}

/** A port that can be reached. */
export function isPort(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 65535;
}

/** A priority or weight as SRV can carry it (RFC 2782). */
export function isUint16(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= 65535;
}

/** Best first (R5). */
export const ROW_STATES: readonly RowState[] = ['passing', 'warning', 'critical', 'draining'];

/**
 * R5: one row for each (address, port, protocol): the best state, the lowest priority, the greatest weight, all
 * tags. The labels (id, port name, zone, node) are those of the row with the better state, then of the lower id.
 * The result is in the order of the row keys, so that a registry that shuffles its lists changes nothing.
 */
export function collapseRows(rows: readonly Row[]): Row[] {
  const byKey = new Map<string, Row>();
  for (const row of rows) {
    const key = rowKey(row);
    const other = byKey.get(key);
    byKey.set(key, other === undefined ? withTags(row, row.tags) : collapse(other, row));
  }
  return [...byKey].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function collapse(a: Row, b: Row): Row {
  const order = ROW_STATES.indexOf(a.state) - ROW_STATES.indexOf(b.state);
  const [best, rest] = order < 0 || (order === 0 && a.id <= b.id) ? [a, b] : [b, a];
  const merged = { ...best, priority: Math.min(a.priority, b.priority), weight: Math.max(a.weight, b.weight) };
  const portName = best.portName ?? rest.portName;
  const zone = best.zone ?? rest.zone;
  const node = best.node ?? rest.node;
  const host = best.host ?? rest.host;
  if (portName !== undefined) merged.portName = portName;
  if (zone !== undefined) merged.zone = zone;
  if (node !== undefined) merged.node = node;
  if (host !== undefined) merged.host = host;
  return withTags(merged, [...a.tags, ...b.tags]);
}

function withTags(row: Row, tags: readonly string[]): Row {
  const sorted = tags.length < 2 ? tags : [...new Set(tags)].sort();
  return sorted === row.tags ? row : { ...row, tags: sorted };
}
