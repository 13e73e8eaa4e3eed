/**
 * UDP in batches: one poll over all sockets and an eventfd, then recvmmsg, answers, sendmmsg. The loop never returns
 * to Node's event loop, so nothing asynchronous runs in its thread; what the control thread says is read when the
 * eventfd wakes it, and the stop flag after every poll.
 */
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import type { SharedTable } from '../answers/shared.js';
import { ipaddr } from '../dns/ipaddr.js';
import { errorName } from '../system/libc.js';
import { AnswerPieces } from './answer-pieces.js';
import {
  BATCH,
  BatchRing,
  CONTROL_BYTES,
  HEADER_WORDS,
  MSG_CONTROL,
  MSG_CONTROLLEN,
  MSG_FLAGS,
  MSG_IOV,
  MSG_IOVLEN,
  MSG_LEN,
  MSG_NAME,
  MSG_NAMELEN,
  NAME_BYTES,
} from './batch-ring.js';
import type { BindFailure } from './bind-error.js';
import { type HandoverWriter, NO_BYTES } from './handover.js';
import { isOpen } from './inherited-sockets.js';
import { countLatency } from './latency.js';
import { EAGAIN, EINTR, ENOBUFS, type LinuxCalls } from './linux-calls.js';
import { adoptSocket, bindSockets } from './linux-sockets.js';
import type { SocketPlan } from './listen-plan.js';
import {
  counterIndex,
  EVENT_FD,
  type ListenMessage,
  PULSE,
  STOP,
  type ToThread,
  type TriedMessage,
} from './messages.js';
import { OwnAddresses } from './own-addresses.js';
import { NEEDS_CONTROL, type Responder } from './respond.js';
import { tried } from './thread-reports.js';

/** No wake-up is ever needed in time; this bounds an exit of the process whose hook did not run. */
const POLL_MS = 1_000;
/** A busy socket lets the others have their turn after so many batches. */
const MAX_BATCHES = 16;
const SEND_WAIT_MS = 1;
const POLLIN = 1;
const POLLOUT = 4;
const POLLNVAL = 0x20;
const MSG_DONTWAIT = 0x40;
const MSG_CTRUNC = 0x08;
const MSG_TRUNC = 0x20;
const AF_INET = 2;
/** `::ffff:` as the third word of an address, little-endian; the first two are 0. */
const MAPPED = 0xffff0000;
/** Errors of a receive that no later try will mend: EBADF, EFAULT, EINVAL, ENOSYS, ENOTSOCK, EPERM. */
const FATAL = [9, 14, 22, 38, 88, 1];

/** A native call fails for good: another transport has to take over. */
export class TransportUnusable extends Error {}

export interface BatchedUdpEvents {
  readonly failure: (error: unknown) => void;
  readonly log: (level: 'info' | 'warn', event: string, fields: Readonly<Record<string, unknown>>) => void;
  readonly tried: (message: TriedMessage) => void;
  /** The control thread has to be woken for what was handed over. */
  readonly handedOver: () => void;
}

export interface BatchedUdpOptions {
  readonly calls: LinuxCalls;
  readonly responder: Responder;
  readonly handover: HandoverWriter;
  readonly handle: SharedTable;
  readonly maxUdp: number;
  readonly control: Int32Array;
  /** Of the responder; the latency histogram in it is ours to write. */
  readonly counters: Uint32Array;
  readonly transportCounters: Uint32Array;
  readonly port: MessagePort;
  readonly events: BatchedUdpEvents;
}

interface BatchedSocket {
  readonly fd: number;
  plan: SocketPlan;
  /** The plan's key, for the control thread. */
  readonly key: Uint8Array;
  covers: readonly { readonly bytes: Uint8Array; readonly listen: number }[];
}

export class BatchedUdp {
  readonly #calls: LinuxCalls;
  readonly #responder: Responder;
  readonly #handover: HandoverWriter;
  readonly #ring: BatchRing;
  readonly #pieces: AnswerPieces;
  readonly #maxUdp: number;
  readonly #control: Int32Array;
  readonly #counters: Uint32Array;
  readonly #latency: Uint32Array;
  readonly #port: MessagePort;
  readonly #events: BatchedUdpEvents;
  readonly #own = new OwnAddresses();
  readonly #eventCount = new Uint8Array(new ArrayBuffer(8));
  /** struct pollfd of one socket, to wait until it can send. */
  readonly #sendPoll = new Int32Array(new ArrayBuffer(8));
  readonly #sendPollBytes = new Uint8Array(this.#sendPoll.buffer);
  #sockets: BatchedSocket[] = [];
  /** struct pollfd: two words a socket, the eventfd first. */
  #polled = new Int32Array(new ArrayBuffer(8));
  #polledBytes = new Uint8Array(this.#polled.buffer);

