/**
 * Names of other name servers, looked up one by one. A name that is configured and denied is a contradiction, and one
 * that fails says nothing: what it gave last stands, and nothing is removed on the word of that read (R4, R6). Of a
 * server that tells another half each time, what was seen lately counts (R34).
 */
import { RCODE, TYPE } from '../dns/constants.js';
import type { Message } from '../dns/read-message.js';
import type { Failure, Observation } from './adapter.js';
import { addressText, hostsOf, type NamePlace, placeOf, ServiceBuilder, type SrvRecord } from './dns-records.js';
import { Notes } from './notes.js';
import { type Listing, type Rejected, type Row, rowKey } from './registry.js';
import { type AddressPolicy, collapseRows } from './rows.js';

/** R34: a row that is not in the answer leaves after so many reads without it. */
const PARTIAL_READS = 10;
/** A list has no revision here, and the same name servers for ever (R7). */
const EPOCH = 'dns';

/** Asks the servers in turn. */
export type Ask = (name: string, type: number) => Promise<Message | Failure>;

/** What a read found of one name. */
interface Found {
  readonly rows: readonly Row[];
  readonly rejected: readonly Rejected[];
}

/** What is known of one name. */
class KnownName {
  readonly name: string;
  readonly place: NamePlace;
  /** Rows by their key, with the last read that had them. */
  readonly seen = new Map<string, { readonly row: Row; readonly read: number }>();
  /** Serial of the zone when the answer last became another; undefined: not known. */
  serial: number | undefined;
  /** The answer of the last read, as a set. */
  answer: string | undefined;
  /** Until that read it counts as a source that tells half. */
  partialUntil = 0;

  constructor(name: string) {
    this.name = name;
    const labels = name.split('.');
    const isService = labels.length > 1 && labels[0]!.startsWith('_');
    this.place = placeOf(isService ? labels.slice(0, 2) : labels.slice(0, 1)) ?? { service: name, protocol: 'tcp' };
  }
}

export interface DnsLookupsOptions {
  readonly names: readonly string[];
  readonly port: number | undefined;
  readonly policy: AddressPolicy;
}

export class DnsLookups {
  readonly #options: DnsLookupsOptions;
  readonly #names: readonly KnownName[];
  #reads = 0;

  constructor(options: DnsLookupsOptions) {
    this.#options = options;
    this.#names = options.names.map((name) => new KnownName(name));
  }

  async read(ask: Ask): Promise<Observation | Failure> {
    this.#reads++;
    const doubts = new Notes();
    const notes = new Notes();
    const hosts = new Map<string, readonly string[] | Failure>();
    let answered = 0;
    let heard = false;
    const asking: Ask = async (name, type) => {
      const reply = await ask(name, type);
      heard ||= !('reason' in reply) || reply.kind !== 'unreachable';
      return reply;
    };
    for (const name of this.#names) {
      const found = await this.#look(name, asking, hosts);
      if ('reason' in found) {
        // Nobody answers at all: the other names would only take as long.
        if (!heard) return found;
        doubts.add(name.name, `${found.reason}; what it gave last stands`);
        continue;
      }
      answered++;
      for (const { where, reason, count } of found.rejected) notes.add(where, reason, count);
      await this.#judge(name, found.rows, asking);
    }
    const unsure = doubts.list('other names');
    const [first] = unsure;
    if (answered === 0 && first !== undefined)
      return { kind: 'unbelievable', reason: `${first.where}: ${first.reason}` };
    return {
      kind: 'list',
      epoch: EPOCH,
      services: this.#services(),
      releases: [],
      rejected: [...unsure, ...notes.list('other names')],
      removalsBelievable: first === undefined,
    };
  }

