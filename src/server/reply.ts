/**
 * A reply while it is written: header, the question as it came, and records behind it. Bytes go at once to where the
 * reply leaves from. A transport that sends from many places can have large pieces left where they lie in the table.
 */

import { OWN_SEGMENT } from '../answers/shared.js';
import { type EDE, HEADER_BYTES, OPTION_EDE, TYPE } from '../dns/constants.js';
import { copyBytes } from './copy-bytes.js';

/** How a query came in: it decides the size limit of the reply. */
export type Transport = 'udp' | 'tcp';

/** 4 or 16 address bytes inside `bytes` at `offset`. A v4-mapped IPv6 peer is given as family 4. */
export interface Peer {
  family: 4 | 6;
  bytes: Uint8Array;
  offset: number;
}

/** A pointer reaches no further than 14 bits (RFC 1035 s.4.1.4). */
export const MAX_POINTER = 0x3fff;
const POINTER = 0xc000;

const OPT_HEAD_BYTES = 9;
/** Without the options: head and RDLENGTH. */
export const OPT_BYTES = OPT_HEAD_BYTES + 2;
const EDE_BYTES = 6;
/** An OPT record with an EDE that has no text. */
export const FIXED_EDE_OPT_BYTES = OPT_BYTES + EDE_BYTES;
export type FixedEde =
  | typeof EDE.NOT_READY
  | typeof EDE.PROHIBITED
  | typeof EDE.NOT_AUTHORITATIVE
  | typeof EDE.NOT_SUPPORTED
  | typeof EDE.NO_REACHABLE_AUTHORITY;

/** Up to here a copy costs less than what the kernel takes for a piece of its own (50 ns). */
const MOST_COPIED = 96;
/** So many pieces stay where they lie, at most. */
export const MAX_LEFT = 7;

export class Reply {
  readonly #maxUdp: number;
  #view: DataView = new DataView(new ArrayBuffer(0));
  /** Of its first byte in `view`. */
  #offset = 0;
  /** Where in `view` the next byte goes. */
  #to = 0;
  /** May large pieces stay where they lie? */
  #leave = false;
  /** Pieces that were left, in order: segment, place in it, size; and how many written bytes stand before each. */
  readonly leftSegment = new Uint8Array(MAX_LEFT);
  readonly leftStart = new Int32Array(MAX_LEFT);
  readonly leftSize = new Int32Array(MAX_LEFT);
  readonly leftAfter = new Int32Array(MAX_LEFT);
  left = 0;
  /** Of the whole message, so far. */
  length = 0;
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
    this.#maxUdp = maxUdp;
  }

  /** Of the bytes that were written. */
  get written(): number {
    return this.#to - this.#offset;
  }

  /** Where the next reply is written to. */
  into(view: DataView, offset: number, leave: boolean): void {
    this.#view = view;
    this.#offset = offset;
    this.#leave = leave;
  }

  /** Likewise, to memory that may change with every call. */
  intoBytes({ buffer, byteOffset }: Uint8Array): void {
    this.into(this.#view.buffer === buffer ? this.#view : new DataView(buffer), byteOffset, false);
  }

  /** An empty reply; `questionEnd` bytes of it are header and question, which come last. */
  begin(questionEnd: number): void {
    this.questionEnd = questionEnd;
    this.length = questionEnd;
    this.#to = this.#offset + questionEnd;
    this.left = 0;
    this.rcode = 0;
    this.authoritative = false;
    this.truncated = false;
    this.answers = 0;
    this.authorities = 0;
    this.additionals = 0;
  }

  /** Bytes of a segment of the table: `source` is all of it. What readers make themselves never stays where it lies. */
  add(source: DataView, segment: number, start: number, size: number): void {
    this.length += size;
    if (size > MOST_COPIED && this.#leave && segment !== OWN_SEGMENT && this.left < MAX_LEFT) {
      const { left } = this;
      this.leftSegment[left] = segment;
      this.leftStart[left] = start;
      this.leftSize[left] = size;
      this.leftAfter[left] = this.written;
      this.left = left + 1;
    } else this.#to = copyBytes(source, start, size, this.#view, this.#to);
  }

  /** An owner name: a pointer to `offset` of the message, at most MAX_POINTER. */
  addPointer(offset: number): void {
    this.#add16(POINTER | offset);
  }

  /** The OPT record up to its RDLENGTH. */
  addOptHead(dnssecOk: boolean, badVersion: boolean): void {
    const to = this.#to;
    this.#view.setInt8(to, 0);
    this.#view.setInt16(to + 1, TYPE.OPT);
    this.#view.setInt16(to + 3, this.#maxUdp);
    this.#view.setInt32(to + 5, (badVersion ? 0x01000000 : 0) | (dnssecOk ? 0x8000 : 0));
    this.#to = to + OPT_HEAD_BYTES;
    this.length += OPT_HEAD_BYTES;
    this.additionals++;
  }

  addNoOptions(): void {
    this.#add16(0);
  }

  /** An EDE without text. */
  addFixedEde(code: FixedEde): void {
    this.#add16(EDE_BYTES);
    this.#add16(OPTION_EDE);
    this.#add16(2);
    this.#add16(code);
  }

  /** The header, of which the id is the query's, and the question. Returns the length of what was written. */
  end(query: Uint8Array): number {
    const view = this.#view;
    const offset = this.#offset;
    view.setInt8(offset, query[0]!);
    view.setInt8(offset + 1, query[1]!);
    for (let i = HEADER_BYTES; i < this.questionEnd; i++) view.setInt8(offset + i, query[i]!);
    return this.endInPlace();
  }

  /** Likewise, when it is written over the query: id and question are there. */
  endInPlace(): number {
    const view = this.#view;
    const offset = this.#offset;
    view.setInt16(offset + 2, this.flags);
    view.setInt16(offset + 4, this.questionEnd > HEADER_BYTES ? 1 : 0);
    view.setInt16(offset + 6, this.answers);
    view.setInt16(offset + 8, this.authorities);
    view.setInt16(offset + 10, this.additionals);
    return this.written;
  }

  #add16(value: number): void {
    this.#view.setInt16(this.#to, value);
    this.#to += 2;
    this.length += 2;
  }
}
