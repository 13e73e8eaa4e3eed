/** How a name server that is a registry is reached: over UDP, and over TCP. Each try waits for its turn at the server. */
import { createSocket, type Socket } from 'node:dgram';
import { connect, isIPv6 } from 'node:net';
import type { ListenAddress } from '../config/types.js';
import { type Message, readMessage } from '../dns/read-message.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import { requestFailure } from './http-failure.js';
import type { Turn } from './request-gate.js';
import { gateOfNameServer } from './source-gates.js';

/** From one datagram to the same again (RFC 9520 s.3.1: a few tries). */
const RESEND_MS: Ms = 1_000;
/** From the first of them. */
const QUESTION_MS: Ms = 3_000;

export interface Calling {
  readonly server: ListenAddress;
  readonly signal: AbortSignal;
  /** A `read` by default. */
  readonly turn?: Turn | undefined;
}

/** What a message is: the reply, or a failure when it should be one and cannot be believed; undefined: no reply at all. */
export type Judge = (bytes: Uint8Array) => Message | Failure | undefined;

/** The reply over UDP. Never rejects. */
export async function overUdp(
  { server, signal, turn }: Calling,
  query: Uint8Array,
  judge: Judge,
  what: string,
): Promise<Message | Failure> {
  const gate = gateOfNameServer(server);
  const send = (): Promise<void> => gate.run(() => exchange.send(), turn, exchange.over);
  const exchange = new UdpExchange(server, query, judge, { what, again: () => void send() });
  const late = (): void => exchange.late();
  signal.addEventListener('abort', late);
  if (signal.aborted) late();
  await send();
  signal.removeEventListener('abort', late);
  return exchange.result!;
}

/** From a socket of its own, so from a random port beside the random id (RFC 5452). What is no reply is passed over. */
class UdpExchange {
  readonly #server: ListenAddress;
  readonly #query: Uint8Array;
  readonly #judge: Judge;
  readonly #what: string;
  readonly #again: () => void;
  readonly #over = new AbortController();
  readonly #timers: NodeJS.Timeout[] = [];
  #socket: Socket | undefined;
  #begun: Ms | undefined;
  #strangers = 0;
  #doubt: Failure | undefined;
  /** The first that is known. */
  result: Message | Failure | undefined;

  /**
   * @param what is asked for, in words
   * @param again asks for another `send`
   */
  constructor(
    server: ListenAddress,
    query: Uint8Array,
    judge: Judge,
    { what, again }: { readonly what: string; readonly again: () => void },
  ) {
    this.#server = server;
    this.#query = query;
    this.#judge = judge;
    this.#what = what;
    this.#again = again;
  }

  /** Aborted when the result is known. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  /**
   * Sends the question. Resolves with the result, and for one that was sent again so much later as it was sent later:
   * the server takes as long for each.
   */
  send(): Promise<void> {
    if (this.result !== undefined) return Promise.resolve();
    const now = performance.now();
    this.#begun ??= now;
    const later = now - this.#begun;
    if (this.#socket === undefined) {
      this.#socket = this.#open();
      this.#timers.push(setTimeout(() => this.late(), QUESTION_MS));
    } else this.#write(this.#socket);
    this.#timers.push(setTimeout(this.#again, RESEND_MS));
    return new Promise((resolve) => {
      const end = (): void => {
        if (later === 0) resolve();
        else setTimeout(resolve, later).unref();
      };
      this.over.addEventListener('abort', end, { once: true });
    });
  }

  /** Nobody waits any longer. */
  late(): void {
    const also = this.#strangers > 0 ? `, but ${this.#strangers} that were none` : '';
    this.#end(this.#doubt ?? { kind: 'unreachable', reason: `no answer to ${this.#what}${also}` });
  }

