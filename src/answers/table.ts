import { prefixBytes } from '../dns/addresses.js';
import { AddressSet } from './address-set.js';
import { Arena } from './arena.js';
import { AskedMarks } from './asked-marks.js';
import type { Ede, ZoneSpec } from './contract.js';
import { edeBlock } from './ede-block.js';
import { EntryBuilder, type SetRef } from './entry.js';
import { hashName, zoneHash } from './hash.js';
import { NameIndex } from './name-index.js';
import {
  ENTRY_HEAD_WORDS,
  REVERSE_ZONE,
  SEGMENT_UNITS_LOG2,
  SEGMENT_UNITS_MASK,
  SET_INLINE,
  type SharedTable,
  type SharedTargets,
  type SharedZone,
  SLOT_DELETED,
} from './shared.js';
import { SharedWords } from './shared-words.js';
import { TableMemory } from './table-memory.js';

export type { SetRef, SharedTable };

const RESTING_ZONES = 1024;

export interface AnswerTableOptions {
  /** Seeds the hash: one a process. */
  readonly seed: number;
}

/**
 * The control thread's writer of the answers that all readers share (R21 to R27). A change to a name is one store;
 * readers notice nothing else. Only growth and changed zones need a new handle.
 */
export class AnswerTable {
  /**
   * Called once after `share()` has gone out of date (a grown table, a changed zone), until `share()` is called again.
   * The owner then hands the new handle to every reader (`Responder.update`); until a reader has taken it, it answers
   * from what it had, and nothing that it can see is used again.
   */
  onChange: (() => void) | undefined;

  readonly #seed: number;
  readonly #memory = new TableMemory();
  readonly #arena: Arena;
  readonly #index = new NameIndex();
  readonly #status = new SharedWords(256);
  readonly #zoneStates = new SharedWords(64);
  readonly #asked = new AskedMarks();
  readonly #addresses = new AddressSet();
  readonly #segments: SharedArrayBuffer[] = [];
  readonly #builder = new EntryBuilder();
  #zones: SharedZone[] = [];
  readonly #freeZones: number[] = [];
  #nextZone = 0;
  readonly #freeStatus: number[] = [];
  /** Slot 0 means "no status". */
  #nextStatus = 1;
  #generation = 1;
  #told = false;
  /** The present arrays are in a handle that went out. */
  #shared = false;

  constructor(options: AnswerTableOptions) {
    this.#seed = options.seed | 0;
    this.#arena = new Arena(this.#memory, (segment) => this.#addSegment(segment));
    this.#arena.generation = this.#generation;
    this.#memory.open(this.#handle());
  }

  /** Grows whenever a reader needs a new handle. */
  get generation(): number {
    return this.#generation;
  }

