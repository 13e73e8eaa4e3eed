/**
 * UDP over node:dgram: one datagram a call, on every platform. node:dgram cannot learn which address was asked nor
 * choose the one to answer from, so a wildcard is served by one socket for each address of this host, looked up
 * again as addresses come and go. Of 127.0.0.0/8 that is 127.0.0.1 alone; the batched transport serves all of it.
 */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import type { BindFailure } from './bind-error.js';
import { peerFromText, plainAddress } from './client-address.js';
import { duplicateOf } from './duplicate.js';
import { type HandoverWriter, NO_ENVELOPE } from './handover.js';
import type { InheritedSocket } from './inherited-sockets.js';
import { countLatency } from './latency.js';
import { listenIndex, type SocketPlan } from './listen-plan.js';
import { counterIndex, type RepliesMessage } from './messages.js';
import { localAddresses, OwnAddresses } from './own-addresses.js';
import { quiet } from './quiet.js';
import { ReadyAnswers, SEND_QUEUE_BYTES } from './ready-answers.js';
import { NEEDS_CONTROL, type Responder } from './respond.js';

const RESCAN_MS = 2_000;
const BUFFER_BYTES = 4 * 1024 * 1024;

export interface PortableUdpEvents {
  /** The responder threw on a query. */
  readonly failure: (error: unknown) => void;
  readonly log: (level: 'info' | 'warn', event: string, fields: Readonly<Record<string, unknown>>) => void;
  /** The control thread has to be woken for what was handed over. */
  readonly handedOver: () => void;
}

/** A plan and the sockets that serve it: one, or for a wildcard one an address. */
interface Bound {
  plan: SocketPlan;
  readonly sockets: Map<string, Socket>;
  /** One socket serves a wildcard, too; routing chooses the address it answers from. */
  readonly inherited: boolean;
}

export class PortableUdp {
  readonly #responder: Responder;
  readonly #handover: HandoverWriter;
  /** Where replies of the control thread go, by token. The handover bounds them. */
  readonly #handedOver = new Map<number, { readonly socket: Socket; readonly from: RemoteInfo }>();
  readonly #counters: Uint32Array;
  readonly #events: PortableUdpEvents;
  readonly #bound = new Map<string, Bound>();
  readonly #own = new OwnAddresses();
  readonly #ready: ReadyAnswers;
  #rescan: NodeJS.Timeout | undefined;
  /** Datagrams read. */
  #taken = 0;
  /** Changes to the sockets, one after the other. */
  #changes: Promise<unknown> = Promise.resolve();

