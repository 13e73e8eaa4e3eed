/** In front of a name server, over UDP and TCP: breaks in every way that name servers do, and counts what it is asked. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../ports.js';
import { StormWatch } from './storm.js';

export type DnsFault =
  /** Nothing listens. */
  | { readonly kind: 'refuse' }
  /** Takes everything, says nothing. */
  | { readonly kind: 'silent' }
  /** The question with this response code and no record. */
  | { readonly kind: 'rcode'; readonly rcode: number }
  /** Every byte behind the id is another. */
  | { readonly kind: 'garbage' }
  | { readonly kind: 'wrong-id' }
  /** UDP answers are marked as cut and have no record; over TCP: half of what is there, then the end. */
  | { readonly kind: 'cut' }
  /** Half of what is there over TCP, then nothing. */
  | { readonly kind: 'freeze' }
  /** UDP answers are marked as cut and have no record; over TCP: a byte at a time. */
  | { readonly kind: 'drip' }
  /** A bit of the first record is another. */
  | { readonly kind: 'flip' }
  /** Answers as they are, without any record in them. */
  | { readonly kind: 'no-data' }
  /** Answers name other servers, and nothing else. */
  | { readonly kind: 'referral' }
  /** Answers are marked as cut and have no record, over TCP, too. */
  | { readonly kind: 'truncated' };

const HEADER = 12;
const DRIP_MS = 200;

export class DnsFaultProxy {
  readonly #upstream: number;
  #udp: UdpSocket | undefined;
  #tcp: Server | undefined;
  readonly #sockets = new Set<Socket>();
  readonly #peers = new Set<UdpSocket>();
  readonly requests: string[] = [];
  readonly #storm = new StormWatch();
  readonly port: number;
  #fault: DnsFault | undefined;

  private constructor(upstream: number, port: number) {
    this.#upstream = upstream;
    this.port = port;
  }

  static async start(upstream: number): Promise<DnsFaultProxy> {
    const proxy = new DnsFaultProxy(upstream, await freePort());
    await proxy.#listen();
    return proxy;
  }

  get origin(): string {
    return `127.0.0.1:${this.port}`;
  }

  async break(fault: DnsFault): Promise<void> {
    this.#fault = fault;
    if (fault.kind === 'refuse') await this.#close();
    else this.#drop();
  }

  async mend(): Promise<void> {
    const refused = this.#fault?.kind === 'refuse';
    this.#fault = undefined;
    if (refused) await this.#listen();
  }

  /** Fails when there was a storm. */
  async stop(): Promise<void> {
    await this.#close();
    this.#storm.check();
  }