  /** Names in the table, those of addresses included, and bytes: of blocks in use, and of all segments. `retired` blocks wait for readers. */
  get size(): { names: number; used: number; capacity: number; retired: number } {
    const { used, capacity, retired } = this.#arena;
    return { names: this.#index.size + this.#addresses.size * 2, used, capacity, retired };
  }

  /** A handle for readers, also over postMessage. */
  share(): SharedTable {
    this.#told = false;
    this.#shared = true;
    return this.#handle();
  }

  /** A slot for one more reader (a Responder in any thread); at most 64. Its handle must be shared after this. */
  addReader(): number {
    return this.#arena.addReader();
  }

  /** The reader is gone (its worker has ended): nothing waits for it any more. */
  removeReader(reader: number): void {
    this.#arena.removeReader(reader);
  }

  /** An index for one more zone, for `new ZoneAnswers(table, zoneIndex, spec)`, which gives it back when disposed of. */
  allocZone(): number {
    // A freed index rests for long: a reader may still hold the old handle that gives it to the old zone.
    if (this.#freeZones.length > RESTING_ZONES) return this.#freeZones.shift()!;
    if (this.#nextZone === REVERSE_ZONE) throw new Error(`more than ${REVERSE_ZONE} zones in one table`);
    return this.#nextZone++;
  }

  /** `ZoneAnswers.dispose` does it. */
  freeZone(zone: number): void {
    this.#freeZones.push(zone);
  }

  /** A status slot: names that refer to it carry its EDE. One store changes all of them. */
  allocStatus(): number {
    const slot = this.#freeStatus.pop() ?? this.#nextStatus++;
    if (slot >= this.#status.length) {
      this.#status.grow();
      this.#reopen();
    }
    return slot;
  }

  /** A slot for `takeAsked`: names that carry it mark it when they are asked. */
  allocAsked(): number {
    const { slot, grown } = this.#asked.alloc();
    if (grown) this.#reopen();
    return slot;
  }

  freeAsked(slot: number): void {
    this.#asked.free(slot);
  }

  /** R17: the slots of names that have been asked since the last call. */
  takeAsked(): number[] {
    return this.#asked.take();
  }

  /** R26: what goes with the answers of this slot's names from the next query on. */
  setStatus(slot: number, ede: Ede | undefined): void {
    this.#publish(this.#status, slot, ede === undefined ? 0 : this.put(edeBlock(ede)));
  }

  /** After no name refers to the slot any more. */
  freeStatus(slot: number): void {
    this.setStatus(slot, undefined);
    this.#freeStatus.push(slot);
  }

  /**
   * Makes the zone known to readers, or known anew; a zone set later wins over an equal one. `wire` is its name,
   * `targets` what `addAddress` gives names to.
   */
  setZone(zone: number, wire: Uint8Array, spec: ZoneSpec, targets?: SharedTargets): void {
    const prefixes = spec.allow.map((cidr) => prefixBytes(cidr)).filter((prefix) => prefix !== undefined);
    const words = (bytes: number) =>
      Int32Array.from(
        prefixes.filter((p) => p.mask.length === bytes).flatMap((p) => [...be(p.network), ...be(p.mask)]),
      );
    const { naming, datacenters, handsOver, looksUp } = spec;
    const known: SharedZone = {
      index: zone,
      name: wire,
      naming,
      ...(datacenters === undefined ? {} : { datacenters }),
      ...(handsOver ? { handsOver } : {}),
      ...(targets === undefined ? {} : { targets }),
      ...(looksUp ? { looksUp } : {}),
      allow4: words(4),
      allow6: words(16),
    };
    this.#zones = this.#zones.filter(({ index }) => index !== zone);
    this.#zones.unshift(spec.listen === undefined ? known : { ...known, listen: spec.listen });
    this.#changed();
  }

  /** Takes the zone from readers, and what the table holds under its index. */
  clearZone(zone: number): void {
    this.#detach();
    if (this.#addresses.some(zone)) this.#addresses.copy();
    this.#zones = this.#zones.filter(({ index }) => index !== zone);
    this.#reopen();
    this.#addresses.clear(zone);
    this.setZoneState(zone, undefined);
    this.#index.forEach((block, slot) => {
      if ((this.#memory.word(block, 1) & 0xffff) === zone) this.#drop(slot);
    });
  }

  /** R23: gives an IPv4 address, as one number, its name in the zone and its reverse name. */
  addAddress(zone: number, address: number): void {
    if (this.#addresses.full) {
      this.#addresses.rebuild();
      this.#reopen();
    }
    this.#addresses.add(zone, address);
  }

  deleteAddress(zone: number, address: number): void {
    this.#addresses.delete(zone, address);
  }

  /** The zone's state block (see shared.ts), published by one store. */
  setZoneState(zone: number, state: Uint8Array | undefined): void {
    while (zone >= this.#zoneStates.length) {
      this.#zoneStates.grow();
      this.#reopen();
    }
    this.#publish(this.#zoneStates, zone, state === undefined ? 0 : this.put(state));
  }

  /** Stores a block whose word 0 is its length; its number. */
  put(block: Uint8Array): number {
    const at = this.#arena.allocate(block.length);
    this.#memory.bytes[at >>> SEGMENT_UNITS_LOG2]!.set(block, (at & SEGMENT_UNITS_MASK) * 8);
    return at;
  }

  /** Gives back a block from `put` that nothing published refers to any more. */
  free(block: number): void {
    this.#arena.retire(block);
  }

  /** True when the block holds exactly these bytes. */
  holds(block: number, bytes: Uint8Array): boolean {
    if (this.#memory.word(block, 0) !== bytes.length) return false;
    return Buffer.compare(this.#memory.view(block), bytes) === 0;
  }

  /** A view of a block. */
  view(block: number): Uint8Array {
    return this.#memory.view(block);
  }

  /** Publishes a name (wire form, any case) with its sets; false when it already was exactly this. */
  set(zone: number, name: Uint8Array, status: number, sets: readonly SetRef[], asked = 0): boolean {
    const entry = this.#builder.build(zone, name, status, asked, sets);
    const hash = this.#hash(zone, name);
    const slot = this.#memory.findSlot(zone, hash, name, 0, name.length);
    if (slot < 0) {
      const block = this.put(entry);
      if (this.#index.full) {
        // Readers of the old handle go on with what it shows, the states of zones included: they see none of what follows.
        this.#detach();
        this.#index.rebuild();
        this.#reopen();
      }
      this.#index.insert(hash, block);
      return true;
    }
    const old = this.#memory.index[slot * 2 + 1]!;
    if (this.holds(old, entry)) return false;
    const block = this.put(entry);
    this.#index.replace(slot, block);
    this.free(old);
    return true;
  }

  /** Takes a name away; false when it was not there. */
  delete(zone: number, name: Uint8Array): boolean {
    const slot = this.#memory.findSlot(zone, this.#hash(zone, name), name, 0, name.length);
    if (slot < 0) return false;
    this.#drop(slot);
    return true;
  }

  /** The sets of a name that are blocks of their own; empty when it has none or is not there. */
  sets(zone: number, name: Uint8Array): SetRef[] {
    const entry = this.#memory.find(zone, this.#hash(zone, name), name, 0, name.length);
    const sets: SetRef[] = [];
    for (let i = 0; entry !== 0 && i < this.#memory.setCount(entry); i++) {
      if ((this.#memory.word(entry, ENTRY_HEAD_WORDS + i * 2) & SET_INLINE) !== 0) continue;
      sets.push({ type: this.#memory.setType(entry, i), set: this.#memory.set(entry, i) });
    }
    return sets;
  }

  /** The inline sets of a name, as copies; empty when it has none or is not there. */
  inlineSets(zone: number, name: Uint8Array): { type: number; set: Uint8Array }[] {
    const entry = this.#memory.find(zone, this.#hash(zone, name), name, 0, name.length);
    return entry === 0 ? [] : this.#inlineSetsOf(entry);
  }

  /** Calls `visit` with the key (a copy) and the inline sets of every name of a zone. */
  names(zone: number, visit: (name: Uint8Array, sets: { type: number; set: Uint8Array }[]) => void): void {
    const blocks: number[] = [];
    this.#index.forEach((block) => {
      if ((this.#memory.word(block, 1) & 0xffff) === zone) blocks.push(block);
    });
    for (const block of blocks) {
      const key = (ENTRY_HEAD_WORDS + this.#memory.setCount(block) * 2) * 4;
      const length = (this.#memory.word(block, 1) >>> 16) & 0xff;
      visit(this.view(block).slice(key, key + length), this.#inlineSetsOf(block));
    }
  }

  #inlineSetsOf(entry: number): { type: number; set: Uint8Array }[] {
    const sets: { type: number; set: Uint8Array }[] = [];
    for (let i = 0; i < this.#memory.setCount(entry); i++) {
      if ((this.#memory.word(entry, ENTRY_HEAD_WORDS + i * 2) & SET_INLINE) === 0) continue;
      sets.push({ type: this.#memory.setType(entry, i), set: this.view(this.#memory.set(entry, i)).slice() });
    }
    return sets;
  }

  #hash(zone: number, name: Uint8Array): number {
    return zoneHash(hashName(this.#seed, name, 0, name.length), zone);
  }

  #drop(slot: number): void {
    const block = this.#memory.index[slot * 2 + 1]!;
    if (block <= SLOT_DELETED) return;
    this.#index.remove(slot);
    this.free(block);
  }

  #publish(words: SharedWords, at: number, block: number): void {
    const old = words.swap(at, block);
    if (old !== 0) this.free(old);
  }

  #handle(): SharedTable {
    return {
      generation: this.#generation,
      seed: this.#seed,
      zones: this.#zones,
      readers: this.#arena.readers,
      index: this.#index.shared,
      segments: [...this.#segments],
      addresses: this.#addresses.shared,
      status: this.#status.shared,
      asked: this.#asked.shared,
      zoneStates: this.#zoneStates.shared,
    };
  }

  /** Readers of the old handle do not know the new segment: they keep an index that never refers to it. */
  #addSegment(segment: SharedArrayBuffer): void {
    this.#segments.push(segment);
    this.#detach();
    this.#reopen();
  }

  /** Leaves readers of the present handle with what it shows now, until they take the next one. */
  #detach(): void {
    if (!this.#shared) return;
    this.#index.copy();
    this.#status.copy();
    this.#zoneStates.copy();
    this.#shared = false;
  }

  #reopen(): void {
    this.#memory.open(this.#handle());
    this.#changed();
  }

  #changed(): void {
    this.#generation++;
    this.#arena.generation = this.#generation;
    if (this.#told) return;
    this.#told = true;
    this.onChange?.();
  }
}

/** Big-endian words of an address. */
function be(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return Array.from({ length: bytes.length / 4 }, (_, i) => view.getInt32(i * 4));
}
