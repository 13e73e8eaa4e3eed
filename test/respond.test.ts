import fc from 'fast-check';
import t, { type Test } from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { nameToWire } from '../src/dns/names.js';
import type { Row } from '../src/registry/registry.js';
import { allows } from '../src/server/acl.js';
import { COUNTER, COUNTER_WORDS, CounterTotals, latencyCounter } from '../src/server/counters.js';
import { type Ask, decode, type Reply, row, SYNCED, service, World } from './answers-fixture.js';

const WEB = [
  row('10.0.0.1', 8081, { portName: 'http', tags: ['blue'] }),
  row('10.0.0.2', 8082, { portName: 'http' }),
  row('10.0.0.3', 8083, { portName: 'http', priority: 10 }),
];

function small(): World {
  const world = new World();
  world.zone('svc.internal', [service('web', WEB), service('empty', [])]);
  return world;
}

/** What a reply says, in one comparable value. */
function summary(reply: Reply) {
  const { rcode, answers, authorities } = reply;
  const soa = authorities.map(({ name, type, ttl }) => `${name} ${type} ${ttl}`);
  return { rcode, aa: reply.flags.aa, answers: answers.length, soa, ede: reply.ede?.code };
}

const SOA = ['svc.internal 6 3'];
const NODATA = { rcode: 0, aa: 1, answers: 0, soa: SOA, ede: undefined };
const NXDOMAIN = { rcode: 3, aa: 1, answers: 0, soa: SOA, ede: undefined };

function endpoints(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => row(`10.1.${i >> 8}.${i & 255}`, 1000 + i, { portName: 'http' }));
}

t.test('positive answers', async (t) => {
  const world = small();

  t.test('SRV has all priorities in ascending order and one address a target', async (t) => {
    const reply = world.ask('web.svc.internal', 'SRV');
    t.same(reply.answers.map(({ priority, port, target }) => `${priority} ${port} ${target}`).sort(), [
      '0 8081 10-0-0-1.ip.svc.internal',
      '0 8082 10-0-0-2.ip.svc.internal',
      '10 8083 10-0-0-3.ip.svc.internal',
    ]);
    t.equal(reply.answers[2]!.priority, 10);
    t.same(reply.additionals.map(({ name, address, ttl }) => `${name} ${ttl} ${address}`).sort(), [
      '10-0-0-1.ip.svc.internal 2 10.0.0.1',
      '10-0-0-2.ip.svc.internal 2 10.0.0.2',
      '10-0-0-3.ip.svc.internal 2 10.0.0.3',
    ]);
    t.same([reply.flags.qr, reply.flags.aa, reply.flags.ra, reply.flags.ad, reply.flags.tc], [1, 1, 0, 0, 0]);
  });

  t.test('every SRV target resolves to what the additional section says', async (t) => {
    for (const { name, address } of world.ask('web.svc.internal', 'SRV').additionals) {
      t.same(
        world.ask(name, 'A').answers.map((record) => record.address),
        [address],
      );
    }
  });

  t.test('A has the best priority only', async (t) => {
    const addresses = world.ask('web.svc.internal', 'A').answers.map(({ address }) => address);
    t.same(addresses.sort(), ['10.0.0.1', '10.0.0.2']);
  });

  t.test('ANY gets one RRset', async (t) => {
    t.same(new Set(world.ask('web.svc.internal', 'ANY').answers.map(({ type }) => type)), new Set([TYPE.A]));
    t.same(
      world.ask('svc.internal', 'ANY').answers.map(({ type }) => type),
      [TYPE.SOA],
    );
  });

  t.test('SOA, NS, its target and the status text exist', async (t) => {
    const soa = world.ask('svc.internal', 'SOA').answers[0]!;
    t.match(soa, { primary: 'ns.ip.svc.internal', serial: 1_700_000_000, minimum: 3, ttl: 3 });
    t.same(
      world.ask('svc.internal', 'NS').answers.map(({ ns }) => ns),
      ['ns.ip.svc.internal'],
    );
    t.same(
      world.ask('ns.ip.svc.internal', 'A').answers.map(({ address }) => address),
      ['127.0.0.1'],
    );
    t.equal(world.ask('ns.ip.svc.internal', 'AAAA').answers.length, 1);
    t.same(world.ask('_status.svc.internal', 'TXT').answers[0]!.data, ['fresh']);
  });

  t.test('IPv6 endpoints are AAAA, in SRV, by name and in reverse', async (t) => {
    const world = new World();
    world.zone('six.test', [service('web', [row('fd00::1', 80)])]);
    const srv = world.ask('web.six.test', 'SRV');
    t.equal(srv.answers[0]!.target, 'fd00-0-0-0-0-0-0-1.ip.six.test');
    t.match(srv.additionals, [{ name: 'fd00-0-0-0-0-0-0-1.ip.six.test', type: TYPE.AAAA }]);
    t.equal(world.ask('fd00-0-0-0-0-0-0-1.ip.six.test', 'AAAA').answers.length, 1);
    t.match(summary(world.ask('web.six.test', 'A')), { rcode: 0, answers: 0, soa: ['six.test 6 3'] });
    const reverse = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa';
    t.equal(world.ask(reverse, 'PTR').answers[0]!.domain, 'fd00-0-0-0-0-0-0-1.ip.six.test');
  });

  t.test('the question comes back in its own case and is matched without it (RFC 4343)', async (t) => {
    const query = encodeQuery({ name: '_hTTp._TCP.wEb.SvC.InTernal', type: TYPE.SRV })!;
    const reply = world.send(query);
    t.same(reply.subarray(12, query.length), query.subarray(12));
    t.equal(decode(reply).answers.length, 3);
  });

  t.test('two instances on one address: two SRV, one A, one additional', async (t) => {
    const world = new World();
    world.zone('svc.internal', [service('pair', [row('10.0.0.1', 1), row('10.0.0.1', 2)])]);
    const srv = world.ask('pair.svc.internal', 'SRV');
    t.same([srv.answers.length, srv.additionals.length, world.ask('pair.svc.internal', 'A').answers.length], [2, 1, 1]);
  });

  t.test('one port under two protocols is one SRV record at the service', async (t) => {
    const world = new World();
    const rows = [row('10.0.0.1', 53), row('10.0.0.1', 53, { protocol: 'udp', weight: 20 })];
    world.zone('svc.internal', [service('dns', rows)]);
    t.match(world.ask('dns.svc.internal', 'SRV').answers, [{ port: 53, weight: 20 }]);
    t.match(world.ask('_dns._tcp.svc.internal', 'SRV').answers, [{ port: 53, weight: 10 }]);
  });
});

