/**
 * One TCP connection (RFC 7766): whole messages out of any segmentation, every message of a `data` event answered
 * into one buffer and written once, in the order of the queries; what the control thread has to answer follows when it
 * is there (s.7). Reading stops while the client does not read.
 */
import type { Socket } from 'node:net';
import { NEEDS_CONTROL, type Peer, type Responder } from './respond.js';

/** Unsent answers beyond this stop the reading until the client has taken them. */
const MAX_UNSENT_BYTES = 256 * 1024;
/** Questions that wait for the control thread; with more the reading stops until some are answered. */
const MAX_HANDED_OVER = 100;
/** Answers are written when so many bytes have come together, or when the input is used up. */
const WRITE_BYTES = 128 * 1024;
const MAX_MESSAGE_BYTES = 65_535;
const PREFIX_BYTES = 2;
/** A connection keeps a buffer of at most so much for its next split message. */
const KEPT_BYTES = 1024;
const NO_BYTES = Buffer.alloc(0);
/** On a busy host a client needs so long from its connection to its first question. */
const FIRST_MESSAGE_MS = 500;

// One thread answers one message at a time, so one set of buffers serves all connections.
const query = Buffer.alloc(MAX_MESSAGE_BYTES);
const answer = Buffer.alloc(MAX_MESSAGE_BYTES);
const answers = Buffer.alloc(WRITE_BYTES + PREFIX_BYTES + MAX_MESSAGE_BYTES);

export interface ConnectionEvents {
  /** The responder threw on a query; the connection goes on without an answer to it. */
  readonly failure: (error: unknown) => void;
  /** So many answers were written, `ms` after their queries had been read. */
  readonly answered: (answers: number, ms: number) => void;
  /** A whole message came, or the client took answers. */
  readonly active: (connection: Connection) => void;
  readonly closed: (connection: Connection) => void;
  /** Gives a question to the control thread; false when that takes no more. `reply` follows. */
  readonly handOver: (connection: Connection, query: Uint8Array, length: number) => boolean;
  /** Tells the control thread of a question that was answered here. */
  readonly tell: (connection: Connection, query: Uint8Array, length: number) => void;
  /** After a batch in which something may have been given to the control thread. */
  readonly handedOver: () => void;
}

export class Connection {
  readonly client: string;
  /** Monotonic ms of the last whole message or headway in sending. */
  activeAt: number;
  readonly #socket: Socket;
  readonly #responder: Responder;
  readonly peer: Peer;
  /** The client's. */
  readonly port: number;
  readonly listen: number;
  readonly #events: ConnectionEvents;
  /** The message that has begun and is not whole: its bytes so far, the two of the length first. */
  #partial = NO_BYTES;
  #have = 0;
  #begunAt = 0;
  /** Input that waits until the client has taken its answers. */
  #waiting: Buffer | undefined;
  /** Questions that the control thread has. */
  #handedOver = 0;
  #inputEnded = false;
  #hasAsked = false;
  #closing = false;

