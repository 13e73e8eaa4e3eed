/** Asks for many services over and over, and tells when an endpoint left the answers, or came back. */
import { createSocket } from 'node:dgram';
import { decode, encode } from './ask.mjs';

const BUFFER = 4 << 20;

/** `lookMs`: how often each service that is watched is asked for. */
export class AnswerWatch {
  #socket = createSocket('udp4');
  #timer;
  #watched = new Map();
  #ids = new Map();
  #id = 0;

  constructor(port, lookMs) {
    this.port = port;
    this.#socket.on('message', (bytes) => this.#look(bytes));
    this.#socket.on('error', () => undefined);
    this.#socket.bind(0, '127.0.0.1', () => {
      try {
        this.#socket.setRecvBufferSize(BUFFER);
      } catch {}
    });
    this.#timer = setInterval(() => this.#ask(), lookMs);
  }

  /** Resolves with the time (performance.now) at which an answer first had the port, or no longer had it. */
  until(name, port, present) {
    return new Promise((resolve) => {
      this.#watched.set(name, { query: encode(name, 'SRV'), port, present, resolve });
      this.#send(name);
    });
  }

  close() {
    clearInterval(this.#timer);
    this.#socket.close();
  }

  #ask() {
    for (const name of this.#watched.keys()) this.#send(name);
  }

  #send(name) {
    const { query } = this.#watched.get(name);
    this.#id = (this.#id + 1) & 0xffff;
    query.writeUInt16BE(this.#id, 0);
    this.#ids.set(this.#id, name);
    // The bytes are copied before another id is written over this one.
    this.#socket.send(Buffer.from(query), this.port, '127.0.0.1');
  }

  #look(bytes) {
    const id = bytes.readUInt16BE(0);
    const name = this.#ids.get(id);
    this.#ids.delete(id);
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    const { answers, ports } = decode(bytes);
    if (answers === 0 || ports.includes(watched.port) !== watched.present) return;
    this.#watched.delete(name);
    watched.resolve(performance.now());
  }
}