t.test('no SRV target is compressed (RFC 2782)', async (t) => {
  const world = new World();
  world.zone('svc.internal', [service('web', endpoints(20))]);
  const reply = world.send(encodeQuery({ name: 'web.svc.internal', type: TYPE.SRV })!, { transport: 'tcp' });
  let at = 12 + nameToWire('web.svc.internal')!.length + 4;
  for (let i = 0; i < 20; i++) {
    t.same([...reply.subarray(at, at + 4)], [0xc0, 0x0c, 0, TYPE.SRV]);
    const length = (reply[at + 10]! << 8) | reply[at + 11]!;
    let label = at + 18;
    while (reply[label]! > 0 && reply[label]! < 64) label += reply[label]! + 1;
    t.equal(label, at + 11 + length, 'the root label ends RDATA');
    at += 12 + length;
  }
});

t.test('negative answers (R25)', async (t) => {
  const world = small();

  t.test('a name that has other types, and an empty non-terminal, is NODATA', async (t) => {
    for (const type of ['AAAA', 'TXT', 'SOA', 'NS', 1000] as const) {
      t.same(summary(world.ask('web.svc.internal', type)), NODATA, `${type}`);
    }
    for (const name of ['_tcp.svc.internal', 'ip.svc.internal', '_tcp.web.svc.internal', '_web._tcp.svc.internal']) {
      t.same(summary(world.ask(name, 'A')), NODATA, name);
    }
    t.same(summary(world.ask('svc.internal', 43)), NODATA, 'DS at the apex');
    t.same(summary(world.ask('svc.internal', 'A')), NODATA, 'A at the apex');
  });

  t.test('a listed service without rows is NODATA', async (t) => {
    for (const name of ['empty.svc.internal', '_empty._tcp.svc.internal', '_empty._udp.svc.internal']) {
      t.same(summary(world.ask(name, 'SRV')), NODATA, name);
    }
  });

  t.test('an unlisted name is NXDOMAIN', async (t) => {
    const absent = ['nope', '_nope._tcp', 'green.web', '10-0-0-9.ip', 'a.b.c.d', '_x.web', 'api.example.com'];
    for (const name of absent) t.same(summary(world.ask(`${name}.svc.internal`, 'A')), NXDOMAIN, name);
  });

  t.test('while the registry is not heard, NXDOMAIN of a name that fits a form says so, and no other', async (t) => {
    const world = new World();
    const zone = world.zone('svc.internal');
    zone.setState({ ...SYNCED, negative: { code: 19, text: 'registry not heard for 42 s' } });
    const asked = world.ask('nope.svc.internal', 'A', { edns: {} });
    t.same(summary(asked), { ...NXDOMAIN, ede: 19 });
    t.equal(asked.ede?.text, 'registry not heard for 42 s');
    t.same(summary(world.ask('api.example.com.svc.internal', 'A', { edns: {} })), NXDOMAIN);
    zone.setState(SYNCED);
    t.same(summary(world.ask('nope.svc.internal', 'A', { edns: {} })), NXDOMAIN);
  });

  t.test('while target names are still being put, only they may yet exist', async (t) => {
    const world = new World();
    world.zone('svc.internal', [service('web', WEB)]).setState({ ...SYNCED, targetsPending: true });
    t.same(summary(world.ask('10-9-9-9.ip.svc.internal', 'A', { edns: {} })), {
      rcode: 2,
      aa: 0,
      answers: 0,
      soa: [],
      ede: 14,
    });
    t.same(summary(world.ask('x.ip.svc.internal', 'A', { edns: {} })), NXDOMAIN, 'which is no address');
    t.same(summary(world.ask('nope.svc.internal', 'A', { edns: {} })), NXDOMAIN);
    t.equal(world.ask('web.svc.internal', 'A').answers.length, 2);
  });

  t.test('before the first sync a name that fits a form is SERVFAIL with EDE 14, any other NXDOMAIN', async (t) => {
    const world = new World();
    world.zone('svc.internal').setState({ ...SYNCED, synced: false });
    const fits = ['web', '_web._tcp', '_http._tcp.web', 'blue.web', '_http._tcp.blue.web', '_tcp', '10-0-0-1.ip'];
    for (const name of fits) {
      const reply = summary(world.ask(`${name}.svc.internal`, 'A', { edns: {} }));
      t.same(reply, { rcode: 2, aa: 0, answers: 0, soa: [], ede: 14 }, name);
    }
    const others = [
      'a.b.c',
      '-web',
      '_web',
      '010-0-0-1.ip',
      '1-2-3.ip',
      'fd00-0-0-0-0-0-0-01.ip',
      '256-0-0-1.ip',
      'we_b',
    ];
    for (const name of others) t.same(summary(world.ask(`${name}.svc.internal`, 'A', { edns: {} })), NXDOMAIN, name);
    t.equal(world.ask('svc.internal', 'SOA').answers.length, 1);
  });
});

