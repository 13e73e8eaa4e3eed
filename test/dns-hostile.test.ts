/** Name servers that misbehave, as registries: what is believed of them, and what is said of the rest. */
import { createSocket, Socket } from 'node:dgram';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { RCODE, TYPE } from '../src/dns/constants.js';
import type { ReadRecord } from '../src/dns/read-message.js';
import { listenForNotify } from '../src/registry/dns-notify.js';
import { DnsTransfer } from '../src/registry/dns-transfer.js';
import { AddressPolicy } from '../src/registry/rows.js';
import {
  type Asked,
  a,
  cname,
  encode,
  FakeNameServer,
  LIMITS,
  ns,
  type Reply,
  registryOf,
  type Sections,
  soa,
  srv,
  told,
  ZONE,
} from './dns-registry-fixture.js';
import { freePort } from './ports.js';
import { NEVER } from './registry-fixture.js';

t.jobs = 8;

const NAME = `_orders._tcp.${ZONE}`;
const RECURSIVE = 0x8180;

/** Answers a question, and a transfer with these records in one message. */
function zoneOf(fake: FakeNameServer, records: readonly ReadRecord[], serial = 1): void {
  fake.answer = ({ id, name, type, over }) => {
    return { end: [encode(id, { name, type }, over === 'udp' ? [soa(ZONE, serial)] : records)] };
  };
}

const web = a(`web.${ZONE}`, 10, 0, 0, 1);
const TRANSFERS: readonly [title: string, records: readonly ReadRecord[], gives: unknown][] = [
  ['is whole', [soa(ZONE, 1), web, soa(ZONE, 1)], ['web=10.0.0.1']],
  ['has no end', [soa(ZONE, 1), web], 'unreachable: closed in the middle of the transfer'],
  ['changes on the way', [soa(ZONE, 1), web, soa(ZONE, 2)], 'unbelievable: the zone changed during the transfer'],
  [
    'begins twice',
    [soa(ZONE, 1), soa(ZONE, 1), web, soa(ZONE, 1)],
    'unbelievable: records behind the last SOA of the zone',
  ],
  [
    'is of another name',
    [soa('other.test', 1), web, soa('other.test', 1)],
    'unbelievable: the transfer does not begin with the SOA of the zone',
  ],
  ['is nothing', [], 'unbelievable: an empty transfer'],
  [
    'tells of other zones',
    [
      soa(ZONE, 1),
      soa('other.test', 9),
      srv(NAME, 80, 'host.other.test'),
      srv('_x._tcp.other.test', 80, `web.${ZONE}`),
      a('host.other.test', 10, 6, 6, 6),
      web,
      soa(ZONE, 1),
    ],
    ['orders=host.other.test', '_x._tcp.other.test: fits none of _SERVICE._tcp, _PORT._tcp.SERVICE, SERVICE'],
  ],
  [
    'has hosts and name servers that are no services',
    [
      soa(ZONE, 1),
      ns(ZONE, `ns.${ZONE}`),
      a(`ns.${ZONE}`, 10, 0, 0, 9),
      a(`deep.below.${ZONE}`, 10, 0, 0, 8),
      srv(NAME, 81, `web.${ZONE}`),
      web,
      a(`plain.${ZONE}`, 10, 0, 0, 2),
      soa(ZONE, 1),
    ],
    ['orders=10.0.0.1', 'plain=10.0.0.2'],
  ],
];

for (const [title, records, gives] of TRANSFERS) {
  t.test(`a transfer that ${title}`, async (t) => {
    const fake = await FakeNameServer.start(t);
    zoneOf(fake, records);
    t.same(await told(registryOf(t, [fake], { port: 80 })), gives);
  });
}

