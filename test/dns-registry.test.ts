import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { TYPE } from '../src/dns/constants.js';
import { type Message, type ReadRecord, readMessage } from '../src/dns/read-message.js';
import type { Failure } from '../src/registry/adapter.js';
import { DnsRegistry } from '../src/registry/dns.js';
import { isLaterSerial } from '../src/registry/dns-exchange.js';
import { DnsLookups } from '../src/registry/dns-lookups.js';
import { listenForNotify } from '../src/registry/dns-notify.js';
import { zoneServices } from '../src/registry/dns-records.js';
import { DnsTransfer } from '../src/registry/dns-transfer.js';
import { filtered } from '../src/registry/filter.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { a, encode, soa, srv, ZONE } from './dns-registry-fixture.js';
import { freePort } from './ports.js';

const POLICY = new AddressPolicy([], false);
const LIMITS = { maxServices: 100, maxEndpoints: 100, maxEndpointsPerService: 100, maxBody: 100_000 };

function listed<T extends object>(contents: T | string): T {
  if (typeof contents === 'string') throw new Error(contents);
  return contents;
}

t.test('messages of other name servers are read, or are none', async (t) => {
  const records = [
    soa(ZONE, 0xffff_fffe),
    srv(`_Orders._tcp.${ZONE}`, 80, `WEB.${ZONE}`),
    a(`web.${ZONE}`, 10, 0, 0, 1),
  ];
  const message = readMessage(encode(7, { name: ZONE, type: TYPE.SOA }, records));
  t.match(message, { id: 7, isReply: true, rcode: 0, truncated: false, question: { name: ZONE, type: TYPE.SOA } });
  t.same(
    message?.answers,
    [soa(ZONE, 0xffff_fffe), srv(`_orders._tcp.${ZONE}`, 80, `web.${ZONE}`), records[2]],
    'in lower case',
  );
  const whole = encode(7, { name: ZONE, type: TYPE.SOA }, records);
  for (let length = 0; length < whole.length; length++) {
    if (readMessage(whole.subarray(0, length)) !== undefined) t.fail(`cut at ${length} it is still read`);
  }
  const head = [0, 1, 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0];
  t.equal(readMessage(Uint8Array.from([...head, 0xc0, 12, 0, 1, 0, 1])), undefined, 'a pointer to itself');
  t.equal(readMessage(Uint8Array.from([...head, 1, 97, 0xc0, 12, 0, 1, 0, 1])), undefined, 'a loop of pointers');
  t.equal(readMessage(Uint8Array.from([...head, 0xc0, 200, 0, 1, 0, 1])), undefined, 'a pointer ahead');
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      readMessage(bytes);
      readMessage(Uint8Array.from([...whole.subarray(0, 40), ...bytes]));
    }),
    { numRuns: 2000 },
  );
});

t.test('serials are compared as RFC 1982 says', async (t) => {
  t.ok(isLaterSerial(2, 1));
  t.notOk(isLaterSerial(1, 1));
  t.notOk(isLaterSerial(1, 2));
  t.ok(isLaterSerial(3, 0xffff_fff0), 'over the end');
  t.notOk(isLaterSerial(0xffff_fff0, 3));
  t.notOk(isLaterSerial(0x8000_0000, 0), 'half of the way round is neither');
});

