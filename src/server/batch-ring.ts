/**
 * The memory of one batch: message headers, names, control data, queries and answers of every slot, in one block
 * that the kernel reads and writes by address. Nothing of it may be collected while the loop runs, so the loop's
 * owner holds the ring, and the ring holds the block and every view of it.
 */
import type { LinuxCalls } from './linux-calls.js';
import { MAX_LEFT, type Peer } from './reply.js';

export const BATCH = 64;
/** Longer datagrams are no queries: they are cut, seen to be cut, and dropped. */
const QUERY_BYTES = 4096;
export const NAME_BYTES = 28;
export const CONTROL_BYTES = 64;

/** struct mmsghdr of 64-bit Linux, in words of 4 bytes. */
export const HEADER_WORDS = 16;
const HEADER_BYTES = HEADER_WORDS * 4;
export const MSG_NAME = 0;
export const MSG_NAMELEN = 2;
export const MSG_IOV = 4;
export const MSG_IOVLEN = 6;
export const MSG_CONTROL = 8;
export const MSG_CONTROLLEN = 10;
export const MSG_FLAGS = 12;
export const MSG_LEN = 14;

/** struct iovec, in words. */
export const IOV_WORDS = 4;
export const IOV_LEN = 2;
/** iovecs of one answer: pieces that are left in the table, and what stands before, between and behind them. */
const IOVS = 2 * MAX_LEFT + 1;
export const SLOT_IOV_WORDS = IOVS * IOV_WORDS;

const NAME_STRIDE = 32;

export class BatchRing {
  readonly memory: ArrayBuffer;
  /** All of it in words, for headers. */
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;
  readonly view: DataView;
  /** Word index of the first receive header; the others follow. */
  readonly receive: number;
  readonly send: number;
  /** Word index of the first answer's first iovec; the next answer's is SLOT_IOV_WORDS on. */
  readonly sendIov: number;
  /** Byte offsets. */
  readonly names: number;
  readonly controls: number;
  readonly receiveHeaders: Uint8Array;
  /** Entry i begins at send header i: what is left to send after i messages. */
  readonly sendHeadersFrom: readonly Uint8Array[];
  /** Of each slot, as long as the longest query and the longest answer: answers are written over queries. */
  readonly queries: readonly Uint8Array[];
  /** For answers that are given as a whole. */
  readonly answers: readonly Uint8Array[];
  readonly peers: readonly Peer[];
  /** Low and high words of the addresses of each slot's name, control data and answer iovec. */
  readonly namePointers: Uint32Array;
  readonly controlPointers: Uint32Array;
  readonly iovPointers: Uint32Array;
  readonly queryPointers: Uint32Array;
  readonly answerPointers: Uint32Array;

  /** `answerBytes`: the largest answer. */
  constructor(calls: Pick<LinuxCalls, 'address'>, answerBytes: number) {
    const answerStride = Math.ceil(answerBytes / 64) * 64;
    const queryStride = Math.max(QUERY_BYTES, answerStride);
    const layout = new Layout();
    const receive = layout.take(BATCH * HEADER_BYTES);
    const send = layout.take(BATCH * HEADER_BYTES);
    const receiveIov = layout.take(BATCH * IOV_WORDS * 4);
    const sendIov = layout.take(BATCH * SLOT_IOV_WORDS * 4);
    this.names = layout.take(BATCH * NAME_STRIDE);
    this.controls = layout.take(BATCH * CONTROL_BYTES);
    const queries = layout.take(BATCH * queryStride);
    const answers = layout.take(BATCH * answerStride);

    this.memory = new ArrayBuffer(layout.size);
    this.words = new Uint32Array(this.memory);
    this.bytes = new Uint8Array(this.memory);
    this.view = new DataView(this.memory);
    this.receive = receive / 4;
    this.send = send / 4;
    this.sendIov = sendIov / 4;
    this.receiveHeaders = this.bytes.subarray(receive, receive + BATCH * HEADER_BYTES);

    const base = calls.address(this.bytes);
    const pointers = (first: number, stride: number): Uint32Array => {
      const pairs = new Uint32Array(BATCH * 2);
      for (let i = 0; i < BATCH; i++) putPointer(pairs, i, base + BigInt(first + i * stride));
      return pairs;
    };
    this.namePointers = pointers(this.names, NAME_STRIDE);
    this.controlPointers = pointers(this.controls, CONTROL_BYTES);
    this.iovPointers = pointers(sendIov, SLOT_IOV_WORDS * 4);
    const receiveIovs = pointers(receiveIov, IOV_WORDS * 4);
    this.queryPointers = pointers(queries, queryStride);
    this.answerPointers = pointers(answers, answerStride);

    const slots = Array.from({ length: BATCH }, (_, i) => i);
    this.sendHeadersFrom = slots.map((i) => this.bytes.subarray(send + i * HEADER_BYTES, send + BATCH * HEADER_BYTES));
    this.queries = slots.map((i) => this.bytes.subarray(queries + i * queryStride, queries + (i + 1) * queryStride));
    this.answers = slots.map((i) => this.bytes.subarray(answers + i * answerStride, answers + (i + 1) * answerStride));
    this.peers = slots.map((i) => ({ family: 4, bytes: this.bytes, offset: this.names + i * NAME_STRIDE + 4 }));
    for (const i of slots) {
      this.#pointer(receiveIov / 4 + i * IOV_WORDS, this.queryPointers, i);
      this.words[receiveIov / 4 + i * IOV_WORDS + IOV_LEN] = QUERY_BYTES;
      const header = this.receive + i * HEADER_WORDS;
      this.#pointer(header + MSG_NAME, this.namePointers, i);
      this.#pointer(header + MSG_IOV, receiveIovs, i);
      this.words[header + MSG_IOVLEN] = 1;
      this.#pointer(header + MSG_CONTROL, this.controlPointers, i);
      this.words[header + MSG_NAMELEN] = NAME_BYTES;
      this.words[header + MSG_CONTROLLEN] = CONTROL_BYTES;
    }
  }

  /** Byte offset of a slot's sockaddr. */
  name(slot: number): number {
    return this.names + slot * NAME_STRIDE;
  }

  /** Byte offset of a slot's control data. */
  control(slot: number): number {
    return this.controls + slot * CONTROL_BYTES;
  }

  #pointer(word: number, pointers: Uint32Array, slot: number): void {
    this.words[word] = pointers[slot * 2]!;
    this.words[word + 1] = pointers[slot * 2 + 1]!;
  }
}

/** Writes an address as the pair of words at `index`, low word first. */
export function putPointer(pairs: Uint32Array, index: number, address: bigint): void {
  pairs[index * 2] = Number(address & 0xffffffffn);
  pairs[index * 2 + 1] = Number(address >> 32n);
}

/** Places one after the other, each on a line of its own. */
class Layout {
  size = 0;

  take(bytes: number): number {
    const at = this.size;
    this.size += Math.ceil(bytes / 64) * 64;
    return at;
  }
}