t.test('a transfer with a name that is a loop, and one of more addresses than endpoints may be', async (t) => {
  const fake = await FakeNameServer.start(t);
  const registry = registryOf(t, [fake], { port: 80 });
  fake.answer = ({ id, name, type, over }) => {
    const message = encode(id, { name, type }, [soa(ZONE, 1), web]);
    if (over === 'udp') return [message];
    const at = 12 + ZONE.length + 2 + 4;
    message.set([0xc0, at], at);
    return { end: [message] };
  };
  t.equal(await told(registry), 'unbelievable: the answer is not DNS');
  const many = Array.from({ length: 2_000 }, (_, i) => a(`h${i}.${ZONE}`, 10, 0, i >> 8, i & 255));
  fake.answer = ({ id, name, type, over }) => {
    if (over === 'udp') return [encode(id, { name, type }, [soa(ZONE, 1)])];
    const parts = Array.from({ length: 11 }, () => encode(id, { name, type }, many));
    return { end: [encode(id, { name, type }, [soa(ZONE, 1)]), ...parts, encode(id, { name, type }, [soa(ZONE, 1)])] };
  };
  t.match(await told(registry), /^unbelievable: 20001 address records or more, for limits.maxEndpoints \(5000\)$/);
  const hosts = registryOf(t, [fake]);
  t.same(await told(hosts), [], 'hosts alone are none');
  const deep = Array.from({ length: 21_000 }, (_, i) => a(`h${i}.rack.${ZONE}`, 10, 1, i >> 8, i & 255));
  fake.answer = ({ id, name, type, over }) => {
    if (over === 'udp') return [encode(id, { name, type }, [soa(ZONE, 2)])];
    const parts = Array.from({ length: 21 }, (_, n) =>
      encode(id, { name, type }, deep.slice(n * 1_000, (n + 1) * 1_000)),
    );
    return {
      end: [encode(id, { name, type }, [soa(ZONE, 2), web]), ...parts, encode(id, { name, type }, [soa(ZONE, 2)])],
    };
  };
  t.match(await told(registryOf(t, [fake], { port: 80 })), [/^web/], 'nor are those deeper in the zone');
});

t.test('a serial that went back once is no word for the next time that it does (R6)', async (t) => {
  const fake = await FakeNameServer.start(t);
  let now = 0;
  const policy = new AddressPolicy([], false);
  const options = { servers: [fake.server], zone: ZONE, port: 80, policy, limits: LIMITS, mono: () => now };
  const transfer = new DnsTransfer(options);
  const read = () => transfer.read(fake.server, { signal: NEVER, fresh: false });
  const at = (serial: number): void => zoneOf(fake, [soa(ZONE, serial), web, soa(ZONE, serial)], serial);
  at(5);
  t.match(await read(), { kind: 'list' });
  at(2);
  t.same(await read(), { kind: 'behind', serial: 2 });
  transfer.behind([2]);
  at(5);
  t.same(await read(), { kind: 'confirmed' });
  now += 3_600_000;
  at(2);
  t.same(await read(), { kind: 'behind', serial: 2 });
  t.match(transfer.behind([2]), { retryAfter: 10_000 });
});

t.test('a zone over the limits is not transferred again each time that NOTIFY tells of it', async (t) => {
  const fake = await FakeNameServer.start(t);
  let now = 0;
  const policy = new AddressPolicy([], false);
  const limits = { ...LIMITS, maxEndpoints: 1, maxEndpointsPerService: 1 };
  const transfer = new DnsTransfer({ servers: [fake.server], zone: ZONE, port: 80, policy, limits, mono: () => now });
  const read = () => transfer.read(fake.server, { signal: NEVER, fresh: true });
  const many = Array.from({ length: 4 }, (_, i) => a(`web.${ZONE}`, 10, 0, 0, i));
  const reason = '3 endpoints or more, more than limits.maxEndpoints (1)';
  zoneOf(fake, [soa(ZONE, 1), ...many, soa(ZONE, 1)]);
  t.match(await read(), { kind: 'unbelievable', reason });
  now += 4_000;
  t.match(await read(), { kind: 'unbelievable', reason, retryAfter: 6_000 });
  t.equal(fake.count(TYPE.AXFR), 1);
  now += 6_000;
  t.match(await read(), { kind: 'unbelievable', reason });
  t.equal(fake.count(TYPE.AXFR), 2);
  zoneOf(fake, [soa(ZONE, 2), web, soa(ZONE, 2)], 2);
  t.match(await read(), { kind: 'list' }, 'another serial is');
});

/** Looks a name up at a server with these answers, by type; then at one that has nothing amiss. */
async function looked(
  t: Test,
  name: string,
  answers: Partial<Record<number, readonly [records: readonly ReadRecord[], sections?: Sections]>>,
): Promise<unknown> {
  const fake = await FakeNameServer.start(t);
  const registry = registryOf(t, [fake], { names: [name], port: 80 });
  fake.answer = ({ id, name: asked, type }: Asked): Reply => {
    const [records, sections] = answers[type] ?? [[]];
    return [encode(id, { name: asked, type }, records, sections)];
  };
  return told(registry);
}

const host = `web.${ZONE}`;
const said = (name: string, reason: string): string => `unbelievable: ${name}: ${reason}; what it gave last stands`;

