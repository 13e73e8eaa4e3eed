/** Items 55 to 60 (headers, foreign names, whence and whereto) of the checklist. */
import { get } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import t from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { until } from './blackbox/program.js';
import { exchange, type Item, Protocol, prove, query, questionOf, raw, TRANSPORTS } from './protocol-fixture.js';
import { readMessage } from './wire-message.js';

t.setTimeout(240_000);

const RD = 0x0100;
const NAME = 'web.svc.test';
const FORWARDED = 'www.example';

const items: Item[] = [
  [
    '55',
    'id, RD and CD are copied, QR is set, Z and AD are not; AA and RA by R26',
    async (t, on) => {
      for (const [name, aa] of [
        [NAME, true],
        ['nope.svc.test', true],
        [FORWARDED, false],
        ['web.never.test', false],
        ['web.others.test', false],
      ] as const)
        for (const flags of [0, RD, RD | 0x10, RD | 0x60, 0x0670]) {
          const reply = await on.send(raw(flags & ~0x7800, [1, 0, 0, 0], questionOf(name, 'A')));
          t.match(
            [reply.id, reply.flags],
            [
              0x1234,
              {
                qr: true,
                aa,
                rd: (flags & RD) !== 0,
                ra: true,
                z: false,
                ad: false,
                cd: (flags & 0x10) !== 0,
              },
            ],
            `${name} ${flags.toString(16)}`,
          );
        }
    },
  ],
  [
    '56',
    'responses are dropped; not one question: FORMERR; opcodes: NOTIMP with the header; types, classes, transfers',
    async (t, on) => {
      const asked = questionOf(NAME, 'A');
      t.same(await on.replies([raw(0x8180, [1, 0, 0, 0], asked), raw(0x8000, [0, 0, 0, 0])]), [], 'QR=1');
      t.same(await on.replies([Buffer.alloc(0), Buffer.alloc(11), Buffer.from('x')]), [], 'less than a header');
      t.match(await on.send(raw(RD, [0, 0, 0, 0])), { rcode: 1, question: { length: 0 } });
      t.match(await on.send(raw(RD, [2, 0, 0, 0], asked, asked)), { rcode: 1, question: { length: 0 }, answers: [] });
      // Inverse query, status, notify, update, and what has no meaning.
      for (const opcode of [1, 2, 3, 4, 5, 6, 15])
        for (const tcp of [false, true]) {
          const reply = await on.send(raw((opcode << 11) | RD, [1, 0, 0, 0], questionOf('svc.test', 'SOA')), { tcp });
          t.match(reply, { rcode: 4, opcode, question: { length: 0 } }, `opcode ${opcode}`);
          t.equal(reply.bytes.length, 12);
        }
      t.match(await on.ask(NAME, 65_400), { rcode: 0, answers: [], authorities: [{ type: TYPE.SOA }] });
      for (const class_ of [2, 3, 4, 254, 255, 65_280])
        for (const name of [NAME, FORWARDED, 'version.bind'])
          t.equal((await on.send(raw(RD, [1, 0, 0, 0], questionOf(name, 16, class_)))).rcode, 5, `${name} ${class_}`);
      for (const type of ['AXFR', 'IXFR'] as const)
        for (const name of ['svc.test', FORWARDED])
          for (const tcp of [false, true]) t.match(await on.ask(name, type, { tcp }), { rcode: 5, answers: [] });
    },
  ],
  [
    '57',
    'one TTL in a record set, no record twice (RFC 2181 s.5)',
    async (t, on) => {
      for (const [name, type] of [
        ['web', 'SRV'],
        ['web', 'A'],
        ['pair', 'SRV'],
        ['pair', 'A'],
        ['throng', 'A'],
        ['crowd', 'SRV'],
      ] as const) {
        const { answers, additionals } = await on.ask(`${name}.svc.test`, type, { tcp: true });
        t.same(new Set([...answers, ...additionals].map(({ ttl }) => ttl)), new Set([5]), `${name} ${type}`);
        for (const records of [answers, additionals])
          t.equal(new Set(records.map((r) => `${r.owner} ${r.rdata.toString('hex')}`)).size, records.length, name);
      }
      t.equal((await on.ask('pair.svc.test', 'A')).answers.length, 1);
    },
  ],
];

prove(items);

