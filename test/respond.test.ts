import t from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { nameToWire } from '../src/dns/names.js';
import { allows } from '../src/server/acl.js';
import { COUNTER, COUNTER_WORDS, CounterTotals, latencyCounter } from '../src/server/counters.js';
import {
  type Ask,
  decode,
  endpoints,
  type Reply,
  row,
  SYNCED,
  service,
  smallWorld,
  WEB,
  World,
} from './answers-fixture.js';

/** What a reply says, in one comparable value. */
function summary(reply: Reply) {
  const { rcode, answers, authorities } = reply;
  const soa = authorities.map(({ name, type, ttl }) => `${name} ${type} ${ttl}`);
  return { rcode, aa: reply.flags.aa, answers: answers.length, soa, ede: reply.ede?.code };
}

const SOA = ['svc.internal 6 3'];
const NODATA = { rcode: 0, aa: 1, answers: 0, soa: SOA, ede: undefined };
const NXDOMAIN = { rcode: 3, aa: 1, answers: 0, soa: SOA, ede: undefined };

t.test('positive answers', async (t) => {
  const world = smallWorld();

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
  const world = smallWorld();

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

t.test('counters', async (t) => {
  const world = smallWorld();
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
