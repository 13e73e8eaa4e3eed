/** A little name server and little backends, with the faults that clients meet. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { createServer as createHttpServer, type RequestListener, type Server } from 'node:http';
import { createServer as createHttpsServer, type ServerOptions } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Socket, type Server as TcpServer } from 'node:net';
import { addressBytes } from '../src/dns/addresses.js';
import { ByteWriter } from '../src/dns/byte-writer.js';
import { CLASS, HEADER_BYTES, TYPE } from '../src/dns/constants.js';
import { nameToWire, wireToName } from '../src/dns/names.js';

export interface Srv {
  readonly port: number;
  readonly target: string;
  readonly priority?: number;
  readonly weight?: number;
}

/** What a name has. `srv: []` or `addresses: []` alone is NODATA. */
export interface Records {
  readonly ttl?: number;
  readonly srv?: readonly Srv[];
  readonly addresses?: readonly string[];
  readonly alias?: string;
}

export type Mood = 'well' | 'silent' | 'servfail' | 'refused' | 'nxdomain' | 'garbage';

export class NameServer {
  readonly records = new Map<string, Records>();
  mood: Mood = 'well';
  /** With addresses of targets in the additional section. */
  additional = true;
  /** Questions, as `NAME TYPE udp|tcp`. */
  asked: string[] = [];
  #udp: UdpSocket | undefined;
  #tcp: TcpServer | undefined;
  port = 0;

  get address(): string {
    return `127.0.0.1:${this.port}`;
  }

  async open(): Promise<this> {
    const tcp = createTcpServer((socket) => this.#serveTcp(socket));
    await new Promise<void>((done) => tcp.listen(this.port, '127.0.0.1', done));
    this.#tcp = tcp;
    this.port = (tcp.address() as AddressInfo).port;
    const udp = createSocket('udp4');
    udp.on('message', (query, from) => {
      const reply = this.#answer(query, 'udp');
      if (reply !== undefined) udp.send(reply, from.port, from.address);
    });
    await new Promise<void>((done, fail) => {
      udp.once('error', fail);
      udp.bind(this.port, '127.0.0.1', done);
    });
    this.#udp = udp;
    return this;
  }

  async close(): Promise<void> {
    const [udp, tcp] = [this.#udp, this.#tcp];
    this.#udp = this.#tcp = undefined;
    if (udp) await new Promise<void>((done) => udp.close(done));
    if (tcp) await new Promise((done) => tcp.close(done));
  }

  /** SRV records of `name` at 127.0.0.1, in equal shares. */
  list(name: string, ports: readonly number[], ttl = 1): void {
    this.records.set('local.test', { ttl, addresses: ['127.0.0.1'] });
    this.records.set(name, { ttl, srv: ports.map((port) => ({ port, target: 'local.test', weight: 1 })) });
  }

  count(question: string): number {
    return this.asked.filter((text) => text === question).length;
  }

  #serveTcp(socket: Socket): void {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      const reply = this.#answer(data.subarray(2), 'tcp');
      if (reply === undefined) return;
      socket.end(Buffer.concat([Buffer.from([reply.length >> 8, reply.length & 0xff]), reply]));
    });
  }

  #answer(query: Buffer, transport: 'udp' | 'tcp'): Uint8Array | undefined {
    const name = (wireToName(query, HEADER_BYTES) ?? '').toLowerCase();
    const end = HEADER_BYTES + nameToWire(name)!.length;
    const type = query.readUInt16BE(end);
    const kind = Object.entries(TYPE).find(([, number]) => number === type)?.[0] ?? String(type);
    this.asked.push(`${name} ${kind} ${transport}`);
    if (this.mood === 'silent') return undefined;
    if (this.mood === 'garbage') return Uint8Array.from([query[0]!, query[1]!, 0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0, 5]);
    const question = query.subarray(HEADER_BYTES, end + 4);
    const own = this.mood === 'well' ? this.records.get(name) : undefined;
    const rcode = this.mood === 'servfail' ? 2 : this.mood === 'refused' ? 5 : own === undefined ? 3 : 0;
    const answers = own === undefined ? [] : this.#data(name, type, own);
    const targets = type === TYPE.SRV && this.additional ? (own?.srv ?? []) : [];
    const extra = [...new Set(targets.map(({ target }) => target))].flatMap((target) => this.#addresses(target));
    let reply = message(query, question, rcode, answers, extra);
    if (transport === 'udp' && reply.length > 1232) reply = message(query, question, rcode, answers, []);
    if (transport === 'udp' && reply.length > 1232) {
      reply = message(query, question, rcode, [], []);
      reply[2]! |= 0x02;
    }
    return reply;
  }

  #data(name: string, type: number, { ttl = 1, srv = [], addresses = [], alias }: Records): Uint8Array[] {
    if (alias !== undefined) {
      const there = this.records.get(alias);
      const first = record(name, TYPE.CNAME, ttl, (out) => out.bytes(nameToWire(alias)!));
      return [first, ...(there === undefined ? [] : this.#data(alias, type, there))];
    }
    if (type === TYPE.SRV) {
      return srv.map(({ priority = 0, weight = 1, port, target }) =>
        record(name, TYPE.SRV, ttl, (out) => out.u16(priority).u16(weight).u16(port).bytes(nameToWire(target)!)),
      );
    }
    const wanted = addresses.filter((address) => (address.includes(':') ? TYPE.AAAA : TYPE.A) === type);
    return wanted.map((address) => record(name, type, ttl, (out) => out.bytes(addressBytes(address)!)));
  }

  #addresses(name: string): Uint8Array[] {
    const own = this.records.get(name);
    return own === undefined ? [] : [...this.#data(name, TYPE.A, own), ...this.#data(name, TYPE.AAAA, own)];
  }
}

