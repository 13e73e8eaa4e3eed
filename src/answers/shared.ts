/**
 * What the control thread shares with the threads that answer, and how it lies in memory.
 *
 * Everything is addressed by *block number*: the arena is cut in blocks of a multiple of 8 bytes, over segments of
 * equal size, and a block's number is its position in units of 8 bytes. Word 0 of each block is its size in bytes.
 * A published block never changes; a change is a new block and one store of its number.
 */

/** Structured-cloneable. A reader that holds an older one goes on answering from what it had. */
export interface SharedTable {
  readonly generation: number;
  /** Seeds the hash of names, one a process. */
  readonly seed: number;
  /** The newest first: of two equal names on one listen address the first is used. */
  readonly zones: readonly SharedZone[];
  /** `READER_WORDS` words a reader. */
  readonly readers: SharedArrayBuffer;
  /** Two words a slot: hash, block number of the entry (0: never used, 1: deleted). */
  readonly index: SharedArrayBuffer;
  readonly segments: readonly SharedArrayBuffer[];
  /** The IPv4 addresses that have names, see address-set.ts. */
  readonly addresses: SharedArrayBuffer;
  /** A word a status slot: block number of the EDE, 0 for none. */
  readonly status: SharedArrayBuffer;
  /** A byte a service: set by readers when one of its names is asked (R17). */
  readonly asked: SharedArrayBuffer;
  /** A word a zone: block number of its state. */
  readonly zoneStates: SharedArrayBuffer;
}

/** A zone as the readers know it. */
export interface SharedZone {
  readonly index: number;
  /** Wire form, lower case. */
  readonly name: Uint8Array;
  readonly naming: 'rfc2782' | 'consul';
  readonly datacenters?: readonly string[];
  readonly handsOver?: boolean;
  /** R33: names that are not found are handed over, to be looked up. */
  readonly looksUp?: boolean;
  /** Indexes of listen addresses; absent: all (R31). */
  readonly listen?: readonly number[];
  /** Names of IPv4 addresses are not in the index: they are made from the address when they are asked. */
  readonly targets?: SharedTargets;
  /** Pairs of words: network, mask. */
  readonly allow4: Int32Array;
  /** Eight words a prefix: network, mask. */
  readonly allow6: Int32Array;
}

/** What is the same for the names of all of a zone's addresses. */
export interface SharedTargets {
  /** The name in wire form below which they stand, lower case. */
  readonly parent: Uint8Array;
  /** Seconds. */
  readonly ttl: number;
  /** Status slot. */
  readonly status: number;
}

export const MAX_READERS = 64;
/** A cache line a reader: its batch counter (odd: inside a batch) and the generation that it has taken. */
export const READER_WORDS = 16;
export const READER_COUNTER = 0;
export const READER_GENERATION = 1;

export const SEGMENT_BYTES_LOG2 = 24;
export const SEGMENT_UNITS_LOG2 = SEGMENT_BYTES_LOG2 - 3;
export const SEGMENT_UNITS_MASK = 2 ** SEGMENT_UNITS_LOG2 - 1;
/** 4 GB: a piece of a reply names its segment in one byte, with values kept for the segments that readers have of their own. */
export const MAX_SEGMENTS = 250;
/** The number of a segment that each reader has of its own, for entries that it makes itself. */
export const OWN_SEGMENT = MAX_SEGMENTS;

export const SLOT_EMPTY = 0;
export const SLOT_DELETED = 1;

/** The zone number under which reverse names are kept: they belong to no zone of ours. */
export const REVERSE_ZONE = 0xffff;

/*
 * Entry of a name (one whose status has EDE 22 is SERVFAIL): word 0 size; word 1 zone (u16), key length (u8), number of sets (u8); word 2 status slot (0: none);
 * word 3 slot of the mark that it was asked (0: none); then for each set two words, `type | SET_INLINE` and its block number; then the key: wire form, lower case.
 * An inline set lies in the entry itself, its number counted from the entry's own.
 */
export const ENTRY_STATUS_WORD = 2;
export const ENTRY_ASKED_WORD = 3;
export const ENTRY_HEAD_WORDS = 4;
export const SET_INLINE = 0x10000;

/*
 * Set of records of one type, all with the question's name as owner.
 * Bytes: 0 size u32; 4 flags u16; 6 count u16; 8 most to give u16 (0: all); 10 priority groups u16; 12 stride u16;
 * 14 zone u16 (of a PTR: whose clients may see it); then, in this order and each only when its flag says so:
 * - SET_WEIGHTED: u32 a record, weights added up within its group;
 * - not SET_STRIDE: a record's place (u32, from the start of the block), length u16 and tail length u16;
 * - more than one group: u16 a group, one past its last record;
 * - SET_REPEATED: u16 a record, the number of its target;
 * then, 4-aligned, the records. With SET_STRIDE they have one length and follow each other. Otherwise a *tail* may
 * follow each: the address record of its target without the owner.
 */
export const SET_FLAGS = 4 >> 1;
export const SET_COUNT = 6 >> 1;
export const SET_MOST = 8 >> 1;
export const SET_GROUPS = 10 >> 1;
export const SET_STRIDE_BYTES = 12 >> 1;
export const SET_ZONE = 14 >> 1;
export const SET_HEAD_BYTES = 16;

export const SET_STRIDE = 1;
export const SET_WEIGHTED = 2;
export const SET_STABLE = 4;
export const SET_REPEATED = 8;

/*
 * EDE: word 0 size; u16 at 4 length of the full form; u16 at 6 INFO-CODE; from 8 the bare form, from 16 the full one.
 * Both are the end of an OPT record: RDLENGTH and the option.
 */
export const EDE_FULL_LENGTH = 4 >> 1;
export const EDE_CODE = 6 >> 1;
export const EDE_BARE_BYTES = 8;
export const EDE_FULL_BYTES = 16;
/** RDLENGTH 6, option 15, length 2, INFO-CODE. */
export const EDE_BARE_LENGTH = 8;

/** Zone state: word 0 size; u16 at 4 is it synced; u16 at 6 SOA length; word 2 EDE of NXDOMAIN; from 12 the SOA's tail. */
export const ZONE_SYNCED = 4 >> 1;
/** Values of that: names that are not found may exist: all that fit a form, or target names only, or none. */
export const NOT_SYNCED = 0;
export const SYNCED = 1;
export const TARGETS_PENDING = 2;
export const ZONE_SOA_LENGTH = 6 >> 1;
export const ZONE_NEGATIVE_WORD = 2;
export const ZONE_SOA_BYTES = 12;