for (const transport of TRANSPORTS) {
  t.test(`${transport}: 58 without forwarding, names outside our zones are REFUSED and never denied`, async (t) => {
    const on = await new Protocol().start(t, transport, { forward: false });
    for (const name of ['www.example', 'test', 'svc', 'xsvc.test', 'localhost', '', '1.2.0.192.in-addr.arpa'])
      for (const tcp of [false, true])
        t.match(
          await on.ask(name, 'A', { tcp, edns: {} }),
          { rcode: 5, flags: { aa: false, ra: false }, answers: [], authorities: [], edes: [{ code: 20 }] },
          `${name}${tcp ? ' over TCP' : ''}`,
        );
    t.match(await on.ask('x.svc.test', 'A'), { rcode: 3, flags: { aa: true } }, 'in a zone, it is denied');
  });

  t.test(`${transport}: 59 who may not ask gets back less than three times what was sent`, async (t) => {
    const on = await new Protocol().start(t, transport, { forward: false });
    for (const name of ['throng.others.test', 'www.example', 'x'])
      for (const edns of [undefined, { payload: 65_535, dnssecOk: true }]) {
        const asked = query(name, 'SRV', edns ? { edns } : {});
        const reply = await on.send(asked);
        t.match(reply, { rcode: 5 });
        t.ok(reply.bytes.length < 3 * asked.length, `${name}: ${reply.bytes.length} for ${asked.length}`);
      }
  });
}

const spoof = rawSender();
for (const transport of TRANSPORTS)
  t.test(
    `${transport}: 59 a datagram from port 0 or from our own address gets no answer`,
    { skip: typeof spoof === 'string' ? spoof : false },
    async (t) => {
      if (typeof spoof === 'string') return;
      const on = await new Protocol().start(t, transport, { forward: false });
      const { port } = on.host;
      const dropped = async () => {
        const line = /^holdfast_drops_total\{.*reason="refused-datagram".*\} (\d+)$/m.exec(await metrics(on));
        return Number(line?.[1] ?? 0);
      };
      const before = await dropped();
      const asked = query('web.svc.test', 'A');
      for (let i = 0; i < 5; i++) {
        spoof('127.0.0.1', 0, '127.0.0.1', port, asked);
        spoof('127.0.0.1', port, '127.0.0.1', port, asked);
      }
      await until('ten datagrams refused', async () => (await dropped()) - before === 10);
      t.match(await on.replies([]), [], 'and nothing came of it');
    },
  );

t.test('60 on a wildcard the reply leaves from the address that was asked', async (t) => {
  for (const transport of TRANSPORTS) {
    const on = await new Protocol().start(t, transport, { listen: ['0.0.0.0:PORT'] });
    // Without the address of the packet the portable transport knows those of interfaces only.
    for (const address of transport === 'batched' ? ['127.0.0.1', '127.0.0.77', '127.1.2.3'] : ['127.0.0.1'])
      for (const name of ['web.svc.test', 'www.example', 'localhost']) {
        // `exchange` throws at a reply from elsewhere.
        const [reply] = await exchange({ address, port: on.host.port }, [query(name, 'A')], 1);
        t.match(readMessage(reply!), { rcode: 0 }, `${transport} ${address} ${name}`);
      }
  }
});

function metrics(on: Protocol): Promise<string> {
  return new Promise((done, fail) => {
    get({ socketPath: join(on.host.folder, 'run', 'control.sock'), path: '/metrics' }, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => done(text));
    }).on('error', fail);
  });
}

type Spoof = (from: string, fromPort: number, to: string, toPort: number, message: Uint8Array) => void;

/** Sends datagrams of any source, by a raw socket; or why that cannot be. */
function rawSender(): Spoof | string {
  if (process.getuid?.() !== 0) return 'only root may send from an address that is not its own';
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    const libc = koffi.load(null);
    const sendto = libc.func('int64_t sendto(int, void *, uint64_t, int, void *, uint32_t)');
    // AF_INET, SOCK_RAW, IPPROTO_RAW: the IP header is ours.
    const fd = libc.func('int socket(int, int, int)')(2, 3, 255) as number;
    if (fd < 0) return 'no raw sockets here';
    t.teardown(() => libc.func('int close(int)')(fd));
    const octets = (address: string) => Buffer.from(address.split('.').map(Number));
    return (from, fromPort, to, toPort, message) => {
      const length = 28 + message.length;
      const head = Buffer.alloc(28);
      head.set([0x45, 0, length >> 8, length & 255, 0, 0, 0, 0, 64, 17]);
      octets(from).copy(head, 12);
      octets(to).copy(head, 16);
      head.writeUInt16BE(fromPort, 20);
      head.writeUInt16BE(toPort, 22);
      head.writeUInt16BE(8 + message.length, 24);
      const address = Buffer.alloc(16);
      address.writeUInt16LE(2, 0);
      octets(to).copy(address, 4);
      const sent = sendto(fd, Buffer.concat([head, message]), length, 0, address, 16) as number;
      if (Number(sent) !== length) throw new Error('the raw socket did not take it');
    };
  } catch (error) {
    return `koffi does not load: ${(error as Error).message}`;
  }
}
