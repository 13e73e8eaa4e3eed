/** The real program over either transport, with zones in several states and an upstream of the test's, asked in bytes. */
import { createSocket } from 'node:dgram';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import { freePort, Host, type Process } from './blackbox/program.js';
import { a, type Behaviour, FakeUpstream, type Said, soa } from './forward-fixture.js';
import { framed, TcpClient } from './server-fixture.js';
import { readMessage, type WireMessage } from './wire-message.js';

export const TRANSPORTS = ['batched', 'portable'] as const;
const PATIENCE_MS = 10_000;

export interface Asking extends Partial<Omit<QueryOptions, 'name' | 'type'>> {
  readonly tcp?: boolean;
}

/** Of endpoints in the files: `10.0.0.1:80` and what else is said of them. */
type Endpoints = readonly Readonly<Record<string, unknown>>[];

const row = (address: string, port: number, more: object = {}) => ({
  id: `${address}-${port}`,
  address,
  port,
  ...more,
});

export const SERVICES: Record<string, { portName?: string; endpoints: Endpoints }> = {
  web: {
    portName: 'http',
    endpoints: [
      row('10.0.0.1', 8081, { weight: 10, tags: ['blue'] }),
      row('10.0.0.2', 8082, { weight: 20 }),
      row('10.0.0.3', 8083, { priority: 10, weight: 0 }),
    ],
  },
  six: { endpoints: [row('fd00::1', 80)] },
  pair: { endpoints: [row('10.0.0.9', 1), row('10.0.0.9', 2)] },
  empty: { endpoints: [] },
  even: { endpoints: Array.from({ length: 10 }, (_, i) => row(`10.0.1.${i + 1}`, 80)) },
  crowd: { endpoints: Array.from({ length: 60 }, (_, i) => row(`10.0.2.${i + 100}`, 9000)) },
  // More than 65535 bytes of SRV records.
  throng: { endpoints: Array.from({ length: 2_000 }, (_, i) => row(`10.1.${i >> 8}.${i & 255}`, 9000)) },
};

/** Questions whose replies are of every kind: fresh, negative, failed, refused, cut, forwarded, not understood. */
export const KINDS: readonly (readonly [kind: string, rcode: number, name: string, type: number])[] = [
  ['fresh', 0, 'web.svc.test', TYPE.SRV],
  ['no data', 0, 'web.svc.test', 16],
  ['cut', 0, 'throng.svc.test', TYPE.SRV],
  ['not there', 3, 'nope.svc.test', TYPE.A],
  ['never read', 2, 'web.never.test', TYPE.A],
  ['not for this client', 5, 'web.others.test', TYPE.A],
  ['forwarded', 0, 'www.example', TYPE.A],
  ['forwarded and not there', 3, 'x.gone.example', TYPE.A],
  ['special', 0, 'localhost', TYPE.A],
  ['a transfer', 5, 'svc.test', TYPE.AXFR],
];

/** One host: `svc.test` and what is below, a zone that was never read, one that is not ours to ask; other names go to `upstream`. */
export class Protocol {
  readonly host = new Host();
  readonly upstream: FakeUpstream;
  /** Another upstream than the test's own. */
  upstreamPort = 0;
  program!: Process;

  constructor(behave: Behaviour = ordinary) {
    this.upstream = new FakeUpstream(behave);
  }

  async start(
    t: Test,
    transport: string,
    { forward = true, listen = ['127.0.0.1:PORT', '[::1]:PORT'], top = '' } = {},
  ): Promise<this> {
    t.teardown(() => this.host.dispose());
    await this.upstream.start(t);
    const { host } = this;
    host.port = await freePort();
    this.list(SERVICES);
    writeFileSync(
      join(host.folder, 'inner.yaml'),
      'services: { web: { endpoints: [{ address: 10.9.9.9, port: 9 }] } }\n',
    );
    writeFileSync(
      host.config,
      [
        'version: 1',
        `listen: ${JSON.stringify(listen).replaceAll('PORT', String(host.port))}`,
        `transport: ${transport}`,
        'stateDir: state',
        'runDir: run',
        top,
        'zones:',
        '  - { name: svc.test, softTtl: 1s, answerTtl: 5s, negativeTtl: 3s, check: { type: none }, registry: { type: file, path: services.yaml } }',
        '  - { name: inner.svc.test, check: { type: none }, registry: { type: file, path: inner.yaml } }',
        '  - { name: never.test, check: { type: none }, registry: { type: file, path: missing.yaml } }',
        '  - { name: others.test, allow: ["10.0.0.0/8"], check: { type: none }, registry: { type: file, path: inner.yaml } }',
        ...(forward ? [`forward: { upstreams: ["127.0.0.1:${this.upstreamPort || this.upstream.at.port}"] }`] : []),
        '',
      ].join('\n'),
    );
    this.program = await host.serve();
    await this.program.said('zone-synced');
    for (;;) {
      const { rcode } = await this.ask('web.svc.test', 'A');
      const inner = await this.ask('web.inner.svc.test', 'A');
      // A zone's names are there before the zone is whole, and before that nothing of it is denied (R25).
      const none = await this.ask('not-there.svc.test', 'A');
      const noneInner = await this.ask('not-there.inner.svc.test', 'A');
      if (rcode === 0 && inner.rcode === 0 && none.rcode === 3 && noneInner.rcode === 3) return this;
    }
  }

