/** The order of records in an answer (R24): spread by weight within a priority, anew for every query. */
import {
  SET_COUNT,
  SET_FLAGS,
  SET_GROUPS,
  SET_HEAD_BYTES,
  SET_MOST,
  SET_STABLE,
  SET_STRIDE,
  SET_WEIGHTED,
} from '../answers/shared.js';

/** Up to here a priority is drawn record by record; beyond, a weighted start and the rest in turn from there. */
const MAX_DRAWN = 16;

/**
 * Where `maxAnswers` cuts, one answer in so many begins with a record of weight 0, which would never be seen otherwise:
 * a very small chance of being selected (RFC 2782).
 */
const WEIGHTLESS_TURN = 64;

export class Draw {
  /** Record numbers in answer order, from the last `order` call. */
  readonly order = new Uint16Array(65_536);
  readonly #left = new Uint16Array(MAX_DRAWN);
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0 || 1;
  }

  /** A number from 0 to `count - 1` (xorshift32). */
  below(count: number): number {
    let state = this.#state;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.#state = state;
    return Math.floor(((state >>> 0) / 4294967296) * count);
  }

  /** Where an answer of a one-priority set begins. `half` is the set's place in `halves`; `words` is the same memory. */
  start(halves: Uint16Array, words: Int32Array, half: number): number {
    const flags = halves[half + SET_FLAGS]!;
    const count = halves[half + SET_COUNT]!;
    if (count < 2) return 0;
    if ((flags & SET_STABLE) !== 0) {
      const most = halves[half + SET_MOST]!;
      return most > 0 && most < count ? this.below(count) : 0;
    }
    if ((flags & SET_WEIGHTED) === 0) return this.below(count);
    return this.#pick(words, (half + SET_HEAD_BYTES / 2) >> 1, 0, count);
  }

  /**
   * Puts at least `wanted` of the set's records in order: best priority first. When `wanted` cuts a priority, its records
   * take turns to be inside: a stable order then begins at another of them each time.
   */
  fill(halves: Uint16Array, words: Int32Array, half: number, wanted: number): void {
    const flags = halves[half + SET_FLAGS]!;
    const count = halves[half + SET_COUNT]!;
    const groups = halves[half + SET_GROUPS]!;
    const weights = (half + SET_HEAD_BYTES / 2) >> 1;
    const weighted = (flags & SET_WEIGHTED) !== 0;
    const places = weights + (weighted ? count : 0);
    const ends = ((flags & SET_STRIDE) !== 0 ? places : places + count * 2) * 2;
    let from = 0;
    for (let group = 0; group < groups && from < wanted; group++) {
      const to = groups > 1 ? halves[ends + group]! : count;
      const cut = wanted < to;
      if ((flags & SET_STABLE) !== 0) this.#turn(from, to, cut ? from + this.below(to - from) : from);
      else if (to - from > MAX_DRAWN) {
        this.#turn(from, to, weighted ? this.#pick(words, weights, from, to) : from + this.below(to - from));
      } else if (weighted) this.#drawByWeight(words, weights, from, to);
      else this.#shuffle(from, to);
      if (cut && weighted && this.below(WEIGHTLESS_TURN) === 0) this.#beginWeightless(words, weights, from, to);
      from = to;
    }
  }

  /** Swaps a record of weight 0, each as likely, with the one that the group begins with. */
  #beginWeightless(words: Int32Array, weights: number, from: number, to: number): void {
    const { order } = this;
    let chosen = from;
    let found = 0;
    for (let at = from; at < to; at++) {
      if (weightOf(words, weights, from, order[at]!) === 0 && this.below(++found) === 0) chosen = at;
    }
    const first = order[from]!;
    order[from] = order[chosen]!;
    order[chosen] = first;
  }

  #turn(from: number, to: number, first: number): void {
    let at = from;
    for (let i = first; i < to; i++) this.order[at++] = i;
    for (let i = from; i < first; i++) this.order[at++] = i;
  }

  #shuffle(from: number, to: number): void {
    const { order } = this;
    for (let i = from; i < to; i++) {
      const other = from + this.below(i - from + 1);
      order[i] = order[other]!;
      order[other] = i;
    }
  }

  /** Without replacement; records of weight 0 come last: a client that gets all of them weighs them itself. */
  #drawByWeight(words: Int32Array, weights: number, from: number, to: number): void {
    const left = this.#left;
    let size = 0;
    for (let i = from; i < to; i++) left[size++] = i;
    let total = words[weights + to - 1]! >>> 0;
    for (let at = from; at < to; at++) {
      let chosen = 0;
      let weight = 0;
      if (total === 0) chosen = this.below(size);
      else {
        let target = this.below(total);
        for (; ; chosen++) {
          weight = weightOf(words, weights, from, left[chosen]!);
          if (target < weight) break;
          target -= weight;
        }
      }
      total -= weight;
      this.order[at] = left[chosen]!;
      left[chosen] = left[--size]!;
    }
  }

  /** A record of the group by weight. */
  #pick(words: Int32Array, weights: number, from: number, to: number): number {
    const total = words[weights + to - 1]! >>> 0;
    if (total === 0) return from + this.below(to - from);
    const target = this.below(total);
    let low = from;
    let high = to - 1;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (words[weights + middle]! >>> 0 > target) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/** Weights are stored added up within their group. */
function weightOf(words: Int32Array, weights: number, from: number, record: number): number {
  const before = record > from ? words[weights + record - 1]! >>> 0 : 0;
  return (words[weights + record]! >>> 0) - before;
}