t.test('zones and clients (R21, R31)', async (t) => {
  const world = new World();
  world.zone('svc.internal', [service('web', [row('10.0.0.1', 80)]), service('own', [row('10.0.0.8', 80)])]);
  world.zone('team.svc.internal', [service('web', [row('10.0.0.2', 80)])], { allow: ['10.9.0.0/16', 'fd00::/8'] });
  world.zone('view.test', [service('web', [row('10.0.0.3', 80)])], { listen: [1] });
  world.zone('view.test', [service('web', [row('10.0.0.4', 80)])], { listen: [2, 3] });
  const address = (name: string, ask: Ask) => world.ask(name, 'A', ask).answers.map((record) => record.address);

  t.test('the longest matching zone owns a name, alone', async (t) => {
    t.same(address('web.team.svc.internal', { from: '10.9.1.1' }), ['10.0.0.2']);
    t.same(summary(world.ask('web.team.svc.internal', 'A', { edns: {} })), {
      rcode: 5,
      aa: 0,
      answers: 0,
      soa: [],
      ede: 18,
    });
    t.equal(world.ask('own.team.svc.internal', 'A', { from: '10.9.1.1' }).rcode, 3);
  });

  t.test('prefixes of both families', async (t) => {
    t.equal(world.ask('web.team.svc.internal', 'A', { from: 'fdab::1' }).rcode, 0);
    t.equal(world.ask('web.team.svc.internal', 'A', { from: 'fe80::1' }).rcode, 5);
    t.equal(world.ask('web.svc.internal', 'A', { from: '::1' }).rcode, 0);
    t.equal(world.ask('web.svc.internal', 'A', { from: '128.0.0.1' }).rcode, 5);
    const zone = { index: 0, name: nameToWire('x')!, naming: 'rfc2782' as const };
    const any = { ...zone, allow4: new Int32Array(2), allow6: new Int32Array(0) };
    t.ok(allows(any, { family: 4, bytes: Uint8Array.of(0, 200, 1, 2, 3), offset: 1 }), '0.0.0.0/0');
  });

  t.test('where anybody may ask, strangers get three times over UDP what they sent, and TC', async (t) => {
    const world = new World();
    const rows = Array.from({ length: 20 }, (_, i) => row(`10.0.1.${i}`, 80));
    world.zone('open.test', [service('web', rows)], { allow: ['0.0.0.0/0', '::/0'] });
    world.zone('wide.test', [service('web', rows)], { allow: ['203.0.0.0/8', '2001::/16'] });
    const sizes = (name: string, from: string, more: Ask = {}) => {
      for (const edns of [undefined, { payload: 1232 }]) {
        const asked = encodeQuery({ id: 1, name, type: TYPE.SRV, ...(edns ? { edns } : {}) })!;
        const reply = decode(world.send(asked, { from, ...more }));
        const small = reply.bytes.length <= 3 * asked.length;
        t.ok(small ? reply.flags.tc === 1 : reply.bytes.length > 400, `${name} for ${from}: ${reply.bytes.length}`);
        if (small !== (name === 'web.open.test' && !near.includes(from) && more.transport !== 'tcp')) return false;
        t.equal(reply.opts, edns ? 1 : 0);
      }
      return true;
    };
    const near = ['127.0.0.1', '10.1.1.1', '192.168.7.7', '::1', 'fd00::7', 'fe80::1'];
    for (const from of [...near, '203.0.113.1', '8.8.8.8', '2001:db8::1']) {
      t.ok(sizes('web.open.test', from), from);
      t.ok(sizes('web.open.test', from, { transport: 'tcp' }), `${from} over TCP`);
    }
    for (const from of ['203.0.113.1', '2001:db8::1'])
      t.ok(sizes('web.wide.test', from), 'a prefix is a network of ours');
  });

  t.test('a view is answered on its listen addresses only', async (t) => {
    t.same(address('web.view.test', { listen: 1 }), ['10.0.0.3']);
    t.same(address('web.view.test', { listen: 2 }), ['10.0.0.4']);
    t.same(address('web.view.test', { listen: 3 }), ['10.0.0.4']);
    t.match(summary(world.ask('web.view.test', 'A', { listen: 0, edns: {} })), { rcode: 5, ede: 20 });
  });

  t.test('foreign names are REFUSED, never NXDOMAIN', async (t) => {
    for (const name of ['example.com', 'internal', 'xsvc.internal', '', 'arpa', '9.9.9.9.in-addr.arpa']) {
      t.same(summary(world.ask(name, 'A', { edns: {} })), { rcode: 5, aa: 0, answers: 0, soa: [], ede: 20 }, name);
    }
  });

  t.test('PTR only for zones that the client may ask, other types NODATA', async (t) => {
    t.match(world.ask('1.0.0.10.in-addr.arpa', 'PTR').answers, [{ domain: '10-0-0-1.ip.svc.internal', ttl: 2 }]);
    t.match(world.ask('1.0.0.10.IN-ADDR.ARPA', 'A').authorities, [{ name: '1.0.0.10.IN-ADDR.ARPA', type: TYPE.SOA }]);
    t.equal(world.ask('2.0.0.10.in-addr.arpa', 'PTR').rcode, 5);
    t.equal(world.ask('2.0.0.10.in-addr.arpa', 'PTR', { from: '10.9.1.1' }).answers.length, 1);
    t.equal(world.ask('3.0.0.10.in-addr.arpa', 'PTR', { listen: 2 }).rcode, 5);
    t.equal(world.ask('3.0.0.10.in-addr.arpa', 'PTR', { listen: 1 }).answers.length, 1);
  });
});

