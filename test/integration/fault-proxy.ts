/** A reverse proxy in front of a registry that breaks in every way that registries do, and counts what it is asked. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { freePort } from '../ports.js';
import { StormWatch } from './storm.js';

export type Fault =
  /** Nothing listens. */
  | { readonly kind: 'refuse' }
  /** Connections stand and are taken; nothing is ever said on them. With `path`: only where it matches. */
  | { readonly kind: 'silent'; readonly path?: RegExp }
  /** The head and half of the body, then nothing. */
  | { readonly kind: 'freeze' }
  /** The body, a byte at a time. */
  | { readonly kind: 'drip' }
  /** Half of the body, then the end of the connection. */
  | { readonly kind: 'cut' }
  | { readonly kind: 'status'; readonly status: number; readonly retryAfter?: string; readonly path?: RegExp }
  /** A page of somebody else. */
  | { readonly kind: 'garbage' }
  /** The true answer, changed. A header without text is left out. */
  | {
      readonly kind: 'rewrite';
      readonly path: RegExp;
      readonly rewrite: (body: string) => string;
      readonly headers?: Readonly<Record<string, string>>;
    }
  /** A request waits so long before it is passed on. */
  | { readonly kind: 'delay'; readonly path: RegExp; readonly ms: number };

const DRIP_MS = 200;

export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

export class FaultProxy {
  #upstream: number;
  readonly #server: Server | TlsServer;
  readonly #secure: boolean;
  readonly #sockets = new Set<Socket>();
  /** Of every request that came. */
  readonly requests: string[] = [];
  readonly #storm = new StormWatch();
  /** Zones that ask here. */
  askers = 1;
  #fault: Fault | undefined;
  readonly #host: string;
  /** Not one that connections go out from: while nothing listens it would be taken, or connected with itself. */
  readonly port: number;

  private constructor(upstream: number, tls: TlsPair | undefined, host: string, port: number) {
    this.#upstream = upstream;
    this.#host = host;
    this.port = port;
    this.#secure = tls !== undefined;
    const handle = (req: IncomingMessage, res: ServerResponse): void => void this.#handle(req, res);
    this.#server = tls === undefined ? createServer(handle) : createTlsServer({ ...tls }, handle);
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  /**
   * @param upstream port on the loopback address
   * @param at where it listens, 127.0.0.1 and any port by default
   */
  static async start(upstream: number, tls?: TlsPair, at: { host?: string; port?: number } = {}): Promise<FaultProxy> {
    const proxy = new FaultProxy(upstream, tls, at.host ?? '127.0.0.1', at.port ?? (await freePort()));
    await proxy.#listen();
    return proxy;
  }

  get origin(): string {
    return `${this.#secure ? 'https' : 'http'}://${this.#host}:${this.port}`;
  }

  /** What breaks from now on. Streams that are open end, but for faults that leave them standing. */
  async break(fault: Fault): Promise<void> {
    this.#fault = fault;
    if (fault.kind === 'refuse') await this.#close();
    else if (!['silent', 'delay', 'rewrite'].includes(fault.kind)) this.#drop();
  }

  async mend(): Promise<void> {
    const refused = this.#fault?.kind === 'refuse';
    this.#fault = undefined;
    if (refused) await this.#listen();
  }

  /** Another server stands behind it from now on. */
  route(upstream: number): void {
    this.#upstream = upstream;
    this.#drop();
  }

  /** Another certificate for all connections from now on. */
  certify(pair: TlsPair): void {
    (this.#server as TlsServer).setSecureContext({ ...pair });
    this.#drop();
  }

  /** Fails when there was a storm. */
  async stop(): Promise<void> {
    if (this.#server.listening) await this.#close();
    this.#storm.check(this.askers);
  }

  async #listen(): Promise<void> {
    this.#server.listen(this.port, this.#host);
    await once(this.#server, 'listening');
  }

  #close(): Promise<void> {
    return new Promise((closed) => {
      this.#server.close(() => closed());
      this.#drop();
    });
  }

  #drop(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #applies(path: string): Fault | undefined {
    const fault = this.#fault;
    return fault !== undefined && 'path' in fault && fault.path?.test(path) === false ? undefined : fault;
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = req.url ?? '/';
    this.requests.push(path);
    this.#storm.count();
    res.on('error', () => undefined);
    try {
      const body = await readText(req);
      const fault = this.#applies(path);
      switch (fault?.kind) {
        case 'silent':
          return;
        case 'status':
          res.writeHead(fault.status, fault.retryAfter === undefined ? {} : { 'retry-after': fault.retryAfter });
          res.end('no');
          return;
        case 'garbage':
          res.writeHead(200, { 'content-type': 'application/json' });
          res.end('<html>Welcome to the hotel</html>');
          return;
        case 'delay':
          setTimeout(() => this.#forward(req, body, res), fault.ms);
          return;
        default:
          this.#forward(req, body, res);
      }
    } catch {
      res.destroy();
    }
  }

  #forward(req: IncomingMessage, body: string, res: ServerResponse): void {
    const path = req.url ?? '/';
    const headers = { ...req.headers, connection: 'close' };
    const up = request({ host: '127.0.0.1', port: this.#upstream, path, method: req.method, headers, agent: false });
    up.on('error', () => res.destroy());
    res.on('close', () => up.destroy());
    up.on('response', (answer) => {
      const { connection: _, 'transfer-encoding': _chunked, 'content-length': _length, ...rest } = answer.headers;
      answer.on('error', () => res.destroy());
      const fault = this.#applies(path);
      if (fault === undefined || fault.kind === 'silent' || fault.kind === 'delay') {
        res.writeHead(answer.statusCode ?? 502, rest);
        // Half open is half open for streams that were there before, too.
        answer.on('data', (chunk) => this.#applies(path)?.kind !== 'silent' && res.write(chunk));
        answer.on('end', () => this.#applies(path)?.kind !== 'silent' && res.end());
        return;
      }
      void readText(answer).then(
        (whole) => this.#spoil(fault, whole, answer.statusCode ?? 502, rest, res),
        () => res.destroy(),
      );
    });
    up.end(body);
  }

  #spoil(fault: Fault, body: string, status: number, headers: IncomingMessage['headers'], res: ServerResponse): void {
    if (fault.kind === 'rewrite') {
      const changed = Object.entries({ ...headers, ...fault.headers }).filter(([, value]) => value !== '');
      res.writeHead(status, Object.fromEntries(changed));
      res.end(fault.rewrite(body));
      return;
    }
    res.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
    const half = body.slice(0, body.length / 2);
    if (fault.kind === 'freeze') res.write(half);
    else if (fault.kind === 'cut') res.write(half, () => res.destroy());
    else {
      if (res.socket === null || res.socket.destroyed) return;
      let sent = 0;
      const timer = setInterval(() => res.write(body[sent++] ?? ''), DRIP_MS);
      res.on('close', () => clearInterval(timer));
    }
  }
}
