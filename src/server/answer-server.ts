/**
 * The control thread's side of the transports: it starts the answer threads, tells them which addresses to
 * listen on and which table to read, restarts one that dies, and reports. It answers nothing itself, so a busy
 * control thread delays no answer.
 */
import type { SharedTable } from '../answers/table.js';
import type { ListenAddress } from '../config/types.js';
import type { Ms } from '../system/clock.js';

/** One line a state change, with a stable event name. */
export type ServerLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  event: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

export interface AnswerServerOptions {
  readonly log: ServerLog;
}

/** Limits of the TCP side. All have defaults (tcp-limits.ts). */
export interface TcpLimits {
  readonly maxConnections: number;
  /** For one client address that is not loopback. */
  readonly maxConnectionsPerClient: number;
  /** A connection without a whole message for so long is closed. */
  readonly idleTimeout: Ms;
  /** From the first byte of a message to its last; also how long unsent answers may make no headway. */
  readonly messageTimeout: Ms;
}

export interface AnswerSettings {
  readonly listen: readonly ListenAddress[];
  /** UDP answer threads; the portable transport always has one. */
  readonly workers: number;
  readonly transport: 'auto' | 'batched' | 'portable';
  readonly handle: SharedTable;
  /** Where `auto` remembers starts that ended in a signal. Absent: it remembers none. */
  readonly stateDir?: string;
  /** Largest UDP answer in bytes; 1232 when absent. */
  readonly maxUdp?: number;
  /** Largest TCP answer in bytes; 65535 when absent. */
  readonly tcpMax?: number;
  readonly tcp?: Partial<TcpLimits>;
}

export interface ListenerStatus {
  readonly address: string;
  /** As bound: the kernel's choice where the configuration says 0. */
  readonly port: number;
  readonly protocol: 'udp' | 'tcp';
  readonly state: 'starting' | 'up' | 'retrying';
  /** Why it is retried: a sentence for people, with who holds the port and what to do. */
  readonly error?: string;
}

/** No listen address could be bound (R35). The message says why for each, who holds it and what to do. */
export declare class ListenError extends Error {}

export declare class AnswerServer {
  /** Starts the threads at once, so that they load while the caller reads its configuration. They do not keep the process alive before `start`. */
  constructor(options: AnswerServerOptions);
  /** Resolves when each address has been tried; those that could not be bound are retried. Throws ListenError when none could. */
  start(settings: AnswerSettings): Promise<void>;
  /** The transport that answers UDP at present. */
  readonly transport: 'batched' | 'portable' | 'none';
  /** The table moved to another shared memory (it grew). */
  update(handle: SharedTable): void;
  /** Resolves when each new address has been tried. Listeners of addresses that stay are not touched. `handle` is published with it. */
  setListen(listen: readonly ListenAddress[]): Promise<void>;
  listeners(): ListenerStatus[];
  /** One array a reader (UDP workers, then TCP), to be summed by counters.ts. */
  counters(): readonly Uint32Array[];
  /** Deaths of answer threads since the start. */
  readonly restarts: number;
  /** Stops accepting, answers what is in flight for up to one second, closes. Safe to call at any time. */
  stop(): Promise<void>;
}