t.test('aliases: followed by the server, not followed, in a circle', async (t) => {
  const alias = [cname(host, 'lb.other.test')];
  const address = a('lb.other.test', 10, 0, 0, 1);
  const negative = { flags: RECURSIVE, authorities: [soa('other.test', 1)] };
  t.same(
    await looked(t, host, { [TYPE.A]: [[...alias, address]], [TYPE.AAAA]: [alias, negative] }),
    ['web=10.0.0.1'],
    'to a host that has no IPv6',
  );
  t.same(await looked(t, host, { [TYPE.A]: [[...alias, address]], [TYPE.AAAA]: [alias, { flags: RECURSIVE }] }), [
    'web=10.0.0.1',
  ]);
  const unfollowed = 'an alias (CNAME) that the server does not follow';
  t.equal(await looked(t, host, { [TYPE.A]: [alias] }), said(host, unfollowed));
  t.equal(await looked(t, NAME, { [TYPE.SRV]: [[cname(NAME, `_x._tcp.other.test`)]] }), said(NAME, unfollowed));
  const target = srv('_x._tcp.other.test', 80, host);
  t.same(
    await looked(t, NAME, {
      [TYPE.SRV]: [[cname(NAME, '_x._tcp.other.test'), target], { additionals: [web] }],
    }),
    ['orders=10.0.0.1'],
  );
  const circle = [cname(NAME, 'b.test'), cname('b.test', NAME)];
  t.equal(await looked(t, NAME, { [TYPE.SRV]: [circle] }), said(NAME, 'aliases (CNAME) that lead in a circle'));
});

t.test('an answer that says nothing of the name is not taken for none', async (t) => {
  const other = srv(`_other._tcp.${ZONE}`, 80, host);
  t.equal(await looked(t, NAME, { [TYPE.SRV]: [[other]] }), said(NAME, 'an answer about another name'));
  const referral = { flags: 0x8000, authorities: [ns(ZONE, `ns.${ZONE}`)] };
  t.equal(
    await looked(t, NAME, { [TYPE.SRV]: [[], referral] }),
    said(NAME, 'a referral to other servers, and no answer'),
  );
  t.equal(
    await looked(t, NAME, { [TYPE.SRV]: [[srv(NAME, 80, host)]], [TYPE.A]: [[], referral] }),
    said(NAME, `its target ${host}: a referral to other servers, and no answer`),
  );
  t.equal(
    await looked(t, NAME, { [TYPE.SRV]: [[], { ...referral, flags: RECURSIVE }] }),
    said(NAME, 'a referral to other servers, and no answer'),
    'that a forwarder passed on',
  );
  for (const flags of [0x8000, 0x8100])
    t.equal(
      await looked(t, NAME, { [TYPE.SRV]: [[], { flags }] }),
      said(NAME, 'an empty answer of a server that has no say'),
    );
  const negative = { flags: 0x8000, authorities: [soa(ZONE, 1)] };
  t.same(await looked(t, NAME, { [TYPE.SRV]: [[], negative] }), ['orders=']);
  t.same(await looked(t, NAME, { [TYPE.SRV]: [[], { flags: RECURSIVE }] }), ['orders=']);
  t.same(await looked(t, NAME, { [TYPE.SRV]: [[]] }), ['orders='], 'which is another thing than none');
  t.same(await looked(t, NAME, { [TYPE.SRV]: [[srv(NAME, 0, '.')]] }), ['orders=']);
  t.same(await looked(t, NAME, { [TYPE.SRV]: [[srv(NAME, 0, host)], { additionals: [web] }] }), [
    'orders=',
    `${NAME}: port must be 1 to 65535, not 0`,
  ]);
});

t.test('replies of strangers are passed over, and what is cut over TCP, too, is not believed', async (t) => {
  const fake = await FakeNameServer.start(t);
  const registry = registryOf(t, [fake], { names: [NAME] });
  fake.answer = ({ id, name, type }) => {
    const good = type === TYPE.SRV ? [srv(NAME, 80, host)] : type === TYPE.A ? [web] : [];
    const bad = [srv(NAME, 66, host)];
    const asked = encode(id, { name, type }, bad);
    asked[2] = 0x01;
    return [
      encode(id ^ 1, { name, type }, bad),
      encode(id, { name: `x.${name}`, type }, bad),
      encode(id, { name, type: TYPE.TXT }, bad),
      asked,
      Uint8Array.of(1, 2, 3),
      encode(id, { name, type }, good),
    ];
  };
  t.same(await told(registry), ['orders=10.0.0.1']);
  fake.answer = ({ id, name, type }) => [encode(id, { name, type }, [], { flags: 0x8600 })];
  t.equal(await told(registry), said(NAME, `${placeOf(fake)}: truncated over TCP`));
  fake.answer = ({ id, name, type, over }) => {
    return over === 'tcp' ? { end: [] } : [encode(id, { name, type }, [], { flags: 0x8600 })];
  };
  t.match(await told(registry), 'unreachable: closed without an answer');
});

