/**
 * Names of other name servers, looked up one by one. A name that is configured and denied is a contradiction, and one
 * that fails says nothing: what it gave last stands, and nothing is removed on the word of that read (R4, R6). Of a
 * server that tells another half each time, what was seen lately counts (R34).
 */
import { RCODE, TYPE } from '../dns/constants.js';
import type { Message } from '../dns/read-message.js';
import type { Failure, Observation } from './adapter.js';
import { recordsOf } from './dns-answer.js';
import { addressText, hostsOf, type NamePlace, placeOf, ServiceBuilder } from './dns-records.js';
import { Notes } from './notes.js';
import { type Listing, type Rejected, type Row, rowKey } from './registry.js';
import { type AddressPolicy, collapseRows } from './rows.js';

/** R34: a row that is not in the answer leaves after so many reads without it. */
const PARTIAL_READS = 10;
/** A list has no revision here, and the same name servers for ever (R7). */
const EPOCH = 'dns';

/** So many names at first, to see that there is an answer, and then so many at once. */
const FIRST = 4;
const AT_ONCE = 32;

const DENIED: Failure = { kind: 'unbelievable', reason: 'the name is configured, and is denied (NXDOMAIN)' };

const FAMILIES: readonly (typeof TYPE.A | typeof TYPE.AAAA)[] = [TYPE.A, TYPE.AAAA];

/** A message that is longer came over TCP; one without EDNS has no more than the other over UDP. */
const MOST_OVER_UDP = 1232;
const MOST_WITHOUT_EDNS = 512;
/** Where as much was left, a set of addresses had room. */
const ROOM = 112;

/**
 * Asks the servers in turn.
 * @param configured a server that denies the name (NXDOMAIN) is passed over, unless all others do so, or fail
 */
export type Ask = (name: string, type: number, configured?: boolean) => Promise<Message | Failure>;

/** What a read found of one name. */
interface Found {
  readonly rows: readonly Row[];
  readonly rejected: readonly Rejected[];
  /** Why it may not be all that there is: of a target nothing could be learnt. */
  readonly doubt?: string;
}

/** The addresses of a host as far as they could be learnt. */
interface HostAddresses {
  readonly addresses: readonly string[];
  /** Why there may be more of them. */
  readonly fault?: Failure | undefined;
  /** The host is not there, by the server's word. */
  readonly denied?: true;
}

/** One read of all names. */
class Reading {
  /** Of whatever kind. */
  answers = 0;
  /** Set when a name got no answer, and no other name did meanwhile. */
  silence: Failure | undefined;
  readonly #ask: Ask;
  readonly #hosts = new Map<string, Promise<HostAddresses>>();

  constructor(ask: Ask) {
    this.#ask = ask;
  }

  readonly ask: Ask = async (name, type, configured) => {
    const reply = await this.#ask(name, type, configured);
    if (!('reason' in reply) || reply.kind !== 'unreachable') this.answers++;
    return reply;
  };

  /**
   * Asked for once a read.
   * @param known addresses that came with an answer: only the other family is asked for
   * @param configured as of `Ask`
   */
  addressesOf(host: string, known: readonly string[], configured?: boolean): Promise<HostAddresses> {
    const types = FAMILIES.filter((type) => !known.some((address) => address.includes(':') === (type === TYPE.AAAA)));
    const key = `${host} ${types}`;
    let addresses = this.#hosts.get(key);
    if (addresses === undefined) this.#hosts.set(key, (addresses = this.#addressesOf(host, types, known, configured)));
    return addresses;
  }

  /** IPv4 and IPv6. A name with neither is there, without an endpoint. */
  async #addressesOf(
    host: string,
    types: typeof FAMILIES,
    known: readonly string[],
    configured: boolean | undefined,
  ): Promise<HostAddresses> {
    const addresses = [...known];
    let fault: Failure | undefined;
    let denied = false;
    for (const type of types) {
      const reply = await this.ask(host, type, configured);
      if (!('reason' in reply) && reply.rcode === RCODE.NXDOMAIN) {
        // Some servers deny a name of which they have an address of the other family.
        denied = true;
        continue;
      }
      const records = 'reason' in reply ? reply : recordsOf(reply, host, type);
      if ('reason' in records) fault ??= records;
      else for (const { address } of records) addresses.push(addressText(address));
      // Of a server that is silent the rest would only take as long.
      if (fault?.kind === 'unreachable' && addresses.length === 0) break;
    }
    return denied && addresses.length === 0 && fault === undefined ? { addresses, denied } : { addresses, fault };
  }
}