t.test('a zone gives services by its SRV records, and by its addresses where there is a port', async (t) => {
  const records = [
    srv(`_orders._tcp.${ZONE}`, 8080, `web1.${ZONE}`, 0, 10),
    srv(`_orders._tcp.${ZONE}`, 8080, `web2.${ZONE}`, 1, 0),
    srv(`_grpc._udp.billing.${ZONE}`, 53, `web1.${ZONE}`),
    srv(`gone.${ZONE}`, 0, '.'),
    srv(`_a._sctp.${ZONE}`, 1, `web1.${ZONE}`),
    srv(`_zero._tcp.${ZONE}`, 0, `web1.${ZONE}`),
    srv(`_far._tcp.${ZONE}`, 80, 'web.elsewhere.test'),
    srv(`_dangling._tcp.${ZONE}`, 80, `none.${ZONE}`),
    srv(`_local._tcp.${ZONE}`, 80, `lo.${ZONE}`),
    a(`web1.${ZONE}`, 10, 0, 0, 1),
    {
      name: `web2.${ZONE}`,
      type: TYPE.AAAA,
      address: Uint8Array.from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    },
    a(`lo.${ZONE}`, 127, 0, 0, 1),
    a(`search.${ZONE}`, 10, 0, 0, 7),
    a(`ns.${ZONE}`, 10, 0, 0, 8),
    { name: ZONE, type: TYPE.NS, target: `ns.${ZONE}` },
    a(ZONE, 10, 0, 0, 9),
  ] satisfies ReadRecord[];
  const { services, rejected } = listed(zoneServices(ZONE, records, { port: 9000, policy: POLICY, limits: LIMITS }));
  const rows = Object.fromEntries(services.map(({ name, rows }) => [name, rows]));
  t.match(rows.orders, [
    { id: `web1.${ZONE}:8080`, address: '10.0.0.1', port: 8080, priority: 0, weight: 10, protocol: 'tcp' },
    { address: 'fd00::1', priority: 1, weight: 0 },
  ]);
  t.match(rows.billing, [{ address: '10.0.0.1', port: 53, protocol: 'udp', portName: 'grpc' }]);
  t.same(rows.gone, [], 'a root target: decidedly not available');
  t.match(rows.search, [{ address: '10.0.0.7', port: 9000 }]);
  t.match(rows.far, [{ address: 'web.elsewhere.test', port: 80 }], 'a target elsewhere is a host name (R28)');
  t.same(
    Object.keys(rows).sort(),
    ['billing', 'dangling', 'far', 'gone', 'local', 'orders', 'search', 'zero'],
    'targets, name servers and the zone itself are none',
  );
  t.same(
    rejected.map(({ where, reason }) => `${where}: ${reason}`),
    [
      `_a._sctp.${ZONE}: fits none of _SERVICE._tcp, _PORT._tcp.SERVICE, SERVICE`,
      `_zero._tcp.${ZONE}: port must be 1 to 65535, not 0`,
      `_dangling._tcp.${ZONE}: no address is known of its target none.${ZONE}`,
      `_local._tcp.${ZONE}: address 127.0.0.1 is loopback (allowAddresses would permit it)`,
    ],
  );
});

const NAME = `_orders._tcp.${ZONE}`;

/** A server for look-ups: its answers by name and type. */
function lookups(names: readonly string[], port?: number) {
  const answers = new Map<string, readonly ReadRecord[] | Failure | 'NXDOMAIN'>();
  const asked: string[] = [];
  const reader = new DnsLookups({ names, port, policy: POLICY });
  const ask = async (name: string, type: number): Promise<Message | Failure> => {
    asked.push(`${name} ${type}`);
    const found = answers.get(`${name} ${type}`) ?? [];
    if (!Array.isArray(found) && found !== 'NXDOMAIN') return found as Failure;
    const records = found === 'NXDOMAIN' ? [] : (found as readonly ReadRecord[]);
    const base = {
      id: 1,
      length: 100,
      isReply: true,
      opcode: 0,
      authoritative: true,
      truncated: false,
      recursionAvailable: false,
      edns: false,
    };
    return { ...base, rcode: found === 'NXDOMAIN' ? 3 : 0, answers: records, authorities: [], additionals: [] };
  };
  const read = async () => {
    const seen = await reader.read(ask);
    if (seen.kind !== 'list') return seen;
    const rows = Object.fromEntries(
      [...seen.services].map(({ name, rows }) => [name, rows.map(({ address }) => address).join()]),
    );
    return {
      rows,
      whole: seen.removalsBelievable,
      doubts: seen.rejected.map(({ where, reason }) => `${where}: ${reason}`),
    };
  };
  return { answers, asked, read };
}

