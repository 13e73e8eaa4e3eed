/** R28: looks host names up by asking upstreams as a client would, through the cache of what is forwarded. */
import type { Packet as ParsedPacket } from 'dns2';
import type { ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import { Forwarder } from '../forward/forwarder.js';
import { normalizeAddress } from '../registry/rows.js';
import type { AnswerForeign } from '../server/handover-desk.js';
import type { Ms } from '../system/clock.js';
import type { HostResult } from './host-table.js';

/** Look-ups under way at once. */
const AT_ONCE = 16;
/** Of CNAME records, one after the other (RFC 1034 s.3.6.2). */
const MAX_CHAIN = 8;
const BOOTSTRAP = { cacheBytes: 1024 * 1024, maxStale: 0, maxUdp: 1_232 };
const SELF = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
/** No listen address: what is asked here came by none. */
const NOWHERE = -1;

type Family = { readonly addresses: readonly string[] } | { readonly fault: string };
type Resource = ParsedPacket['answers'][number];

export interface HostLookupOptions {
  /** Who answers for other names; undefined while nothing is forwarded. */
  readonly forward: () => AnswerForeign | undefined;
  readonly now: () => Ms;
  readonly isOurs: (address: ListenAddress) => boolean;
  readonly found: (host: string, result: HostResult) => void;
}

export class HostLookup {
  readonly #options: HostLookupOptions;
  readonly #waiting = new Set<string>();
  #active = 0;
  #bootstrap: Forwarder | undefined;
  #servers = '';
  #stopped = false;

  constructor(options: HostLookupOptions) {
    this.#options = options;
  }

  /** `bootstrap`: whom to ask while nothing is forwarded. `zones`: names in them are never asked elsewhere. */
  configure(bootstrap: readonly ListenAddress[], zones: readonly string[]): void {
    const servers = JSON.stringify([bootstrap, zones]);
    if (servers === this.#servers) return;
    this.#servers = servers;
    this.#bootstrap?.close();
    const { now, isOurs } = this.#options;
    const rest = { ...BOOTSTRAP, domains: [], agents: [], zones, now, isOurs, recurses: () => true };
    this.#bootstrap = bootstrap.length === 0 ? undefined : new Forwarder({ ...rest, upstreams: bootstrap });
  }

  /** There is somebody to ask. */
  get canAsk(): boolean {
    return this.#options.forward() !== undefined || this.#bootstrap !== undefined;
  }

  /** Each is told of once, in a while. */
  look(hosts: readonly string[]): void {
    for (const host of hosts) this.#waiting.add(host);
    this.#next();
  }

  stop(): void {
    this.#stopped = true;
    this.#waiting.clear();
    this.#bootstrap?.close();
  }

  #next(): void {
    for (const host of this.#waiting) {
      if (this.#active >= AT_ONCE) return;
      this.#waiting.delete(host);
      this.#active++;
      this.resolve(host).then((result) => {
        this.#active--;
        if (this.#stopped) return;
        this.#options.found(host, result);
        this.#next();
      });
    }
  }

  /** At once. Never rejects. */
  resolve(host: string): Promise<HostResult> {
    return this.#resolve(host).catch((error: Error): HostResult => ({ kind: 'failed', reason: error.message }));
  }

  async #resolve(host: string): Promise<HostResult> {
    const answer = this.#options.forward() ?? this.#bootstrap?.answer;
    if (answer === undefined) return { kind: 'failed', reason: 'there is neither forward nor bootstrap to ask' };
    const [four, six] = await Promise.all([family(answer, host, TYPE.A), family(answer, host, TYPE.AAAA)]);
    const addresses = [four, six].flatMap((one) => ('addresses' in one ? one.addresses : []));
    const fault = [four, six].find((one) => 'fault' in one);
    if (addresses.length === 0) {
      return { kind: 'failed', reason: fault && 'fault' in fault ? fault.fault : 'it has no address' };
    }
    if (fault === undefined) return { kind: 'addresses', addresses };
    return { kind: 'addresses', addresses, unknown: fault === four ? 4 : 6 };
  }
}

/** Addresses of one family; none of a name without such is no fault. */
async function family(answer: AnswerForeign, host: string, type: number): Promise<Family> {
  let name = host;
  for (let asked = 0; asked < MAX_CHAIN; asked++) {
    const reply = await ask(answer, name, type);
    if (reply === undefined) return { fault: 'no answer' };
    const { rcode } = reply.header as unknown as { rcode: number };
    if (rcode === RCODE.NXDOMAIN) return { fault: 'the name does not exist' };
    if (rcode === RCODE.REFUSED) return { fault: 'refused: a name of a zone of this server, or of nobody' };
    if (rcode !== RCODE.NOERROR) return { fault: 'no server could answer' };
    const end = follow(reply.answers, name);
    if (end === undefined) return { fault: 'its CNAME records go in a circle' };
    const addresses = reply.answers.flatMap((record) => addressOf(record, end, type));
    if (addresses.length > 0 || end === name) return { addresses };
    name = end;
  }
  return { fault: `more than ${MAX_CHAIN} CNAME records in a row` };
}

/** Where the CNAME records of an answer lead. Undefined: nowhere. */
function follow(records: readonly Resource[], start: string): string | undefined {
  let name = start;
  for (let steps = 0; steps <= MAX_CHAIN; steps++) {
    const alias = records.find((record) => record.type === TYPE.CNAME && fold(record.name) === name);
    if (alias === undefined) return name;
    name = fold(String(alias.domain));
  }
  return undefined;
}

function addressOf(record: Resource, owner: string, type: number): string[] {
  if (record.type !== type || fold(record.name) !== owner) return [];
  const address = normalizeAddress(String(record.address));
  return address === undefined ? [] : [address];
}

function fold(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

async function ask(answer: AnswerForeign, name: string, type: number): Promise<ParsedPacket | undefined> {
  const query = encodeQuery({ id: 0, name, type, recursionDesired: true, edns: {} });
  if (query === undefined) return undefined;
  const { default: dns2 } = await import('dns2');
  const message = await new Promise<Uint8Array | undefined>((resolve) => {
    answer({ query, transport: 'tcp', peer: SELF, listen: NOWHERE }, (reply) => resolve(reply));
  });
  if (message === undefined) return undefined;
  const packet = dns2.Packet.parse(Buffer.from(message));
  return packet.errors.length > 0 ? undefined : packet;
}