  #end(result: Message | Failure): void {
    if (this.result !== undefined) return;
    this.result = result;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#socket?.close();
    this.#over.abort();
  }

  #open(): Socket {
    const { address, port } = this.#server;
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    socket.on('error', (error) => this.#end(requestFailure(error)));
    socket.on('message', (bytes) => this.#take(bytes));
    socket.on('connect', () => this.#write(socket));
    socket.connect(port, address);
    return socket;
  }

  #write(socket: Socket): void {
    if (this.result !== undefined) return;
    try {
      socket.send(this.#query, (error) => error && this.#end(requestFailure(error)));
    } catch (error) {
      this.#end(requestFailure(error));
    }
  }

  #take(bytes: Uint8Array): void {
    const message = this.#judge(bytes);
    if (message === undefined) this.#strangers++;
    // Anybody could have sent it: another may come that is signed (RFC 8945 s.5.3.2).
    else if ('reason' in message) this.#doubt = message;
    else this.#end(message);
  }
}

/** The messages of a stream: each has its length before it (RFC 1035 s.4.2.2). */
export class Frames {
  #chunks: Buffer[] = [];
  #length = 0;
  #need = 2;

  /** Those that end in this part of the stream. */
  *take(chunk: Buffer): Generator<Buffer> {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length < this.#need) return;
    let rest = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    for (;;) {
      this.#need = rest.length < 2 ? 2 : 2 + rest.readUInt16BE(0);
      if (rest.length < this.#need) break;
      yield rest.subarray(2, this.#need);
      rest = rest.subarray(this.#need);
    }
    this.#chunks = [rest];
    this.#length = rest.length;
  }
}

/** Of a transfer. */
export interface TransferFailure extends Failure {
  /** There is more of it than the limits of the zone allow. */
  readonly over?: true;
}

export interface Bounds {
  readonly maxBytes: number;
  /** From when it is its turn. */
  readonly deadline: Ms;
  /** What it means when the server closes before it was over. */
  readonly closed: string;
}

/** Messages over TCP, until `take` has what it wants or the time is over. Never rejects. */
export function overTcp<T extends object>(
  { server, signal, turn }: Calling,
  query: Uint8Array,
  bounds: Bounds,
  take: (message: Message, bytes: Uint8Array) => T | TransferFailure | undefined,
): Promise<T | TransferFailure> {
  return gateOfNameServer(server).run(() => stream({ server, signal }, query, bounds, take), turn, signal);
}

function stream<T extends object>(
  { server, signal }: Calling,
  query: Uint8Array,
  { maxBytes, deadline, closed }: Bounds,
  take: (message: Message, bytes: Uint8Array) => T | TransferFailure | undefined,
): Promise<T | TransferFailure> {
  if (signal.aborted) return Promise.resolve({ kind: 'unreachable', reason: 'no answer in time' });
  return new Promise((resolve) => {
    const socket = connect({ host: server.address, port: server.port });
    let open = true;
    const frames = new Frames();
    let total = 0;
    const end = (result: T | TransferFailure): void => {
      if (!open) return;
      open = false;
      clearTimeout(timer);
      signal.removeEventListener('abort', late);
      socket.destroy();
      resolve(result);
    };
    const late = (): void => {
      const reason = total === 0 ? 'no answer over TCP' : 'no whole answer in time';
      end({ kind: 'unreachable', reason });
    };
    const timer = setTimeout(late, deadline);
    signal.addEventListener('abort', late);
    socket.on('error', (error) => end(requestFailure(error)));
    socket.on('close', () => end({ kind: 'unreachable', reason: closed }));
    socket.on('connect', () => {
      const framed = Buffer.alloc(2 + query.length);
      framed.writeUInt16BE(query.length, 0);
      framed.set(query, 2);
      socket.write(framed);
    });
    socket.on('data', (chunk) => {
      total += chunk.length;
      if (total > maxBytes) {
        end({ kind: 'unbelievable', reason: `more than limits.maxBody (${maxBytes} bytes)`, over: true });
        return;
      }
      for (const bytes of frames.take(chunk)) {
        if (!open) return;
        const message = readMessage(bytes);
        const result =
          message === undefined
            ? ({ kind: 'unbelievable', reason: 'the answer is not DNS' } as const)
            : take(message, bytes);
        if (result !== undefined) end(result);
      }
    });
  });
}