t.test('messages that are no plain query', async (t) => {
  const world = small();
  const plain = encodeQuery({ id: 0xabcd, name: 'web.svc.internal', type: TYPE.A, edns: {} })!;
  const changed = (change: (bytes: Uint8Array) => void, base = plain) => {
    const bytes = base.slice();
    change(bytes);
    return bytes;
  };
  const withRecords = (records: number[][], counts: { an?: number; ns?: number; ar?: number } = {}) => {
    const base = encodeQuery({ id: 0xabcd, name: 'web.svc.internal', type: TYPE.A })!;
    const bytes = Uint8Array.from([...base, ...records.flat()]);
    bytes[7] = counts.an ?? 0;
    bytes[9] = counts.ns ?? 0;
    bytes[11] = counts.ar ?? 0;
    return bytes;
  };
  const OPT = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];
  const A = [0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 1, 2, 3, 4];
  const ask = (bytes: Uint8Array) => {
    const { rcode, questions, opts, answers } = decode(world.send(bytes));
    return { rcode, questions, opts, answers: answers.length };
  };

  t.test('responses and scraps are dropped', async (t) => {
    t.equal(world.send(changed((bytes) => (bytes[2]! |= 0x80))).length, 0);
    for (let length = 0; length < 12; length++) t.equal(world.send(plain.slice(0, length)).length, 0);
  });

  t.test('the header comes back with RD and CD, without Z and AD', async (t) => {
    const reply = world.send(changed((bytes) => (bytes[3] = 0x70)));
    t.same([...reply.subarray(0, 4)], [0xab, 0xcd, 0x85, 0x10]);
    const silent = world.send(changed((bytes) => (bytes[2] = 0)));
    t.same([...silent.subarray(0, 4)], [0xab, 0xcd, 0x84, 0x00]);
  });

  t.test('not one question is FORMERR, with OPT when asked', async (t) => {
    const header = encodeQuery({ name: '', type: 0 })!.slice(0, 12);
    t.same(ask(changed((bytes) => (bytes[5] = 0), header)), { rcode: 1, questions: 0, opts: 0, answers: 0 });
    const none = Uint8Array.from([...header, ...OPT]);
    t.same(
      ask(
        changed(
          (bytes) => bytes.set([0, 1], 10),
          changed((bytes) => (bytes[5] = 0), none),
        ),
      ),
      {
        rcode: 1,
        questions: 0,
        opts: 1,
        answers: 0,
      },
    );
    const question = plain.slice(12, plain.length - OPT.length);
    const two = Uint8Array.from([...plain.slice(0, 12), ...question, ...question, ...OPT]);
    t.same(ask(changed((bytes) => (bytes[5] = 2), two)), { rcode: 1, questions: 0, opts: 1, answers: 0 });
  });

  t.test('a bad question is FORMERR with the header alone', async (t) => {
    const header = [0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const bad: Record<string, number[]> = {
      pointer: [0xc0, 0x0c, 0, 1, 0, 1],
      'label type 0x40': [0x41, 0x61, 0, 0, 1, 0, 1],
      'label type 0x80': [0x81, 0x61, 0, 0, 1, 0, 1],
      'cut in a label': [5, 0x61],
      'cut in the class': [1, 0x61, 0, 0, 1, 0],
      'over 255 octets': [...new Array(127).fill([1, 0x61]).flat(), 1, 0x61, 0, 0, 1, 0, 1],
    };
    for (const [what, question] of Object.entries(bad)) {
      const reply = world.send(Uint8Array.from([...header, ...question]));
      t.same([...reply], [0xab, 0xcd, 0x81, 0x01, 0, 0, 0, 0, 0, 0, 0, 0], what);
    }
    const longest = [...new Array(127).fill([1, 0x61]).flat(), 0, 0, 1, 0, 1];
    t.equal(decode(world.send(Uint8Array.from([...header, ...longest]))).rcode, 5, '255 octets are a name');
  });

  t.test('other opcodes are NOTIMP without question, with OPT when asked', async (t) => {
    for (const opcode of [1, 2, 4, 5, 6, 15]) {
      const reply = world.send(changed((bytes) => (bytes[2] = (opcode << 3) | 1)));
      t.equal(reply[2], 0x80 | (opcode << 3) | 1);
      t.same(ask(changed((bytes) => (bytes[2] = opcode << 3))), { rcode: 4, questions: 0, opts: 1, answers: 0 });
    }
  });

  t.test('transfers, other classes and meta types', async (t) => {
    const rcode = (type: number, class_ = 1) => world.ask('web.svc.internal', type, { class: class_, edns: {} }).rcode;
    t.same(
      [rcode(TYPE.AXFR), rcode(TYPE.IXFR), rcode(TYPE.A, 3), rcode(TYPE.A, 255), rcode(TYPE.TXT, 4)],
      [5, 5, 5, 5, 5],
    );
    t.same([rcode(TYPE.OPT), rcode(TYPE.TSIG), rcode(TYPE.TKEY)], [1, 1, 1]);
  });

  t.test('EDNS (RFC 6891)', async (t) => {
    const ok = { rcode: 0, questions: 1, opts: 1, answers: 2 };
    const bad = { rcode: 1, questions: 1, opts: 1, answers: 0 };
    t.same(ask(withRecords([OPT], { ar: 1 })), ok);
    t.same(ask(withRecords([OPT, OPT], { ar: 2 })), bad, 'two OPT records');
    t.same(ask(withRecords([[1, 0x61, ...OPT]], { ar: 1 })), { ...bad, opts: 0 }, 'an owner that is not the root');
    t.same(ask(withRecords([OPT], { ns: 1 })), { ...bad, opts: 0 }, 'outside the additional section');
    t.same(ask(withRecords([[...OPT.slice(0, 10), 3, 0, 10, 0]], { ar: 1 })), bad, 'half an option');
    t.same(
      ask(withRecords([[...OPT.slice(0, 10), 4, 0, 10, 0, 8]], { ar: 1 })),
      bad,
      'an option longer than the record',
    );
    t.same(ask(withRecords([[...OPT.slice(0, 10), 5, 0xff, 0xf0, 0, 1, 7]], { ar: 1 })), ok, 'an unknown option');
    const version = world.ask('web.svc.internal', 'A', { edns: { version: 1, dnssecOk: true } });
    t.match(version, { rcode: 16, questions: 1, opts: 1, answers: [], opt: { version: 0, dnssecOk: true } });
    t.equal(world.ask('web.svc.internal', 'A', { edns: { dnssecOk: true } }).opt?.dnssecOk, true);
    t.equal(world.ask('web.svc.internal', 'A', { edns: { payload: 9000 } }).opt?.payload, 1232);
  });

  t.test('records in a query are skipped when whole, FORMERR when not; bytes behind them are ignored', async (t) => {
    const ok = { rcode: 0, questions: 1, opts: 0, answers: 2 };
    t.same(ask(withRecords([A], { an: 1 })), ok);
    t.same(ask(withRecords([A, A, OPT], { an: 1, ns: 1, ar: 1 })), { ...ok, opts: 1 });
    t.same(ask(withRecords([A.slice(0, -1)], { an: 1 })), { ...ok, rcode: 1, answers: 0 });
    t.same(ask(withRecords([], { ar: 1 })), { ...ok, rcode: 1, answers: 0 });
    t.same(ask(withRecords([[1, 2, 3, 4]])), ok);
  });
});