  async #listen(): Promise<void> {
    const tcp = createServer((socket) => this.#serve(socket));
    this.#tcp = tcp;
    tcp.listen(this.port, '127.0.0.1');
    await once(tcp, 'listening');
    const udp = createSocket({ type: 'udp4', reuseAddr: true });
    this.#udp = udp;
    udp.on('error', () => undefined);
    udp.on('message', (query, from) => this.#answer(query, (reply) => udp.send(reply, from.port, from.address)));
    udp.bind(this.port, '127.0.0.1');
    await once(udp, 'listening');
  }

  async #close(): Promise<void> {
    for (const peer of this.#peers) peer.close();
    this.#peers.clear();
    this.#udp?.close();
    this.#udp = undefined;
    const closed = new Promise((resolve) => (this.#tcp === undefined ? resolve(undefined) : this.#tcp.close(resolve)));
    this.#tcp = undefined;
    this.#drop();
    await closed;
  }

  #drop(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #answer(query: Buffer, send: (reply: Buffer) => void): void {
    this.requests.push('udp');
    this.#storm.count();
    const fault = this.#fault;
    if (fault?.kind === 'silent') return;
    if (fault?.kind === 'rcode') {
      send(bare(query, fault.rcode));
      return;
    }
    const peer = createSocket('udp4');
    this.#peers.add(peer);
    const end = (): void => {
      clearTimeout(timer);
      if (this.#peers.delete(peer)) peer.close();
    };
    const timer = setTimeout(end, 2_000);
    peer.on('error', end);
    peer.on('message', (reply) => {
      end();
      if (this.#udp !== undefined) send(spoil(reply, query, this.#fault, true));
    });
    peer.send(query, this.#upstream, '127.0.0.1');
  }

  #serve(socket: Socket): void {
    this.requests.push('tcp');
    this.#storm.count();
    this.#sockets.add(socket);
    socket.on('error', () => undefined);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.once('data', (framed) => {
      const query = framed.subarray(2);
      const fault = this.#fault;
      if (fault?.kind === 'silent') return;
      if (fault?.kind === 'rcode') {
        socket.end(frame(bare(query, fault.rcode)));
        return;
      }
      const up = connect(this.#upstream, '127.0.0.1', () => up.write(framed));
      up.on('error', () => socket.destroy());
      socket.once('close', () => up.destroy());
      up.on('data', (chunk) => {
        const now = this.#fault;
        if (now?.kind === 'cut') socket.write(chunk.subarray(0, chunk.length >> 1), () => socket.destroy());
        else if (now?.kind === 'freeze') socket.write(chunk.subarray(0, chunk.length >> 1));
        else if (now?.kind === 'drip') drip(socket, chunk);
        else if (now === undefined) socket.write(chunk);
        else socket.write(frame(spoil(chunk.subarray(2), query, now, false)));
      });
    });
  }
}

function drip(socket: Socket, bytes: Buffer): void {
  let at = 0;
  const timer = setInterval(() => {
    if (at >= bytes.length) clearInterval(timer);
    else socket.write(bytes.subarray(at, ++at));
  }, DRIP_MS);
  socket.once('close', () => clearInterval(timer));
}

function frame(message: Buffer): Buffer {
  return Buffer.concat([Buffer.from([message.length >> 8, message.length & 0xff]), message]);
}

/** Where the question is over. */
function questionEnd(message: Buffer): number {
  let end = HEADER;
  while (message[end] !== undefined && message[end] !== 0) end += message[end]! + 1;
  return end + 5;
}

/** A reply with the question and nothing else. */
function bare(query: Buffer, rcode: number, truncated = false): Buffer {
  const reply = Buffer.from(query.subarray(0, questionEnd(query)));
  reply[2] = 0x84 | (truncated ? 2 : 0);
  reply[3] = rcode;
  reply.fill(0, 6, HEADER);
  return reply;
}

/** The name that is asked for has name servers, the first of which has that name. */
function referral(query: Buffer): Buffer {
  const reply = bare(query, 0);
  reply[2] = 0x80;
  reply.writeUInt16BE(1, 8);
  const name = [0xc0, HEADER];
  return Buffer.concat([reply, Buffer.from([...name, 0, 2, 0, 1, 0, 0, 0, 5, 0, name.length, ...name])]);
}

function spoil(reply: Buffer, query: Buffer, fault: DnsFault | undefined, udp: boolean): Buffer {
  const other = Buffer.from(reply);
  switch (fault?.kind) {
    case 'garbage':
      for (let i = 2; i < other.length; i++) other[i] = (i * 151) & 0xff;
      return other;
    case 'wrong-id':
      other[0] = other[0]! ^ 0xff;
      return other;
    case 'flip': {
      // The TTL of a record whose name is a pointer.
      const at = questionEnd(other) + 9;
      if (at < other.length) other[at] = other[at]! ^ 1;
      return other;
    }
    case 'cut':
    case 'drip':
    case 'freeze':
      return udp ? bare(query, 0, true) : reply;
    case 'no-data':
      return bare(query, 0);
    case 'referral':
      return referral(query);
    case 'truncated':
      return bare(query, 0, true);
    default:
      return reply;
  }
}
