/** One look-up of a service: its SRV records with their addresses, or its addresses alone. */
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { RCODE, TYPE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import { askName, type NameQuestion, NoDnsAnswer } from './ask-name.js';
import type { Endpoint, Outcome } from './endpoint.js';
import { type Answer, type Reply, showFailure } from './message.js';
import type { ResolvConf } from './resolv-conf.js';

export interface FindOptions {
  readonly zone: string | undefined;
  readonly portName: string | undefined;
  readonly conf: ResolvConf;
}

/** Targets whose addresses came with no answer are asked for, so many of them and so many at a time. */
const MAX_TARGETS = 128;
const AT_ONCE = 8;
/** From so many missing on, the whole answer is asked for again over TCP, where there is room. */
const MANY_MISSING = 2;
const MAX_CNAMES = 8;

/** `host`: as a program writes it. `addressesOnly`: its port is known already. Never rejects for what DNS says or does not. */
export async function findService(host: string, addressesOnly: boolean, options: FindOptions): Promise<Outcome> {
  const { nameservers } = options.conf;
  const absent: string[] = [];
  try {
    for (const name of candidates(host, options)) {
      const srv = addressesOnly ? undefined : await findSrv(srvName(name, options.portName), name, nameservers);
      if (srv?.kind === 'found' || srv?.final) return srv;
      const found = name.startsWith('_') ? undefined : await findAddresses(name, nameservers);
      if (found?.kind === 'found') return found;
      absent.push(srv === undefined ? found!.reason : srv.reason);
    }
  } catch (error) {
    if (error instanceof NoDnsAnswer) return { kind: 'failed', reason: error.message };
    throw error;
  }
  return { kind: 'absent', reason: absent.join('; ') || 'not a name of DNS' };
}

/** The names that `host` may stand for, in the order of asking. */
export function candidates(host: string, { zone, conf }: FindOptions): string[] {
  const name = host.toLowerCase();
  if (name.endsWith('.')) return valid([name.slice(0, -1)]);
  if (zone !== undefined) return valid([isBelow(name, zone) || name.includes('.') ? name : `${name}.${zone}`]);
  const searched = conf.search.map((domain) => `${name}.${domain}`);
  const dots = name.split('.').length - 1;
  return valid(dots >= conf.ndots ? [name, ...searched] : [...searched, name]);
}

export function isBelow(name: string, zone: string): boolean {
  return name === zone || name.endsWith(`.${zone}`);
}

function valid(names: readonly string[]): string[] {
  return names.filter((name) => name !== '' && nameToWire(name) !== undefined);
}

function srvName(name: string, portName: string | undefined): string {
  return portName === undefined || name.startsWith('_') ? name : `_${portName}._tcp.${name}`;
}

type Found = Extract<Outcome, { kind: 'found' }>;
/** `final`: there is no need to look for addresses. */
type NotFound = Extract<Outcome, { kind: 'absent' }> & { readonly final?: boolean };

async function findSrv(owner: string, name: string, servers: readonly ListenAddress[]): Promise<Found | NotFound> {
  const question: NameQuestion = { name: owner, type: TYPE.SRV };
  let reply = await askName(question, servers);
  let records = srvRecords(reply, owner);
  if (records.length === 0) return { kind: 'absent', reason: `${owner} SRV: ${negative(reply)}` };
  if (records.length === 1 && records[0]!.target === '')
    return { kind: 'absent', reason: `${owner} SRV: the service is decidedly not there (RFC 2782)`, final: true };
  let addresses = addressesOf(reply);
  if (missing(records, addresses).length >= MANY_MISSING) {
    // The additional section did not fit.
    reply = await askName({ ...question, tcp: true }, servers).catch(() => reply);
    records = srvRecords(reply, owner);
    addresses = addressesOf(reply);
  }
  const reasons = await fetchMissing(missing(records, addresses), addresses, servers);
  const endpoints = toEndpoints(records, addresses);
  if (endpoints.length === 0)
    throw new NoDnsAnswer(`${owner} SRV: no target has an address (${reasons.join('; ') || 'none is usable'})`);
  const ttls = [...records.map(({ ttl }) => ttl), ...[...addresses.values()].map(({ ttl }) => ttl)];
  return { kind: 'found', name, from: 'srv', endpoints, ttl: Math.min(...ttls) * 1_000 };
}

async function findAddresses(name: string, servers: readonly ListenAddress[]): Promise<Found | NotFound> {
  const { addresses, ttl, reason } = await askAddresses(name, servers);
  if (addresses.length === 0) return { kind: 'absent', reason };
  const endpoints = addresses.map((address) => ({ address, port: 0, priority: 0, weight: 1 }));
  return { kind: 'found', name, from: 'addresses', endpoints, ttl: ttl * 1_000 };
}

type SrvRecord = Extract<Answer, { type: 'SRV' }>;
interface Addresses {
  readonly addresses: string[];
  ttl: number;
}

function srvRecords({ answers }: Reply, owner: string): SrvRecord[] {
  const name = canonicalName(owner, answers);
  return answers.filter((answer): answer is SrvRecord => answer.type === 'SRV' && answer.name === name);
}

/** Where CNAME records lead. */
function canonicalName(owner: string, answers: readonly Answer[]): string {
  let name = owner.toLowerCase();
  for (let i = 0; i < MAX_CNAMES; i++) {
    const alias = answers.find((answer) => answer.type === 'CNAME' && answer.name === name);
    if (alias?.type !== 'CNAME') break;
    name = alias.target;
  }
  return name;
}

/** By owner, from all sections. */
function addressesOf({ answers, additional }: Reply): Map<string, Addresses> {
  const found = new Map<string, Addresses>();
  for (const answer of [...answers, ...additional]) {
    if (answer.type !== 'address') continue;
    const address = canonicalAddress(answer.address);
    if (address === undefined) continue;
    const known = found.get(answer.name);
    if (known === undefined) found.set(answer.name, { addresses: [address], ttl: answer.ttl });
    else if (!known.addresses.includes(address)) {
      known.addresses.push(address);
      known.ttl = Math.min(known.ttl, answer.ttl);
    }
  }
  return found;
}

function missing(records: readonly SrvRecord[], addresses: ReadonlyMap<string, Addresses>): string[] {
  const targets = new Set(records.map(({ target }) => target).filter((target) => target !== ''));
  return [...targets].filter((target) => !addresses.has(target));
}

/** What cannot be had is left out; returns why. */
async function fetchMissing(
  targets: readonly string[],
  into: Map<string, Addresses>,
  servers: readonly ListenAddress[],
): Promise<string[]> {
  const waiting = targets.slice(0, MAX_TARGETS);
  const reasons: string[] = [];
  const work = async (): Promise<void> => {
    for (let target = waiting.shift(); target !== undefined; target = waiting.shift()) {
      try {
        const { addresses, ttl, reason } = await askAddresses(target, servers);
        if (addresses.length > 0) into.set(target, { addresses, ttl });
        else reasons.push(reason);
      } catch (error) {
        if (!(error instanceof NoDnsAnswer)) throw error;
        reasons.push(`${target}: ${error.message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return reasons;
}

/** A and AAAA together. One of them may fail when the other is there. Rejects with NoDnsAnswer. */
async function askAddresses(
  name: string,
  servers: readonly ListenAddress[],
): Promise<Addresses & { readonly reason: string }> {
  const [a, aaaa] = await Promise.allSettled([
    askName({ name, type: TYPE.A }, servers),
    askName({ name, type: TYPE.AAAA }, servers),
  ]);
  const found: Addresses = { addresses: [], ttl: Number.MAX_SAFE_INTEGER };
  for (const result of [a, aaaa]) {
    if (result.status === 'rejected') continue;
    const { answers } = result.value;
    const part = addressesOf({ ...result.value, additional: [] }).get(canonicalName(name, answers));
    found.addresses.push(...(part?.addresses ?? []));
    found.ttl = Math.min(found.ttl, ...answers.map(({ ttl }) => ttl));
  }
  const failed = [a, aaaa].find((result) => result.status === 'rejected');
  if (found.addresses.length === 0 && failed?.status === 'rejected') throw failed.reason;
  const reply = a.status === 'fulfilled' ? a.value : undefined;
  return { ...found, reason: `${name} A, AAAA: ${reply === undefined ? 'none' : negative(reply)}` };
}

function toEndpoints(records: readonly SrvRecord[], addresses: ReadonlyMap<string, Addresses>): Endpoint[] {
  const endpoints = new Map<string, Endpoint>();
  for (const { target, port, priority, weight } of records) {
    const known = addresses.get(target)?.addresses ?? [];
    for (const address of port === 0 ? [] : known) {
      // A target of several addresses has its weight once.
      const endpoint = { address, port, priority, weight: weight / known.length };
      endpoints.set(`${address} ${port}`, endpoint);
    }
  }
  return [...endpoints.values()];
}

function negative(reply: Reply): string {
  return reply.rcode === RCODE.NOERROR ? 'no record' : showFailure(reply);
}