t.test('sizes and truncation (RFC 2181 s.9, R26)', async (t) => {
  const limits: [string, Ask, number][] = [
    ['no EDNS', {}, 512],
    ['payload 100', { edns: { payload: 100 } }, 512],
    ['payload 512', { edns: { payload: 512 } }, 512],
    ['payload 1232', { edns: { payload: 1232 } }, 1232],
    ['payload 4096', { edns: { payload: 4096 } }, 1232],
    ['TCP', { transport: 'tcp' }, 65_535],
    ['TCP with EDNS', { transport: 'tcp', edns: { payload: 512 } }, 65_535],
  ];
  const world = new World();
  const status = world.table.allocStatus();
  const zone = world.zone('svc.internal');

  for (const count of [1, 2, 5, 7, 9, 17, 23, 60, 100, 333, 600, 3000, 5000]) {
    const rows = endpoints(count);
    const name = `s${'x'.repeat(count % 50)}`;
    zone.putService(service(name, rows, { status, order: 'stable' }));
    for (const [what, ask, limit] of limits) {
      for (const type of ['SRV', 'A'] as const) {
        const seen: { total: number; answers: number; tc: number; additionals: number }[] = [];
        for (const ede of [
          undefined,
          { code: 3 },
          { code: 3, text: 'stale 42 s, registry not heard: connection refused' },
        ]) {
          world.table.setStatus(status, ede);
          const reply = world.ask(`${name}.svc.internal`, type, ask);
          if (reply.bytes.length > limit) t.fail(`${count} ${type} ${what}: ${reply.bytes.length} bytes`);
          if (reply.errors.length > 0) t.fail(`${count} ${type} ${what}: ${reply.errors}`);
          if (reply.opts !== (ask.edns ? 1 : 0)) t.fail(`${count} ${type} ${what}: ${reply.opts} OPT`);
          if (ede && ask.edns && reply.ede?.code !== 3) t.fail(`${count} ${type} ${what}: no EDE`);
          const targets = new Set(reply.answers.map(({ target }) => target));
          if (targets.size !== reply.answers.length && type === 'SRV') t.fail(`${count} ${what}: a target twice`);
          if (!reply.additionals.every(({ name }) => targets.has(name))) t.fail(`${count} ${what}: foreign additional`);
          const { additionals, flags } = reply;
          seen.push({ total: count, answers: reply.answers.length, tc: flags.tc, additionals: additionals.length });
        }
        t.same(seen[1], seen[0], `${count} ${type} ${what}: stale is cut as fresh`);
        t.same(seen[2], seen[0], `${count} ${type} ${what}: a text cuts nothing`);
        t.equal(seen[0]!.tc, seen[0]!.answers < count ? 1 : 0, `${count} ${type} ${what}: TC tells of missing records`);
        t.ok(seen[0]!.answers > 0, `${count} ${type} ${what}: never an empty answer`);
        if (seen[0]!.tc) t.equal(seen[0]!.additionals, 0, `${count} ${what}: no additional with TC`);
      }
    }
    zone.removeService(name);
  }

  t.test('the text of an EDE goes before an additional record, the option stays', async (t) => {
    const rows = endpoints(8);
    zone.putService(service('edge', rows, { status }));
    world.table.setStatus(status, { code: 3, text: 'x'.repeat(60) });
    const seen = new Set<string>();
    for (let payload = 512; payload <= 700; payload++) {
      const reply = world.ask('edge.svc.internal', 'SRV', { edns: { payload } });
      if (reply.bytes.length > payload) t.fail(`${reply.bytes.length} bytes for ${payload}`);
      seen.add(`${reply.flags.tc} ${reply.additionals.length} ${reply.ede?.text.length}`);
    }
    t.same([...seen], ['0 6 0', '0 7 0', '0 8 0', '0 8 60']);
  });

  t.test('over 16 kB owners of additional records are written in full', async (t) => {
    zone.putService(service('many', endpoints(800)));
    const reply = world.ask('many.svc.internal', 'SRV', { transport: 'tcp' });
    t.same([reply.answers.length, reply.additionals.length, reply.errors.length], [800, 800, 0]);
    t.ok(reply.bytes.length > 0x4000);
  });

  t.test('maxAnswers gives a rotating subset without TC', async (t) => {
    zone.putService(service('few', endpoints(40), { maxAnswers: 4 }));
    for (const type of ['SRV', 'A'] as const) {
      const seen = new Set<unknown>();
      for (let i = 0; i < 1000; i++) {
        const { answers, flags } = world.ask('few.svc.internal', type);
        if (answers.length !== 4 || flags.tc !== 0) t.fail('not four answers');
        for (const { target, address } of answers) seen.add(target ?? address);
      }
      t.equal(seen.size, 40, 'all get a share');
    }
  });
});

