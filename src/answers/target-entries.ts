/**
 * Entries of addresses' names and reverse names (R23), made when they are asked out of the set of addresses: a reader's
 * own, in a segment beside those of the table and laid out as there. They stay until the next batch.
 */
import { CLASS, TYPE } from '../dns/constants.js';
import { QUESTION_OWNER, RECORD_HEAD_BYTES } from '../dns/records.js';
import { addressHash } from './address-set.js';
import {
  ENTRY_HEAD_WORDS,
  OWN_SEGMENT,
  SEGMENT_UNITS_LOG2,
  SET_COUNT,
  SET_FLAGS,
  SET_GROUPS,
  SET_HEAD_BYTES,
  SET_MOST,
  SET_STABLE,
  SET_STRIDE,
  SET_STRIDE_BYTES,
  SET_ZONE,
  type SharedZone,
} from './shared.js';
import type { TableMemory } from './table-memory.js';

/** More than the entries of one batch take. Pages that are never written take no memory. */
const OWN_BYTES = 1 << 20;
/** Of zones that have an address, so many are looked at for its reverse name; of those in the table all are. */
const MAX_ZONES = 32;
const HYPHEN = 0x2d;
const ZERO = 0x30;

export class TargetEntries {
  readonly #memory: TableMemory;
  readonly bytes: Uint8Array;
  readonly #halves: Uint16Array;
  readonly #words: Int32Array;
  readonly #found = new Int32Array(MAX_ZONES);
  #next = 0;

  /** Adds its segment to the memory. */
  constructor(memory: TableMemory) {
    const own = new SharedArrayBuffer(OWN_BYTES);
    this.#memory = memory;
    this.bytes = new Uint8Array(own);
    this.#halves = new Uint16Array(own);
    this.#words = new Int32Array(own);
    memory.setOwn(this.bytes, this.#halves, this.#words);
  }

  /** What was made before is no longer wanted. */
  reset(): void {
    this.#next = 0;
  }

  /** The entry of an address's name in a zone; 0 when the zone does not have the address. */
  target(zone: SharedZone, address: number): number {
    const { targets } = zone;
    if (targets === undefined || !this.#has(zone.index, address)) return 0;
    const entry = this.#entry(1, targets.status);
    this.#words[entry + ENTRY_HEAD_WORDS] = TYPE.A;
    this.#words[entry + ENTRY_HEAD_WORDS + 1] = this.#addressSet(targets.ttl, address);
    return numberOf(entry * 4);
  }

  /**
   * The entry of an address's reverse name: a PTR of each zone that has it, by the zones' numbers. `known`: the entry
   * that the table has of it, 0 for none. 0 when there is neither.
   */
  reverse(address: number, zones: readonly (SharedZone | undefined)[], known: number): number {
    const count = this.#zonesOf(address);
    if (count === 0) return known;
    const listed = known === 0 ? 0 : this.#memory.setCount(known);
    const entry = this.#entry(Math.min(count + listed, 0xff), 0);
    let at = entry + ENTRY_HEAD_WORDS;
    let sets = 0;
    const put = (set: number): void => {
      if (sets++ >= 0xff) return;
      this.#words[at++] = TYPE.PTR;
      this.#words[at++] = set;
    };
    let next = 0;
    for (let i = 0; i < count; i++) {
      const number = this.#found[i]!;
      while (next < listed && this.#zoneOf(known, next) < number) put(this.#memory.set(known, next++));
      const targets = zones[number]?.targets;
      const set = targets === undefined ? 0 : this.#pointerSet(targets, address, number);
      if (set !== 0) put(set);
    }
    while (next < listed) put(this.#memory.set(known, next++));
    this.#setCount(entry, Math.min(sets, 0xff));
    return sets === 0 ? 0 : numberOf(entry * 4);
  }

  #zoneOf(entry: number, at: number): number {
    return this.#memory.half(this.#memory.set(entry, at), SET_ZONE);
  }

  #has(zone: number, address: number): boolean {
    const { addresses } = this.#memory;
    const mask = addresses.length / 2 - 1;
    for (let slot = addressHash(address) & mask; ; slot = (slot + 1) & mask) {
      const owner = addresses[slot * 2 + 1]!;
      if (owner === 0) return false;
      if (owner === zone + 1 && addresses[slot * 2] === address) return true;
    }
  }

  /** Collects the numbers of the zones that have the address, in order; returns how many. */
  #zonesOf(address: number): number {
    const { addresses } = this.#memory;
    const found = this.#found;
    const mask = addresses.length / 2 - 1;
    let count = 0;
    for (let slot = addressHash(address) & mask; addresses[slot * 2 + 1] !== 0; slot = (slot + 1) & mask) {
      const owner = addresses[slot * 2 + 1]!;
      if (owner <= 0 || addresses[slot * 2] !== address || count === MAX_ZONES) continue;
      let at = count++;
      for (; at > 0 && found[at - 1]! > owner - 1; at--) found[at] = found[at - 1]!;
      found[at] = owner - 1;
    }
    return count;
  }

  /** An entry without a key: who has it knows what was asked. Returns its first word's place. */
  #entry(sets: number, status: number): number {
    const bytes = (ENTRY_HEAD_WORDS + sets * 2) * 4;
    const word = this.#take(bytes) / 4;
    this.#words[word] = bytes;
    this.#words[word + 2] = status;
    this.#words[word + 3] = 0;
    this.#setCount(word, sets);
    return word;
  }

