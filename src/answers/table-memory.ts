import { FOLD } from '../dns/names.js';
import {
  ENTRY_HEAD_WORDS,
  OWN_SEGMENT,
  SEGMENT_UNITS_LOG2,
  SEGMENT_UNITS_MASK,
  SET_INLINE,
  type SharedTable,
  SLOT_DELETED,
  SLOT_EMPTY,
} from './shared.js';

/** Typed views over the shared memory, for the writer and for readers. Reads allocate nothing. */
export class TableMemory {
  index: Int32Array = new Int32Array(0);
  /** Slots less one: their number is a power of two. */
  mask = 0;
  status: Int32Array = new Int32Array(0);
  asked: Uint8Array = new Uint8Array(1);
  zoneStates: Int32Array = new Int32Array(0);
  addresses: Int32Array = new Int32Array(2);
  bytes: Uint8Array[] = [];
  views: DataView[] = [];
  halves: Uint16Array[] = [];
  words: Int32Array[] = [];
  #segments = 0;

  open(handle: SharedTable): void {
    this.index = new Int32Array(handle.index);
    this.mask = this.index.length / 2 - 1;
    this.status = new Int32Array(handle.status);
    this.asked = new Uint8Array(handle.asked);
    this.zoneStates = new Int32Array(handle.zoneStates);
    this.addresses = new Int32Array(handle.addresses);
    while (this.#segments < handle.segments.length) this.#addSegment(handle.segments[this.#segments]!);
  }

  /** A reader's own segment. */
  setOwn(bytes: Uint8Array, halves: Uint16Array, words: Int32Array): void {
    this.bytes[OWN_SEGMENT] = bytes;
    this.views[OWN_SEGMENT] = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    this.halves[OWN_SEGMENT] = halves;
    this.words[OWN_SEGMENT] = words;
  }

  #addSegment(segment: SharedArrayBuffer): void {
    const number = this.#segments++;
    this.bytes[number] = new Uint8Array(segment);
    this.views[number] = new DataView(segment);
    this.halves[number] = new Uint16Array(segment);
    this.words[number] = new Int32Array(segment);
  }

  /** Slot of the entry of a name in a zone, -1 when there is none. `hash` is the zone's hash of the name. */
  findSlot(zone: number, hash: number, name: Uint8Array, start: number, length: number): number {
    const { index, mask } = this;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const block = index[slot * 2 + 1]!;
      if (block === SLOT_EMPTY) return -1;
      if (block !== SLOT_DELETED && index[slot * 2] === hash && this.isEntryOf(block, zone, name, start, length)) {
        return slot;
      }
    }
  }

  /** Block number of the entry of a name in a zone, 0 when there is none. */
  find(zone: number, hash: number, name: Uint8Array, start: number, length: number): number {
    const { index, mask } = this;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const block = index[slot * 2 + 1]!;
      if (block === SLOT_EMPTY) return 0;
      if (block !== SLOT_DELETED && index[slot * 2] === hash && this.isEntryOf(block, zone, name, start, length)) {
        return block;
      }
    }
  }

  isEntryOf(block: number, zone: number, name: Uint8Array, start: number, length: number): boolean {
    const segment = block >>> SEGMENT_UNITS_LOG2;
    const word = (block & SEGMENT_UNITS_MASK) * 2;
    const words = this.words[segment]!;
    const head = words[word + 1]!;
    if ((head & 0xffffff) !== (zone | (length << 16))) return false;
    const key = word + ENTRY_HEAD_WORDS + (head >>> 24) * 2;
    // By words, as most ask in lower case: the first that is not equal is compared by octets, and what is behind it.
    let i = 0;
    for (let at = start; i <= length - 4; i += 4, at += 4) {
      const four = name[at]! | (name[at + 1]! << 8) | (name[at + 2]! << 16) | (name[at + 3]! << 24);
      if (words[key + (i >> 2)] !== four) break;
    }
    const bytes = this.bytes[segment]!;
    for (; i < length; i++) if (bytes[key * 4 + i] !== FOLD[name[start + i]!]) return false;
    return true;
  }

  /** Word `at` of a block. */
  word(block: number, at: number): number {
    return this.words[block >>> SEGMENT_UNITS_LOG2]![(block & SEGMENT_UNITS_MASK) * 2 + at]!;
  }

  /** Half word `at` of a block. */
  half(block: number, at: number): number {
    return this.halves[block >>> SEGMENT_UNITS_LOG2]![(block & SEGMENT_UNITS_MASK) * 4 + at]!;
  }

  /** How many sets the entry has. */
  setCount(entry: number): number {
    return this.word(entry, 1) >>> 24;
  }

  setType(entry: number, at: number): number {
    return this.word(entry, ENTRY_HEAD_WORDS + at * 2) & 0xffff;
  }

  /** Block number of the entry's set `at`. */
  set(entry: number, at: number): number {
    const block = this.word(entry, ENTRY_HEAD_WORDS + at * 2 + 1);
    return (this.word(entry, ENTRY_HEAD_WORDS + at * 2) & SET_INLINE) === 0 ? block : entry + block;
  }

  /** A view of a block's bytes, for the writer. */
  view(block: number): Uint8Array {
    const start = (block & SEGMENT_UNITS_MASK) * 8;
    return this.bytes[block >>> SEGMENT_UNITS_LOG2]!.subarray(start, start + this.word(block, 0));
  }
}