t.test('names are looked up: SRV with the addresses of targets, or addresses with a port', async (t) => {
  const { answers, asked, read } = lookups([NAME, `plain.${ZONE}`], 9000);
  answers.set(`${NAME} 33`, [srv(NAME, 80, `w1.${ZONE}`), srv(NAME, 81, `w1.${ZONE}`)]);
  answers.set(`w1.${ZONE} 1`, [a(`w1.${ZONE}`, 10, 0, 0, 1)]);
  answers.set(`plain.${ZONE} 1`, [a(`plain.${ZONE}`, 10, 0, 0, 5)]);
  t.same(await read(), { rows: { orders: '10.0.0.1,10.0.0.1', plain: '10.0.0.5' }, whole: true, doubts: [] });
  t.equal(asked.filter((one) => one === `w1.${ZONE} 1`).length, 1, 'a target is asked for once a read');
});

t.test('a name that fails keeps what it gave, and nothing is removed on the word of that read', async (t) => {
  const other = `_billing._tcp.${ZONE}`;
  const { answers, read } = lookups([NAME, other]);
  answers.set(`${NAME} 33`, [srv(NAME, 80, `w1.${ZONE}`)]);
  answers.set(`${other} 33`, [srv(other, 80, `w1.${ZONE}`)]);
  answers.set(`w1.${ZONE} 1`, [a(`w1.${ZONE}`, 10, 0, 0, 1)]);
  await read();
  const rows = { orders: '10.0.0.1', billing: '10.0.0.1' };
  const denied = `${NAME}: the name is configured, and is denied (NXDOMAIN); what it gave last stands`;
  answers.set(`${NAME} 33`, 'NXDOMAIN');
  t.same(await read(), { rows, whole: false, doubts: [denied] }, 'NXDOMAIN');
  answers.set(`${NAME} 33`, { kind: 'unbelievable', reason: 'SERVFAIL' });
  t.same(await read(), { rows, whole: false, doubts: [`${NAME}: SERVFAIL; what it gave last stands`] }, 'SERVFAIL');
  answers.set(`${NAME} 33`, [srv(NAME, 80, `w2.${ZONE}`)]);
  answers.set(`w2.${ZONE} 28`, { kind: 'unreachable', reason: 'no answer' });
  t.match(await read(), { rows, whole: false }, 'the address of a target');
  answers.set(`w2.${ZONE} 28`, []);
  answers.set(`${NAME} 33`, { kind: 'unreachable', reason: 'no answer' });
  const silent = `${NAME}: no answer; what it gave last stands`;
  t.same(await read(), { rows, whole: false, doubts: [silent] }, 'one gets no answer, which says nothing of the other');
  answers.set(`${NAME} 33`, [srv(NAME, 80, `w1.${ZONE}`)]);
  t.same(await read(), { rows, whole: true, doubts: [] });
});

t.test('while nobody answers, few names are asked for; what gets no answer is asked for last', async (t) => {
  const names = Array.from({ length: 300 }, (_, i) => `_s${i}._tcp.${ZONE}`);
  const { answers, asked, read } = lookups(names);
  const silence = { kind: 'unreachable', reason: 'no answer' } as const;
  for (const name of names) answers.set(`${name} 33`, silence);
  t.same(await read(), silence);
  t.equal(asked.length, 4);
  const good = names.slice(250);
  for (const name of good) answers.set(`${name} 33`, []);
  while ('reason' in (await read()));
  asked.length = 0;
  t.match(await read(), { whole: false });
  const times = (name: string): number => asked.filter((one) => one === `${name} 33`).length;
  t.ok(
    good.every((name) => times(name) === 1),
    'whoever gave something is asked',
  );
  t.ok(asked.length < 250, 'and not all of those that gave nothing');
  for (let i = 0; i < 20; i++) await read();
  t.ok(
    names.every((name) => times(name) > 1),
    'they take turns',
  );
  for (const name of names.slice(0, 250)) answers.set(`${name} 33`, []);
  for (let i = 0; i < 20; i++) await read();
  t.match(await read(), { whole: true, doubts: [] });
  for (const name of names) answers.set(`${name} 33`, silence);
  t.same(await read(), silence, 'and then the first of all');
});

