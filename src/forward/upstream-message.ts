/** Messages to and from an upstream. Everything that comes is hostile until it has been read here. */
import { HEADER_BYTES, RCODE, TYPE } from '../dns/constants.js';
import { FOLD } from '../dns/names.js';
import { passedOptions, type Question } from './question.js';
import { putU16, putU32, readableName, skipName, u16, u32 } from './wire.js';

/** What an upstream may send us over UDP (DNS Flag Day 2020). */
const PAYLOAD = 1_232;
const RECORD_FIXED = 10;
const MX = 15;
/** RFC 2308 s.5 leaves 1 to 3 hours. */
const MAX_NEGATIVE_S = 3 * 3_600;
/** RFC 8767 s.4. */
const MAX_TTL_S = 7 * 86_400;
/** Longest message that offsets of 16 bits reach. */
const MAX_BYTES = 65_535;

/** The query for an upstream: same question in the same letters, RD and AD set, CD, DO and options as asked. */
export function encodeUpstreamQuery(question: Question, id: number, edns: boolean): Uint8Array {
  const { query, questionEnd, options } = question;
  const out = new Uint8Array(questionEnd + (edns ? 11 + options.length : 0));
  out.set(query.subarray(0, questionEnd));
  putU16(out, 0, id);
  // AD asks for AD in the reply (RFC 6840 s.5.7); who did not ask for it does not get to see it.
  putU16(out, 2, 0x0120 | (question.checkingDisabled ? 0x10 : 0));
  putU16(out, 4, 1);
  putU32(out, 6, 0);
  putU16(out, 10, edns ? 1 : 0);
  if (!edns) return out;
  putU16(out, questionEnd + 1, TYPE.OPT);
  putU16(out, questionEnd + 3, PAYLOAD);
  if (question.edns?.dnssecOk) out[questionEnd + 7] = 0x80;
  putU16(out, questionEnd + 9, options.length);
  out.set(options, questionEnd + 11);
  return out;
}

/** Whether a message is a reply to this very query: id, QR, opcode, and the question in any letters. */
export function belongsTo(reply: Uint8Array, query: Uint8Array): boolean {
  if (reply.length < HEADER_BYTES || reply[0] !== query[0] || reply[1] !== query[1]) return false;
  if ((reply[2]! & 0xf8) !== 0x80) return false;
  const questions = u16(reply, 4);
  // A server that could not read the question may leave it out of its error.
  if (questions === 0) return reply.length === HEADER_BYTES && ERRORS.includes(reply[3]! & 15);
  const end = skipName(query, HEADER_BYTES) + 4;
  if (questions !== 1 || reply.length < end) return false;
  for (let at = HEADER_BYTES; at < end; at++) {
    const same = at < end - 4 ? FOLD[reply[at]!] === FOLD[query[at]!] : reply[at] === query[at];
    if (!same) return false;
  }
  return true;
}

const ERRORS: readonly number[] = [RCODE.FORMERR, RCODE.SERVFAIL, RCODE.NOTIMP, RCODE.REFUSED];

/** A reply without its OPT record and without what stood behind that. */
export interface UpstreamReply {
  readonly bytes: Uint8Array;
  readonly questionEnd: number;
  readonly rcode: number;
  readonly truncated: boolean;
  readonly authenticData: boolean;
  /** Records of the answer, authority and additional section. */
  readonly counts: readonly [number, number, number];
  /** Of each record: where its TTL stands, and one past its last byte. */
  readonly ttls: Uint16Array;
  readonly ends: Uint16Array;
  /** Options of its OPT record that are the client's business. Not to be kept (RFC 6891 s.6.1.1 and its like). */
  readonly options: Uint8Array;
  /** For so many seconds it may be answered from here on; 0: not to be kept. */
  readonly lifetime: number;
}

/** Where in the data of a record its last name stands, of the types in which it may be compressed (RFC 3597 s.4); -1: nowhere. */
function nameInData(type: number): number {
  if (type === TYPE.NS || type === TYPE.CNAME || type === TYPE.PTR) return 0;
  return type === MX ? 2 : -1;
}

