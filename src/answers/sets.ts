/** Compiles record sets to the blocks that readers assemble replies from, for the layout see shared.ts. */
import { ByteWriter } from '../dns/byte-writer.js';
import { QUESTION_OWNER, writeAddress, writeSrv, writeSrvOfAddress } from '../dns/records.js';
import type { Target } from './naming/naming.js';
import {
  SET_COUNT,
  SET_FLAGS,
  SET_GROUPS,
  SET_HEAD_BYTES,
  SET_MOST,
  SET_REPEATED,
  SET_STABLE,
  SET_STRIDE,
  SET_STRIDE_BYTES,
  SET_WEIGHTED,
  SET_ZONE,
} from './shared.js';

export interface SetOrder {
  /** Records are given in their own order, always. */
  readonly stable: boolean;
  /** Most records in one answer; 0: all (R24). */
  readonly most: number;
}

export interface WeightedAddress {
  /** An IP address in canonical text. */
  readonly address: string;
  readonly weight: number;
}

export interface SrvItem extends WeightedAddress {
  readonly priority: number;
  readonly port: number;
  /** Absent: the name of its address. */
  readonly named?: Target;
}

const MAX_RECORDS = 0xffff;
/** Far more than any reply holds, and it fits a segment of the arena. */
const MAX_RECORD_BYTES = 4 * 1024 * 1024;

const records = new ByteWriter(64 * 1024);

const single = new Uint8Array(SET_HEAD_BYTES + 0x10000);
const singleHalves = new Uint16Array(single.buffer);
const singleWords = new Uint32Array(single.buffer);

/**
 * One record that is a set of its own. `zone`: whose clients may see it, for reverse names. Written out by hand: every
 * address has two of them.
 */
export function singleSet(record: Uint8Array, zone = 0): Uint8Array {
  const size = (SET_HEAD_BYTES + record.length + 7) & ~7;
  single.fill(0, 0, size);
  singleWords[0] = size;
  singleHalves[SET_FLAGS] = SET_STRIDE | SET_STABLE;
  singleHalves[SET_COUNT] = 1;
  singleHalves[SET_GROUPS] = 1;
  singleHalves[SET_STRIDE_BYTES] = record.length;
  singleHalves[SET_ZONE] = zone;
  single.set(record, SET_HEAD_BYTES);
  return single.slice(0, size);
}

/** Records of one type and different lengths, always in this order. */
export function recordsSet(all: readonly Uint8Array[]): Uint8Array {
  records.reset();
  const places = all.slice(0, MAX_RECORDS).map((bytes): Place => {
    const at = records.length;
    records.bytes(bytes);
    return { at, length: bytes.length, tail: 0 };
  });
  const layout = { order: { stable: true, most: 0 }, stride: 0, targets: [] };
  return assemble({ ...layout, weights: places.map(() => 1), groups: [places.length], places }, records.view());
}

/** A or AAAA records of one priority, in the given order; addresses do not repeat and are of one family. */
export function addressSet(ttl: number, addresses: readonly WeightedAddress[], order: SetOrder): Uint8Array {
  records.reset();
  const kept = addresses.slice(0, MAX_RECORDS);
  for (const { address } of kept) {
    records.u16(QUESTION_OWNER);
    writeAddress(records, ttl, address);
  }
  const weights = kept.map(({ weight }) => weight);
  const stride = records.length / Math.max(kept.length, 1);
  return assemble({ order, stride, weights, groups: [kept.length], places: [], targets: [] }, records.view());
}

/**
 * SRV records, best priority first, each with its target's address record behind it. `parent`: the name in wire form
 * below which targets stand that have no name of their own.
 */