t.test('order (R24)', async (t) => {
  const world = new World();
  const status = world.table.allocStatus();
  const zone = world.zone('svc.internal');
  const firsts = (name: string, type: 'A' | 'SRV', draws = 10_000) => {
    const counts = new Map<string, number>();
    for (let i = 0; i < draws; i++) {
      const { address, target } = world.ask(`${name}.svc.internal`, type).answers[0]!;
      const key = (address ?? target!.split('.')[0]!.replaceAll('-', '.')).split('.').at(-1)!;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return counts;
  };
  const within = (t: Test, counts: Map<string, number>, shares: Record<string, number>, draws = 10_000) => {
    for (const [key, share] of Object.entries(shares)) {
      const got = (counts.get(key) ?? 0) / draws;
      t.ok(Math.abs(got - share) < 0.015, `${key}: ${got} for ${share}`);
    }
    t.same([...counts.keys()].sort(), Object.keys(shares).sort());
  };

  t.test('ten equal endpoints are each first in a tenth of the answers, fresh and stale', async (t) => {
    zone.putService(
      service(
        'ten',
        Array.from({ length: 10 }, (_, i) => row(`10.0.0.${i}`, 80)),
        { status },
      ),
    );
    const tenth = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`${i}`, 0.1]));
    for (const ede of [undefined, { code: 3 }]) {
      world.table.setStatus(status, ede);
      for (const type of ['A', 'SRV'] as const) within(t, firsts('ten', type), tenth);
    }
  });

  t.test('weights', async (t) => {
    const rows = [1, 3, 6].map((weight) => row(`10.0.0.${weight}`, 80, { weight }));
    zone.putService(service('three', [...rows, row('10.0.0.9', 80, { weight: 0 })]));
    for (const type of ['A', 'SRV'] as const) within(t, firsts('three', type), { 1: 0.1, 3: 0.3, 6: 0.6 });
    const last = new Set(Array.from({ length: 200 }, () => world.ask('three.svc.internal', 'SRV').answers[3]!.target));
    t.same([...last], ['10-0-0-9.ip.svc.internal'], 'weight 0 comes last in SRV');
    t.equal(world.ask('three.svc.internal', 'A').answers.length, 3, 'and is not among the addresses');
  });

  t.test('the second place too is drawn by weight', async (t) => {
    const rows = [1, 1, 8].map((weight, i) => row(`10.0.0.${i}`, 80, { weight }));
    zone.putService(service('second', rows));
    let light = 0;
    for (let i = 0; i < 10_000; i++) {
      const { answers } = world.ask('second.svc.internal', 'SRV');
      if (answers[0]!.weight === 8 && answers[1]!.target!.startsWith('10-0-0-0')) light++;
    }
    t.ok(Math.abs(light / 10_000 - 0.4) < 0.02, `${light}`);
  });

  t.test('weight 0 is answered when nothing else is left', async (t) => {
    zone.putService(service('idle', [row('10.0.0.1', 80, { weight: 0 }), row('10.0.0.2', 80, { weight: 0 })]));
    for (const type of ['A', 'SRV'] as const) within(t, firsts('idle', type), { 1: 0.5, 2: 0.5 });
  });

  t.test('more than sixteen: a weighted start, the rest in turn, each once', async (t) => {
    const weight = (i: number) => (i < 10 ? 10 : 0 + (i === 10 ? 100 : 1));
    const rows = Array.from({ length: 20 }, (_, i) => row(`10.0.0.${i}`, 80, { weight: weight(i) }));
    zone.putService(service('twenty', rows));
    const counts = firsts('twenty', 'SRV');
    t.ok(Math.abs((counts.get('10') ?? 0) / 10_000 - 100 / 209) < 0.02);
    const { answers } = world.ask('twenty.svc.internal', 'SRV', { transport: 'tcp' });
    t.equal(new Set(answers.map(({ target }) => target)).size, 20);
  });

  t.test('stable keeps the given order', async (t) => {
    const rows = [row('10.0.0.2', 80), row('10.0.0.1', 80, { priority: 1 }), row('10.0.0.3', 80)];
    zone.putService(service('fixed', rows, { order: 'stable' }));
    const orders = new Set(
      Array.from({ length: 100 }, () => {
        const srv = world.ask('fixed.svc.internal', 'SRV').answers.map(({ target }) => target!.split('.')[0]);
        return [...srv, ...world.ask('fixed.svc.internal', 'A').answers.map(({ address }) => address)].join(' ');
      }),
    );
    t.same([...orders], ['10-0-0-2 10-0-0-3 10-0-0-1 10.0.0.2 10.0.0.3']);
  });

  const answered = (name: string, type: 'A' | 'SRV') => {
    const { answers, flags } = world.ask(`${name}.svc.internal`, type);
    if (flags.tc !== 0) t.fail('maxAnswers is no truncation');
    return answers.map(({ target, address }) => (address ?? target!.split('.')[0]!.replaceAll('-', '.')).slice(7));
  };

  t.test('stable with maxAnswers begins at another record each time and goes on in the given order', async (t) => {
    const rows = [1, 2, 3, 4].map((last) => row(`10.0.0.${last}`, 80, { weight: last }));
    zone.putService(service('window', rows, { order: 'stable', maxAnswers: 3 }));
    for (const type of ['A', 'SRV'] as const) {
      const counts = new Map<string, number>();
      for (let i = 0; i < 10_000; i++) {
        const window = answered('window', type).join(' ');
        counts.set(window, (counts.get(window) ?? 0) + 1);
      }
      within(t, counts, { '1 2 3': 0.25, '2 3 4': 0.25, '3 4 1': 0.25, '4 1 2': 0.25 });
    }
    zone.putService(service('roomy', rows, { order: 'stable', maxAnswers: 4 }));
    for (const type of ['A', 'SRV'] as const) {
      const orders = new Set(Array.from({ length: 100 }, () => answered('roomy', type).join(' ')));
      t.same([...orders], ['1 2 3 4'], 'where all have room, the order stands');
    }
  });

  t.test('stable with maxAnswers over priorities: only the one that is cut takes turns', async (t) => {
    const rows = [1, 2, 3, 4, 5].map((last) => row(`10.0.0.${last}`, 80, { priority: last < 3 ? 0 : 1 }));
    zone.putService(service('cut', rows, { order: 'stable', maxAnswers: 4 }));
    const orders = new Set(Array.from({ length: 200 }, () => answered('cut', 'SRV').join(' ')));
    t.same([...orders].sort(), ['1 2 3 4', '1 2 4 5', '1 2 5 3']);
  });

  for (const [name, count] of [
    ['drawn', 4],
    ['turned', 20],
  ] as const) {
    t.test(`weighted with maxAnswers gives every record its turn, those of weight 0 rarely: ${count}`, async (t) => {
      const weight = (last: number) => (last === 1 ? 1000 : last === 2 ? 500 : 0);
      const rows = Array.from({ length: count }, (_, i) => row(`10.0.0.${i + 1}`, 80, { weight: weight(i + 1) }));
      zone.putService(service(name, rows, { maxAnswers: 1 }));
      const counts = firsts(name, 'SRV');
      t.equal(counts.size, count, 'all of them');
      const weightless = 10_000 - counts.get('1')! - counts.get('2')!;
      t.ok(weightless > 80 && weightless < 240, `one in 64 begins with weight 0: ${weightless} of 10000`);
      t.ok(Math.abs(counts.get('1')! / 10_000 - 0.656) < 0.02, `${counts.get('1')}`);
    });
  }
});

