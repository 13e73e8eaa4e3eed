import { FOLD } from '../dns/names.js';
import type { Query } from '../dns/query.js';
import { quadLabel, reverseQuad } from './address-labels.js';
import { hashLabel, hashName, hashStart, zoneHash } from './hash.js';
import { isTargets } from './naming/rfc2782.js';
import {
  READER_COUNTER,
  READER_GENERATION,
  READER_WORDS,
  REVERSE_ZONE,
  type SharedTable,
  type SharedZone,
} from './shared.js';
import { TableMemory } from './table-memory.js';
import { TargetEntries } from './target-entries.js';

/** A zone with its listen addresses as a mask. */
export interface ReaderZone extends SharedZone {
  readonly onListen: Uint8Array | undefined;
  /** Anybody may ask it. */
  readonly open: boolean;
}

/** Is there a prefix without a bit, of either family? */
export function isOpen({ allow4, allow6 }: Pick<SharedZone, 'allow4' | 'allow6'>): boolean {
  for (let i = 0; i < allow4.length; i += 2) if (allow4[i + 1] === 0) return true;
  for (let i = 0; i < allow6.length; i += 8) if (allow6[i + 4] === 0) return true;
  return false;
}

/**
 * A reader's side of the table, in any thread. Look-ups allocate nothing and take the time of one hash over the name,
 * however many zones and names there are.
 */
export class TableReader {
  readonly memory = new TableMemory();
  /** Set by `locate`: the zone that owns the name, and at which of the query's labels it begins. */
  zone: ReaderZone | undefined;
  zoneLabel = 0;
  #hash = 0;
  #start = 0;
  #zones: (ReaderZone | undefined)[] = [];
  /** Two words a slot: hash of the zone's name, its index + 1. */
  #slots = new Int32Array(2);
  #readers = new Int32Array(0) as Int32Array;
  readonly #reader: number;
  readonly #targets = new TargetEntries(this.memory);

  constructor(handle: SharedTable, reader: number) {
    this.#reader = reader * READER_WORDS;
    this.update(handle);
  }

  /** The segment of the entries that are made here, see target-entries.ts. */
  get own(): Uint8Array {
    return this.#targets.bytes;
  }

  /** Takes a newer handle; between batches only. */
  update(handle: SharedTable): void {
    this.memory.open(handle);
    this.#start = hashStart(handle.seed);
    this.#readers = new Int32Array(handle.readers);
    this.#openZones(handle);
    Atomics.store(this.#readers, this.#reader + READER_GENERATION, handle.generation);
  }

  /** From here to `endBatch` nothing that a look-up finds is used again by the writer. */
  beginBatch(): void {
    Atomics.add(this.#readers, this.#reader + READER_COUNTER, 1);
    this.#targets.reset();
  }

  endBatch(): void {
    Atomics.add(this.#readers, this.#reader + READER_COUNTER, 1);
  }

  /** Finds the zone of the query's name on a listen address: the longest that matches and is visible (R21, R31). */
  locate(bytes: Uint8Array, query: Query, listen: number): void {
    this.zone = undefined;
    const { labels, labelCount } = query;
    const slots = this.#slots;
    const mask = slots.length / 2 - 1;
    let hash = this.#start;
    let last = labels[0]! + query.nameLength - 2;
    for (let label = labelCount - 1; label >= 0; label--) {
      const start = labels[label]!;
      hash = hashLabel(hash, bytes, start, last);
      last = start - 1;
      for (let slot = (hash ^ (hash >>> 15)) & mask; ; slot = (slot + 1) & mask) {
        const number = slots[slot * 2 + 1]!;
        if (number === 0) break;
        if (slots[slot * 2] !== hash) continue;
        const zone = this.#zones[number - 1]!;
        if (!isVisible(zone, listen) || !endsWith(bytes, start, zone.name)) continue;
        this.zone = zone;
        this.zoneLabel = label;
        break;
      }
    }
    this.#hash = hash;
  }

  /** The entry of the located name in its zone; 0 when there is none. */
  find(bytes: Uint8Array, query: Query): number {
    const zone = this.zone!;
    const { index } = zone;
    const entry = this.memory.find(index, zoneHash(this.#hash, index), bytes, query.labels[0]!, query.nameLength);
    if (entry !== 0 || zone.targets === undefined || this.zoneLabel !== 2) return entry;
    const { labels } = query;
    const address = isTargets(bytes, labels[1]!) ? quadLabel(bytes, labels[0]!) : -1;
    return address < 0 ? 0 : this.#targets.target(zone, address | 0);
  }

  /** The entry of the located name among the reverse names; 0 when there is none. */
  findReverse(bytes: Uint8Array, query: Query): number {
    const hash = zoneHash(this.#hash, REVERSE_ZONE);
    const entry = this.memory.find(REVERSE_ZONE, hash, bytes, query.labels[0]!, query.nameLength);
    const address = reverseQuad(bytes, query.labels, query.labelCount);
    return address < 0 ? entry : this.#targets.reverse(address | 0, this.#zones, entry);
  }

  /** A zone by its index, when it is visible on the listen address. */
  zoneAt(index: number, listen: number): ReaderZone | undefined {
    const zone = this.#zones[index];
    return zone !== undefined && isVisible(zone, listen) ? zone : undefined;
  }

  /** Two tables keep this quick: zones by index, and a hash of their names in the order in which they win. */
  #openZones(handle: SharedTable): void {
    let size = 8;
    while (size < handle.zones.length * 4) size *= 2;
    this.#slots = new Int32Array(size * 2);
    this.#zones = [];
    for (const zone of handle.zones) {
      this.#zones[zone.index] = { ...zone, onListen: zone.listen && maskOf(zone.listen), open: isOpen(zone) };
      const hash = hashName(handle.seed, zone.name, 0, zone.name.length);
      let slot = (hash ^ (hash >>> 15)) & (size - 1);
      while (this.#slots[slot * 2 + 1] !== 0) slot = (slot + 1) & (size - 1);
      this.#slots[slot * 2] = hash;
      this.#slots[slot * 2 + 1] = zone.index + 1;
    }
  }
}

function maskOf(listen: readonly number[]): Uint8Array {
  const mask = new Uint8Array(Math.max(0, ...listen) + 1);
  for (const index of listen) mask[index] = 1;
  return mask;
}

function isVisible(zone: ReaderZone, listen: number): boolean {
  return zone.onListen === undefined || zone.onListen[listen] === 1;
}

/** `name` ends with the root label, as does the question: equal lengths are given by the hash, equal bytes are not. */
function endsWith(bytes: Uint8Array, start: number, name: Uint8Array): boolean {
  for (let i = 0; i < name.length; i++) {
    const byte = bytes[start + i]!;
    if (name[i] !== byte && name[i] !== FOLD[byte]) return false;
  }
  return true;
}
