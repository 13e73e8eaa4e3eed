/**
 * Allocates blocks of the shared arena. A block that readers may still see is *retired*: it is used again only after
 * a quiescent point, when every reader has left the batch that it was in and has taken the generation of then.
 */
import {
  MAX_READERS,
  MAX_SEGMENTS,
  READER_COUNTER,
  READER_GENERATION,
  READER_WORDS,
  SEGMENT_BYTES_LOG2,
  SEGMENT_UNITS_LOG2,
  SEGMENT_UNITS_MASK,
} from './shared.js';
import type { TableMemory } from './table-memory.js';

const SEGMENT_UNITS = 2 ** SEGMENT_UNITS_LOG2;
/** Up to here each size has a free list of its own; beyond, four lists share a doubling. */
const EXACT_UNITS = 128;
const EXACT_LOG2 = 7;
const CLASSES = EXACT_UNITS + 4 * (SEGMENT_UNITS_LOG2 - EXACT_LOG2) + 1;
/** So many retired blocks are worth a look at the readers. */
const RETIRED_BEFORE_CHECK = 64;

export class Arena {
  /** Bytes in blocks that are in use or retired. */
  used = 0;
  readonly readers: SharedArrayBuffer;
  readonly #readerWords: Int32Array;
  readonly #active = new Uint8Array(MAX_READERS);
  readonly #memory: TableMemory;
  readonly #addSegment: (segment: SharedArrayBuffer) => void;
  readonly #free: (number[] | undefined)[] = new Array(CLASSES);
  #segments = 0;
  #next = 0;
  #end = 0;
  #retired: number[] = [];
  #waiting: number[] = [];
  #waitingGeneration = 0;
  readonly #counters = new Int32Array(MAX_READERS);
  #generation = 0;

  /** `addSegment` makes a new segment known to `memory` and to readers to come. */
  constructor(memory: TableMemory, addSegment: (segment: SharedArrayBuffer) => void) {
    this.#memory = memory;
    this.#addSegment = addSegment;
    this.readers = new SharedArrayBuffer(MAX_READERS * READER_WORDS * 4);
    this.#readerWords = new Int32Array(this.readers);
  }

  /** Bytes of all segments. */
  get capacity(): number {
    return this.#segments * 2 ** SEGMENT_BYTES_LOG2;
  }

  /** Blocks that wait for a quiescent point. */
  get retired(): number {
    return this.#retired.length + this.#waiting.length;
  }

  set generation(generation: number) {
    this.#generation = generation;
  }

  addReader(): number {
    const reader = this.#active.indexOf(0);
    if (reader < 0) throw new Error(`more than ${MAX_READERS} readers of one table`);
    this.#active[reader] = 1;
    Atomics.store(this.#readerWords, reader * READER_WORDS + READER_COUNTER, 0);
    // No generation taken yet: nothing is used again before it has opened its handle.
    Atomics.store(this.#readerWords, reader * READER_WORDS + READER_GENERATION, 0);
    return reader;
  }

  removeReader(reader: number): void {
    this.#active[reader] = 0;
  }

  /** A block of at least `bytes`, with its size in word 0. */
  allocate(bytes: number): number {
    const units = (bytes + 7) >>> 3;
    const block = this.#take(classOf(units));
    this.#memory.words[block >>> SEGMENT_UNITS_LOG2]![(block & SEGMENT_UNITS_MASK) * 2] = bytes;
    this.used += unitsOf(classOf(units)) * 8;
    return block;
  }

  /** Gives a block back, after nothing published refers to it any more. */
  retire(block: number): void {
    this.#retired.push(block);
    if (this.#retired.length >= RETIRED_BEFORE_CHECK) this.reclaim();
  }

  /** Frees what no reader can see any more. */
  reclaim(): void {
    if (this.#waiting.length > 0) {
      if (!this.#quiet()) return;
      this.#release();
    }
    if (this.#retired.length === 0) return;
    this.#waiting = this.#retired;
    this.#retired = [];
    this.#waitingGeneration = this.#generation;
    for (let i = 0; i < MAX_READERS; i++) {
      this.#counters[i] = Atomics.load(this.#readerWords, i * READER_WORDS + READER_COUNTER);
    }
    if (this.#quiet()) this.#release();
  }

  #quiet(): boolean {
    for (let i = 0; i < MAX_READERS; i++) {
      if (this.#active[i] === 0) continue;
      if (Atomics.load(this.#readerWords, i * READER_WORDS + READER_GENERATION) < this.#waitingGeneration) return false;
      const then = this.#counters[i]!;
      if ((then & 1) !== 0 && Atomics.load(this.#readerWords, i * READER_WORDS + READER_COUNTER) === then) return false;
    }
    return true;
  }

  #release(): void {
    for (const block of this.#waiting) {
      const units = (this.#memory.word(block, 0) + 7) >>> 3;
      const size = classOf(units);
      this.used -= unitsOf(size) * 8;
      this.#put(size, block);
    }
    this.#waiting = [];
  }

  #put(size: number, block: number): void {
    const list = this.#free[size];
    if (list === undefined) this.#free[size] = [block];
    else list.push(block);
  }

  #take(size: number): number {
    const exact = this.#free[size]?.pop();
    if (exact !== undefined) return exact;
    const units = unitsOf(size);
    if (this.#next + units <= this.#end) return this.#advance(units);
    this.reclaim();
    const reclaimed = this.#free[size]?.pop() ?? this.#split(size, units);
    if (reclaimed !== undefined) return reclaimed;
    this.#grow();
    return this.#advance(units);
  }

  #advance(units: number): number {
    const block = this.#next;
    this.#next += units;
    return block;
  }

  /** Cuts the block out of a larger free one. */
  #split(size: number, units: number): number | undefined {
    for (let larger = size + 1; larger < CLASSES; larger++) {
      const block = this.#free[larger]?.pop();
      if (block === undefined) continue;
      this.#keep(block + units, unitsOf(larger) - units);
      return block;
    }
    return undefined;
  }

  /** Puts a stretch of free units on the lists. */
  #keep(start: number, units: number): void {
    let at = start;
    for (let left = units; left > 0; ) {
      const size = classWithin(left);
      this.#put(size, at);
      at += unitsOf(size);
      left -= unitsOf(size);
    }
  }

  #grow(): void {
    if (this.#segments >= MAX_SEGMENTS) throw new Error('the answer table is full');
    this.#keep(this.#next, this.#end - this.#next);
    this.#addSegment(new SharedArrayBuffer(2 ** SEGMENT_BYTES_LOG2));
    this.#next = this.#segments * SEGMENT_UNITS;
    this.#end = this.#next + SEGMENT_UNITS;
    // Block numbers 0 and 1 have a meaning of their own in the index.
    if (this.#segments === 0) this.#next = 2;
    this.#segments++;
  }
}

/** The smallest class that holds `units`. */
function classOf(units: number): number {
  if (units <= EXACT_UNITS) return units;
  const log2 = 31 - Math.clz32(units - 1);
  return EXACT_UNITS + (log2 - EXACT_LOG2) * 4 + ((units - 1 - 2 ** log2) >>> (log2 - 2)) + 1;
}

function unitsOf(size: number): number {
  if (size <= EXACT_UNITS) return size;
  const step = size - EXACT_UNITS - 1;
  const log2 = EXACT_LOG2 + (step >> 2);
  return 2 ** log2 + ((step & 3) + 1) * 2 ** (log2 - 2);
}

/** The greatest class that `units` fill. */
function classWithin(units: number): number {
  const size = classOf(units);
  return unitsOf(size) === units ? size : size - 1;
}
