/** Builds entries of names, for the layout see shared.ts. */
import { FOLD } from '../dns/names.js';
import { ENTRY_ASKED_WORD, ENTRY_HEAD_WORDS, ENTRY_STATUS_WORD, SET_INLINE } from './shared.js';

/** Records of one type of a name: a set block of the table, or the bytes of one that goes into the entry itself. */
export interface SetRef {
  readonly type: number;
  readonly set: number | Uint8Array;
}

/** Builds into a buffer of its own that the next `build` overwrites. */
export class EntryBuilder {
  #bytes = new Uint8Array(1024);
  #words = new Int32Array(this.#bytes.buffer);

  /** The entry's bytes, a multiple of 8, word 0 included. */
  build(zone: number, name: Uint8Array, status: number, asked: number, sets: readonly SetRef[]): Uint8Array {
    const key = (ENTRY_HEAD_WORDS + sets.length * 2) * 4;
    let size = (key + name.length + 7) & ~7;
    const inlineStart = size;
    for (const { set } of sets) if (typeof set !== 'number') size += (set.length + 7) & ~7;
    if (size > this.#bytes.length) {
      this.#bytes = new Uint8Array(size * 2);
      this.#words = new Int32Array(this.#bytes.buffer);
    }
    this.#bytes.fill(0, 0, size);
    this.#words[0] = size;
    this.#words[1] = zone | (name.length << 16) | (sets.length << 24);
    this.#words[ENTRY_STATUS_WORD] = status;
    this.#words[ENTRY_ASKED_WORD] = asked;
    let inline = inlineStart;
    for (let i = 0; i < sets.length; i++) {
      const { type, set } = sets[i]!;
      const at = ENTRY_HEAD_WORDS + i * 2;
      if (typeof set === 'number') {
        this.#words[at] = type;
        this.#words[at + 1] = set;
      } else {
        this.#words[at] = type | SET_INLINE;
        this.#words[at + 1] = inline >>> 3;
        this.#bytes.set(set, inline);
        inline += (set.length + 7) & ~7;
      }
    }
    for (let i = 0; i < name.length; i++) this.#bytes[key + i] = FOLD[name[i]!]!;
    return this.#bytes.subarray(0, size);
  }
}
