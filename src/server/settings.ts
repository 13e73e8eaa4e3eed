/** What the answer server is told. */
import type { Worker, WorkerOptions } from 'node:worker_threads';
import type { AnswerTable } from '../answers/table.js';
import type { ListenAddress } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { AnswerForeign } from './handover-desk.js';
import type { InheritedSocket } from './inherited-sockets.js';
import type { TcpLimits } from './tcp-limits.js';

/** One line a state change, with a stable event name. */
export type ServerLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  event: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

export type CreateWorker = (file: URL, options: WorkerOptions) => Worker;

export interface AnswerServerOptions {
  readonly log: ServerLog;
  /** The transport that `start` will ask for, when it is known already: saves loading the other. */
  readonly transport?: AnswerSettings['transport'];
  /** Sockets that were bound for us; those that the environment tells of when absent. */
  readonly inherited?: readonly InheritedSocket[];
  /** How a thread is started; a test may look on. */
  readonly createWorker?: CreateWorker;
  /** How long after the start, and after it was used, the spare thread is made; a test is in a hurry. */
  readonly spareAfter?: Ms;
}

/** Names that no zone owns. */
export interface ForwardSettings {
  /** Prefixes of clients that may ask for them. */
  readonly allow: readonly string[];
  /** Answers them, on the control thread. */
  readonly answer: AnswerForeign;
  /** Shared memory: words that are 1 while none of a group's upstreams answers (KeptAnswer.group). */
  readonly outages?: Int32Array;
}

export interface AnswerSettings {
  readonly listen: readonly ListenAddress[];
  /** UDP answer threads; the portable transport always has one. */
  readonly workers: number;
  readonly transport: 'auto' | 'batched' | 'portable';
  /** Each answer thread is a reader of it. */
  readonly table: Pick<AnswerTable, 'share' | 'addReader' | 'removeReader'>;
  /** Where `auto` remembers starts that ended in a signal. Absent: it remembers none. */
  readonly stateDir?: string;
  /** Absent: names that no zone owns are REFUSED. */
  readonly forward?: ForwardSettings | undefined;
  /** Largest UDP answer in bytes; 1232 when absent. */
  readonly maxUdp?: number;
  /** Largest TCP answer in bytes; 65535 when absent. */
  readonly tcpMax?: number;
  readonly tcp?: Partial<TcpLimits>;
}

/** No listen address could be bound (R35). The message says why for each, who holds it and what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}
