/** From records of the DNS to services: `_SERVICE._PROTO`, `_PORTNAME._PROTO.SERVICE`, or a plain name (RFC 2782). */

import type { LimitsConfig } from '../config/types.js';
import { TYPE } from '../dns/constants.js';
import type { ReadRecord } from '../dns/read-message.js';
import { Notes } from './notes.js';
import type { Listing, Protocol, Rejected, Row } from './registry.js';
import { type AddressPolicy, collapseRows, isPort, normalizeAddress, normalizeHost } from './rows.js';

export interface RecordOptions {
  /** Of names that have addresses and no SRV record; undefined: they are no services. */
  readonly port: number | undefined;
  readonly policy: AddressPolicy;
}

export type SrvRecord = Extract<ReadRecord, { type: typeof TYPE.SRV }>;

/** What a name is about. */
export interface NamePlace {
  readonly service: string;
  readonly protocol: Protocol;
  readonly portName?: string;
}

/** Addresses by host name. */
export type Hosts = ReadonlyMap<string, readonly string[]>;

/** The labels of a name below its zone; undefined when they fit no form. */
export function placeOf(labels: readonly string[]): NamePlace | undefined {
  const [first = '', second = '', third] = labels;
  if (labels.at(-1) === '*') return undefined;
  if (labels.length === 1) return first.startsWith('_') ? undefined : { service: first, protocol: 'tcp' };
  const protocol = second === '_tcp' ? 'tcp' : second === '_udp' ? 'udp' : undefined;
  if (protocol === undefined || !/^_[^_]/.test(first) || labels.length > 3) return undefined;
  const word = first.slice(1);
  return third === undefined ? { service: word, protocol } : { service: third, protocol, portName: word };
}

/** Whether it is the zone's own name, or one below it. */
export function isWithin(name: string, zone: string): boolean {
  return name === zone || name.endsWith(`.${zone}`);
}

export function hostsOf(records: Iterable<ReadRecord>): Map<string, string[]> {
  const hosts = new Map<string, string[]>();
  for (const record of records) {
    if (record.type !== TYPE.A && record.type !== TYPE.AAAA) continue;
    const addresses = hosts.get(record.name);
    const address = addressText(record.address);
    if (addresses === undefined) hosts.set(record.name, [address]);
    else addresses.push(address);
  }
  return hosts;
}

export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join('.');
  const groups = Array.from({ length: 8 }, (_, i) => ((bytes[2 * i]! << 8) | bytes[2 * i + 1]!).toString(16));
  return normalizeAddress(groups.join(':'))!;
}

/** Puts rows together to services, and keeps what was left out. */
export class ServiceBuilder {
  readonly #policy: AddressPolicy;
  readonly #limits: LimitsConfig | undefined;
  /** Duplicates included, since they were last taken out. */
  #rows = 0;
  /** R6: why it is not believed, over the zone's limits. Nothing more is taken in then. */
  over: string | undefined;
  readonly #services = new Map<string, Row[]>();
  readonly #notes = new Notes();

  /** @param limits absent: whoever lists the rows counts them */
  constructor(policy: AddressPolicy, limits?: LimitsConfig) {
    this.#policy = policy;
    this.#limits = limits;
  }

  /** The service is there, with or without an endpoint. */
  list(service: string): Row[] {
    let rows = this.#services.get(service);
    if (rows === undefined) this.#services.set(service, (rows = []));
    return rows;
  }

  reject(where: string, reason: string): void {
    this.#notes.add(where, reason);
  }

  /** A root target says that the service is decidedly not available (RFC 2782). */
  srv({ name, target, port, priority, weight }: SrvRecord, place: NamePlace, addresses: readonly string[]): void {
    this.list(place.service);
    if (target === '.' || this.over !== undefined) return;
    if (!isPort(port)) this.reject(name, `port must be 1 to 65535, not ${port}`);
    else if (addresses.length === 0) this.reject(name, `no address is known of its target ${target}`);
    else
      for (const address of addresses) {
        this.#add(name, place, { id: `${target}:${port}`, address, port, priority, weight });
        if (this.over !== undefined) return;
      }
  }

  plain(name: string, place: NamePlace, addresses: readonly string[], port: number): void {
    this.list(place.service);
    for (const address of addresses) {
      if (this.over !== undefined) return;
      const id = `${address.includes(':') ? `[${address}]` : address}:${port}`;
      this.#add(name, place, { id, address, port, priority: 0, weight: 1 });
    }
  }

