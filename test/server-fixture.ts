/** A running answer server over a table of its own, and clients for it. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import type { Test } from 'tap';
import type { ListenAddress } from '../src/config/types.js';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { AnswerServer, type AnswerSettings } from '../src/server/answer-server.js';
import { decode, type Reply, row, service, World } from './answers-fixture.js';
import { freePort } from './ports.js';

export const LOOPBACK = { address: '127.0.0.1', port: 0 };
export const localhost = (port: number) => ({ address: '127.0.0.1', port });
const OPEN = { allow: ['0.0.0.0/0', '::/0'] };

export interface LogLine {
  readonly level: string;
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export class Served {
  readonly server: AnswerServer;
  readonly world = new World();
  readonly log: LogLine[] = [];
  /** Threads as they were started, by name. */
  readonly workers: { readonly name: string; readonly worker: Worker }[] = [];

  /** `odd`: what is odd about the UDP threads, see server-odd-worker.ts. */
  constructor(transport: 'auto' | 'batched' | 'portable', odd?: string, spareAfter?: number) {
    this.server = new AnswerServer({
      transport,
      ...(spareAfter === undefined ? {} : { spareAfter }),
      log: (level, event, fields) => this.log.push({ level, event, fields }),
      createWorker: (file, options) => {
        const strange = odd !== undefined && fileURLToPath(file).includes('udp-worker');
        const worker = strange
          ? new Worker(new URL('./server-odd-worker.js', import.meta.url), {
              ...options,
              workerData: { ...(options.workerData as object), odd, real: file.href },
            })
          : new Worker(file, options);
        this.workers.push({ name: options.name ?? '', worker });
        return worker;
      },
    });
    this.world.table.onChange = () => {
      const handle = this.world.table.share();
      this.world.responder.update(handle);
      this.server.update(handle);
    };
    this.world.zone('svc.test', [service('web', [row('10.0.0.1', 8080)]), service('crowd', crowd())], OPEN);
  }

  async start(t: Test, settings: Partial<AnswerSettings> & Pick<AnswerSettings, 'transport'>): Promise<this> {
    t.teardown(() => this.server.stop());
    await this.server.start({ listen: [LOOPBACK], workers: 1, table: this.world.table, ...settings });
    return this;
  }

  get port(): number {
    return this.server.listeners()[0]!.port;
  }

  events(event: string): LogLine[] {
    return this.log.filter((line) => line.event === event);
  }
}

/** 60 endpoints: more than fits a datagram of 512 bytes. Their names are equally long. */
function crowd() {
  return Array.from({ length: 60 }, (_, i) => row(`10.0.1.${i + 100}`, 9000));
}

export function question(name: string, type: keyof typeof TYPE, id = 0x1234, payload?: number): Buffer {
  const edns = payload === undefined ? {} : { edns: { payload } };
  return Buffer.from(encodeQuery({ id, name, type: TYPE[type], ...edns })!);
}

/** What is asked where it does not matter. */
export const WEB = question('web.svc.test', 'A');

/** With the length in front, as TCP wants it. */
export function framed(...messages: readonly Uint8Array[]): Buffer {
  return Buffer.concat(messages.flatMap((m) => [Buffer.from([m.length >> 8, m.length & 255]), m]));
}

/** One question over UDP; undefined when no answer comes from the address that was asked within `patience` ms. */
export function askUdp(at: ListenAddress, message: Uint8Array, patience = 12_000): Promise<Reply | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(at.address.includes(':') ? 'udp6' : 'udp4');
    const done = (reply: Reply | undefined): void => {
      clearTimeout(timer);
      socket.close();
      resolve(reply);
    };
    const timer = setTimeout(() => done(undefined), patience);
    socket.on('error', () => done(undefined));
    socket.on('message', (bytes, sender) => {
      if (sender.address === at.address && sender.port === at.port) done(decode(bytes));
    });
    socket.send(message, at.port, at.address);
  });
}

/** A TCP client that collects the messages it gets. */
export class TcpClient {
  readonly socket: Socket;
  #bytes = Buffer.alloc(0);
  #closed = false;

  constructor(at: ListenAddress) {
    this.socket = connect({ host: at.address, port: at.port, allowHalfOpen: true });
    this.socket.on('error', () => {});
    this.socket.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]);
    });
    this.socket.on('close', () => {
      this.#closed = true;
    });
    this.socket.on('end', () => this.socket.end());
  }

  get received(): number {
    return this.#bytes.length;
  }

  get closed(): boolean {
    return this.#closed;
  }

  messages(): Buffer[] {
    const all: Buffer[] = [];
    for (let at = 0; at + 2 <= this.#bytes.length; ) {
      const end = at + 2 + this.#bytes.readUInt16BE(at);
      if (end > this.#bytes.length) break;
      all.push(this.#bytes.subarray(at + 2, end));
      at = end;
    }
    return all;
  }

  /** Waits until `count` messages have come, or the connection is closed. */
  async take(count: number): Promise<Reply[]> {
    await until(() => this.messages().length >= count || this.#closed);
    return this.messages().map(decode);
  }
}

/** Waits for something that has to come; gives up after ten seconds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 2_000; i++) {
    if (await condition()) return;
    await pause(5);
  }
  throw new Error(`never came: ${condition}`);
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export const openDescriptors = () => readdirSync('/proc/self/fd').length;

/** Somebody else on a port, UDP and TCP. */
export async function occupy(): Promise<{ readonly at: ListenAddress; readonly release: () => Promise<void> }> {
  const port = await freePort();
  const tcp: Server = createServer();
  tcp.listen({ host: '127.0.0.1', port });
  await once(tcp, 'listening');
  const udp = createSocket('udp4');
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');
  const release = async (): Promise<void> => {
    udp.close();
    tcp.close();
    await once(tcp, 'close');
  };
  return { at: { address: '127.0.0.1', port }, release };
}
