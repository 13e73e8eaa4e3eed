/** Upstreams that do what a test tells them to, a forwarder over them with a clock of its own, and its client. */
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server, type Socket as TcpSocket } from 'node:net';
import type { Test } from 'tap';
import type { ListenAddress } from '../src/config/types.js';
import { ByteWriter } from '../src/dns/byte-writer.js';
import { CLASS, TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { nameToWire, wireToName } from '../src/dns/names.js';
import { Forwarder } from '../src/forward/forwarder.js';
import type { ForwarderSettings } from '../src/forward/settings.js';
import { decode, type Reply } from './answers-fixture.js';

/** A record; its owner is the question's name unless it is given. */
export interface Rec {
  readonly type: number;
  readonly ttl?: number;
  readonly rdata: Uint8Array;
  readonly owner?: string;
}

export interface Said {
  readonly rcode?: number;
  readonly answers?: readonly Rec[];
  readonly authorities?: readonly Rec[];
  readonly additionals?: readonly Rec[];
  readonly tc?: boolean;
  readonly ad?: boolean;
  /** Options of its OPT record; no record without them. */
  readonly options?: Uint8Array;
  readonly id?: number;
  /** In place of the question that was asked. */
  readonly question?: Uint8Array;
}

export const a = (address: string, ttl = 300): Rec => ({
  type: TYPE.A,
  ttl,
  rdata: Uint8Array.from(address.split('.').map(Number)),
});

export function soa(ttl: number, minimum: number): Rec {
  const rdata = new ByteWriter();
  rdata.bytes(nameToWire('ns.example')!).bytes(nameToWire('admin.example')!);
  rdata.u32(1).u32(2).u32(3).u32(4).u32(minimum);
  return { type: TYPE.SOA, ttl, rdata: rdata.copy(), owner: 'example' };
}

/** Where the question of a message ends. */
function questionEnd(message: Uint8Array): number {
  let at = 12;
  while (message[at] !== 0) at += message[at]! + 1;
  return at + 5;
}

export function say(query: Uint8Array, said: Said): Buffer {
  const out = new ByteWriter();
  const sections = [said.answers ?? [], said.authorities ?? [], said.additionals ?? []];
  out.u16(said.id ?? (query[0]! << 8) | query[1]!);
  out.u16(0x8180 | (said.tc ? 0x200 : 0) | (said.ad ? 0x20 : 0) | ((said.rcode ?? 0) & 15)).u16(1);
  for (const [i, records] of sections.entries()) out.u16(records.length + (i === 2 && said.options ? 1 : 0));
  out.bytes(said.question ?? query.subarray(12, questionEnd(query)));
  for (const { owner, type, ttl = 300, rdata } of sections.flat()) {
    if (owner === undefined) out.u16(0xc00c);
    else out.bytes(nameToWire(owner)!);
    out.u16(type).u16(CLASS.IN).u32(ttl).u16(rdata.length).bytes(rdata);
  }
  if (said.options) out.u8(0).u16(TYPE.OPT).u16(1232).u32(0).u16(said.options.length).bytes(said.options);
  return Buffer.from(out.view());
}

export interface Heard {
  readonly bytes: Buffer;
  readonly name: string;
  readonly type: number;
  readonly via: 'udp' | 'tcp';
  readonly port: number;
}

/** What an upstream makes of a question: a reply, raw messages, or nothing at all. */
export type Behaviour = (heard: Heard) => Said | Buffer | undefined;

export class FakeUpstream {
  readonly heard: Heard[] = [];
  /** For messages that come from somewhere else than was asked. */
  readonly other: Socket = createSocket('udp4');
  behave: Behaviour;
  at: ListenAddress = { address: '127.0.0.1', port: 0 };
  readonly #udp = createSocket('udp4');
  readonly #connections = new Set<TcpSocket>();
  #tcp: Server | undefined;

  constructor(behave: Behaviour) {
    this.behave = behave;
  }

  async start(t: Test, { tcp = true } = {}): Promise<this> {
    this.#udp.on('message', (bytes, from) => this.#take(bytes, from));
    // A port that is free for both, which a busy machine may not give at once.
    for (;;) {
      this.#tcp = createServer((socket) => this.#accept(socket)).listen(0, '127.0.0.1');
      await once(this.#tcp, 'listening');
      const { port } = this.#tcp.address() as { port: number };
      if (await binds(this.#udp, port)) {
        this.at = { address: '127.0.0.1', port };
        break;
      }
      this.#tcp.close();
    }
    if (!tcp) this.#tcp.close();
    t.teardown(() => {
      this.#udp.close();
      this.other.close();
      this.#tcp?.close();
      for (const socket of this.#connections) socket.destroy();
    });
    return this;
  }

  sendFromElsewhere(message: Buffer, port: number): void {
    this.other.send(message, port, '127.0.0.1');
  }

  #take(bytes: Buffer, from: RemoteInfo): void {
    const reply = this.#replyTo(bytes, 'udp', from.port);
    if (reply) this.#udp.send(reply, from.port, from.address);
  }

  /** As the upstream itself, outside of its turn. */
  send(message: Buffer, port: number): void {
    this.#udp.send(message, port, '127.0.0.1');
  }

  #accept(socket: TcpSocket): void {
    this.#connections.add(socket);
    socket.on('error', () => {});
    let bytes = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      if (bytes.length < 2 || bytes.length < 2 + bytes.readUInt16BE(0)) return;
      const reply = this.#replyTo(bytes.subarray(2, 2 + bytes.readUInt16BE(0)), 'tcp', socket.remotePort ?? 0);
      if (!reply) return;
      const length = Buffer.from([reply.length >> 8, reply.length & 255]);
      // In pieces, as a network may deliver it.
      socket.write(length.subarray(0, 1));
      setImmediate(() => socket.write(Buffer.concat([length.subarray(1), reply])));
    });
  }

  #replyTo(bytes: Buffer, via: 'udp' | 'tcp', port: number): Buffer | undefined {
    const end = questionEnd(bytes);
    const heard = { bytes, name: wireToName(bytes, 12) ?? '?', type: bytes.readUInt16BE(end - 4), via, port };
    this.heard.push(heard);
    const said = this.behave(heard);
    return said === undefined || Buffer.isBuffer(said) ? said : say(bytes, said);
  }
}

