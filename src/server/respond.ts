import type { SharedTable } from '../answers/shared.js';
import type { Peer, Transport } from './plan.js';

export type { Peer, Transport };

/** `respond` returns it when the control thread has to answer. */
export const NEEDS_CONTROL = -1;

export interface ResponderOptions {
  /** Largest UDP reply, in bytes: 1232. */
  readonly maxUdp: number;
  /** Largest TCP reply, in bytes: 65535. */
  readonly tcpMax: number;
  /** This reader's slot, from `AnswerTable.addReader()`. */
  readonly reader: number;
  /** Seeds the order of answers. */
  readonly seed: number;
}

export declare class Responder {
  constructor(handle: SharedTable, counters: Uint32Array, options: ResponderOptions);
  /** Takes a newer handle. Between batches only. */
  update(handle: SharedTable): void;
  beginBatch(): void;
  endBatch(): void;
  /** Length of the reply in `out`; 0: drop; NEEDS_CONTROL: the control thread has to answer. */
  respond(query: Uint8Array, length: number, peer: Peer, listen: number, transport: Transport, out: Uint8Array): number;
}
