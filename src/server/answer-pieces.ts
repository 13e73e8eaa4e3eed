/**
 * Turns a reply's plan into iovecs, so that the kernel takes header and question from the query's own buffer and the
 * records from where they lie in the table. What is pointed to must stay as it is until the send is over.
 */
import { OWN_SEGMENT, type SharedTable } from '../answers/shared.js';
import { type BatchRing, IOV_LEN, IOV_WORDS, MAX_PIECES, putPointer, SLOT_IOV_WORDS } from './batch-ring.js';
import type { LinuxCalls } from './linux-calls.js';
import { CONSTANT, type Plan } from './plan.js';

/** `source` of a piece is a byte. */
const SOURCES = 256;
const WORD = 2 ** 32;

export class AnswerPieces {
  readonly #calls: Pick<LinuxCalls, 'address'>;
  readonly #ring: BatchRing;
  readonly #plan: Plan;
  readonly #own: Uint8Array;
  /** Held here: native code knows them by address alone. */
  #segments: Uint8Array[] = [];
  /** Two words a source: where its bytes begin. */
  readonly #bases = new Uint32Array(SOURCES * 2);

  /** `own`: the segment of the reader that makes the plans. */
  constructor(calls: Pick<LinuxCalls, 'address'>, ring: BatchRing, plan: Plan, handle: SharedTable, own: Uint8Array) {
    this.#calls = calls;
    this.#ring = ring;
    this.#plan = plan;
    this.#own = own;
    putPointer(this.#bases, CONSTANT, calls.address(plan.constants));
    this.update(handle);
  }

  /** The table has grown. Between batches only. */
  update(handle: SharedTable): void {
    this.#segments = handle.segments.map((segment) => new Uint8Array(segment));
    this.#segments[OWN_SEGMENT] = this.#own;
    this.#segments.forEach((bytes, i) => {
      putPointer(this.#bases, i, this.#calls.address(bytes));
    });
  }

  /** The answer is the first bytes of the slot's own; returns how many iovecs that makes. */
  putWhole(slot: number, length: number): number {
    const { words, sendIov, answerPointers } = this.#ring;
    const iov = sendIov + slot * SLOT_IOV_WORDS;
    words[iov] = answerPointers[slot * 2]!;
    words[iov + 1] = answerPointers[slot * 2 + 1]!;
    words[iov + IOV_LEN] = length;
    return 1;
  }

  /** Makes the iovecs of a slot from the plan; returns how many. */
  put(slot: number): number {
    const ring = this.#ring;
    const plan = this.#plan;
    const { words } = ring;
    const iov = ring.sendIov + slot * SLOT_IOV_WORDS;
    const query = ring.queries[slot]!;
    if (plan.pieces > MAX_PIECES) return this.putWhole(slot, plan.write(query, this.#segments, ring.answers[slot]!));
    plan.patch(query);
    words[iov] = ring.queryPointers[slot * 2]!;
    words[iov + 1] = ring.queryPointers[slot * 2 + 1]!;
    words[iov + IOV_LEN] = plan.questionEnd;
    const bases = this.#bases;
    const { pieces, source, start, size } = plan;
    for (let piece = 0, to = iov + IOV_WORDS; piece < pieces; piece++, to += IOV_WORDS) {
      const base = source[piece]! * 2;
      const low = bases[base]! + start[piece]!;
      words[to] = low;
      words[to + 1] = bases[base + 1]! + (low >= WORD ? 1 : 0);
      words[to + IOV_LEN] = size[piece]!;
    }
    return 1 + pieces;
  }
}
