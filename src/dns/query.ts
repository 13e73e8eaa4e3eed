/**
 * The parser of the query path. It reads untrusted bytes, throws never, allocates nothing and follows no pointer;
 * one `Query` is reused for every message.
 */
import { HEADER_BYTES, MAX_LABEL, MAX_NAME, TYPE } from './constants.js';

export const PARSED = 0;
/** Shorter than a header: nothing to answer to. */
export const TOO_SHORT = 1;
/** A response (QR=1): answering it would make loops. */
export const IS_RESPONSE = 2;
/** Answer FORMERR. The question is worth echoing when `questionEnd` is past the header. */
export const MALFORMED = 3;

export type ParseResult = typeof PARSED | typeof TOO_SHORT | typeof IS_RESPONSE | typeof MALFORMED;

const TYPE_AND_CLASS = 4;
/** Type, class, TTL and length of a record. */
const RECORD_FIXED = 10;

export class Query {
  opcode = 0;
  /** One past the question, 12 when there is none to echo. */
  questionEnd = HEADER_BYTES;
  /** Octets of the question's name, root label included. */
  nameLength = 0;
  type = 0;
  class = 0;
  /** Offsets of the length octets of the name's labels. */
  readonly labels = new Uint16Array(128);
  labelCount = 0;
  /** The query has an OPT record: so has the reply (RFC 6891 s.6.1.1). */
  edns = false;
  version = 0;
  /** The requestor's UDP payload size, at least 512 (s.6.2.3). */
  payload = 512;
  dnssecOk = false;

  parse(bytes: Uint8Array, length: number): ParseResult {
    this.edns = false;
    this.questionEnd = HEADER_BYTES;
    if (length < HEADER_BYTES) return TOO_SHORT;
    const flags = bytes[2]!;
    if ((flags & 0x80) !== 0) return IS_RESPONSE;
    this.opcode = (flags >> 3) & 15;
    const questions = (bytes[4]! << 8) | bytes[5]!;
    let at: number;
    if (questions === 1) {
      at = this.#question(bytes, length);
      if (at < 0) return MALFORMED;
      this.questionEnd = at;
    } else {
      at = HEADER_BYTES;
      for (let i = 0; i < questions && at >= 0; i++) at = skip(bytes, length, at, TYPE_AND_CLASS);
      if (at < 0) return MALFORMED;
    }
    const before = ((bytes[6]! << 8) | bytes[7]!) + ((bytes[8]! << 8) | bytes[9]!);
    const records = before + ((bytes[10]! << 8) | bytes[11]!);
    if (records !== 0 && !this.#records(bytes, length, at, records, before)) return MALFORMED;
    return questions === 1 ? PARSED : MALFORMED;
  }

  /** Reads the only question; a pointer in it could only point into the header. -1: malformed. */
  #question(bytes: Uint8Array, length: number): number {
    let at = HEADER_BYTES;
    let count = 0;
    for (;;) {
      if (at >= length) return -1;
      const size = bytes[at]!;
      if (size === 0) break;
      if (size > MAX_LABEL) return -1;
      this.labels[count++] = at;
      at += size + 1;
      if (at - HEADER_BYTES >= MAX_NAME) return -1;
    }
    at++;
    if (at + TYPE_AND_CLASS > length) return -1;
    this.labelCount = count;
    this.nameLength = at - HEADER_BYTES;
    this.type = (bytes[at]! << 8) | bytes[at + 1]!;
    this.class = (bytes[at + 2]! << 8) | bytes[at + 3]!;
    return at + TYPE_AND_CLASS;
  }

  /** Walks all records for the OPT. `before` of them stand in sections where an OPT may not be. */
  #records(bytes: Uint8Array, length: number, start: number, records: number, before: number): boolean {
    let at = start;
    for (let i = 0; i < records; i++) {
      const owner = at;
      at = skip(bytes, length, at, RECORD_FIXED);
      if (at < 0) return false;
      const fixed = at - RECORD_FIXED;
      at += (bytes[at - 2]! << 8) | bytes[at - 1]!;
      if (at > length) return false;
      if (((bytes[fixed]! << 8) | bytes[fixed + 1]!) !== TYPE.OPT) continue;
      if (i < before || this.edns || bytes[owner] !== 0) return false;
      this.edns = true;
      const payload = (bytes[fixed + 2]! << 8) | bytes[fixed + 3]!;
      this.payload = Math.max(payload, 512);
      this.version = bytes[fixed + 5]!;
      this.dnssecOk = (bytes[fixed + 6]! & 0x80) !== 0;
      if (!wellFormedOptions(bytes, fixed + RECORD_FIXED, at)) return false;
    }
    return true;
  }
}

/** Skips a name and `fixed` octets after it. -1 when they are not all there. */
function skip(bytes: Uint8Array, length: number, start: number, fixed: number): number {
  let at = start;
  for (;;) {
    if (at >= length) return -1;
    const size = bytes[at]!;
    if (size === 0) {
      at += 1;
      break;
    }
    if (size >= 0xc0) {
      at += 2;
      break;
    }
    if (size > MAX_LABEL) return -1;
    at += size + 1;
  }
  at += fixed;
  return at > length ? -1 : at;
}

function wellFormedOptions(bytes: Uint8Array, start: number, end: number): boolean {
  let at = start;
  while (at < end) {
    if (at + 4 > end) return false;
    at += 4 + ((bytes[at + 2]! << 8) | bytes[at + 3]!);
  }
  return at === end;
}