/** What is known of one name. */
class KnownName {
  readonly name: string;
  readonly place: NamePlace;
  /** Rows by their key, with the last read that had them. */
  readonly seen = new Map<string, { readonly row: Row; readonly read: number }>();
  /** Serial of the zone when the answer last became another; undefined: not known. */
  serial: number | undefined;
  /** The answer of the last read that was whole, as a set. */
  answer: string | undefined;
  /** Until that read it counts as a source that tells half. */
  partialUntil = 0;
  /** The read that asked for it last, and the last one that it gave something to. */
  asked = 0;
  gave = 0;
  /** Why it gave nothing when it was asked last, or not all. */
  doubt: string | undefined;
  /** What was left out of what it gave. */
  rejected: readonly Rejected[] = [];

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
    const read = new Reading(ask);
    const names = this.#inTurn();
    await Promise.all(names.slice(0, FIRST).map((name) => this.#readOne(name, read)));
    if (read.silence !== undefined && read.answers === 0) return read.silence;
    const others = names.slice(FIRST).values();
    const work = async (): Promise<void> => {
      for (const name of others) await this.#readOne(name, read);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return this.#told();
  }

  /** Those that gave nothing last, longest ago first, when all others were asked: they may take their time. */
  #inTurn(): KnownName[] {
    const failed = this.#names.filter(({ doubt }) => doubt !== undefined).sort((a, b) => a.asked - b.asked);
    return [...this.#names.filter(({ doubt }) => doubt === undefined), ...failed];
  }

  async #readOne(name: KnownName, read: Reading): Promise<void> {
    // Nobody answers any more: the other names would only take as long.
    if (read.silence !== undefined) {
      name.doubt ??= read.silence.reason;
      name.rejected = [];
      return;
    }
    name.asked = this.#reads;
    const before = read.answers;
    const found = await this.#look(name, read);
    if ('reason' in found) {
      name.doubt = found.reason;
      name.rejected = [];
      if (found.kind === 'unreachable' && read.answers === before) read.silence ??= found;
      return;
    }
    name.doubt = found.doubt;
    name.rejected = found.rejected;
    name.gave = this.#reads;
    for (const row of found.rows) name.seen.set(rowKey(row), { row, read: this.#reads });
    if (found.doubt === undefined) await this.#judge(name, found.rows, read.ask);
  }

  #told(): Observation | Failure {
    const doubts = new Notes();
    for (const { name, doubt } of this.#names) {
      if (doubt !== undefined) doubts.add(name, `${doubt}; what it gave last stands`);
    }
    const unsure = doubts.list('other names');
    const [first] = unsure;
    if (first !== undefined && this.#names.every(({ gave }) => gave < this.#reads))
      return { kind: 'unbelievable', reason: `${first.where}: ${first.reason}` };
    const notes = new Notes();
    for (const { rejected } of this.#names)
      for (const { where, reason, count } of rejected) notes.add(where, reason, count);
    return {
      kind: 'list',
      epoch: EPOCH,
      services: this.#services(),
      releases: [],
      rejected: [...unsure, ...notes.list('other names')],
      removalsBelievable: first === undefined,
    };
  }

  async #look({ name, place }: KnownName, read: Reading): Promise<Found | Failure> {
    const { port, policy } = this.#options;
    const builder = new ServiceBuilder(policy);
    if (port !== undefined && !name.startsWith('_')) {
      const { addresses, fault, denied } = await read.addressesOf(name, [], true);
      if (denied) return DENIED;
      if (fault !== undefined && addresses.length === 0) return fault;
      builder.plain(name, place, addresses, port);
      return foundIn(builder, name, fault);
    }
    const reply = await read.ask(name, TYPE.SRV, true);
    if ('reason' in reply) return reply;
    if (reply.rcode === RCODE.NXDOMAIN) return DENIED;
    const records = recordsOf(reply, name, TYPE.SRV);
    if ('reason' in records) return records;
    const more = hostsOf(reply.additionals);
    let doubt: Failure | undefined;
    let known = 0;
    const hosts = records.map(({ target }): HostAddresses | Promise<HostAddresses> => {
      const added = more.get(target) ?? [];
      const whole = target === '.' || (added.length > 0 && tellsAll(reply));
      return whole ? { addresses: added } : read.addressesOf(target, added);
    });
    for (const [i, { addresses, fault }] of (await Promise.all(hosts)).entries()) {
      const record = records[i]!;
      const { target } = record;
      if (fault !== undefined) doubt ??= { ...fault, reason: `its target ${target}: ${fault.reason}` };
      if (fault !== undefined && addresses.length === 0) continue;
      // A target that is denied has no address, and loses its own row.
      builder.srv(record, place, addresses);
      known++;
    }
    if (doubt !== undefined && known === 0) return doubt;
    return foundIn(builder, name, doubt);
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
    const since = name.partialUntil >= this.#reads ? this.#reads - PARTIAL_READS : this.#reads;
    for (const [key, { read }] of name.seen) if (read < since) name.seen.delete(key);
  }

  #services(): Listing[] {
    const rows = new Map<string, Row[]>();
    for (const { place, seen, gave } of this.#names) {
      if (gave === 0) continue;
      const own = rows.get(place.service) ?? [];
      rows.set(place.service, own);
      for (const { row } of seen.values()) own.push(row);
    }
    return [...rows].map(([name, own]) => ({ name, rows: collapseRows(own) }));
  }
}

/**
 * Whether hosts of which it has an address have no other: a cache adds what it happens to have, and a server leaves out
 * what has no room (RFC 2181 s.9).
 */
function tellsAll({ authoritative, edns, length }: Message): boolean {
  const most = edns ? MOST_OVER_UDP : MOST_WITHOUT_EDNS;
  return authoritative && (length <= most - ROOM || length > MOST_OVER_UDP);
}

function foundIn(builder: ServiceBuilder, name: string, fault: Failure | undefined): Found {
  const { services, rejected } = builder.build(name);
  const found = { rows: services.flatMap(({ rows }) => rows), rejected };
  return fault === undefined ? found : { ...found, doubt: fault.reason };
}

/** Of the zone that a name is in: it stands in the answer, or in the authority of a name without that type. */
async function serialOf(name: string, ask: Ask): Promise<number | undefined> {
  const reply = await ask(name, TYPE.SOA);
  if ('reason' in reply) return undefined;
  for (const record of [...reply.answers, ...reply.authorities]) if (record.type === TYPE.SOA) return record.serial;
  return undefined;
}
