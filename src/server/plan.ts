/**
 * A reply before its bytes are brought together: header, the question as it came, and a list of pieces that lie in the
 * shared arena or among the constants. The portable transports copy them; a batched one can send them from where they
 * are.
 */

import { edeOption } from '../answers/ede-block.js';
import { EDE, HEADER_BYTES, TYPE } from '../dns/constants.js';

/** How a query came in: it decides the size limit of the reply. */
export type Transport = 'udp' | 'tcp';

/** 4 or 16 address bytes inside `bytes` at `offset`. A v4-mapped IPv6 peer is given as family 4. */
export interface Peer {
  family: 4 | 6;
  bytes: Uint8Array;
  offset: number;
}

/** `source` of a piece: the plan's constants. Other values are segments of the arena. */
export const CONSTANT = 255;

/** A pointer reaches no further than 14 bits (RFC 1035 s.4.1.4). */
export const MAX_POINTER = 0x3fff;

const MAX_PIECES = 12_288;
/** Kept for what ends every reply: authority or OPT. */
const LAST_PIECES = 8;

const POINTERS_END = (MAX_POINTER + 1) * 2;
const OPT_HEAD_BYTES = 9;
/** Without the options: head and RDLENGTH. */
export const OPT_BYTES = OPT_HEAD_BYTES + 2;
const OPT_HEADS = POINTERS_END;
const NO_OPTIONS = OPT_HEADS + 4 * OPT_HEAD_BYTES;
const FIXED_EDES = NO_OPTIONS + 2;
const EDE_BYTES = 8;
const FIXED_EDE_CODES = [EDE.NOT_READY, EDE.PROHIBITED, EDE.NOT_AUTHORITATIVE, EDE.NOT_SUPPORTED] as const;
export type FixedEde = (typeof FIXED_EDE_CODES)[number];

export class Plan {
  readonly constants: Uint8Array;
  readonly source = new Uint8Array(MAX_PIECES);
  readonly start = new Int32Array(MAX_PIECES);
  readonly size = new Int32Array(MAX_PIECES);
  pieces = 0;
  /** Of the whole message, so far. */
  length = 0;
  /** So many bytes of the query are the reply's header (patched) and question. */
  questionEnd = 0;
  /** Octets 2 and 3 of the header. */
  flags = 0;
  rcode = 0;
  authoritative = false;
  truncated = false;
  answers = 0;
  authorities = 0;
  additionals = 0;

  /** `maxUdp`: the payload size that our OPT records offer. */
  constructor(maxUdp: number) {
    this.constants = constants(maxUdp);
  }

  begin(questionEnd: number): void {
    this.questionEnd = questionEnd;
    this.length = questionEnd;
    this.pieces = 0;
    this.rcode = 0;
    this.authoritative = false;
    this.truncated = false;
    this.answers = 0;
    this.authorities = 0;
    this.additionals = 0;
  }

  get full(): boolean {
    return this.pieces >= MAX_PIECES - LAST_PIECES;
  }

  add(source: number, start: number, size: number): void {
    const piece = this.pieces++;
    this.source[piece] = source;
    this.start[piece] = start;
    this.size[piece] = size;
    this.length += size;
  }

  /** An owner name: a pointer to `offset` of the message, at most MAX_POINTER. */
  addPointer(offset: number): void {
    this.add(CONSTANT, offset * 2, 2);
  }

  /** The OPT record up to its RDLENGTH. */
  addOptHead(dnssecOk: boolean, badVersion: boolean): void {
    this.add(CONSTANT, OPT_HEADS + ((dnssecOk ? 1 : 0) + (badVersion ? 2 : 0)) * OPT_HEAD_BYTES, OPT_HEAD_BYTES);
    this.additionals++;
  }

  addNoOptions(): void {
    this.add(CONSTANT, NO_OPTIONS, 2);
  }

  addFixedEde(code: FixedEde): void {
    this.add(CONSTANT, FIXED_EDES + FIXED_EDE_CODES.indexOf(code) * EDE_BYTES, EDE_BYTES);
  }

  /** Makes the query's header, of which the id stays, the reply's. */
  patch(message: Uint8Array): void {
    message[2] = this.flags >>> 8;
    message[3] = this.flags;
    message[4] = 0;
    message[5] = this.questionEnd > HEADER_BYTES ? 1 : 0;
    message[6] = this.answers >>> 8;
    message[7] = this.answers;
    message[8] = 0;
    message[9] = this.authorities;
    message[10] = this.additionals >>> 8;
    message[11] = this.additionals;
  }

  /** Brings the message together in `out`; its length. `segments` are the arena's bytes. */
  write(query: Uint8Array, segments: readonly Uint8Array[], out: Uint8Array): number {
    for (let i = 0; i < this.questionEnd; i++) out[i] = query[i]!;
    this.patch(out);
    let to = this.questionEnd;
    for (let piece = 0; piece < this.pieces; piece++) {
      const source = this.source[piece]!;
      const bytes = source === CONSTANT ? this.constants : segments[source]!;
      const start = this.start[piece]!;
      const end = start + this.size[piece]!;
      for (let at = start; at < end; at++) out[to++] = bytes[at]!;
    }
    return to;
  }
}

/** All pointers, four OPT heads (DO, BADVERS), an empty RDLENGTH, and the EDEs that are the same in every zone. */
function constants(maxUdp: number): Uint8Array {
  const bytes = new Uint8Array(FIXED_EDES + FIXED_EDE_CODES.length * EDE_BYTES);
  const view = new DataView(bytes.buffer);
  for (let offset = 0; offset <= MAX_POINTER; offset++) view.setUint16(offset * 2, 0xc000 | offset);
  for (let variant = 0; variant < 4; variant++) {
    const at = OPT_HEADS + variant * OPT_HEAD_BYTES;
    view.setUint16(at + 1, TYPE.OPT);
    view.setUint16(at + 3, maxUdp);
    view.setUint8(at + 5, (variant & 2) >> 1);
    view.setUint16(at + 7, (variant & 1) << 15);
  }
  FIXED_EDE_CODES.forEach((code, i) => {
    bytes.set(edeOption(code, new Uint8Array(0)), FIXED_EDES + i * EDE_BYTES);
  });
  return bytes;
}
