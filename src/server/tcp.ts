/** DNS over TCP on node:net: listeners, admission, deadlines. tcp-connection.ts is one connection. */
import { createServer, type Server, type Socket } from 'node:net';
import type { BindFailure } from './bind-error.js';
import { peerFromText, plainAddress } from './client-address.js';
import { ConnectionTable } from './connection-table.js';
import { duplicateOf } from './duplicate.js';
import { type HandoverWriter, NO_ENVELOPE } from './handover.js';
import type { InheritedSocket } from './inherited-sockets.js';
import { countLatency } from './latency.js';
import { listenIndex, type SocketPlan } from './listen-plan.js';
import { counterIndex, type RepliesMessage } from './messages.js';
import { quiet } from './quiet.js';
import type { Responder } from './respond.js';
import { Connection } from './tcp-connection.js';
import type { TcpLimits } from './tcp-limits.js';

const BACKLOG = 1024;
const SWEEP_MS = 500;
/** Connections closed when descriptors have run out. */
const EMERGENCY_EVICTIONS = 16;

export interface TcpEvents {
  /** The responder threw on a query. */
  readonly failure: (error: unknown) => void;
  /** The control thread has to be woken for what was handed over. */
  readonly handedOver: () => void;
}

interface Listener {
  plan: SocketPlan;
  readonly server: Server;
}

export class TcpTransport {
  readonly #responder: Responder;
  readonly #limits: TcpLimits;
  readonly #latency: Uint32Array;
  readonly #counters: Uint32Array;
  readonly #handover: HandoverWriter;
  /** Who waits for replies of the control thread, by token. The handover bounds them. */
  readonly #handedOver = new Map<number, Connection>();
  readonly #rim: TcpEvents;
  readonly #listeners = new Map<string, Listener>();
  readonly #connections: ConnectionTable<Connection>;
  #answered = 0;
  #sweeper: NodeJS.Timeout | undefined;
  #changes: Promise<unknown> = Promise.resolve();

  /** `counters` are the responder's; the latency histogram in them is ours to write. */
  constructor(
    responder: Responder,
    handover: HandoverWriter,
    limits: TcpLimits,
    counters: Uint32Array,
    transportCounters: Uint32Array,
    events: TcpEvents,
  ) {
    this.#responder = responder;
    this.#handover = handover;
    this.#limits = limits;
    this.#latency = counters;
    this.#counters = transportCounters;
    this.#rim = events;
    this.#connections = new ConnectionTable(limits);
  }