  build(others: string): { readonly services: Listing[]; readonly rejected: Rejected[] } {
    const services = [...this.#services].map(([name, rows]) => ({ name, rows: collapseRows(rows) }));
    return { services, rejected: this.#notes.list(others) };
  }

  #add(
    name: string,
    { service, protocol, portName }: NamePlace,
    row: Pick<Row, 'id' | 'address' | 'port' | 'priority' | 'weight'>,
  ): void {
    const fault = this.#policy.fault(row.address);
    if (fault !== undefined) {
      this.reject(name, `address ${row.address} is ${fault} (allowAddresses would permit it)`);
      return;
    }
    const named = portName === undefined ? {} : { portName };
    const rows = this.list(service);
    rows.push({ ...row, protocol, ...named, tags: [], state: 'passing' });
    this.#rows++;
    if (this.#limits !== undefined) this.#count(service, rows, this.#limits);
  }

  /** A target with many addresses times many records: counted while it grows, and duplicates only where there are too many. */
  #count(service: string, rows: Row[], { maxEndpoints, maxEndpointsPerService }: LimitsConfig): void {
    if (rows.length > 2 * maxEndpointsPerService) {
      const distinct = this.#tidy(service, rows);
      if (distinct > maxEndpointsPerService) {
        const limit = `limits.maxEndpointsPerService (${maxEndpointsPerService})`;
        this.over = `service "${service}" has ${distinct} endpoints or more, more than ${limit}`;
      }
    }
    if (this.#rows <= 2 * maxEndpoints) return;
    let all = 0;
    for (const [name, own] of this.#services) all += this.#tidy(name, own);
    if (all > maxEndpoints) this.over = `${all} endpoints or more, more than limits.maxEndpoints (${maxEndpoints})`;
  }

  #tidy(service: string, rows: Row[]): number {
    const distinct = collapseRows(rows);
    this.#rows -= rows.length - distinct.length;
    this.#services.set(service, distinct);
    return distinct.length;
  }
}

/** Of a chain of aliases (RFC 1034 s.3.6.2). */
const MAX_CHAIN = 8;

/** The aliases (CNAME) that lead on from a name, in their order. */
export function aliasesFrom<T extends { readonly target: string }>(name: string, aliases: ReadonlyMap<string, T>): T[] {
  const chain: T[] = [];
  for (let next = aliases.get(name); next !== undefined && chain.length < MAX_CHAIN; next = aliases.get(next.target)) {
    chain.push(next);
  }
  return chain;
}

/**
 * The services of a whole zone, or why they are over the limits (R6). Targets outside of it are host names, to be
 * looked up later (R28). A target should be no alias (RFC 2782), but such are about.
 */
export function zoneServices(
  zone: string,
  records: readonly ReadRecord[],
  { port, policy, limits }: RecordOptions & { readonly limits: LimitsConfig },
): { readonly services: Listing[]; readonly rejected: Rejected[] } | string {
  const builder = new ServiceBuilder(policy, limits);
  // What a server adds of other zones is no word about them.
  const own = records.filter(({ name }) => isWithin(name, zone));
  const hosts = hostsOf(own);
  const aliases = new Map<string, Extract<ReadRecord, { readonly target: string }>>();
  for (const record of own) if (record.type === TYPE.CNAME) aliases.set(record.name, record);
  const cuts = new Set(own.filter(({ name, type }) => type === TYPE.NS && name !== zone).map(({ name }) => name));
  const targets = new Set<string>();
  for (const record of records) {
    if (record.type === TYPE.SRV || record.type === TYPE.NS) targets.add(record.target);
    if (record.type !== TYPE.SRV) continue;
    const host = aliasesFrom(record.target, aliases).at(-1)?.target ?? record.target;
    const place = placeOf(labelsBelow(record.name, zone));
    if (place === undefined) builder.reject(record.name, 'fits none of _SERVICE._tcp, _PORT._tcp.SERVICE, SERVICE');
    else builder.srv(record, place, hosts.get(host) ?? elsewhere(host, zone, cuts));
  }
  for (const { name, type } of own) {
    if (type === TYPE.DNAME) builder.reject(name, 'an alias of all names below it (DNAME), which is not followed');
    const isPlace = type === TYPE.CNAME && placeOf(labelsBelow(name, zone)) !== undefined;
    if (isPlace && (name.startsWith('_') || (port !== undefined && !targets.has(name))))
      builder.reject(name, 'an alias (CNAME) is no service in a transfer');
  }
  if (port === undefined) return builder.over ?? builder.build(zone);
  for (const [name, addresses] of hosts) {
    const labels = labelsBelow(name, zone);
    if (labels.length === 1 && labels[0] === '*') builder.reject(name, 'a wildcard is no service');
    // Hosts that others point at are no services themselves.
    const place = labels.length === 1 && !targets.has(name) ? placeOf(labels) : undefined;
    if (place !== undefined) builder.plain(name, place, addresses, port);
  }
  return builder.over ?? builder.build(zone);
}

/** In the zone, a target without an address has none. */
function elsewhere(target: string, zone: string, cuts: ReadonlySet<string>): readonly string[] {
  const inside = isWithin(target, zone) && !isDelegated(target, zone, cuts);
  const host = inside ? undefined : normalizeHost(target);
  return host === undefined ? [] : [host];
}

/** Whether it is in another zone, one below. */
function isDelegated(name: string, zone: string, cuts: ReadonlySet<string>): boolean {
  for (let rest = name; rest.length > zone.length; rest = rest.slice(rest.indexOf('.') + 1))
    if (cuts.has(rest)) return true;
  return false;
}

function labelsBelow(name: string, zone: string): string[] {
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1).split('.') : [];
}
