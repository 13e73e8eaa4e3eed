/** The reply to a client: header, the question in its letters, records with their TTLs as of now, its own OPT. */
import { OPTION_EDE, RCODE, TYPE } from '../dns/constants.js';
import { STALE_TTL_S } from '../server/kept-answers.js';
import { type Ede, edeOption } from './ede.js';
import type { Question } from './question.js';
import type { UpstreamReply } from './upstream-message.js';
import { putU16, putU32, u16, u32 } from './wire.js';

const OPT_BYTES = 11;
/** An EDE without text, its head included. */
const BARE_EDE_BYTES = 6;

const NO_OPTIONS = new Uint8Array(0);

/** How a reply goes out. */
export interface Dressing {
  /** Largest message that this client takes, in bytes. */
  readonly limit: number;
  /** Payload size that our OPT record offers. */
  readonly maxUdp: number;
  /** Seconds since the reply came from its upstream. */
  readonly age: number;
  /** Its lifetime is over: TTLs are at most STALE_TTL_S. */
  readonly stale: boolean;
  readonly ede?: Ede | undefined;
  /** The upstream's own options go along: the reply has just come from there. */
  readonly live: boolean;
}

export function composeReply(question: Question, reply: UpstreamReply, dressing: Dressing): Uint8Array {
  const options = optionsFor(question, reply, dressing);
  const room = dressing.limit - (question.edns ? OPT_BYTES + options.length : 0);
  const { bytes, questionEnd, counts, ends } = reply;
  const shift = question.questionEnd - questionEnd;
  // An error without a question has no records either.
  const taken = fitting(ends, shift, room);
  const required = counts[0] + counts[1];
  const recordsEnd = taken === 0 ? question.questionEnd : ends[taken - 1]! + shift;
  const out = new Uint8Array(recordsEnd + (question.edns ? OPT_BYTES + options.length : 0));
  out.set(question.query.subarray(0, question.questionEnd));
  out.set(bytes.subarray(questionEnd, recordsEnd - shift), question.questionEnd);
  // Without an OPT record there is no place for the upper bits of an extended rcode, and the lower ones mean another.
  const rcode = question.edns || reply.rcode <= 15 ? reply.rcode : RCODE.SERVFAIL;
  const authentic = reply.authenticData && (question.authenticData || question.edns?.dnssecOk === true);
  putHeader(out, question, {
    rcode,
    truncated: reply.truncated || taken < required,
    authentic,
    authoritative: false,
  });
  const answers = Math.min(taken, counts[0]);
  const authorities = Math.min(taken - answers, counts[1]);
  putU16(out, 6, answers);
  putU16(out, 8, authorities);
  putU16(out, 10, taken - answers - authorities + (question.edns ? 1 : 0));
  for (let i = 0; i < taken; i++) {
    const at = reply.ttls[i]! + shift;
    putU32(out, at, ttlNow(u32(out, at), dressing));
  }
  if (question.edns) putOpt(out, recordsEnd, question, reply.rcode, dressing.maxUdp, options);
  return out;
}

/** A reply of our own without records: failures, refusals. */
export function composeEmpty(question: Question, rcode: number, ede: Ede | undefined, maxUdp: number): Uint8Array {
  const options = question.edns && ede ? edeOption(ede.code, ede.text) : new Uint8Array(0);
  return composeOwn(question, rcode, { answers: [], authorities: [] }, maxUdp, options, false);
}

/** A reply of our own with records whose owners point into the question. */
export function composeOwn(
  question: Question,
  rcode: number,
  records: { readonly answers: readonly Uint8Array[]; readonly authorities: readonly Uint8Array[] },
  maxUdp: number,
  options: Uint8Array = new Uint8Array(0),
  authoritative = true,
): Uint8Array {
  const all = [...records.answers, ...records.authorities];
  const recordsEnd = question.questionEnd + all.reduce((sum, record) => sum + record.length, 0);
  const out = new Uint8Array(recordsEnd + (question.edns ? OPT_BYTES + options.length : 0));
  out.set(question.query.subarray(0, question.questionEnd));
  putHeader(out, question, { rcode, truncated: false, authentic: false, authoritative });
  putU16(out, 6, records.answers.length);
  putU16(out, 8, records.authorities.length);
  putU16(out, 10, question.edns ? 1 : 0);
  let at = question.questionEnd;
  for (const record of all) {
    out.set(record, at);
    at += record.length;
  }
  if (question.edns) putOpt(out, at, question, rcode, maxUdp, options);
  return out;
}

/** Of an EDE the text goes first when there is no room (R26). */
function optionsFor(question: Question, reply: UpstreamReply, { ede, live, limit }: Dressing): Uint8Array {
  if (!question.edns) return NO_OPTIONS;
  const size = reply.bytes.length - reply.questionEnd + question.questionEnd + OPT_BYTES;
  if (!ede) return live ? shortened(reply.options, limit - size, limit - question.questionEnd - OPT_BYTES) : NO_OPTIONS;
  const full = edeOption(ede.code, ede.text);
  return size + full.length <= limit ? full : edeOption(ede.code);
}

/** `room`: what records leave; `most`: what there is without any. Options other than an EDE are not less than records. */
function shortened(options: Uint8Array, room: number, most: number): Uint8Array {
  if (options.length <= room) return options;
  const bare: number[] = [];
  const others: number[] = [];
  for (let at = 0; at + 4 <= options.length; ) {
    const end = at + 4 + u16(options, at + 2);
    if (u16(options, at) !== OPTION_EDE) {
      bare.push(...options.subarray(at, end));
      others.push(...options.subarray(at, end));
    } else if (end - at >= BARE_EDE_BYTES) bare.push(0, OPTION_EDE, 0, 2, options[at + 4]!, options[at + 5]!);
    at = end;
  }
  if (bare.length <= room) return Uint8Array.from(bare);
  return others.length <= most ? Uint8Array.from(others) : NO_OPTIONS;
}

/** How many whole records stay within `room`. */
function fitting(ends: Uint16Array, shift: number, room: number): number {
  let taken = ends.length;
  while (taken > 0 && ends[taken - 1]! + shift > room) taken--;
  return taken;
}

function ttlNow(ttl: number, { age, stale }: Dressing): number {
  if (stale) return Math.max(1, Math.min(ttl, STALE_TTL_S));
  return Math.max(0, ttl - age);
}

function putHeader(
  out: Uint8Array,
  { query }: Question,
  flags: { rcode: number; truncated: boolean; authentic: boolean; authoritative: boolean },
): void {
  out[2] = 0x80 | (query[2]! & 0x79) | (flags.authoritative ? 4 : 0) | (flags.truncated ? 2 : 0);
  // Whoever gets here may have recursion: RA (R26).
  out[3] = 0x80 | (flags.authentic ? 0x20 : 0) | (query[3]! & 0x10) | (flags.rcode & 15);
  putU16(out, 4, 1);
}

function putOpt(
  out: Uint8Array,
  at: number,
  question: Question,
  rcode: number,
  maxUdp: number,
  options: Uint8Array,
): void {
  out[at] = 0;
  putU16(out, at + 1, TYPE.OPT);
  putU16(out, at + 3, maxUdp);
  out[at + 5] = rcode >>> 4;
  out[at + 6] = 0;
  putU16(out, at + 7, question.edns!.dnssecOk ? 0x8000 : 0);
  putU16(out, at + 9, options.length);
  out.set(options, at + OPT_BYTES);
}