t.test('a source that tells another half each time loses nothing that it told lately (R34)', async (t) => {
  const { answers, read } = lookups([`plain.${ZONE}`], 80);
  const tell = (n: number): unknown => answers.set(`plain.${ZONE} 1`, [a(`plain.${ZONE}`, 10, 0, 0, n)]);
  answers.set(`plain.${ZONE} 6`, [soa(ZONE, 1)]);
  tell(1);
  await read();
  for (let i = 0; i < 30; i++) {
    tell(2 + (i % 2));
    const found = await read();
    const told = 'rows' in found ? found.rows.plain! : '';
    t.ok(told.includes('10.0.0.2'), `read ${i}: ${told}`);
    t.equal(told.includes('10.0.0.1'), i < 10, 'what was not told in ten reads has left');
  }
  answers.set(`plain.${ZONE} 6`, [soa(ZONE, 2)]);
  tell(9);
  t.match(await read(), { rows: { plain: '10.0.0.9' } }, 'a new serial is a new truth');
});

/** A name server with one zone, over UDP and TCP. */
async function fakeServer(t: Test) {
  const state = { serial: 1, records: [] as ReadRecord[], transfers: 0 };
  const tcp = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', (framed) => {
      const query = readMessage(framed.subarray(2))!;
      state.transfers++;
      const records = [soa(ZONE, state.serial), ...state.records, soa(ZONE, state.serial)];
      const message = encode(query.id, query.question!, records);
      socket.end(Buffer.concat([Buffer.from([message.length >> 8, message.length & 255]), message]));
    });
  });
  const port = await freePort();
  tcp.listen(port, '127.0.0.1');
  await once(tcp, 'listening');
  const udp = createSocket('udp4');
  udp.on('message', (bytes, from) => {
    const query = readMessage(bytes)!;
    udp.send(encode(query.id, query.question!, [soa(ZONE, state.serial)]), from.port, from.address);
  });
  udp.bind(port, '127.0.0.1');
  await once(udp, 'listening');
  t.teardown(() => {
    udp.close();
    tcp.close();
  });
  return { state, server: { address: '127.0.0.1', port } };
}

t.test(
  'a zone is transferred when its serial moves; one that goes back is believed the second time, as a new epoch (R6, R7)',
  async (t) => {
    const { state, server } = await fakeServer(t);
    let now = 0;
    const options = { servers: [server], zone: ZONE, port: 80, policy: POLICY, limits: LIMITS, mono: () => now };
    const transfer = new DnsTransfer(options);
    const read = (fresh = false) => transfer.read(server, { signal: AbortSignal.timeout(5000), fresh });
    state.records = [a(`orders.${ZONE}`, 10, 0, 0, 1)];
    t.match(await read(true), { kind: 'list', epoch: 'dns', removalsBelievable: true, services: [{ name: 'orders' }] });
    t.same(await read(), { kind: 'confirmed' });
    t.equal(state.transfers, 1, 'the same serial is not transferred again');
    transfer.readAnew();
    t.match(await read(), { kind: 'list', epoch: 'dns' }, 'unless another key may show another zone');
    t.same(await read(), { kind: 'confirmed' });
    state.serial = 0x7fff_ffff;
    t.match(await read(), { kind: 'list', epoch: 'dns' });
    state.serial = 0xffff_fffe;
    t.match(await read(), { kind: 'list', epoch: 'dns' });
    state.serial = 4;
    t.match(await read(), { kind: 'list', epoch: 'dns' }, 'over the end of the numbers is forward (RFC 1982)');
    state.serial = 2;
    t.same(await read(), { kind: 'behind', serial: 2 });
    t.match(transfer.behind([2]), {
      kind: 'unbelievable',
      reason: 'the serial went back from 4 to 2',
      retryAfter: 10_000,
    });
    now += 9_000;
    t.same(await read(), { kind: 'behind', serial: 2 });
    t.match(transfer.behind([2]), { retryAfter: 1000 });
    now += 1_000;
    t.match(await read(), { kind: 'list', epoch: 'dns+1' });
    t.same(await read(), { kind: 'confirmed' });
    state.records = [];
    state.serial = 3;
    t.match(
      await read(),
      { kind: 'list', epoch: 'dns+1', services: [] },
      'an empty zone is a list: the guard stands before it',
    );
  },
);