/** What there is to read of a reply that was cut within a record: that it was cut. Undefined when it was not. */
export function readCut(reply: Uint8Array, question: Question): UpstreamReply | undefined {
  if ((reply[2]! & 2) === 0) return undefined;
  const bare = reply.slice(0, u16(reply, 4) === 0 ? HEADER_BYTES : question.questionEnd);
  bare.fill(0, 6, HEADER_BYTES);
  return readReply(bare, question);
}

/** Undefined when a record is not where its section says. `reply` belongs to `question`; the result shares no bytes with it. */
export function readReply(reply: Uint8Array, question: Question): UpstreamReply | undefined {
  const questionEnd = u16(reply, 4) === 0 ? HEADER_BYTES : question.questionEnd;
  const counts: [number, number, number] = [0, 0, 0];
  const ttls: number[] = [];
  const ends: number[] = [];
  let options = new Uint8Array(0) as Uint8Array;
  let opt = -1;
  let extended = 0;
  let least = MAX_TTL_S;
  let soa = -1;
  let soaTtl = -1;
  let answered = false;
  let at = questionEnd;
  let kept = questionEnd;
  if (reply.length > MAX_BYTES) return undefined;
  for (let section = 0; section < 3; section++) {
    for (let left = u16(reply, 6 + section * 2); left > 0; left--) {
      const owner = at;
      const fixed = readableName(reply, at);
      if (fixed < 0 || fixed + RECORD_FIXED > reply.length) return undefined;
      at = fixed + RECORD_FIXED + u16(reply, fixed + 8);
      if (at > reply.length) return undefined;
      const type = u16(reply, fixed);
      const name = nameInData(type);
      if (name >= 0 && readableName(reply, fixed + RECORD_FIXED + name) !== at) return undefined;
      if (type === TYPE.OPT) {
        if (section !== 2 || opt >= 0 || reply[owner] !== 0) return undefined;
        opt = owner;
        extended = reply[fixed + 4]!;
        options = passedOptions(reply.subarray(fixed + RECORD_FIXED, at));
        continue;
      }
      // What stands behind the OPT record would move, and names in it might point to the wrong place then.
      if (opt >= 0) continue;
      counts[section]!++;
      ttls.push(fixed + 4);
      ends.push(at);
      kept = at;
      const ttl = Math.min(u32(reply, fixed + 4), MAX_TTL_S);
      least = Math.min(least, ttl);
      if (section === 0 && (type === question.type || question.type === TYPE.ANY)) answered = true;
      if (section === 1 && type === TYPE.SOA && at - fixed - RECORD_FIXED >= 22 && soa < 0)
        soa = Math.min(ttl, u32(reply, at - 4));
      if (soa >= 0 && soaTtl < 0) soaTtl = fixed + 4;
    }
  }
  const bytes = reply.slice(0, kept);
  // The top bit set is a large number, not a negative one, and a large one is a week (RFC 8767 s.4).
  for (const at of ttls) if (u32(bytes, at) > MAX_TTL_S) putU32(bytes, at, MAX_TTL_S);
  for (const [section, count] of counts.entries()) putU16(bytes, 6 + section * 2, count);
  const rcode = (reply[3]! & 15) | (extended << 4);
  const truncated = (reply[2]! & 2) !== 0;
  const negative = rcode === RCODE.NXDOMAIN || !answered;
  let lifetime = 0;
  if (!truncated && (rcode === RCODE.NOERROR || rcode === RCODE.NXDOMAIN)) {
    if (!negative) lifetime = least;
    // RFC 2308 s.5: without an SOA it is not kept.
    else if (soa >= 0) lifetime = Math.min(least, soa, MAX_NEGATIVE_S);
    // RFC 2308 s.3: who keeps it elsewhere goes by this TTL.
    if (negative && soa >= 0) putU32(bytes, soaTtl, soa);
  }
  return {
    bytes,
    questionEnd,
    rcode,
    truncated,
    authenticData: (reply[3]! & 0x20) !== 0,
    counts,
    ttls: Uint16Array.from(ttls),
    ends: Uint16Array.from(ends),
    options,
    lifetime,
  };
}