  #setCount(entry: number, sets: number): void {
    this.#words[entry + 1] = sets << 24;
  }

  #addressSet(ttl: number, address: number): number {
    const set = this.#set(TYPE.A, ttl, 4, 0);
    const at = set + SET_HEAD_BYTES + RECORD_HEAD_BYTES;
    const bytes = this.bytes;
    bytes[at] = address >>> 24;
    bytes[at + 1] = address >>> 16;
    bytes[at + 2] = address >>> 8;
    bytes[at + 3] = address;
    return numberOf(set);
  }

  /** 0 when the name would be over 255 octets. */
  #pointerSet({ parent, ttl }: NonNullable<SharedZone['targets']>, address: number, zone: number): number {
    let label = 3;
    for (let shift = 24; shift >= 0; shift -= 8) label += digitsOf((address >>> shift) & 0xff);
    const length = 1 + label + parent.length;
    if (length > 255) return 0;
    const set = this.#set(TYPE.PTR, ttl, length, zone);
    const bytes = this.bytes;
    let at = set + SET_HEAD_BYTES + RECORD_HEAD_BYTES;
    bytes[at++] = label;
    for (let shift = 24; shift >= 0; shift -= 8) {
      const octet = (address >>> shift) & 0xff;
      if (octet > 99) bytes[at++] = ZERO + Math.floor(octet / 100);
      if (octet > 9) bytes[at++] = ZERO + (Math.floor(octet / 10) % 10);
      bytes[at++] = ZERO + (octet % 10);
      if (shift > 0) bytes[at++] = HYPHEN;
    }
    for (let i = 0; i < parent.length; i++) bytes[at + i] = parent[i]!;
    return numberOf(set);
  }

  /** A set of one record, but for its RDATA. Returns its first byte's place. */
  #set(type: number, ttl: number, rdata: number, zone: number): number {
    const stride = RECORD_HEAD_BYTES + rdata;
    const size = (SET_HEAD_BYTES + stride + 7) & ~7;
    const set = this.#take(size);
    const half = set / 2;
    const halves = this.#halves;
    this.#words[set / 4] = size;
    halves[half + SET_FLAGS] = SET_STRIDE | SET_STABLE;
    halves[half + SET_COUNT] = 1;
    halves[half + SET_MOST] = 0;
    halves[half + SET_GROUPS] = 1;
    halves[half + SET_STRIDE_BYTES] = stride;
    halves[half + SET_ZONE] = zone;
    const at = set + SET_HEAD_BYTES;
    this.#put16(at, QUESTION_OWNER);
    this.#put16(at + 2, type);
    this.#put16(at + 4, CLASS.IN);
    this.#put16(at + 6, ttl >>> 16);
    this.#put16(at + 8, ttl & 0xffff);
    this.#put16(at + 10, rdata);
    return set;
  }

  #put16(at: number, value: number): void {
    this.bytes[at] = value >>> 8;
    this.bytes[at + 1] = value;
  }

  #take(bytes: number): number {
    if (this.#next + bytes > OWN_BYTES) this.#next = 0;
    const at = this.#next;
    this.#next += (bytes + 7) & ~7;
    return at;
  }
}

function digitsOf(octet: number): number {
  return octet > 99 ? 3 : octet > 9 ? 2 : 1;
}

/** The block number of what begins at a byte of the reader's own segment. */
function numberOf(at: number): number {
  return (OWN_SEGMENT << SEGMENT_UNITS_LOG2) + (at >>> 3);
}