t.test('counters', async (t) => {
  const world = small();
  const status = world.table.allocStatus();
  world.table.setStatus(status, { code: 3 });
  world.zone('old.test', [service('web', endpoints(100), { status })]);
  world.ask('web.svc.internal', 'A');
  world.ask('web.old.test', 'SRV', { edns: {} });
  world.ask('example.com', 'AAAA', { transport: 'tcp' });
  world.ask('web.svc.internal', 99, { from: '8.8.8.8' });
  world.send(Uint8Array.of(1, 2, 3));
  world.send(Uint8Array.from([0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
  world.send(Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
  const expected = new Uint32Array(COUNTER_WORDS);
  for (const [word, count] of [
    [COUNTER.udp, 4],
    [COUNTER.tcp, 1],
    [COUNTER.tooShort, 1],
    [COUNTER.response, 1],
    [COUNTER.malformed, 1],
    [COUNTER.refusedClient, 1],
    [COUNTER.refusedForeign, 1],
    [COUNTER.truncated, 1],
    [COUNTER.stale, 1],
    [COUNTER.type, 1],
    [COUNTER.type + 1, 1],
    [COUNTER.type + 2, 1],
    [COUNTER.type + 8, 1],
    [COUNTER.rcode, 2],
    [COUNTER.rcode + 1, 1],
    [COUNTER.rcode + 5, 2],
  ] as const) {
    expected[word] = count;
  }
  t.same([...world.counters], [...expected]);

  const totals = new CounterTotals();
  world.counters[COUNTER.udp] = 0xffff_fffe;
  totals.add(world.counters);
  world.counters[COUNTER.udp] = 3;
  totals.add(world.counters);
  totals.add(Uint32Array.from({ length: COUNTER_WORDS }, () => 1));
  t.equal(totals.totals[COUNTER.udp], 0xffff_fffe + 5 + 1, 'sums go on over a wrap, and over threads');
  t.same(
    [0, 1, 2, 3, 4, 5, 1000, 1e9].map((us) => latencyCounter(us) - COUNTER.latency),
    [0, 0, 1, 2, 2, 3, 10, 23],
  );
});

t.test('whatever comes in: no throw, no reply to a response, a sound reply within the limit', async (t) => {
  const world = new World();
  const status = world.table.allocStatus();
  world.table.setStatus(status, { code: 3, text: 'stale 42 s' });
  world.zone('svc.internal', [service('web', endpoints(40), { status }), service('one', [row('10.0.0.1', 80)])]);
  world.zone('cold.test').setState({ ...SYNCED, synced: false });
  world.zone('shut.test', [], { allow: [] });

  const check = (query: Uint8Array, transport: 'udp' | 'tcp') => {
    const reply = world.send(query, { transport });
    if (query.length < 12 || (query[2]! & 0x80) !== 0) return reply.length === 0;
    const { bytes, errors, questions, opts, flags, answers } = decode(reply);
    const echoed = questions === 0 || Buffer.compare(query.subarray(12, 17), bytes.subarray(12, 17)) === 0;
    const limit = transport === 'tcp' ? 65_535 : opts > 0 ? 1232 : 512;
    const sound = errors.length === 0 && bytes.length <= limit && opts <= 1 && flags.qr === 1;
    const sameId = bytes[0] === query[0] && bytes[1] === query[1];
    return sound && echoed && sameId && (answers.length === 0 || questions === 1);
  };

  const names = [
    'web.svc.internal',
    'one.svc.internal',
    'nope.svc.internal',
    'web.cold.test',
    'x.shut.test',
    'com',
    '1.0.0.10.in-addr.arpa',
  ];
  const valid = fc
    .record({
      id: fc.nat(65_535),
      name: fc.constantFrom(...names),
      type: fc.constantFrom(1, 2, 6, 12, 16, 28, 33, 41, 252, 255, 1000),
      class: fc.constantFrom(1, 1, 1, 3, 255),
      edns: fc.option(
        fc.record({
          payload: fc.constantFrom(0, 512, 700, 1232, 4096, 65_535),
          version: fc.constantFrom(0, 0, 1),
          dnssecOk: fc.boolean(),
          options: fc.array(fc.record({ code: fc.nat(20), data: fc.uint8Array({ maxLength: 12 }) }), { maxLength: 3 }),
        }),
        { nil: undefined },
      ),
    })
    .map(({ edns, ...query }) => ({ edns, bytes: encodeQuery(edns ? { ...query, edns } : query)! }));
  const transports = fc.constantFrom('udp' as const, 'tcp' as const);

  t.test('valid queries: an OPT exactly when asked, the question byte for byte', async () => {
    fc.assert(
      fc.property(valid, transports, ({ edns, bytes }, transport) => {
        const reply = decode(world.send(bytes, { transport }));
        const end = 12 + 4 + bytes.subarray(12).indexOf(0) + 1;
        const echoed = Buffer.compare(bytes.subarray(12, end), reply.bytes.subarray(12, end)) === 0;
        return check(bytes, transport) && reply.opts === (edns ? 1 : 0) && echoed;
      }),
      { numRuns: 2000 },
    );
  });

  t.test('every prefix of a valid query', async () => {
    fc.assert(
      fc.property(valid, transports, ({ bytes }, transport) =>
        Array.from(bytes, (_, length) => check(bytes.slice(0, length), transport)).every(Boolean),
      ),
      { numRuns: 100 },
    );
  });

  t.test('flipped bits', async () => {
    const flips = fc.array(fc.nat(8 * 100), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(valid, flips, transports, ({ bytes }, flips, transport) => {
        const flipped = bytes.slice();
        for (const bit of flips) flipped[(bit >> 3) % flipped.length]! ^= 1 << (bit & 7);
        return check(flipped, transport);
      }),
      { numRuns: 5000 },
    );
  });

  t.test('random bytes, and random bytes behind a plausible header', async () => {
    const header = fc.tuple(fc.nat(0x7f), fc.nat(2), fc.nat(2), fc.nat(2), fc.nat(3));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), transports, (bytes, transport) => check(bytes, transport)),
      { numRuns: 2000 },
    );
    fc.assert(
      fc.property(header, fc.uint8Array({ maxLength: 80 }), transports, ([flags, qd, an, ns, ar], tail, transport) =>
        check(Uint8Array.from([1, 2, flags & 1, 0, 0, qd, 0, an, 0, ns, 0, ar, ...tail]), transport),
      ),
      { numRuns: 5000 },
    );
  });

  t.test('pointers in records: to themselves, in circles, in long chains', async (t) => {
    const question = encodeQuery({ name: 'one.svc.internal', type: TYPE.A })!;
    const fixed = [0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
    const end = question.length;
    const chain = Array.from({ length: 127 }, (_, i) => [0xc0 | ((end + i * 2) >> 8), (end + i * 2) & 255]).flat();
    for (const owner of [[0xc0 | (end >> 8), end & 255], [0xc0, end + 2, ...fixed, 0xc0, end], chain]) {
      const bytes = Uint8Array.from([...question, ...owner, ...fixed]);
      bytes[11] = 1;
      t.ok(check(bytes, 'udp'));
      t.equal(decode(world.send(bytes)).answers.length <= 1, true);
    }
  });
});

t.test('two zones of one name: the later replaces the earlier without a gap', async (t) => {
  const world = new World();
  const before = world.zone('svc.internal', [service('web', [row('10.0.0.1', 80)])]);
  t.equal(world.ask('web.svc.internal', 'A').answers[0]!.address, '10.0.0.1');
  const after = world.zone('svc.internal', [service('web', [row('10.0.0.2', 80)])], { answerTtl: 9000 });
  t.match(world.ask('web.svc.internal', 'A').answers, [{ address: '10.0.0.2', ttl: 9 }]);
  before.dispose();
  t.match(world.ask('web.svc.internal', 'A').answers, [{ address: '10.0.0.2', ttl: 9 }]);
  t.equal(world.ask('1.0.0.10.in-addr.arpa', 'PTR').rcode, 5);
  after.dispose();
  t.equal(world.ask('web.svc.internal', 'A').rcode, 5);
  t.equal(world.table.size.names, 0);
});
