/** One HTTP/1.1 connection to one endpoint: a client of undici on a socket that is open already. */
import type { Socket } from 'node:net';
import { Client, type Dispatcher } from 'undici';
import type { Endpoint } from './endpoint.js';

export class HttpConnection {
  /** Answers it has given, in whole. */
  answers = 0;
  /** No other request after this one. */
  retired = false;
  readonly #client: Client;
  readonly #socket: Socket;

  constructor(
    origin: string,
    readonly endpoint: Endpoint,
    socket: Socket,
    closed: (connection: HttpConnection) => void,
  ) {
    this.#socket = socket;
    let taken = false;
    // The client would connect again by itself, to where it is no use any more.
    const connect = (_: unknown, done: (error: Error | null, socket: Socket | null) => void): void => {
      const gone = taken || socket.destroyed;
      taken = true;
      queueMicrotask(() => (gone ? done(new ConnectionGone(), null) : done(null, socket)));
    };
    this.#client = new Client(origin, {
      connect: connect as never,
      pipelining: 1,
      headersTimeout: 0,
    });
    socket.on('error', () => {});
    socket.once('close', () => closed(this));
  }

  get open(): boolean {
    return !this.#socket.destroyed && this.#socket.writable && this.#socket.readable;
  }

  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler);
  }

  /** At once; a request that is under way fails. */
  destroy(): void {
    this.#socket.destroy();
    void this.#client.destroy().catch(() => {});
  }
}

/** The connection had ended before anything of the request was sent. */
export class ConnectionGone extends Error {
  readonly code = 'HOLDFAST_CONNECTION_GONE';

  constructor() {
    super('the connection had ended before');
  }
}