export function upstream(t: Test, behave: Behaviour, options?: { tcp?: boolean }): Promise<FakeUpstream> {
  return new FakeUpstream(behave).start(t, options);
}

async function binds(socket: Socket, port: number): Promise<boolean> {
  const listening = once(socket, 'listening');
  socket.bind(port, '127.0.0.1');
  return listening.then(
    () => true,
    () => false,
  );
}

export interface Asking extends Partial<Omit<QueryOptions, 'name' | 'type'>> {
  readonly tcp?: boolean;
}

export class Client {
  readonly forwarder: Forwarder;
  /** The forwarder's clock, in ms: real time, and what a test adds. */
  skipped = 0;

  constructor(t: Test, upstreams: readonly ListenAddress[], more: Partial<ForwarderSettings> = {}) {
    this.forwarder = new Forwarder({
      upstreams,
      domains: [],
      agents: [],
      recurses: () => true,
      zones: ['svc.internal'],
      cacheBytes: 1 << 20,
      maxStale: 86_400_000,
      maxUdp: 1232,
      now: () => performance.now() + this.skipped,
      isOurs: () => false,
      ...more,
    });
    t.teardown(() => this.forwarder.close());
  }

  send(query: Uint8Array, tcp = false): Promise<Uint8Array | undefined> {
    const peer = { family: 4, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 } as const;
    return new Promise((resolve) => {
      this.forwarder.answer({ query, transport: tcp ? 'tcp' : 'udp', peer, listen: 0 }, resolve);
    });
  }

  async ask(name: string, type: keyof typeof TYPE | number, { tcp = false, ...asking }: Asking = {}): Promise<Reply> {
    const number = typeof type === 'number' ? type : TYPE[type];
    const query = encodeQuery({ id: 0x1234, ...asking, name, type: number })!;
    return decode((await this.send(query, tcp))!);
  }
}

/** An address that nobody listens on. */
export async function nobody(): Promise<ListenAddress> {
  const socket = createSocket('udp4');
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  return { address: '127.0.0.1', port };
}
