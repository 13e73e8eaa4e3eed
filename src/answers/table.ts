import type { Ede } from './contract.js';
import type { SharedTable } from './shared.js';

export type { SharedTable };

export interface AnswerTableOptions {
  /** Seeds the hash: one a process. */
  readonly seed: number;
}

/** The control thread's writer of the answers that all readers share. */
export declare class AnswerTable {
  constructor(options: AnswerTableOptions);
  /**
   * Called once after `share()` has gone out of date (a grown table, a changed zone), until `share()` is called again.
   * The owner then hands the new handle to every reader (`Responder.update`); until a reader has taken it, it answers
   * from what it had.
   */
  onChange: (() => void) | undefined;
  readonly generation: number;
  /** A handle for readers, also over postMessage. */
  share(): SharedTable;
  /** A slot for one more reader (a Responder in any thread). */
  addReader(): number;
  /** The reader is gone (its worker ended): nothing waits for it any more. */
  removeReader(reader: number): void;
  /** An index for one more zone, for `new ZoneAnswers(table, zoneIndex, spec)`. */
  allocZone(): number;
  freeZone(zone: number): void;
  /** A status slot: names that refer to it carry its EDE. One store changes all of them. */
  allocStatus(): number;
  setStatus(slot: number, ede: Ede | undefined): void;
  freeStatus(slot: number): void;
}