  constructor(options: BatchedUdpOptions) {
    this.#calls = options.calls;
    this.#responder = options.responder;
    this.#handover = options.handover;
    this.#maxUdp = Math.max(512, options.maxUdp);
    this.#ring = new BatchRing(options.calls, this.#maxUdp);
    this.#pieces = new AnswerPieces(options.calls, this.#ring, options.responder.reply, options.handle);
    this.#control = options.control;
    this.#counters = options.transportCounters;
    this.#latency = options.counters;
    this.#port = options.port;
    this.#events = options.events;
  }

  /** Makes the sockets those of the message: adopts, binds, lets go. Closing is the control thread's. */
  listen(message: ListenMessage): void {
    const failures = new Map<string, BindFailure>();
    const bound = new Map<string, readonly number[]>();
    const before = this.#sockets;
    this.#sockets = [];
    this.#own.setPlans(message.plans);
    for (const plan of message.plans) {
      let fd = before.find((socket) => socket.plan.key === plan.key)?.fd ?? message.bound[plan.key];
      if (fd === undefined && message.bind > 0) {
        const inherited = message.inherited[plan.key];
        const result =
          inherited && isOpen(inherited)
            ? adoptSocket(this.#calls, plan, inherited.fd)
            : bindSockets(this.#calls, plan, message.bind);
        if ('code' in result) failures.set(plan.key, result);
        else {
          bound.set(plan.key, result.fds);
          fd = result.fds[0];
          if (result.smallBuffer !== undefined)
            this.#events.log('warn', 'send-buffer-small', {
              address: plan.address,
              port: plan.port,
              bytes: result.smallBuffer,
              message: 'clients that are gone can hold up answers to others: raise net.core.wmem_max to 4194304',
            });
        }
      }
      if (fd === undefined) continue;
      const covers = plan.covers.map((c) => ({
        bytes: Uint8Array.from(ipaddr().parse(c.address).toByteArray()),
        listen: c.listen,
      }));
      this.#sockets.push({ fd, plan, key: Buffer.from(plan.key), covers });
    }
    this.#polled = new Int32Array(new ArrayBuffer(8 * (1 + this.#sockets.length)));
    this.#polledBytes = new Uint8Array(this.#polled.buffer);
    [Atomics.load(this.#control, EVENT_FD), ...this.#sockets.map((s) => s.fd)].forEach((fd, i) => {
      this.#polled[i * 2] = fd;
      this.#polled[i * 2 + 1] = POLLIN;
    });
    this.#events.tried(tried(message, failures, bound));
  }

