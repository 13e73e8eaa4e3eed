/** Records and messages of other name servers, and a name server that answers as a test says. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { DnsRegistryConfig, LimitsConfig, ListenAddress } from '../src/config/types.js';
import { ByteWriter } from '../src/dns/byte-writer.js';
import { TYPE } from '../src/dns/constants.js';
import { nameToWire } from '../src/dns/names.js';
import { type Message, type ReadRecord, readMessage } from '../src/dns/read-message.js';
import { DnsRegistry } from '../src/registry/dns.js';
import { freePort } from './ports.js';
import { brief, NEVER } from './registry-fixture.js';

export const ZONE = 'corp.test';
export const LIMITS: LimitsConfig = {
  maxServices: 1000,
  maxEndpoints: 5000,
  maxEndpointsPerService: 1000,
  maxBody: 1 << 20,
};

export const a = (name: string, ...address: number[]): ReadRecord => {
  return { name, type: TYPE.A, address: Uint8Array.from(address) };
};
export const srv = (name: string, port: number, target: string, priority = 0, weight = 1): ReadRecord => {
  return { name, type: TYPE.SRV, priority, weight, port, target };
};
export const soa = (name: string, serial: number): ReadRecord => ({ name, type: TYPE.SOA, serial });
export const ns = (name: string, target: string): ReadRecord => ({ name, type: TYPE.NS, target });
export const cname = (name: string, target: string): ReadRecord => ({ name, type: TYPE.CNAME, target });

export const dname = (name: string, target: string): ReadRecord => ({ name, type: TYPE.DNAME, target });
export const aaaa = (name: string, last: number): ReadRecord => {
  return { name, type: TYPE.AAAA, address: Uint8Array.from([0xfd, ...new Array(14).fill(0), last]) };
};

/** Says the upper bits of a response code. */
export const opt = (rcode: number): ReadRecord => ({ name: String(rcode >> 4), type: 'other' });
const OPT = Uint8Array.of(0, 0, TYPE.OPT, 4, 208, 0, 0, 0, 0, 0, 0);

export interface Sections {
  /** QR and AA by default. */
  readonly flags?: number;
  readonly authorities?: readonly ReadRecord[];
  readonly additionals?: readonly ReadRecord[];
}

/** A message as a server would send it, without compression. */
export function encode(
  id: number,
  question: { readonly name: string; readonly type: number },
  answers: readonly ReadRecord[],
  { flags = 0x8400, authorities = [], additionals = [] }: Sections = {},
): Uint8Array {
  const out = new ByteWriter(65_535);
  out.u16(id).u16(flags).u16(1).u16(answers.length).u16(authorities.length).u16(additionals.length);
  out.bytes(nameToWire(question.name)!).u16(question.type).u16(1);
  for (const record of [...answers, ...authorities, ...additionals]) {
    if (record.type === 'other') {
      out.bytes(OPT.subarray(0, 5)).u8(Number(record.name)).bytes(OPT.subarray(6));
      continue;
    }
    const data = new ByteWriter(512);
    if ('address' in record) data.bytes(record.address);
    else if ('serial' in record) {
      data
        .u8(0)
        .u8(0)
        .u16(record.serial >>> 16)
        .u16(record.serial & 0xffff);
      for (let i = 0; i < 4; i++) data.u16(0).u16(5);
    } else {
      if ('port' in record) data.u16(record.priority).u16(record.weight).u16(record.port);
      data.bytes(nameToWire(record.target)!);
    }
    const bytes = data.copy();
    out.bytes(nameToWire(record.name)!).u16(record.type).u16(1).u16(0).u16(5).u16(bytes.length).bytes(bytes);
  }
  return out.copy();
}

export interface Asked {
  readonly id: number;
  readonly name: string;
  readonly type: number;
  readonly over: 'udp' | 'tcp';
  /** The question has an OPT record. */
  readonly edns: boolean;
}

/** Messages to send one after the other; none: silence. `end`: the connection is closed behind them. */
export type Reply = readonly Uint8Array[] | { readonly end: readonly Uint8Array[] };

/** A name server over UDP and TCP that counts what it is asked. */
export class FakeNameServer {
  answer: (asked: Asked) => Reply = () => [];
  /** Before each answer. */
  delay = 0;
  readonly asked: (Asked & { readonly at: number })[] = [];
  mostUnderWay = 0;
  #underWay = 0;
  readonly server: ListenAddress;

  private constructor(server: ListenAddress) {
    this.server = server;
  }

  static async start(t: Test, address = '127.0.0.1'): Promise<FakeNameServer> {
    const port = await freePort();
    const fake = new FakeNameServer({ address, port });
    const sockets = new Set<Socket>();
    const tcp = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => sockets.delete(socket));
      socket.once('data', async (framed) => {
        const reply = await fake.#take(framed.subarray(2), 'tcp');
        for (const message of messagesOf(reply))
          socket.write(Buffer.concat([Buffer.from([message.length >> 8, message.length & 255]), message]));
        if ('end' in reply) socket.end();
      });
    });
    tcp.listen(port, address);
    await once(tcp, 'listening');
    const udp = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    let open = true;
    udp.on('message', async (bytes, from) => {
      const reply = await fake.#take(bytes, 'udp');
      if (open) for (const message of messagesOf(reply)) udp.send(message, from.port, from.address);
    });
    udp.bind(port, address);
    await once(udp, 'listening');
    t.teardown(() => {
      open = false;
      udp.close();
      tcp.close();
      for (const socket of sockets) socket.destroy();
    });
    return fake;
  }

  /** Questions, of a type or all. */
  count(type?: number): number {
    return this.asked.filter((one) => type === undefined || one.type === type).length;
  }

  async #take(bytes: Uint8Array, over: Asked['over']): Promise<Reply> {
    const { id, question, additionals } = readMessage(bytes) as Message;
    const asked = { id, ...question!, over, edns: additionals.length > 0 };
    this.asked.push({ ...asked, at: performance.now() });
    this.mostUnderWay = Math.max(this.mostUnderWay, ++this.#underWay);
    if (this.delay > 0) await sleep(this.delay);
    this.#underWay--;
    return this.answer(asked);
  }
}

function messagesOf(reply: Reply): readonly Uint8Array[] {
  return 'end' in reply ? reply.end : reply;
}

/** What a poll gives, with all that was left out. */
export async function told(registry: DnsRegistry): Promise<unknown> {
  const seen = await registry.poll({ signal: NEVER, fresh: true });
  if ('reason' in seen) return `${seen.kind}: ${seen.reason.replace(/^[\d.]+:\d+: /, '')}`;
  const rejected = seen.kind === 'list' ? seen.rejected.map(({ where, reason }) => `${where}: ${reason}`) : [];
  return [...(brief(seen) as string[]), ...rejected];
}

/** A zone's registry at these servers. */
export function registryOf(
  t: Test,
  servers: readonly FakeNameServer[],
  config: Partial<DnsRegistryConfig> = {},
): DnsRegistry {
  const places = servers.map(({ server }) => server);
  const registry = new DnsRegistry(
    { type: 'dns', servers: places, zone: ZONE, interval: 5000, ...config },
    { softTtl: 10_000, limits: LIMITS, allowAddresses: [] },
  );
  t.teardown(() => registry.close());
  return registry;
}