  /** Opens and closes listeners until they are those of `plans`. Connections stay. Resolves with what could not be bound, by plan key. */
  listen(
    plans: readonly SocketPlan[],
    inherited: Readonly<Record<string, InheritedSocket>> = {},
  ): Promise<Map<string, BindFailure>> {
    const done = this.#changes.then(async () => {
      const failures = new Map<string, BindFailure>();
      for (const [key, { server }] of this.#listeners) {
        if (plans.some((p) => p.key === key)) continue;
        server.close();
        this.#listeners.delete(key);
      }
      await Promise.all(
        plans.map(async (plan) => {
          const existing = this.#listeners.get(plan.key);
          if (existing) {
            existing.plan = plan;
            return;
          }
          const failure = await this.#bind(plan, inherited[plan.key]);
          if (failure) failures.set(plan.key, failure);
        }),
      );
      return failures;
    });
    this.#changes = done;
    return done;
  }

  /** Stops accepting, lets answers leave for up to `grace` ms, and resolves when every connection is closed. */
  async close(grace: number): Promise<void> {
    const until = performance.now() + grace;
    const progress = () => this.#counters[counterIndex.tcpAccepted]! + this.#answered;
    // Connections that the kernel has made already would be reset with their listener.
    await quiet(progress, performance.now() + grace / 4);
    for (const { server } of this.#listeners.values()) server.close();
    this.#listeners.clear();
    await quiet(progress, performance.now() + grace / 4);
    for (;;) {
      const now = performance.now();
      for (const connection of this.#connections) if (!connection.isAsking(now)) connection.end();
      if (this.#connections.size === 0 || now >= until) break;
      await new Promise((r) => setTimeout(r, 5));
    }
    for (const connection of this.#connections) connection.destroy();
    clearInterval(this.#sweeper);
  }

  #bind(plan: SocketPlan, inherited: InheritedSocket | undefined): Promise<BindFailure | undefined> {
    return new Promise((resolve) => {
      const listener: Listener = {
        plan,
        server: createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(listener, socket)),
      };
      const { server } = listener;
      const failed = (error: NodeJS.ErrnoException): void => {
        resolve({ code: error.code ?? 'UNKNOWN', message: error.message });
      };
      server.once('error', failed);
      const fd = inherited && duplicateOf(inherited);
      const options = {
        ...(fd === undefined
          ? { host: plan.address, port: plan.port, ipv6Only: plan.family === 6 && !plan.dual }
          : { fd }),
        backlog: BACKLOG,
        exclusive: true,
      };
      server.listen(options, () => {
        server.off('error', failed);
        server.on('error', () => this.#acceptFailed());
        this.#listeners.set(plan.key, listener);
        resolve(undefined);
      });
    });
  }

  #accept(listener: Listener, socket: Socket): void {
    // A reset, a timeout or a write after it: the socket closes by itself, and 'close' follows.
    socket.on('error', () => {});
    const from = socket.remoteAddress;
    const peer = from === undefined ? undefined : peerFromText(from);
    if (!peer) {
      socket.destroy();
      return;
    }
    const client = plainAddress(from!);
    const idlest = this.#connections.inTheWay(client);
    if (idlest) {
      this.#count('tcpEvicted');
      idlest.destroy();
      this.#connections.delete(idlest);
    }
    const listen = listenIndex(listener.plan, plainAddress(socket.localAddress ?? ''));
    const connection = new Connection(socket, client, peer, listen, this.#responder, this.#events, performance.now());
    this.#connections.add(connection);
    this.#count('tcpAccepted');
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS);
  }

  readonly #events = {
    failure: (error: unknown): void => {
      this.#count('failures');
      this.#rim.failure(error);
    },
    answered: (answers: number, ms: number): void => {
      this.#answered += answers;
      countLatency(this.#latency, ms, answers);
    },
    active: (connection: Connection): void => this.#connections.touch(connection),
    handOver: (connection: Connection, query: Uint8Array, length: number): boolean => {
      const { peer, port, listen } = connection;
      const token = this.#handover.put(query, length, peer, port, listen, 'tcp', NO_ENVELOPE);
      if (token === 0) this.#count('handoverFull');
      else this.#handedOver.set(token, connection);
      return token !== 0;
    },
    tell: ({ peer, listen }: Connection, query: Uint8Array, length: number): void =>
      this.#handover.tell(query, length, peer, listen, 'tcp'),
    handedOver: (): void => {
      if (this.#handover.mustWake()) this.#rim.handedOver();
    },
    closed: (connection: Connection): void => {
      this.#connections.delete(connection);
      if (this.#connections.size > 0) return;
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
    },
  };

  /** Passes on what the control thread has answered; tokens of a thread before this one are not known. */
  reply(replies: RepliesMessage['replies']): void {
    for (const { token, message } of replies) {
      this.#handedOver.get(token)?.reply(message);
      this.#handedOver.delete(token);
    }
  }

  #sweep(): void {
    const now = performance.now();
    for (const connection of this.#connections) {
      if (connection.deadline(this.#limits.idleTimeout, this.#limits.messageTimeout) > now) continue;
      this.#count('tcpTimeouts');
      connection.destroy();
      this.#connections.delete(connection);
    }
  }

  /** Descriptors have run out, most likely: those of the idlest help most. */
  #acceptFailed(): void {
    this.#count('tcpAcceptErrors');
    let left = EMERGENCY_EVICTIONS;
    for (const connection of this.#connections) {
      if (left-- === 0) break;
      this.#count('tcpEvicted');
      connection.destroy();
      this.#connections.delete(connection);
    }
  }

  #count(counter: keyof typeof counterIndex): void {
    this.#counters[counterIndex[counter]]!++;
  }
}
