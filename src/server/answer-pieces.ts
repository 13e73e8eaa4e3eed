/**
 * The iovecs of an answer that was written over its query: one, unless large pieces of it were left in the table. The
 * kernel takes those from where they lie, and they must stay as they are until the send is over.
 */
import type { SharedTable } from '../answers/shared.js';
import { type BatchRing, IOV_LEN, IOV_WORDS, putPointer, SLOT_IOV_WORDS } from './batch-ring.js';
import type { LinuxCalls } from './linux-calls.js';
import type { Reply } from './reply.js';

const WORD = 2 ** 32;

export class AnswerPieces {
  readonly #calls: Pick<LinuxCalls, 'address'>;
  readonly #ring: BatchRing;
  readonly #reply: Reply;
  /** Held here: native code knows them by address alone. */
  #segments: readonly Uint8Array[] = [];
  /** Two words a segment: where its bytes begin. */
  #bases = new Uint32Array(0);

  /** `reply`: of the responder that writes the answers. */
  constructor(calls: Pick<LinuxCalls, 'address'>, ring: BatchRing, reply: Reply, handle: SharedTable) {
    this.#calls = calls;
    this.#ring = ring;
    this.#reply = reply;
    this.update(handle);
  }

  /** The table has grown. Between batches only. */
  update({ segments }: SharedTable): void {
    this.#segments = segments.map((segment) => new Uint8Array(segment));
    this.#bases = new Uint32Array(segments.length * 2);
    for (const [i, bytes] of this.#segments.entries()) putPointer(this.#bases, i, this.#calls.address(bytes));
  }

  /** The answer is the first bytes of the slot's own; returns how many iovecs that makes. */
  putWhole(slot: number, length: number): number {
    this.#put(this.#ring.sendIov + slot * SLOT_IOV_WORDS, this.#ring.answerPointers, slot, 0, length);
    return 1;
  }

  /** Makes the iovecs of a slot from the reply; returns how many. */
  put(slot: number): number {
    const reply = this.#reply;
    const { queryPointers, sendIov } = this.#ring;
    const first = sendIov + slot * SLOT_IOV_WORDS;
    let iov = first;
    let from = 0;
    for (let i = 0; i < reply.left; i++) {
      const to = reply.leftAfter[i]!;
      if (to > from) {
        this.#put(iov, queryPointers, slot, from, to - from);
        iov += IOV_WORDS;
        from = to;
      }
      this.#put(iov, this.#bases, reply.leftSegment[i]!, reply.leftStart[i]!, reply.leftSize[i]!);
      iov += IOV_WORDS;
    }
    if (reply.written > from) {
      this.#put(iov, queryPointers, slot, from, reply.written - from);
      iov += IOV_WORDS;
    }
    return (iov - first) / IOV_WORDS;
  }

  /** `start` bytes behind an address of the list. */
  #put(iov: number, bases: Uint32Array, number: number, start: number, size: number): void {
    const { words } = this.#ring;
    const low = bases[number * 2]! + start;
    words[iov] = low;
    words[iov + 1] = bases[number * 2 + 1]! + (low >= WORD ? 1 : 0);
    words[iov + IOV_LEN] = size;
  }
}