  async #look(
    { name, place }: KnownName,
    ask: Ask,
    hosts: Map<string, readonly string[] | Failure>,
  ): Promise<Found | Failure> {
    const { port, policy } = this.#options;
    const builder = new ServiceBuilder(policy);
    if (port !== undefined && !name.startsWith('_')) {
      const addresses = await addressesOf(name, ask);
      if ('reason' in addresses) return addresses;
      builder.plain(name, place, addresses, port);
    } else {
      const reply = await ask(name, TYPE.SRV);
      if ('reason' in reply) return reply;
      if (reply.rcode === RCODE.NXDOMAIN) return denied();
      const more = hostsOf(reply.additionals);
      for (const record of reply.answers) {
        if (record.type !== TYPE.SRV) continue;
        const addresses = await this.#targetOf(record, more, ask, hosts);
        if ('reason' in addresses) return { ...addresses, reason: `its target ${record.target}: ${addresses.reason}` };
        builder.srv(record, place, addresses);
      }
    }
    const { services, rejected } = builder.build(name);
    return { rows: services.flatMap(({ rows }) => rows), rejected };
  }

  async #targetOf(
    { target }: SrvRecord,
    more: ReadonlyMap<string, readonly string[]>,
    ask: Ask,
    hosts: Map<string, readonly string[] | Failure>,
  ): Promise<readonly string[] | Failure> {
    if (target === '.') return [];
    let addresses = hosts.get(target) ?? more.get(target);
    if (addresses === undefined) addresses = await addressesOf(target, ask);
    hosts.set(target, addresses);
    return addresses;
  }

  /** R34: answers are compared as sets; another one without a new serial is half of the truth. */
  async #judge(name: KnownName, rows: readonly Row[], ask: Ask): Promise<void> {
    const answer = rows.map(rowKey).sort().join();
    if (answer !== name.answer) {
      const serial = await serialOf(name.name, ask);
      if (name.answer !== undefined && (serial === undefined || serial === name.serial)) {
        name.partialUntil = this.#reads + PARTIAL_READS;
      } else name.partialUntil = 0;
      name.answer = answer;
      name.serial = serial;
    }
    for (const row of rows) name.seen.set(rowKey(row), { row, read: this.#reads });
    const since = name.partialUntil >= this.#reads ? this.#reads - PARTIAL_READS : this.#reads;
    for (const [key, { read }] of name.seen) if (read < since) name.seen.delete(key);
  }

  #services(): Listing[] {
    const rows = new Map<string, Row[]>();
    for (const { place, seen, answer } of this.#names) {
      if (answer === undefined) continue;
      const own = rows.get(place.service) ?? [];
      rows.set(place.service, own);
      for (const { row } of seen.values()) own.push(row);
    }
    return [...rows].map(([name, own]) => ({ name, rows: collapseRows(own) }));
  }
}

function denied(): Failure {
  return { kind: 'unbelievable', reason: 'the name is configured, and is denied (NXDOMAIN)' };
}

/** IPv4 and IPv6. A name with neither is there, without an endpoint. */
async function addressesOf(name: string, ask: Ask): Promise<readonly string[] | Failure> {
  const addresses: string[] = [];
  for (const type of [TYPE.A, TYPE.AAAA]) {
    const reply = await ask(name, type);
    if ('reason' in reply) return reply;
    if (reply.rcode === RCODE.NXDOMAIN) return denied();
    const own: string[] = [];
    for (const record of reply.answers) if ('address' in record) own.push(addressText(record.address));
    if (own.length === 0 && reply.answers.some((record) => record.type === TYPE.CNAME)) return NOT_FOLLOWED;
    addresses.push(...own);
  }
  return addresses;
}

const NOT_FOLLOWED: Failure = { kind: 'unbelievable', reason: 'an alias (CNAME) that the server does not follow' };

/** Of the zone that a name is in: it stands in the answer, or in the authority of a name without that type. */
async function serialOf(name: string, ask: Ask): Promise<number | undefined> {
  const reply = await ask(name, TYPE.SOA);
  if ('reason' in reply) return undefined;
  for (const record of [...reply.answers, ...reply.authorities]) if (record.type === TYPE.SOA) return record.serial;
  return undefined;
}
