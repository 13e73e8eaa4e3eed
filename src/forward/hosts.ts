/** Answers out of the hosts file: addresses of its names, names of its addresses. */
import { RCODE, TYPE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import { addressType, record, soaRdata } from '../dns/records.js';
import type { ReplyForeign } from '../server/handover-desk.js';
import { composeOwn } from './compose.js';
import type { Hosts } from './hosts-file.js';
import type { Question } from './question.js';

/** The file may be changed at any moment. */
const TTL_S = 10;
const TC = 2;
const OPT_BYTES = 11;

const soa = soaRdata({
  mname: nameToWire('localhost')!,
  rname: nameToWire('nobody.invalid')!,
  serial: 1,
  refresh: 3_600,
  retry: 1_200,
  expire: 604_800,
  minimum: TTL_S,
});

/**
 * The reply to a name of the file. Of a name that has one family the other is empty, as the C library has it: no
 * server is asked for what would make the file's word ambiguous. Undefined for other types, whoever may know them,
 * and for other names. `limit`: the largest message for this client, in bytes.
 */
export function answerFromHosts(
  hosts: Hosts,
  question: Question,
  limit: number,
  maxUdp: number,
): Uint8Array | undefined {
  const { name, type } = question;
  if (type === TYPE.PTR) {
    const target = hosts.names.get(name);
    if (target !== undefined) return whole(question, [record(TYPE.PTR, TTL_S, target)], limit, maxUdp);
  }
  const addresses = hosts.addresses.get(name);
  if (addresses === undefined) return undefined;
  if (type !== TYPE.A && type !== TYPE.AAAA && type !== TYPE.ANY && !isSingleLabel(name)) return undefined;
  // RFC 8482 s.4.1: one set is enough for ANY.
  const wanted = type === TYPE.ANY ? addressType(addresses[0]!) : type;
  const records = addresses
    .filter((address) => addressType(address) === wanted)
    .map((address) => record(wanted, TTL_S, address));
  return whole(question, records, limit, maxUdp);
}

/** A name of the file exists, whatever others say of its other types. */
export function asExisting(reply: ReplyForeign): ReplyForeign {
  return (message, keep) => {
    if (message === undefined || (message[3]! & 15) !== RCODE.NXDOMAIN) {
      reply(message, keep);
      return;
    }
    message[3]! &= 0xf0;
    // Not to be given again by a thread, which would give it as it was.
    reply(message);
  };
}

/** Such a name means something on this network only, and is not passed on. */
function isSingleLabel(name: string): boolean {
  return name.charCodeAt(0) + 2 === name.length;
}

function whole(question: Question, records: readonly Uint8Array[], limit: number, maxUdp: number): Uint8Array {
  if (records.length === 0) {
    const authorities = [record(TYPE.SOA, TTL_S, soa)];
    return composeOwn(question, RCODE.NOERROR, { answers: [], authorities }, maxUdp);
  }
  const room = limit - question.questionEnd - (question.edns ? OPT_BYTES : 0);
  const answers = records.slice(0, Math.max(1, Math.floor(room / records[0]!.length)));
  const message = composeOwn(question, RCODE.NOERROR, { answers, authorities: [] }, maxUdp);
  if (answers.length < records.length) message[2]! |= TC;
  return message;
}