  constructor(
    socket: Socket,
    client: string,
    peer: Peer,
    listen: number,
    responder: Responder,
    events: ConnectionEvents,
    now: number,
  ) {
    this.client = client;
    this.activeAt = now;
    this.#socket = socket;
    this.peer = peer;
    this.port = socket.remotePort ?? 0;
    this.listen = listen;
    this.#responder = responder;
    this.#events = events;
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('drain', () => this.#goOn());
    socket.on('end', () => {
      this.#inputEnded = true;
      this.#finish();
    });
    socket.on('close', () => events.closed(this));
  }

  /** Monotonic ms at which this connection is overdue, whatever it waits for. */
  deadline(idleTimeout: number, messageTimeout: number): number {
    if (this.#socket.writableLength > 0) return this.activeAt + messageTimeout;
    if (this.#have > 0) return this.#begunAt + messageTimeout;
    return this.activeAt + idleTimeout;
  }

  /** A message has begun, or the client has connected so lately that its first one is on its way. */
  isAsking(now: number): boolean {
    return this.#have > 0 || (!this.#hasAsked && now - this.activeAt < FIRST_MESSAGE_MS);
  }

  /** Closes at once, answers that wait included. */
  destroy(): void {
    this.#socket.destroy();
  }

  /** Sends what is answered, then closes; further queries are not read. */
  end(): void {
    this.#closing = true;
    this.#finish();
  }

  #take(chunk: Buffer): void {
    const now = performance.now();
    const rest = this.#answerMessages(chunk, now);
    if (rest) {
      this.#waiting = rest;
      this.#socket.pause();
    }
  }

  /** The control thread's answer to a question that was handed over; undefined when there is none. */
  reply(message: Uint8Array | undefined): void {
    this.#handedOver--;
    if (this.#socket.destroyed || this.#socket.writableEnded) return;
    if (message) {
      const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
      framed.writeUInt16BE(message.length, 0);
      framed.set(message, PREFIX_BYTES);
      this.#socket.write(framed, this.#headway);
    }
    this.#goOn();
  }

  #goOn(): void {
    const waiting = this.#waiting;
    if (waiting) {
      this.#waiting = undefined;
      this.#take(waiting);
      if (!this.#waiting) this.#socket.resume();
    }
    if (this.#inputEnded || this.#closing) this.#finish();
  }

  /** Once nothing is left to answer: lets the answers leave and closes. */
  #finish(): void {
    if (this.#waiting || this.#handedOver > 0 || this.#socket.writableEnded) return;
    this.#closing = true;
    this.#socket.destroySoon();
  }

  /** Answers the whole messages of `chunk`. Returns what must wait because the client does not read. */
  #answerMessages(chunk: Buffer, now: number): Buffer | undefined {
    let at = 0;
    let filled = 0;
    let messages = 0;
    const handedOver = this.#handedOver;
    this.#responder.beginBatch();
    while (at < chunk.length && !this.#closing) {
      if (filled >= WRITE_BYTES) {
        this.#write(filled);
        filled = 0;
      }
      if (this.#socket.writableLength > MAX_UNSENT_BYTES || this.#handedOver >= MAX_HANDED_OVER) break;
      let length: number;
      if (this.#have > 0) {
        at = this.#gather(chunk, at);
        if (this.#have < PREFIX_BYTES) break;
        length = this.#partial.readUInt16BE(0);
        if (length > 0 && this.#have < PREFIX_BYTES + length) {
          if (at < chunk.length) continue;
          break;
        }
        this.#partial.copy(query, 0, PREFIX_BYTES, PREFIX_BYTES + length);
        this.#have = 0;
        if (this.#partial.length > KEPT_BYTES) this.#partial = NO_BYTES;
      } else {
        const left = chunk.length - at;
        length = left < PREFIX_BYTES ? -1 : chunk.readUInt16BE(at);
        if (length < 0 || left < PREFIX_BYTES + length) {
          this.#begunAt = now;
          at = this.#gather(chunk, at);
          if (this.#have >= PREFIX_BYTES) at = this.#gather(chunk, at);
          break;
        }
        chunk.copy(query, 0, at + PREFIX_BYTES, at + PREFIX_BYTES + length);
        at += PREFIX_BYTES + length;
      }
      // A message without a byte is no query and no keepalive: its sender is broken.
      if (length === 0) {
        this.#closing = true;
        break;
      }
      messages++;
      filled = this.#respond(length, filled);
    }
    this.#responder.endBatch();
    if (filled > 0) this.#write(filled);
    if (messages > 0) {
      this.#hasAsked = true;
      this.activeAt = now;
      const answered = messages - (this.#handedOver - handedOver);
      if (answered > 0) this.#events.answered(answered, performance.now() - now);
      this.#events.handedOver();
      this.#events.active(this);
    }
    if (this.#closing) {
      this.#finish();
      return undefined;
    }
    return at < chunk.length ? chunk.subarray(at) : undefined;
  }

  /** Appends the answer to the query buffer's message; returns how far the answers now reach. */
  #respond(length: number, filled: number): number {
    let size = 0;
    try {
      size = this.#responder.respond(query, length, this.peer, this.listen, 'tcp', answer);
      if (size === NEEDS_CONTROL) {
        size = this.#responder.respondKept(query, length, performance.now(), answer);
        if (size > 0 && this.#responder.tells) this.#events.tell(this, query, length);
      }
      if (size === NEEDS_CONTROL) {
        if (this.#events.handOver(this, query, length)) this.#handedOver++;
        else size = this.#responder.respondBusy(query, this.peer, answer);
      }
    } catch (error) {
      this.#events.failure(error);
    }
    if (size <= 0) return filled;
    answers.writeUInt16BE(size, filled);
    answer.copy(answers, filled + PREFIX_BYTES, 0, size);
    return filled + PREFIX_BYTES + size;
  }

  #write(filled: number): void {
    this.#socket.write(Buffer.from(answers.subarray(0, filled)), this.#headway);
  }

  readonly #headway = (error?: Error | null): void => {
    if (error) return;
    this.activeAt = performance.now();
    this.#events.active(this);
  };

  /** Moves bytes of the message that has begun out of `chunk`: of its length first, then of the rest. Returns the new place. */
  #gather(chunk: Buffer, at: number): number {
    const wanted = this.#have < PREFIX_BYTES ? PREFIX_BYTES : PREFIX_BYTES + this.#partial.readUInt16BE(0);
    const end = Math.min(chunk.length, at + wanted - this.#have);
    const needed = this.#have + end - at;
    if (this.#partial.length < needed) {
      // Doubling: memory follows what has come, not what the length promises.
      const grown = Buffer.alloc(Math.min(PREFIX_BYTES + MAX_MESSAGE_BYTES, Math.max(512, 2 * needed)));
      this.#partial.copy(grown, 0, 0, this.#have);
      this.#partial = grown;
    }
    chunk.copy(this.#partial, this.#have, at, end);
    this.#have = needed;
    return end;
  }
}
