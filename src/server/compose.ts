import {
  SEGMENT_UNITS_LOG2,
  SEGMENT_UNITS_MASK,
  SET_COUNT,
  SET_FLAGS,
  SET_GROUPS,
  SET_HEAD_BYTES,
  SET_MOST,
  SET_REPEATED,
  SET_STRIDE,
  SET_STRIDE_BYTES,
  SET_WEIGHTED,
} from '../answers/shared.js';
import type { TableMemory } from '../answers/table-memory.js';
import { SRV_TARGET_OFFSET } from '../dns/records.js';
import { Draw } from './draw.js';
import { MAX_POINTER, type Reply } from './reply.js';

/** Puts a record set of the table into a plan, as much of it as the client's limit allows (RFC 2181 s.9). */
export class Composer {
  readonly #draw: Draw;
  /** Where in the message each record that was put begins. */
  readonly #positions = new Uint16Array(65_536);
  /** Of targets: the query that last had an additional record of it. */
  readonly #seen = new Int32Array(65_536);
  #stamp = 0;

  constructor(seed: number) {
    this.#draw = new Draw(seed);
  }

  /**
   * Adds whole records to the answer section while the message stays within `limit`; TC when one is missing that
   * `maxAnswers` would have let in. With all of them in, additional records of their targets follow, as far as they fit.
   */
  put(reply: Reply, memory: TableMemory, set: number, limit: number): void {
    const segment = set >>> SEGMENT_UNITS_LOG2;
    const half = (set & SEGMENT_UNITS_MASK) * 4;
    const halves = memory.halves[segment]!;
    const words = memory.words[segment]!;
    const view = memory.views[segment]!;
    const count = halves[half + SET_COUNT]!;
    const most = halves[half + SET_MOST]!;
    const wanted = most > 0 && most < count ? most : count;
    if ((halves[half + SET_FLAGS]! & SET_STRIDE) !== 0)
      this.#putRuns(reply, segment, view, halves, words, half, wanted, limit);
    else this.#putRecords(reply, segment, view, halves, words, half, wanted, limit);
  }

  /** Records of one length that lie side by side: the answer is one or two runs of them. */
  #putRuns(
    reply: Reply,
    segment: number,
    view: DataView,
    halves: Uint16Array,
    words: Int32Array,
    half: number,
    wanted: number,
    limit: number,
  ): void {
    const count = halves[half + SET_COUNT]!;
    const stride = halves[half + SET_STRIDE_BYTES]!;
    const weights = (halves[half + SET_FLAGS]! & SET_WEIGHTED) !== 0 ? count * 4 : 0;
    const records = half * 2 + SET_HEAD_BYTES + weights;
    const room = Math.floor((limit - reply.length) / stride);
    const fit = wanted < room ? wanted : Math.max(room, 0);
    if (fit < wanted) reply.truncated = true;
    if (fit === 0) return;
    const start = this.#draw.start(halves, words, half);
    const first = Math.min(fit, count - start);
    reply.add(view, segment, records + start * stride, first * stride);
    if (fit > first) reply.add(view, segment, records, (fit - first) * stride);
    reply.answers += fit;
  }

  #putRecords(
    reply: Reply,
    segment: number,
    view: DataView,
    halves: Uint16Array,
    words: Int32Array,
    half: number,
    wanted: number,
    limit: number,
  ): void {
    const weighted = (halves[half + SET_FLAGS]! & SET_WEIGHTED) !== 0;
    const places = (half + SET_HEAD_BYTES / 2) / 2 + (weighted ? halves[half + SET_COUNT]! : 0);
    this.#draw.fill(halves, words, half, wanted);
    const { order } = this.#draw;
    let put = 0;
    for (; put < wanted; put++) {
      const place = places + order[put]! * 2;
      const length = halves[place * 2 + 2]!;
      if (reply.length + length > limit) break;
      this.#positions[put] = reply.length;
      reply.add(view, segment, half * 2 + words[place]!, length);
    }
    reply.answers += put;
    if (put < wanted) reply.truncated = true;
    else this.#putAdditionals(reply, segment, view, halves, words, half, put, limit);
  }

  /** One address record a target; its owner points to where the target stands in the answer section. */
  #putAdditionals(
    reply: Reply,
    segment: number,
    view: DataView,
    halves: Uint16Array,
    words: Int32Array,
    half: number,
    put: number,
    limit: number,
  ): void {
    const flags = halves[half + SET_FLAGS]!;
    const count = halves[half + SET_COUNT]!;
    const groups = halves[half + SET_GROUPS]!;
    const places = (half + SET_HEAD_BYTES / 2) / 2 + ((flags & SET_WEIGHTED) !== 0 ? count : 0);
    const repeated = (flags & SET_REPEATED) !== 0;
    const targets = (places + count * 2) * 2 + (groups > 1 ? groups : 0);
    const { order } = this.#draw;
    this.#stamp = (this.#stamp + 1) | 0;
    for (let i = 0; i < put; i++) {
      const record = order[i]!;
      const place = places + record * 2;
      const tail = halves[place * 2 + 3]!;
      if (tail === 0) continue;
      if (repeated) {
        const target = halves[targets + record]!;
        if (this.#seen[target] === this.#stamp) continue;
        this.#seen[target] = this.#stamp;
      }
      const length = halves[place * 2 + 2]!;
      const start = half * 2 + words[place]!;
      const owner = this.#positions[i]! + SRV_TARGET_OFFSET;
      const ownerLength = owner <= MAX_POINTER ? 2 : length - SRV_TARGET_OFFSET;
      if (reply.length + ownerLength + tail > limit) return;
      if (owner <= MAX_POINTER) reply.addPointer(owner);
      else reply.add(view, segment, start + SRV_TARGET_OFFSET, ownerLength);
      reply.add(view, segment, start + length, tail);
      reply.additionals++;
    }
  }
}
