/** Items 18 to 23 (SRV), 40 to 44 (negative answers, ANY) and 50 to 54 (names) of the checklist. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { until } from './blackbox/program.js';
import { type Item, prove, query, questionOf, raw, SERVICES } from './protocol-fixture.js';
import { root } from './root.js';
import { readSrv, type WireMessage } from './wire-message.js';

t.setTimeout(240_000);

const SRV_NAMES = ['web', '_web._tcp', '_http._tcp.web', 'blue.web', 'six', 'pair', 'even'].map((n) => `${n}.svc.test`);
const srvs = (message: WireMessage) => message.answers.map((record) => readSrv(message, record));
const address = (rdata: Buffer) => [...rdata].join('.');
const soaTtl = ({ authorities: [soa] }: WireMessage) => soa && [soa.ttl, soa.rdata.readUInt32BE(soa.rdata.length - 4)];
/** ..., and what a negative answer is: the zone's SOA alone. */
const NEGATIVE = { answers: [], authorities: [{ owner: 'svc.test', type: TYPE.SOA }], additionals: [] };

const items: Item[] = [
  [
    '18',
    'an SRV owner is _service._proto.name in any case; the name itself has them as well (RFC 2782)',
    async (t, on) => {
      const ports = async (name: string) => srvs(await on.ask(name, 'SRV')).map(({ port }) => port);
      for (const name of ['_web._tcp', '_WEB._Tcp', '_http._tcp.web', '_HTTP._TCP.WEB', 'web', 'WEB'])
        t.same((await ports(`${name}.svc.test`)).sort(), [8081, 8082, 8083], name);
      t.match(await on.ask('_web._udp.svc.test', 'SRV'), { rcode: 3 });
      t.match(await on.ask('_sctp.svc.test', 'SRV'), { rcode: 3 });
    },
  ],
  [
    '19',
    'each target is a host name with addresses here, the same as in the additional section; no CNAME, no address literal',
    async (t, on) => {
      for (const name of SRV_NAMES) {
        const reply = await on.ask(name, 'SRV', { tcp: true });
        const targets = [...new Set(srvs(reply).map(({ target }) => target))].sort();
        t.same(reply.additionals.map(({ owner }) => owner).sort(), targets, name);
        for (const { owner, type, rdata } of reply.additionals) {
          t.notMatch(owner, /^(\d+\.){3}\d+$|:/);
          const asked = await on.ask(owner, type);
          t.same(
            asked.answers.map((record) => [record.type, record.rdata.toString('hex')]),
            [[type, rdata.toString('hex')]],
            owner,
          );
          t.match(await on.ask(owner, TYPE.CNAME), { rcode: 0, answers: [] });
        }
      }
    },
  ],
  [
    '20',
    'no target is the root: a service without endpoints is without data, which says no more than is known',
    async (t, on) => {
      for (const name of [...SRV_NAMES, 'empty.svc.test'])
        t.equal(srvs(await on.ask(name, 'SRV', { tcp: true })).filter(({ target }) => target === '').length, 0, name);
      t.match(await on.ask('_empty._tcp.svc.test', 'SRV'), { rcode: 0, ...NEGATIVE });
      t.match(await on.ask('empty.svc.test', 'SRV'), { rcode: 0, ...NEGATIVE });
    },
  ],
  [
    '21',
    'no SRV target is compressed, in any letters of the question, over UDP and TCP',
    async (t, on) => {
      for (const name of [...SRV_NAMES, 'THRONG.svc.test'])
        for (const tcp of [false, true]) {
          const { answers } = await on.ask(name, 'SRV', { tcp });
          t.ok(answers.length > 0);
          for (const { rdata } of answers) {
            let at = 6;
            while (at < rdata.length && rdata[at]! > 0 && rdata[at]! < 0x40) at += rdata[at]! + 1;
            if (rdata[at] !== 0 || at !== rdata.length - 1) t.fail(`${name}: ${rdata.toString('hex')}`);
          }
        }
    },
  ],
  [
    '22',
    'SRV has all priorities, the lowest first; weights and ports out of range never come in',
    async (t, on) => {
      const reply = srvs(await on.ask('web.svc.test', 'SRV'));
      t.same(reply.map(({ priority, port }) => [priority, port]).at(-1), [10, 8083]);
      t.same(reply.map(({ weight }) => weight).sort(), [0, 10, 20]);
      const odd = (id: string, more: object) => ({ id, address: '10.0.7.7', port: 80, ...more });
      on.list({
        ...SERVICES,
        odd: {
          endpoints: [
            odd('fine', { weight: 65_535 }),
            odd('port', { port: 70_000 }),
            odd('negative', { port: -1 }),
            odd('weight', { weight: 70_000 }),
            odd('priority', { priority: 65_536 }),
            odd('address', { address: '10.0.0.999' }),
          ],
        },
      });
      await until('the odd service', async () => (await on.ask('odd.svc.test', 'SRV')).rcode === 0);
      t.same(srvs(await on.ask('odd.svc.test', 'SRV')), [
        { priority: 0, weight: 65_535, port: 80, target: '10-0-7-7.ip.svc.test' },
      ]);
    },
  ],
  [
    '23',
    'addresses of targets stand in the additional section with the TTL of the answer; who is gone is gone from both',
    async (t, on) => {
      const both = async () => {
        const reply = await on.ask('even.svc.test', 'SRV', { tcp: true });
        const ttls = new Set([...reply.answers, ...reply.additionals].map(({ ttl }) => ttl));
        return { answers: reply.answers.length, additionals: reply.additionals.length, ttls: [...ttls] };
      };
      t.same(await both(), { answers: 10, additionals: 10, ttls: [5] });
      on.list({ ...SERVICES, even: { endpoints: SERVICES.even!.endpoints.slice(1) } });
      await until('one less', async () => (await both()).answers === 9);
      const reply = await on.ask('even.svc.test', 'SRV', { tcp: true });
      t.equal(reply.additionals.length, 9);
      t.notOk(reply.additionals.some(({ rdata }) => address(rdata) === '10.0.1.1'));
      on.list(SERVICES);
      await until('all again', async () => (await both()).answers === 10);
    },
  ],
  [
    '40',
    'NXDOMAIN only where no type and no child is; otherwise no data; a point between is empty (RFC 2308 s.2, RFC 8020)',
    async (t, on) => {
      for (const name of ['_tcp', '_tcp.web', 'ip', '_http._tcp.web', '_web._tcp', 'web', '10-0-0-1.ip'])
        for (const type of [16, TYPE.AAAA, TYPE.CNAME, 1_000])
          t.match(await on.ask(`${name}.svc.test`, type), { rcode: 0, ...NEGATIVE }, `${name} ${type}`);
      for (const name of ['nope', '_udp.web', 'x.web', 'a.b.c', '10-0-0-99.ip', 'a.ip', '_tcp.nope'])
        for (const type of [TYPE.A, TYPE.AAAA, TYPE.SRV, 16])
          t.match(await on.ask(`${name}.svc.test`, type), { rcode: 3, ...NEGATIVE }, `${name} ${type}`);
      for (const type of [TYPE.SOA, TYPE.NS]) {
        const apex = await on.ask('svc.test', type);
        t.match(apex, { rcode: 0, answers: [{ type }], flags: { aa: true } });
        t.equal(
          [...apex.answers, ...apex.authorities].filter((r) => r.type === TYPE.SOA).length,
          type === TYPE.SOA ? 1 : 0,
        );
      }
      t.match(await on.ask('svc.test', 43), { rcode: 0, ...NEGATIVE }, 'DS');
    },
  ],
  [
    '41',
    'one SOA in every negative answer, its TTL the least of its own and MINIMUM, never 0 (s.3)',
    async (t, on) => {
      for (const name of ['nope.svc.test', 'empty.svc.test'])
        for (const tcp of [false, true]) {
          const reply = await on.ask(name, 'A', { tcp });
          t.match(reply, NEGATIVE, name);
          t.same(soaTtl(reply), [3, 3]);
        }
      t.same(soaTtl(await on.ask('x.gone.example', 'A')), [30, 30], 'forwarded: TTL 60, MINIMUM 30');
    },
  ],
  [
    '42',
    'a negative answer is kept, for its type (s.5)',
    async (t, on) => {
      const heard = () => on.upstream.heard.filter(({ name }) => name.toLowerCase().startsWith('neg')).length;
      t.match(await on.ask('neg.gone.example', 'A'), { rcode: 3 });
      t.match(await on.ask('neg.gone.example', 'A'), { rcode: 3 });
      t.match(await on.ask('NEG.gone.example', 'AAAA'), { rcode: 3 });
      t.equal(heard(), 2, 'once for a type');
    },
  ],
  [
    '43',
    'before a zone was read once: SERVFAIL with EDE 14 where a name may exist, NXDOMAIN by structure, never an SOA with the failure',
    async (t, on) => {
      for (const name of ['web', '_web._tcp', 'blue.web', '10-0-0-1.ip'])
        for (const type of ['A', 'AAAA', 'SRV'] as const)
          t.match(
            await on.ask(`${name}.never.test`, type, { edns: {} }),
            { rcode: 2, flags: { aa: false }, answers: [], authorities: [], edes: [{ code: 14 }] },
            `${name} ${type}`,
          );
      t.match(await on.ask('no_label.never.test', 'A'), { rcode: 3, flags: { aa: true } });
      t.match(await on.ask('never.test', 'SOA'), { rcode: 0, answers: [{}] });
    },
  ],
  [
    '44',
    'ANY gets one record set, the same over UDP and TCP (RFC 8482 s.4.1)',
    async (t, on) => {
      for (const name of ['web.svc.test', 'svc.test', '10-0-0-1.ip.svc.test'])
        for (const tcp of [false, true]) {
          const { rcode, answers } = await on.ask(name, 'ANY', { tcp });
          t.same([rcode, new Set(answers.map(({ type }) => type)).size], [0, 1], `${name} ${tcp}`);
        }
      t.match(await on.ask('empty.svc.test', 'ANY'), { rcode: 0, ...NEGATIVE });
      t.match(await on.ask('nope.svc.test', 'ANY'), { rcode: 3, ...NEGATIVE });
    },
  ],
  [
    '50',
    'localhost is this host, invalid and test are nothing, private reverse names stay here (RFC 6761, RFC 6303)',
    async (t, on) => {
      const heard = on.upstream.heard.length;
      for (const name of ['localhost', 'LocalHost', 'a.b.localhost']) {
        t.match((await on.ask(name, 'A')).answers, [{ rdata: Buffer.from([127, 0, 0, 1]) }], name);
        t.match((await on.ask(name, 'AAAA')).answers, [{ rdata: Buffer.from([...Array(15).fill(0), 1]) }], name);
        for (const type of ['SRV', 'NS'] as const)
          t.match(await on.ask(name, type), { rcode: 0, answers: [], authorities: [{ type: TYPE.SOA }] });
      }
      const six = (nibbles: string) => `${[...nibbles].reverse().join('.')}.ip6.arpa`;
      for (const name of [
        'x.invalid',
        'INVALID',
        'else.test',
        '9.9.8.10.in-addr.arpa',
        '1.1.168.192.in-addr.arpa',
        '1.0.16.172.in-addr.arpa',
        '1.1.254.169.in-addr.arpa',
        '1.64.100.in-addr.arpa',
        '2.0.0.127.in-addr.arpa',
        six('fd000000000000000000000000000099'),
        six('fe800000000000000000000000000099'),
      ])
        t.match(
          await on.ask(name, 'PTR'),
          { rcode: name.endsWith('INVALID') ? 0 : 3, authorities: [{ type: TYPE.SOA }] },
          name,
        );
      t.equal(on.upstream.heard.length, heard, 'none of it was asked elsewhere');
      t.match(
        await on.ask('1.0.0.10.in-addr.arpa', 'PTR'),
        { rcode: 0, answers: [{ type: TYPE.PTR }] },
        'of an endpoint',
      );
      await on.ask('4.4.8.8.in-addr.arpa', 'PTR');
      t.equal(on.upstream.heard.length, heard + 1, 'a public one is');
    },
  ],
  [
    '51',
    'local is of multicast DNS, and never forwarded (RFC 6762 s.22.1)',
    async (t, on) => {
      const heard = on.upstream.heard.length;
      for (const name of ['printer.local', 'PRINTER.Local', '_http._tcp.local'])
        t.match(await on.ask(name, 'A'), { rcode: 3, answers: [], authorities: [{ type: TYPE.SOA }] }, name);
      t.equal(on.upstream.heard.length, heard);
    },
  ],
  [
    '52',
    'home.arpa and onion are never forwarded (RFC 8375 s.4, RFC 7686)',
    async (t, on) => {
      const heard = on.upstream.heard.length;
      for (const name of ['tv.home.arpa', 'x.onion', 'a.b.ONION'])
        t.match(await on.ask(name, 'A'), { rcode: 3, answers: [], authorities: [{ type: TYPE.SOA }] }, name);
      t.equal(on.upstream.heard.length, heard);
    },
  ],
  [
    '54',
    'names are compared without case and come back as they were asked; labels may hold any byte (RFC 4343)',
    async (t, on) => {
      for (const name of ['WeB.SvC.TeSt', 'wEb.sVc.tEsT', 'WWW.eXample', 'NOPE.svc.TEST', 'LOCALhost']) {
        const asked = query(name, 'A', { edns: {} });
        for (const tcp of [false, true])
          for (let i = 0; i < 3; i++) t.same((await on.send(asked, { tcp })).question, questionOf(name, 'A'), name);
      }
      t.equal((await on.ask('WeB.SvC.TeSt', 'A')).answers.length, 2);
      t.ok(
        on.upstream.heard.filter(({ name }) => name.toLowerCase() === 'www.example').length <= 2,
        'one entry for all',
      );
      const label = (...bytes: number[]) => Buffer.from([bytes.length, ...bytes]);
      const zone = Buffer.concat([
        label(...Buffer.from('svc')),
        label(...Buffer.from('test')),
        Buffer.from([0, 0, 1, 0, 1]),
      ]);
      for (const odd of [
        label(0),
        label(0x2e),
        label(255, 0, 128),
        label(...Buffer.from('we.b')),
        label(...Array(63).fill(7)),
      ]) {
        const asked = Buffer.concat([odd, zone]);
        const reply = await on.send(raw(0x0100, [1, 0, 0, 0], asked));
        t.match(reply, { rcode: 3 }, `label ${odd.toString('hex').slice(0, 12)}`);
        t.same(reply.question, asked);
      }
      // Two names that differ in a byte that text would not show are two.
      const foreign = (byte: number) =>
        raw(
          0x0100,
          [1, 0, 0, 0],
          Buffer.concat([label(byte), label(...Buffer.from('example')), Buffer.from([0, 0, 1, 0, 1])]),
        );
      const heard = on.upstream.heard.length;
      for (const byte of [0xc1, 0xe1, 0x2e, 0, 0x41, 0x61]) t.match(await on.send(foreign(byte)), { rcode: 0 });
      t.equal(on.upstream.heard.length - heard, 5, 'only A and a are one');
      const longest = Buffer.concat([...Array(124).fill(label(0x61)), label(0x62, 0x63), Buffer.from([0, 0, 1, 0, 1])]);
      t.equal(longest.length - 4, 252);
      t.match(await on.send(raw(0x0100, [1, 0, 0, 0], Buffer.concat([label(0x61, 0x61), longest]))), {
        rcode: 0,
      });
      t.match(await on.send(raw(0x0100, [1, 0, 0, 0], Buffer.concat([label(0x61, 0x61, 0x61), longest]))), {
        rcode: 1,
      });
    },
  ],
];

prove(items);

t.test('53 the words of RFC 9499: NODATA, forwarder, negative response', async (t) => {
  const folder = join(root, 'docs');
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.md'))) {
    const text = readFileSync(join(folder, file), 'utf8');
    t.notMatch(text, /\bno-data\b|\bnxrrset\b|\bnegative reply\b/i, file);
  }
});