function record(name: string, type: number, ttl: number, data: (out: ByteWriter) => unknown): Uint8Array {
  const body = new ByteWriter();
  data(body);
  return new ByteWriter()
    .bytes(nameToWire(name)!)
    .u16(type)
    .u16(CLASS.IN)
    .u32(ttl)
    .u16(body.length)
    .bytes(body.view())
    .copy();
}

function message(
  query: Buffer,
  question: Uint8Array,
  rcode: number,
  answers: readonly Uint8Array[],
  extra: readonly Uint8Array[],
): Uint8Array {
  const out = new ByteWriter();
  out
    .u16(query.readUInt16BE(0))
    .u16(0x8580 | rcode)
    .u16(1)
    .u16(answers.length)
    .u16(0)
    .u16(extra.length);
  out.bytes(question);
  for (const bytes of [...answers, ...extra]) out.bytes(bytes);
  return out.copy();
}

/** An HTTP server that names itself, and can be stopped and started at its port. */
export class HttpBackend {
  port = 0;
  /** As `METHOD URL BODY`. */
  requests: string[] = [];
  handle: RequestListener | undefined;
  #server: Server | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #tls: ServerOptions | undefined;
  readonly #address: string;

  constructor(
    readonly name: string,
    { tls, address = '127.0.0.1' }: { readonly tls?: ServerOptions; readonly address?: string } = {},
  ) {
    this.#tls = tls;
    this.#address = address;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  async open(): Promise<this> {
    const listener: RequestListener = (request, response) => {
      if (this.handle !== undefined) {
        this.handle(request, response);
        return;
      }
      const chunks: Buffer[] = [];
      request.on('error', () => {});
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        this.requests.push(`${request.method} ${request.url} ${Buffer.concat(chunks)}`.trim());
        response.setHeader('x-host', request.headers.host ?? '');
        response.end(this.name);
      });
    };
    const server = this.#tls ? createHttpsServer(this.#tls, listener) : createHttpServer(listener);
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
    });
    await new Promise<void>((done, fail) => {
      server.once('error', fail);
      server.listen(this.port, this.#address, done);
    });
    this.port = (server.address() as AddressInfo).port;
    this.#server = server;
    return this;
  }

  /** As a process that is killed. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    const closed = new Promise((done) => server.close(done));
    // Not by a reset: Node 20 never gets rid of a socket that is reset while it is being shut down.
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