  /** `counters` are the responder's; the latency histogram in them is ours to write. `maxUdp`: the largest answer. */
  constructor(
    responder: Responder,
    handover: HandoverWriter,
    counters: Uint32Array,
    transportCounters: Uint32Array,
    events: PortableUdpEvents,
    maxUdp: number,
  ) {
    this.#responder = responder;
    this.#handover = handover;
    this.#counters = transportCounters;
    this.#events = events;
    this.#ready = new ReadyAnswers(Math.max(512, maxUdp), {
      left: (answers, begun) => countLatency(counters, performance.now() - begun, answers),
      failed: this.#sent,
      dropped: () => this.#count('sendDrops'),
    });
  }

  /** Opens and closes sockets until they are those of `plans`. Resolves with what could not be bound, by plan key. */
  listen(
    plans: readonly SocketPlan[],
    inherited: Readonly<Record<string, InheritedSocket>> = {},
  ): Promise<Map<string, BindFailure>> {
    return this.#inTurn(() => this.#listen(plans, inherited));
  }

  async #listen(
    plans: readonly SocketPlan[],
    inherited: Readonly<Record<string, InheritedSocket>>,
  ): Promise<Map<string, BindFailure>> {
    const failures = new Map<string, BindFailure>();
    this.#ready.flush();
    for (const [key, bound] of this.#bound) {
      if (plans.some((p) => p.key === key)) continue;
      for (const socket of bound.sockets.values()) socket.close();
      this.#bound.delete(key);
    }
    this.#own.setPlans(plans);
    await Promise.all(
      plans.map(async (plan) => {
        const existing = this.#bound.get(plan.key);
        if (existing) {
          existing.plan = plan;
          return;
        }
        const given = inherited[plan.key];
        const fd = given && duplicateOf(given);
        const bound: Bound = { plan, sockets: new Map(), inherited: fd !== undefined };
        const failure =
          fd !== undefined
            ? await this.#bind(bound, plan.address, plan.address, fd)
            : plan.wildcard
              ? await this.#bindLocal(bound)
              : await this.#bind(bound, plan.address, plan.address);
        if (failure) failures.set(plan.key, failure);
        else this.#bound.set(plan.key, bound);
      }),
    );
    const wildcard = [...this.#bound.values()].some((b) => b.plan.wildcard && !b.inherited);
    if (wildcard && !this.#rescan) {
      this.#rescan = setInterval(() => void this.#inTurn(() => this.#rescanAddresses()), RESCAN_MS);
      this.#events.log('warn', 'udp-wildcard-by-address', {
        message:
          'the portable transport serves a wildcard listen address by one socket for each address of this host; other addresses of 127.0.0.0/8 than 127.0.0.1 need a listen entry of their own',
      });
    } else if (!wildcard && this.#rescan) {
      clearInterval(this.#rescan);
      this.#rescan = undefined;
    }
    return failures;
  }

  /** Answers what the kernel holds already, lets answers leave for up to `grace` ms, and closes. */
  async close(grace: number): Promise<void> {
    clearInterval(this.#rescan);
    const sockets = [...this.#bound.values()].flatMap((bound) => [...bound.sockets.values()]);
    const until = performance.now() + grace;
    await quiet(() => this.#taken, performance.now() + grace / 4);
    this.#ready.flush();
    while (sockets.some((s) => s.getSendQueueCount() > 0) && performance.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 5));
    for (const socket of sockets) socket.close();
    this.#bound.clear();
  }

  /** Binds each address that a wildcard stands for. Fails with the first failure when none can be bound. */
  async #bindLocal(bound: Bound): Promise<BindFailure | undefined> {
    let first: BindFailure | undefined;
    this.#ready.flush();
    const addresses = localAddresses().filter((a) => bound.plan.dual || a.family === bound.plan.family);
    for (const [at, socket] of bound.sockets) {
      if (addresses.some((a) => a.bind === at)) continue;
      socket.close();
      bound.sockets.delete(at);
    }
    for (const { address, bind } of addresses) {
      if (bound.sockets.has(bind)) continue;
      const failure = await this.#bind(bound, bind, address);
      first ??= failure;
    }
    if (bound.sockets.size > 0) return undefined;
    return first ?? { code: 'EADDRNOTAVAIL', message: 'this host has no address of that family' };
  }

  async #rescanAddresses(): Promise<void> {
    for (const bound of this.#bound.values()) if (bound.plan.wildcard && !bound.inherited) await this.#bindLocal(bound);
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#changes.then(change);
    this.#changes = done.catch(() => undefined);
    return done;
  }

  #bind(bound: Bound, at: string, asked: string, fd?: number): Promise<BindFailure | undefined> {
    return new Promise((resolve) => {
      const v6 = at.includes(':');
      const socket = createSocket({ type: v6 ? 'udp6' : 'udp4', ipv6Only: v6, lookup: literalLookup });
      const failed = (error: NodeJS.ErrnoException): void => {
        socket.close();
        resolve({ code: error.code ?? 'UNKNOWN', message: error.message });
      };
      socket.once('error', failed);
      const options = fd === undefined ? { port: bound.plan.port, address: at } : { fd };
      socket.bind({ ...options, exclusive: true }, () => {
        socket.off('error', failed);
        socket.on('error', () => {
          this.#count('sendErrors');
        });
        growBuffers(socket);
        bound.sockets.set(at, socket);
        socket.on('message', (query, from) => this.#answer(socket, bound, asked, query, from));
        resolve(undefined);
      });
    });
  }

  #answer(socket: Socket, bound: Bound, asked: string, query: Buffer, from: RemoteInfo): void {
    this.#taken++;
    const peer = from.port === 0 ? undefined : peerFromText(from.address);
    if (
      !peer ||
      (this.#own.suspect(from.port) && this.#own.has(plainAddress(from.address), from.port, performance.now()))
    ) {
      this.#count('refusedDatagrams');
      return;
    }
    const begun = performance.now();
    const listen = listenIndex(bound.plan, asked);
    const out = this.#ready.place;
    let length = 0;
    this.#responder.beginBatch();
    try {
      length = this.#responder.respond(query, query.length, peer, listen, 'udp', out);
      if (length === NEEDS_CONTROL) {
        length = this.#responder.respondKept(query, query.length, begun, out);
        if (length > 0 && this.#responder.tells) this.#handover.tell(query, query.length, peer, listen, 'udp');
      }
    } catch (error) {
      this.#count('failures');
      this.#events.failure(error);
    }
    this.#responder.endBatch();
    if (length === NEEDS_CONTROL) {
      const token = this.#handover.put(query, query.length, peer, from.port, listen, 'udp', NO_ENVELOPE);
      if (token === 0) this.#count('handoverFull');
      else this.#handedOver.set(token, { socket, from });
    }
    if (this.#handover.mustWake()) this.#events.handedOver();
    if (length > 0) this.#ready.put(socket, length, from.port, from.address, begun);
  }

  /** Sends what the control thread has answered; tokens of a thread before this one are not known. */
  reply(replies: RepliesMessage['replies']): void {
    for (const { token, message } of replies) {
      const waiting = this.#handedOver.get(token);
      if (!waiting) continue;
      this.#handedOver.delete(token);
      const { socket, from } = waiting;
      const open = [...this.#bound.values()].some(({ sockets }) => [...sockets.values()].includes(socket));
      if (!message || !open) continue;
      if (socket.getSendQueueSize() > SEND_QUEUE_BYTES) this.#count('sendDrops');
      else socket.send(message, from.port, from.address, this.#sent);
    }
  }

  readonly #sent = (error: Error | null): void => {
    if (error) this.#count('sendErrors');
  };

  #count(counter: keyof typeof counterIndex): void {
    this.#counters[counterIndex[counter]]!++;
  }
}

/** Addresses are literals already: answer at once, so that the datagram leaves within the call. */
function literalLookup(host: string, options: unknown, callback?: unknown): void {
  const done = (callback ?? options) as (error: Error | null, address: string, family: number) => void;
  done(null, host, host.includes(':') ? 6 : 4);
}

/** A burst of queries waits in the kernel instead of being lost; refusal is no reason not to serve. */
function growBuffers(socket: Socket): void {
  try {
    socket.setRecvBufferSize(BUFFER_BYTES);
    socket.setSendBufferSize(BUFFER_BYTES);
  } catch {
    // The kernel's own sizes stay.
  }
}