const placeOf = ({ server }: FakeNameServer): string => `${server.address}:${server.port}`;

t.test('a name that the first server denies may be known to the next', async (t) => {
  const [empty, good] = [await FakeNameServer.start(t), await FakeNameServer.start(t)];
  empty.answer = ({ id, name, type }) => [encode(id, { name, type }, [], { flags: 0x8400 | RCODE.NXDOMAIN })];
  good.answer = ({ id, name, type }) => {
    const records = { [TYPE.SRV]: [srv(NAME, 80, host)], [TYPE.A]: [a(name, 10, 0, 0, 1)] }[type] ?? [];
    return [encode(id, { name, type }, records)];
  };
  const names = [NAME, `plain.${ZONE}`];
  t.same(await told(registryOf(t, [empty, good], { names, port: 80 })), ['orders=10.0.0.1', 'plain=10.0.0.1']);
  const denied = 'the name is configured, and is denied (NXDOMAIN)';
  t.equal(await told(registryOf(t, [empty], { names, port: 80 })), said(NAME, denied));
});

t.test('half of the names fail: the others are read, and a lame server is not asked first again', async (t) => {
  const [lame, good] = [await FakeNameServer.start(t), await FakeNameServer.start(t)];
  const names = Array.from({ length: 40 }, (_, i) => `_s${i}._tcp.${ZONE}`);
  lame.answer = ({ id, name, type }) => [encode(id, { name, type }, [], { flags: 0x8000 | RCODE.REFUSED })];
  good.answer = ({ id, name, type }) => {
    const fails = names.indexOf(name) % 2 === 1;
    const sections = { flags: 0x8000 | (fails ? RCODE.SERVFAIL : RCODE.NOERROR), additionals: [web] };
    return [encode(id, { name, type }, type === TYPE.SRV && !fails ? [srv(name, 80, host)] : [], sections)];
  };
  const registry = registryOf(t, [lame, good], { names });
  const read = (): Promise<unknown> => registry.poll({ signal: NEVER, fresh: true });
  t.match(await read(), { kind: 'list', removalsBelievable: false, services: { length: 20 } });
  t.match(await read(), { kind: 'list', removalsBelievable: false, services: { length: 20 } });
});

t.test('a server with an IPv6 address', async (t) => {
  const fake = await FakeNameServer.start(t, '::1');
  zoneOf(fake, [soa(ZONE, 1), web, soa(ZONE, 1)]);
  t.same(await told(registryOf(t, [fake], { port: 80 })), ['web=10.0.0.1']);
});

t.test('NOTIFY is heard as soon as its address can be bound', async (t) => {
  const port = await freePort();
  const other = createSocket('udp4').bind(port, '127.0.0.1');
  await once(other, 'listening');
  const faults: string[] = [];
  let woken = 0;
  const end = listenForNotify({
    listen: { address: '127.0.0.1', port },
    zone: ZONE,
    servers: [{ address: '127.0.0.1', port: 53 }],
    key: async () => undefined,
    changed: () => void woken++,
    failed: (reason) => void faults.push(reason),
  });
  t.teardown(end);
  while (faults.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  t.same(faults, [`NOTIFY on 127.0.0.1 port ${port}: bind EADDRINUSE 127.0.0.1:${port}`], 'told once');
  other.close();
  const primary = createSocket('udp4').bind(0, '127.0.0.1');
  await once(primary, 'listening');
  t.teardown(() => primary.close());
  const notify = encode(99, { name: ZONE, type: TYPE.SOA }, [], { flags: 0x2400 });
  while (woken === 0) {
    primary.send(notify, port, '127.0.0.1');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  t.equal(faults.length, 1);

  // As a forged datagram has it: nobody can be answered there.
  const emit = Socket.prototype.emit as (event: string, ...values: unknown[]) => boolean;
  let heard = 0;
  Socket.prototype.emit = function (this: Socket, event: string, ...values: unknown[]) {
    // Other tests have sockets of their own meanwhile.
    if (event !== 'message' || this.address().port !== port) return emit.call(this, event, ...values);
    heard++;
    return emit.call(this, event, values[0], { ...(values[1] as object), port: 0 });
  } as typeof Socket.prototype.emit;
  const thrown: unknown[] = [];
  const note = (error: unknown): void => void thrown.push(error);
  process.on('unhandledRejection', note);
  while (heard === 0) {
    primary.send(notify, port, '127.0.0.1');
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  Socket.prototype.emit = emit as typeof Socket.prototype.emit;
  process.off('unhandledRejection', note);
  t.same(thrown, []);
});