  /** Answers until the stop flag is set. Throws TransportUnusable when a call fails for good. */
  run(): void {
    // What was said before there was an eventfd to wake this thread.
    this.#hear();
    for (;;) {
      const ready = this.#calls.poll(this.#polledBytes, this.#polled.length >> 1, POLL_MS);
      if (Atomics.load(this.#control, STOP) !== 0) break;
      Atomics.add(this.#control, PULSE, 1);
      if (ready < 0) {
        const errno = this.#calls.errno();
        if (errno !== EINTR && errno !== EAGAIN) throw new TransportUnusable(`poll: ${errorName(errno)}`);
        continue;
      }
      // Before the sockets: what the control thread has changed holds for the next query.
      if (ready === 0 || this.#polled[1]! >>> 16 !== 0) this.#hear();
      const polled = this.#polled;
      for (let i = 0; i < this.#sockets.length; i++) {
        const events = polled[i * 2 + 3]! >>> 16;
        if (events & POLLNVAL) throw new TransportUnusable('a socket was closed under the loop');
        if (events !== 0) this.#serve(this.#sockets[i]!);
      }
    }
    // What the kernel holds already is still answered.
    for (const socket of this.#sockets) this.#serve(socket);
  }

  /** Reads what the control thread has said. */
  #hear(): void {
    this.#calls.read(Atomics.load(this.#control, EVENT_FD), this.#eventCount, 8);
    for (;;) {
      const received = receiveMessageOnPort(this.#port) as { readonly message: ToThread } | undefined;
      if (!received) return;
      const { message } = received;
      if (message.type === 'table') {
        this.#responder.update(message.handle);
        this.#pieces.update(message.handle);
      } else if (message.type === 'listen') this.listen(message);
      else if (message.type === 'forward') this.#responder.setForward(message.forward, message.outages);
      else if (message.type === 'keep')
        for (const answer of message.answers) this.#responder.keep(answer, performance.now());
    }
  }

  #serve(socket: BatchedSocket): void {
    for (let batch = 0; batch < MAX_BATCHES; batch++) if (this.#batch(socket) < BATCH) return;
  }

  /** One receive, and the answers to it. Returns how many datagrams came. */
  #batch(socket: BatchedSocket): number {
    const ring = this.#ring;
    const words = ring.words;
    const received = this.#calls.recvmmsg(socket.fd, ring.receiveHeaders, BATCH, MSG_DONTWAIT, null);
    if (received < 0) {
      this.#receiveFailed(this.#calls.errno());
      return 0;
    }
    const begun = performance.now();
    let answered = 0;
    this.#responder.beginBatch();
    for (let slot = 0; slot < received; slot++) {
      const header = ring.receive + slot * HEADER_WORDS;
      const nameLength = words[header + MSG_NAMELEN]!;
      const controlLength = words[header + MSG_CONTROLLEN]!;
      words[header + MSG_NAMELEN] = NAME_BYTES;
      words[header + MSG_CONTROLLEN] = CONTROL_BYTES;
      const cut = (words[header + MSG_FLAGS]! & (MSG_TRUNC | MSG_CTRUNC)) !== 0;
      if (cut || !this.#fromClient(slot)) {
        this.#counters[counterIndex.refusedDatagrams]!++;
        continue;
      }
      const listen = socket.plan.wildcard ? this.#asked(socket, slot, controlLength) : socket.plan.listen;
      const iovs = this.#respond(slot, words[header + MSG_LEN]!, listen, begun);
      if (iovs === NEEDS_CONTROL)
        this.#handOver(socket, slot, words[header + MSG_LEN]!, listen, nameLength, controlLength);
      if (iovs <= 0) continue;
      const send = ring.send + answered * HEADER_WORDS;
      const low = slot * 2;
      words[send + MSG_NAME] = ring.namePointers[low]!;
      words[send + MSG_NAME + 1] = ring.namePointers[low + 1]!;
      words[send + MSG_NAMELEN] = nameLength;
      words[send + MSG_IOV] = ring.iovPointers[low]!;
      words[send + MSG_IOV + 1] = ring.iovPointers[low + 1]!;
      words[send + MSG_IOVLEN] = iovs;
      words[send + MSG_CONTROL] = ring.controlPointers[low]!;
      words[send + MSG_CONTROL + 1] = ring.controlPointers[low + 1]!;
      // Exactly what came: its capacity would be refused with EINVAL.
      words[send + MSG_CONTROLLEN] = controlLength;
      answered++;
    }
    if (answered > 0) this.#send(socket.fd, answered);
    // Only now: until they are sent, answers lie in the table.
    this.#responder.endBatch();
    if (answered > 0) countLatency(this.#latency, performance.now() - begun, answered);
    if (this.#handover.mustWake()) this.#events.handedOver();
    return received;
  }

  /** Copies a question out of the ring for the control thread, which replies by the same socket. */
  #handOver(
    { key, plan }: BatchedSocket,
    slot: number,
    length: number,
    listen: number,
    nameLength: number,
    controlLength: number,
  ): void {
    const ring = this.#ring;
    const name = ring.name(slot);
    const control = ring.control(slot);
    const token = this.#handover.put(
      ring.queries[slot]!,
      length,
      ring.peers[slot]!,
      (ring.bytes[name + 2]! << 8) | ring.bytes[name + 3]!,
      listen,
      'udp',
      {
        key,
        name: ring.bytes.subarray(name, name + nameLength),
        control: plan.wildcard ? ring.bytes.subarray(control, control + controlLength) : NO_BYTES,
      },
    );
    if (token === 0) this.#counters[counterIndex.handoverFull]!++;
  }

  /** Whether a slot's sender can be answered: neither port 0 nor ourselves. Sets the slot's peer. */
  #fromClient(slot: number): boolean {
    const ring = this.#ring;
    const name = ring.name(slot);
    const peer = ring.peers[slot]!;
    if (ring.bytes[name] === AF_INET) {
      peer.family = 4;
      peer.offset = name + 4;
    } else {
      const word = (name >> 2) + 2;
      const mapped = ring.words[word] === 0 && ring.words[word + 1] === 0 && ring.words[word + 2] === MAPPED;
      peer.family = mapped ? 4 : 6;
      peer.offset = mapped ? name + 20 : name + 8;
    }
    const port = (ring.bytes[name + 2]! << 8) | ring.bytes[name + 3]!;
    if (port === 0) return false;
    if (!this.#own.suspect(port)) return true;
    const address = ring.bytes.subarray(peer.offset, peer.offset + (peer.family === 4 ? 4 : 16));
    return !this.#own.has(
      ipaddr()
        .fromByteArray([...address])
        .toString(),
      port,
      performance.now(),
    );
  }

  /** Which listen address a query to a wildcard was for. Lets routing choose the way back, not the interface it came by. */
  #asked(socket: BatchedSocket, slot: number, controlLength: number): number {
    if (controlLength === 0) return socket.plan.listen;
    const ring = this.#ring;
    const at = ring.control(slot);
    // in_pktinfo: interface, source to use, address asked; in6_pktinfo: address asked, interface.
    const v4 = socket.plan.family === 4;
    ring.words[(at >> 2) + (v4 ? 4 : 8)] = 0;
    for (const { bytes, listen } of socket.covers) {
      const from = v4 ? at + 24 : at + 16 + 16 - bytes.length;
      let i = 0;
      while (i < bytes.length && ring.bytes[from + i] === bytes[i]) i++;
      if (i === bytes.length) return listen;
    }
    return socket.plan.listen;
  }

  /** How many iovecs the answer in a slot has; 0 for none; NEEDS_CONTROL. */
  #respond(slot: number, length: number, listen: number, now: number): number {
    const { queries, peers, answers, view } = this.#ring;
    const query = queries[slot]!;
    try {
      const size = this.#responder.respondInPlace(
        query,
        view,
        query.byteOffset,
        length,
        peers[slot]!,
        listen,
        'udp',
        this.#maxUdp,
      );
      if (size !== NEEDS_CONTROL) return size > 0 ? this.#pieces.put(slot) : size;
      const kept = this.#responder.respondKept(query, length, now, answers[slot]!);
      if (kept <= 0) return kept;
      if (this.#responder.tells) this.#handover.tell(query, length, peers[slot]!, listen, 'udp');
      return this.#pieces.putWhole(slot, kept);
    } catch (error) {
      this.#counters[counterIndex.failures]!++;
      this.#events.failure(error);
      return 0;
    }
  }

  #send(fd: number, count: number): void {
    const { sendHeadersFrom } = this.#ring;
    let done = 0;
    let waited = false;
    while (done < count) {
      const sent = this.#calls.sendmmsg(fd, sendHeadersFrom[done]!, count - done, MSG_DONTWAIT);
      if (sent > 0) {
        done += sent;
        continue;
      }
      const errno = this.#calls.errno();
      if (errno === EINTR) continue;
      if (errno === EAGAIN || errno === ENOBUFS) {
        if (waited) {
          this.#counters[counterIndex.sendDrops]! += count - done;
          return;
        }
        waited = true;
        this.#sendPoll[0] = fd;
        this.#sendPoll[1] = POLLOUT;
        this.#calls.poll(this.#sendPollBytes, 1, SEND_WAIT_MS);
        continue;
      }
      // This client only: no route, no permission, an address that cannot be sent to.
      this.#counters[counterIndex.sendErrors]!++;
      done++;
    }
  }

  #receiveFailed(errno: number): void {
    if (FATAL.includes(errno)) throw new TransportUnusable(`recvmmsg: ${errorName(errno)}`);
    // EAGAIN: another thread or an earlier batch took what poll saw. The rest tells of a client that is gone.
    if (errno !== EAGAIN && errno !== EINTR) this.#counters[counterIndex.sendErrors]!++;
  }
}
