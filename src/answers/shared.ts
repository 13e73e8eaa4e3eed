/** What crosses from the control thread to a reader: structured-cloneable, over shared memory. */
export interface SharedTable {
  readonly generation: number;
  readonly seed: number;
  readonly zones: readonly SharedZone[];
  /** Two words a reader: quiescence counter (odd: inside a batch), generation it has taken. */
  readonly readers: SharedArrayBuffer;
  /** Two words a slot: hash, block number. */
  readonly index: SharedArrayBuffer;
  readonly segments: readonly SharedArrayBuffer[];
  /** A word a status slot: block number of the EDE, 0 for none. */
  readonly status: SharedArrayBuffer;
  /** A word a zone: block number of its state. */
  readonly zoneStates: SharedArrayBuffer;
}

/** A zone as the readers know it. */
export interface SharedZone {
  readonly index: number;
  /** Wire form, lower case, with the root label. */
  readonly name: Uint8Array;
  readonly naming: 'rfc2782' | 'consul';
  /** Indexes of listen addresses; absent: all. */
  readonly listen?: readonly number[];
  /** Pairs (network, mask). */
  readonly allow4: Uint32Array;
  /** Eight words a prefix: network, mask. */
  readonly allow6: Uint32Array;
}
