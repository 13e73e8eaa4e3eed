/** What the control thread and the answer threads say to each other, and the memory they share beside the table. */
import type { SharedTable } from '../answers/shared.js';
import type { Allowed } from './acl.js';
import type { BindFailure } from './bind-error.js';
import type { HandoverMemory } from './handover.js';
import type { InheritedSocket } from './inherited-sockets.js';
import type { KeptAnswer } from './kept-answers.js';
import type { SocketPlan } from './listen-plan.js';
import type { ResponderOptions } from './respond.js';
import type { TcpLimits } from './tcp-limits.js';

/** Words of a thread's own control memory (Int32Array). */
export const CONTROL_WORDS = 4;
/** Set to 1 to make a native loop leave; read after every poll. */
export const STOP = 0;
/** Number of the eventfd that wakes a native loop; -1 until there is one. It outlives the thread. */
export const EVENT_FD = 1;
/** Grows while the thread's loop turns, once a second at least. */
export const PULSE = 2;

/** Words of a thread's transport counters (Uint32Array, one writer, wrapping). */
export const TRANSPORT_COUNTERS = [
  /** Datagrams dropped before parsing: source port 0, our own address, cut by the receive buffer. */
  'refusedDatagrams',
  /** Answers that could not be sent. */
  'sendErrors',
  /** Answers dropped because the send buffer stayed full. */
  'sendDrops',
  /** Queries on which the responder threw: a bug, answered by nothing. */
  'failures',
  'tcpAccepted',
  /** Connections closed to make room for others. */
  'tcpEvicted',
  /** Connections closed at a deadline. */
  'tcpTimeouts',
  /** accept() failed, mostly for want of descriptors. */
  'tcpAcceptErrors',
  /** Questions for the control thread that were too many, of one client or in all: dropped, over TCP answered SERVFAIL. */
  'handoverFull',
] as const;
export type TransportCounter = (typeof TRANSPORT_COUNTERS)[number];
export const counterIndex = Object.fromEntries(TRANSPORT_COUNTERS.map((name, i) => [name, i])) as Record<
  TransportCounter,
  number
>;

export interface StartMessage {
  readonly type: 'start';
  readonly handle: SharedTable;
  readonly counters: Uint32Array;
  readonly transportCounters: Uint32Array;
  readonly control: Int32Array;
  readonly handover: HandoverMemory;
  readonly forward: Allowed | undefined;
  readonly outages: Int32Array | undefined;
  readonly responder: ResponderOptions;
  /** UDP threads only. */
  readonly transport: 'batched' | 'portable';
  /** TCP threads only. */
  readonly tcp: TcpLimits;
  readonly listen: ListenMessage;
}

/** The sockets to have from now on. The thread opens what is new, closes what is gone, keeps the rest. */
export interface ListenMessage {
  readonly type: 'listen';
  readonly sequence: number;
  readonly plans: readonly SocketPlan[];
  /** Batched: descriptors already bound for this thread, by plan key. */
  readonly bound: Readonly<Record<string, number>>;
  /** Sockets of the thread's protocol that were bound for us, by plan key. */
  readonly inherited: Readonly<Record<string, InheritedSocket>>;
  /** Batched: how many sockets to bind for a plan that has none; 0 leaves it to another thread. */
  readonly bind: number;
}

export type ToThread =
  | StartMessage
  | ListenMessage
  | { readonly type: 'table'; readonly handle: SharedTable }
  /** Whose foreign questions are handed over from now on. */
  | {
      readonly type: 'forward';
      readonly forward: Allowed | undefined;
      readonly outages: Int32Array | undefined;
    }
  | RepliesMessage
  /** Answers that the thread may give again by itself, until the next `forward`. */
  | { readonly type: 'keep'; readonly answers: readonly KeptAnswer[] }
  | { readonly type: 'stop' };

/** Of the control thread to what was handed over; without a message there is nothing to send. Not for batched threads: those replies leave by their sockets. */
export interface RepliesMessage {
  readonly type: 'replies';
  readonly replies: readonly { readonly token: number; readonly message: Uint8Array | undefined }[];
}

export interface TriedMessage {
  readonly type: 'tried';
  readonly sequence: number;
  /** One a plan. `fds`: batched sockets bound just now. */
  readonly results: readonly {
    readonly key: string;
    readonly failure?: BindFailure;
    readonly fds?: readonly number[];
  }[];
}

export type FromThread =
  | TriedMessage
  /** Something was handed over while the control thread did not look. */
  | { readonly type: 'handed-over' }
  /** UDP: what this thread answers with; `reason` when it is not what was asked for. */
  | { readonly type: 'transport'; readonly transport: 'batched' | 'portable'; readonly reason?: string }
  | {
      readonly type: 'log';
      readonly level: 'debug' | 'info' | 'warn' | 'error';
      readonly event: string;
      readonly fields: Readonly<Record<string, unknown>>;
    }
  /** UDP, batched: the loop threw. The thread ends, and touches nothing of what it shares any more. */
  | { readonly type: 'failed'; readonly error: string }
  /** UDP, batched: a native call failed for good. The thread ends; its sockets stay open. */
  | { readonly type: 'unusable'; readonly reason: string };