t.test('what was seen of a zone before a restart counts (R6), of a part of it, too', async (t) => {
  const { state, server } = await fakeServer(t);
  const after = async (revision: string, serial: number, epoch = 'dns'): Promise<unknown> => {
    state.serial = serial;
    const config = { type: 'dns', servers: [server], zone: ZONE, port: 80, interval: 5000 } as const;
    const whole = new DnsRegistry(config, { softTtl: 10_000, limits: LIMITS, allowAddresses: [] });
    const registry = filtered(whole, { prefix: 'w' });
    registry.seed?.({ epoch, revision });
    const seen = await registry.poll({ signal: AbortSignal.timeout(5000), fresh: true });
    return 'reason' in seen ? seen.reason : 'epoch' in seen && [seen.epoch, seen.revision];
  };
  t.equal(await after('9', 5), 'the serial went back from 9 to 5');
  t.same(await after('9', 9, 'dns+2'), ['dns+2', '9']);
  t.same(await after('4294967290', 5), ['dns', '5'], 'over the end of the numbers is forward (RFC 1982)');
  for (const nonsense of ['4294967296', '9.9', '-9', '']) t.same(await after(nonsense, 5), ['dns', '5']);
});

t.test('NOTIFY is taken from the configured servers, for the zone alone', async (t) => {
  const port = await freePort();
  let woken = 0;
  const failed = (reason: string): void => void t.fail(reason);
  const servers = [{ address: '127.0.0.2', port: 53 }];
  const end = listenForNotify({
    listen: { address: '127.0.0.1', port },
    zone: ZONE,
    servers,
    key: async () => undefined,
    changed: () => void woken++,
    failed,
  });
  t.teardown(end);
  const primary = createSocket('udp4').bind(0, '127.0.0.2');
  const stranger = createSocket('udp4').bind(0, '127.0.0.3');
  t.teardown(() => {
    primary.close();
    stranger.close();
  });
  await Promise.all([once(primary, 'listening'), once(stranger, 'listening')]);
  const notify = (name: string): Uint8Array => {
    const message = encode(99, { name, type: TYPE.SOA }, []);
    message[2] = 0x24;
    return message;
  };
  stranger.send(notify(ZONE), port, '127.0.0.1');
  primary.send(notify('other.test'), port, '127.0.0.1');
  primary.send(Uint8Array.of(1, 2, 3), port, '127.0.0.1');
  primary.send(notify(ZONE), port, '127.0.0.1');
  const [reply] = (await once(primary, 'message')) as [Buffer];
  t.match(readMessage(reply), { id: 99, isReply: true, opcode: 4, rcode: 0, question: { name: ZONE } });
  await new Promise((resolve) => setTimeout(resolve, 50));
  t.equal(woken, 1);
  for (let i = 0; i < 20; i++) primary.send(notify(ZONE), port, '127.0.0.1');
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.equal(woken, 1, 'however often it is said, once a second');
});