export function srvSet(
  ttl: number,
  items: readonly SrvItem[],
  parent: Uint8Array | undefined,
  order: SetOrder,
): Uint8Array {
  records.reset();
  const weights: number[] = [];
  const groups: number[] = [];
  const places: Place[] = [];
  const targets: number[] = [];
  const numbers = new Map<string, number>();
  for (const item of items) {
    if (places.length === MAX_RECORDS || records.length > MAX_RECORD_BYTES) break;
    const at = records.length;
    const { named } = item;
    if (named !== undefined) writeSrv(records, ttl, { ...item, target: named.wire });
    else writeSrvOfAddress(records, ttl, item, parent!);
    const length = records.length - at;
    if (named?.outside === undefined) writeAddress(records, ttl, item.address);
    places.push({ at, length, tail: records.length - at - length });
    if (places.length > 1 && items[places.length - 2]!.priority !== item.priority) groups.push(places.length - 1);
    weights.push(item.weight);
    const key = named?.key ?? item.address;
    const number = numbers.get(key) ?? numbers.size;
    numbers.set(key, number);
    targets.push(number);
  }
  groups.push(places.length);
  const repeated = numbers.size < targets.length ? targets : [];
  return assemble({ order, stride: 0, weights, groups, places, targets: repeated }, records.view());
}

/** A record's place among the records: start, length, and length of the tail behind it. */
interface Place {
  readonly at: number;
  readonly length: number;
  readonly tail: number;
}

interface Layout {
  readonly order: SetOrder;
  /** Length of every record; 0: they have `places`. */
  readonly stride: number;
  readonly weights: readonly number[];
  /** One past the last record of each priority. */
  readonly groups: readonly number[];
  readonly places: readonly Place[];
  /** Number of each record's target; empty when no two are the same. */
  readonly targets: readonly number[];
}

function assemble(layout: Layout, recordBytes: Uint8Array): Uint8Array {
  const { order, stride, weights, groups, places, targets } = layout;
  const count = weights.length;
  const weighted = !order.stable && unequal(weights, groups);
  const weightBytes = weighted ? count * 4 : 0;
  const placeBytes = places.length * 8;
  const groupBytes = groups.length > 1 ? groups.length * 2 : 0;
  const start = (SET_HEAD_BYTES + weightBytes + placeBytes + groupBytes + targets.length * 2 + 3) & ~3;
  const size = (start + recordBytes.length + 7) & ~7;
  const block = new Uint8Array(size);
  const halves = new Uint16Array(block.buffer);
  const words = new Uint32Array(block.buffer);
  words[0] = size;
  halves[SET_FLAGS] =
    (stride > 0 ? SET_STRIDE : 0) |
    (weighted ? SET_WEIGHTED : 0) |
    (order.stable ? SET_STABLE : 0) |
    (targets.length > 0 ? SET_REPEATED : 0);
  halves[SET_COUNT] = count;
  halves[SET_MOST] = Math.min(order.most, MAX_RECORDS);
  halves[SET_GROUPS] = groups.length;
  halves[SET_STRIDE_BYTES] = stride;
  let at = SET_HEAD_BYTES;
  if (weighted) addUp(weights, groups, words, at >> 2);
  at += weightBytes;
  for (const place of places) {
    words[at >> 2] = start + place.at;
    halves[(at >> 1) + 2] = place.length;
    halves[(at >> 1) + 3] = place.tail;
    at += 8;
  }
  if (groupBytes > 0) halves.set(groups, at >> 1);
  at += groupBytes;
  halves.set(targets, at >> 1);
  block.set(recordBytes, start);
  return block;
}

/** Does any group hold different weights? */
function unequal(weights: readonly number[], groups: readonly number[]): boolean {
  let from = 0;
  for (const to of groups) {
    for (let i = from + 1; i < to; i++) if (weights[i] !== weights[from]) return true;
    from = to;
  }
  return false;
}

function addUp(weights: readonly number[], groups: readonly number[], words: Uint32Array, start: number): void {
  let from = 0;
  for (const to of groups) {
    let sum = 0;
    for (let i = from; i < to; i++) words[start + i] = sum += weights[i]!;
    from = to;
  }
}
