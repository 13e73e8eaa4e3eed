/**
 * Names that are answered here and never sent on: they mean this host or this network, or nothing anywhere
 * (RFC 6761, RFC 6762 s.22.1, RFC 7686, RFC 8375, RFC 6303, RFC 7793,
 * RFC 9462).
 */
import { ByteWriter } from '../dns/byte-writer.js';
import { HEADER_BYTES, RCODE, TYPE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import { soaRdata, writeTail } from '../dns/records.js';
import { composeOwn } from './compose.js';
import { type Question, suffixes } from './question.js';

const TTL_S = 10_800;
const LOCALHOST = wire('localhost');
/** Asked for another way to the server that one asks: an upstream's own would lead past this one. */
const RESOLVER = 'resolver.arpa';
const NAMES = ['localhost', 'invalid', 'test', 'local', 'onion', 'home.arpa', RESOLVER];
const ip6 = (nibbles: string): string => `${[...nibbles].reverse().join('.')}.ip6.arpa`;
const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const LOOPBACK6 = ip6(`${'0'.repeat(31)}1`);
const REVERSE = [
  ...['0', '10', '127', '254.169', '168.192', '2.0.192', '100.51.198', '113.0.203', '255.255.255.255'],
  ...range(16, 31).map((n) => `${n}.172`),
  ...range(64, 127).map((n) => `${n}.100`),
].map((name) => `${name}.in-addr.arpa`);
const REVERSE6 = [LOOPBACK6, ip6('0'.repeat(32)), ...['fd', 'fe8', 'fe9', 'fea', 'feb', '20010db8'].map(ip6)];

const zones = new Set([...NAMES, ...REVERSE, ...REVERSE6].map((name) => latin1(wire(name))));
const localhost = latin1(LOCALHOST);
const resolver = latin1(wire(RESOLVER));
/** Names of addresses that have a name here. */
const loopback = ['1.0.0.127.in-addr.arpa', LOOPBACK6].map((name) => latin1(wire(name)));
const soa = soaRdata({
  mname: LOCALHOST,
  rname: wire('nobody.invalid'),
  serial: 1,
  refresh: 3_600,
  retry: 1_200,
  expire: 604_800,
  minimum: TTL_S,
});

/** Nothing on a host gives these another meaning; the others may stand in its hosts file. */
const fixed = new Set([...['localhost', 'invalid', 'onion'].map((name) => latin1(wire(name))), ...loopback]);

/** Whether a name may not be taken from the hosts file. */
export function isFixed(name: string): boolean {
  for (const suffix of suffixes(name)) if (fixed.has(suffix)) return true;
  return false;
}

/** The reply to a special name; undefined when the name is none. */
export function answerSpecial(question: Question, maxUdp: number): Uint8Array | undefined {
  for (const zone of suffixes(question.name)) if (zones.has(zone)) return answer(question, zone, maxUdp);
  return undefined;
}

function answer(question: Question, zone: string, maxUdp: number): Uint8Array {
  const { name, type } = question;
  const owner = HEADER_BYTES + name.length - zone.length;
  const records = recordsOf(name, zone);
  const wanted = records.filter((record) => record.type === type || type === TYPE.ANY);
  if (wanted.length > 0) {
    const answers = wanted.map((record) => tail(HEADER_BYTES, record.type, record.rdata));
    return composeOwn(question, RCODE.NOERROR, { answers, authorities: [] }, maxUdp);
  }
  // A name below which there is one exists, without records (RFC 8020).
  // RFC 9462: no data says that there is no such way.
  const exists = zone === resolver || records.length > 0 || loopback.some((one) => one.endsWith(name));
  const rcode = exists ? RCODE.NOERROR : RCODE.NXDOMAIN;
  return composeOwn(question, rcode, { answers: [], authorities: [tail(owner, TYPE.SOA, soa)] }, maxUdp);
}

function recordsOf(name: string, zone: string): { readonly type: number; readonly rdata: Uint8Array }[] {
  if (zone === localhost)
    return [
      { type: TYPE.A, rdata: Uint8Array.of(127, 0, 0, 1) },
      { type: TYPE.AAAA, rdata: Uint8Array.from({ length: 16 }, (_, i) => (i === 15 ? 1 : 0)) },
    ];
  const apex = [
    { type: TYPE.SOA, rdata: soa },
    { type: TYPE.NS, rdata: LOCALHOST },
  ];
  return [...(name === zone ? apex : []), ...(loopback.includes(name) ? [{ type: TYPE.PTR, rdata: LOCALHOST }] : [])];
}

/** A record whose owner is the name at `owner` of the message. */
function tail(owner: number, type: number, rdata: Uint8Array): Uint8Array {
  const out = new ByteWriter(64).u16(0xc000 | owner);
  writeTail(out, type, TTL_S, rdata);
  return out.copy();
}

function wire(name: string): Uint8Array {
  return nameToWire(name)!;
}

function latin1(name: Uint8Array): string {
  return Buffer.from(name).toString('latin1');
}