  /** What the registry of `svc.test` has from now on. */
  list(services: Record<string, { portName?: string; endpoints: Endpoints }>): void {
    writeFileSync(this.host.registry, JSON.stringify({ services }));
  }

  /** One message over UDP or TCP; a reply that does not come is an error. */
  async send(message: Uint8Array, { tcp = false, at = '127.0.0.1' } = {}): Promise<WireMessage> {
    const { port } = this.host;
    if (tcp) {
      const client = new TcpClient({ address: at, port });
      client.socket.write(framed(message));
      await client.take(1);
      client.socket.destroy();
      return readMessage(client.messages()[0]!);
    }
    return readMessage((await exchange({ address: at, port }, [message], 1))[0]!);
  }

  ask(name: string, type: keyof typeof TYPE | number, { tcp = false, ...asking }: Asking = {}): Promise<WireMessage> {
    return this.send(query(name, type, asking), { tcp });
  }

  /** Replies to all of `messages` and to a plain question behind them, which is left out: what is dropped shows. */
  async replies(messages: readonly Uint8Array[], at = '127.0.0.1'): Promise<WireMessage[]> {
    const last = query('web.svc.test', 'A', { id: 0xeeee });
    const all = await exchange({ address: at, port: this.host.port }, [...messages, last], Number.POSITIVE_INFINITY);
    return all.map(readMessage).filter(({ id }) => id !== 0xeeee);
  }
}

/** Sends messages from one socket; what comes back from there, until there are `count` or the reply to id 0xeeee. */
export function exchange(
  at: { readonly address: string; readonly port: number },
  messages: readonly Uint8Array[],
  count: number,
): Promise<Buffer[]> {
  return new Promise((done, fail) => {
    const socket = createSocket(at.address.includes(':') ? 'udp6' : 'udp4');
    const replies: Buffer[] = [];
    const end = (error?: Error) => {
      clearTimeout(timer);
      socket.close();
      if (error) fail(error);
      else done(replies);
    };
    const timer = setTimeout(() => end(new Error(`${replies.length} of ${count} replies came`)), PATIENCE_MS);
    socket.on('error', end);
    socket.on('message', (reply, from) => {
      if (from.address !== at.address || from.port !== at.port) return end(new Error(`a reply from ${from.address}`));
      replies.push(reply);
      if (replies.length >= count || reply.readUInt16BE(0) === 0xeeee) end();
    });
    for (const message of messages) socket.send(message, at.port, at.address);
  });
}

export function query(name: string, type: keyof typeof TYPE | number, asking: Asking = {}): Buffer {
  const number = typeof type === 'number' ? type : TYPE[type];
  return Buffer.from(encodeQuery({ id: 0x1234, ...asking, name, type: number })!);
}

/** Any bytes for a header, a question and what follows, with its counts. */
export function raw(flags: number, counts: readonly [number, number, number, number], ...rest: readonly Uint8Array[]) {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0x1234, 0);
  head.writeUInt16BE(flags, 2);
  counts.forEach((count, i) => {
    head.writeUInt16BE(count, 4 + i * 2);
  });
  return Buffer.concat([head, ...rest]);
}

/** The question section of `query`. */
export const questionOf = (name: string, type: keyof typeof TYPE | number, class_ = 1) => {
  const bytes = query(name, type);
  bytes.writeUInt16BE(class_, bytes.length - 2);
  return bytes.subarray(12);
};

/** An OPT record with any owner, payload, TTL field and data. */
export function opt({ owner = [0], payload = 1232, ttl = 0, data = Buffer.alloc(0) as Uint8Array } = {}): Buffer {
  const fixed = Buffer.alloc(10);
  fixed.writeUInt16BE(41, 0);
  fixed.writeUInt16BE(payload, 2);
  fixed.writeUInt32BE(ttl, 4);
  fixed.writeUInt16BE(data.length, 8);
  return Buffer.concat([Buffer.from(owner), fixed, data]);
}

/** One option of an OPT record. */
export function option(code: number, data: Uint8Array = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(code, 0);
  head.writeUInt16BE(data.length, 2);
  return Buffer.concat([head, data]);
}

/** An upstream that knows `*.example`; `*.gone.example` is not there, and what is not A is without data. */
export const ordinary: Behaviour = ({ name, type }): Said => {
  if (name.toLowerCase().endsWith('gone.example')) return { rcode: 3, authorities: [soa(60, 30)] };
  return type === TYPE.A ? { answers: [a('192.0.2.1', 300)] } : { authorities: [soa(60, 30)] };
};

/** An item of the checklist: its number, what it says, and the proof on a running host. */
export type Item = readonly [number: string, subject: string, body: (t: Test, on: Protocol) => Promise<void>];

/** Proves items on a host of each transport. */
export function prove(
  items: readonly Item[],
  options: { behave?: Behaviour; forward?: boolean; listen?: string[] } = {},
): void {
  for (const transport of TRANSPORTS)
    t.test(transport, async (t) => {
      const on = await new Protocol(options.behave).start(t, transport, options);
      for (const [number, subject, body] of items) await t.test(`${number} ${subject}`, (t) => body(t, on));
    });
}
