/** What every registry adapter has to bear, against the real server and a proxy that breaks in front of it. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { makeCertificates } from './certificates.js';
import { type ConsulOptions, ConsulServer, findConsul } from './consul-server.js';
import { EtcdServer, etcdVersion } from './etcd-server.js';
import { type Fault, FaultProxy } from './fault-proxy.js';
import { resolveTo } from './host-names.js';
import { ObservedZone } from './observed-zone.js';
import { TargetsServer } from './targets-server.js';

// Stories wait more than they work: they run side by side.
t.jobs = 16;
t.setTimeout(110_000);

/** A registry with a place of its own for one story. */
interface Source {
  readonly port: number;
  /** Its section of the configuration, without braces. */
  registry(origin: string): string;
  put(service: string, addresses: readonly string[]): Promise<unknown>;
  /** All services at once. */
  empty(): Promise<unknown>;
}

interface Kind {
  readonly name: string;
  /** Why its stories cannot be told here. */
  readonly missing?: string;
  /** Services that it lists of its own, one endpoint each. */
  readonly own?: number;
  /** Requests a second while it is quiet. */
  readonly asks?: number;
  /** For so long after a change it may be asked more, in ms. */
  readonly settles?: number;
  source(t: Test): Promise<Source>;
}

const KNOWN = { orders: ['10.0.0.1', '10.0.0.2', '10.0.0.3'], billing: ['10.0.1.1', '10.0.1.2'] };

const version = etcdVersion();
const etcdMissing = version === undefined ? { missing: 'no etcd here' } : {};
if (version === undefined) console.error('skipped: the stories of etcd (no etcd on the PATH; Debian: etcd-server)');

let shared: Promise<EtcdServer> | undefined;
let places = 0;
const folder = t.testdir({});
t.teardown(async () => (await shared)?.stop());

const etcd: Kind = {
  name: 'etcd',
  ...etcdMissing,
  source: async () => {
    shared ??= EtcdServer.start(join(folder, 'etcd'));
    return etcdSource(await shared, `/place-${++places}`);
  },
};

function etcdSource(server: EtcdServer, prefix: string): Source {
  const instances = new Map<string, number>();
  const key = (service: string, i: number): string => `${prefix}/${service}/${i}`;
  return {
    port: server.port,
    registry: (origin) => `type: etcd, endpoints: ["${origin}"], layout: plain, prefix: ${prefix}`,
    put: async (service, addresses) => {
      for (const [i, address] of addresses.entries()) await server.put(key(service, i), { address, port: 80 });
      for (let i = addresses.length; i < (instances.get(service) ?? 0); i++) await server.delete(key(service, i));
      instances.set(service, addresses.length);
    },
    empty: async () => {
      await server.deleteBelow(`${prefix}/`);
      instances.clear();
    },
  };
}

const consulMissing = findConsul() === undefined ? { missing: 'no Consul here' } : {};
if (consulMissing.missing !== undefined) {
  console.error(
    'skipped: the stories of Consul (none on the PATH, and none built by test/integration/consul-build.ts)',
  );
}

/** Servers that no story has at present. One serves one story at a time: Consul has no places for several. */
const idle: ConsulServer[] = [];
let started = 0;
t.teardown(() => Promise.all(idle.map((server) => server.stop())));

const consul: Kind = {
  name: 'consul',
  ...consulMissing,
  own: 1,
  asks: 4,
  source: async (t) => {
    const server = idle.pop() ?? (await ConsulServer.start(join(folder, `consul-${++started}`)));
    t.teardown(async () => {
      await server.put('catalog/deregister', { Node: CONSUL_NODE });
      idle.push(server);
    });
    return consulSource(server);
  },
};

/** R33: the same, of which nothing is known but what is asked for. */
const onDemand: Kind = {
  ...consul,
  name: 'consul on demand',
  own: 0,
  asks: 6,
  settles: 8000,
  source: async (t) => {
    const source = await consul.source(t);
    return { ...source, registry: (origin) => `type: consul, address: "${origin}", mirror: asked` };
  },
};

const CONSUL_NODE = 'elsewhere';

/** Registers at the catalog, with a check each. */
function consulSource(server: ConsulServer): Source {
  const instances = new Map<string, number>();
  const deregister = (service: string, i: number): Promise<unknown> =>
    server.put('catalog/deregister', { Node: CONSUL_NODE, ServiceID: `${service}-${i}` });
  return {
    port: server.port,
    registry: (origin) => `type: consul, address: "${origin}"`,
    put: async (service, addresses) => {
      for (const [i, address] of addresses.entries()) {
        const id = `${service}-${i}`;
        await server.register({
          Node: CONSUL_NODE,
          Address: '10.255.0.1',
          Service: { ID: id, Service: service, Address: address, Port: 80 },
          Check: { CheckID: `service:${id}`, Name: 'test', Status: 'passing', ServiceID: id },
        });
      }
      for (let i = addresses.length; i < (instances.get(service) ?? 0); i++) await deregister(service, i);
      instances.set(service, addresses.length);
    },
    empty: async () => {
      await server.put('catalog/deregister', { Node: CONSUL_NODE });
      instances.clear();
    },
  };
}

const http: Kind = {
  name: 'http',
  source: async (t) => {
    const server = await TargetsServer.start();
    t.teardown(() => server.stop());
    return httpSource(server);
  },
};

function httpSource(server: TargetsServer): Source {
  return {
    port: server.port,
    registry: (origin) => `type: http, url: "${origin}/sd", interval: 1s`,
    put: async (service, addresses) =>
      server.services.set(
        service,
        addresses.map((address) => `${address}:80`),
      ),
    empty: async () => server.services.clear(),
  };
}

/** A zone that knows its services, behind a proxy that has not broken yet. */
async function ready(
  t: Test,
  source: Source,
  more = '',
  softTtl?: string,
): Promise<{ zone: ObservedZone; proxy: FaultProxy }> {
  const proxy = await FaultProxy.start(source.port);
  t.teardown(() => proxy.stop());
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  const zone = open(t, `{ ${source.registry(proxy.origin)}${more} }`, softTtl);
  await known(zone);
  return { zone, proxy };
}

function open(t: Test, registry: string, softTtl?: string): ObservedZone {
  const zone = new ObservedZone(registry, softTtl);
  t.teardown(() => zone.stop());
  return zone;
}

async function known(zone: ObservedZone): Promise<void> {
  await zone.until('the first list', () => zone.status.state === 'fresh');
  for (const [service, addresses] of Object.entries(KNOWN)) {
    await zone.until(service, () => zone.addresses(service).join() === addresses.join());
  }
  zone.hold(KNOWN);
}

function notHeard(zone: ObservedZone, says: RegExp): () => boolean {
  return () => !zone.status.heard && says.test(zone.status.reason ?? '');
}

/** What became new at the source is answered, and nothing is amiss. */
async function recovers(zone: ObservedZone, source: Source): Promise<void> {
  await source.put('late', ['10.0.9.9']);
  await zone.until('the new service', () => zone.addresses('late')[0] === '10.0.9.9');
  await zone.until('all is well', () => zone.status.heard && zone.status.state === 'fresh');
}

/** Knocks at the registry while it was broken: a few at first, then fewer and fewer. */
function noStorm(t: Test, zone: ObservedZone, knocks: number, seconds: number): void {
  t.ok(knocks <= 8 + 2 * seconds, `${knocks} requests in ${seconds.toFixed(1)} s`);
  t.ok(zone.reports.length < 1000, `${zone.reports.length} reports`);
}

const FAULTS: readonly [name: string, fault: Fault, says: RegExp][] = [
  ['refuses connections', { kind: 'refuse' }, /connection refused/],
  ['is half open: takes everything, says nothing', { kind: 'silent' }, /no (whole )?answer/],
  ['freezes in the middle of a body', { kind: 'freeze' }, /no (whole )?answer/],
  ['drips', { kind: 'drip' }, /no (whole )?answer/],
  ['cuts bodies', { kind: 'cut' }, /closed in the middle|reset|cut/],
  ['answers 500', { kind: 'status', status: 500 }, /status 500 \(server error\)/],
  ['answers 403', { kind: 'status', status: 403 }, /status 403 \(forbidden\)/],
  ['answers garbage', { kind: 'garbage' }, /not believable: .*not (the )?JSON/],
];

for (const kind of [etcd, consul, onDemand, http]) {
  const { own = 0, asks = 1, settles = 2000 } = kind;
  const skip = kind.missing ?? false;
  for (const [name, fault, says] of FAULTS) {
    t.test(`${kind.name}: it ${name}`, { buffered: true, skip }, async (t) => {
      const source = await kind.source(t);
      const { zone, proxy } = await ready(t, source);
      const before = proxy.requests.length;
      const start = performance.now();
      await proxy.break(fault);
      await zone.until('the outage is told', notHeard(zone, says));
      await zone.until('the zone is stale', () => zone.status.state === 'stale');
      await zone.pass(1500);
      noStorm(t, zone, proxy.requests.length - before, (performance.now() - start) / 1000);
      await proxy.mend();
      await recovers(zone, source);
    });
  }

  t.test(`${kind.name}: it asks to be left alone`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone, proxy } = await ready(t, source);
    await proxy.break({ kind: 'status', status: 429, retryAfter: '4' });
    await zone.until('the outage is told', notHeard(zone, /status 429 \(too many requests\)/));
    await zone.pass(300);
    const before = proxy.requests.length;
    await zone.pass(3000);
    t.ok(proxy.requests.length - before <= 1, 'it is');
    await proxy.mend();
    await recovers(zone, source);
  });

  t.test(`${kind.name}: the first list comes late`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const proxy = await FaultProxy.start(source.port);
    t.teardown(() => proxy.stop());
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    await proxy.break({ kind: 'refuse' });
    const zone = open(t, `{ ${source.registry(proxy.origin)} }`);
    await zone.until('the outage is told', notHeard(zone, /connection refused/));
    await zone.until('it is no answer', () => zone.addresses('orders')[0] === 'SERVFAIL');
    t.same(zone.status.state, 'never-synced');
    await proxy.mend();
    await known(zone);
  });

  t.test(`${kind.name}: it lists nothing all at once, and the guard holds`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone } = await ready(t, source);
    await source.empty();
    await zone.until('the guard holds', () => zone.status.guarded === 5);
    await zone.pass(1500);
    t.same([zone.status.heard, zone.status.state], [true, 'fresh'], 'it is heard all the same');
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    await zone.until('nothing is held', () => zone.status.guarded === 0);
  });

  t.test(`${kind.name}: changes come in, one by one and many at once`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone, proxy } = await ready(t, source, '', '4s');
    for (let i = 1; i <= 30; i++) await source.put(`s${i}`, [`10.1.0.${i}`]);
    await zone.until('all services', () => {
      for (let i = 1; i <= 30; i++) zone.addresses(`s${i}`);
      return zone.status.services === 32 + own;
    });
    t.same(zone.addresses('s17'), ['10.1.0.17']);
    await source.put('s17', ['10.1.0.17', '10.2.0.17']);
    await zone.until('another endpoint', () => zone.addresses('s17').length === 2);
    await source.put('s17', ['10.1.0.17']);
    await zone.until('one endpoint less', () => zone.addresses('s17').length === 1);
    // Reads that the changes brought are spaced: they come to their end first.
    await zone.pass(settles);
    const before = proxy.requests.length;
    await zone.pass(5000);
    const requests = proxy.requests.slice(before);
    t.ok(requests.length <= 1 + 5 * asks, `a quiet registry is asked rarely: ${requests.join(' ')}`);
    t.same([zone.status.state, zone.status.heard], ['fresh', true], 'R2: and is never stale');
    t.notOk(zone.reports.some((report) => report.kind === 'unreachable' || report.kind === 'unbelievable'));
  });

  t.test(`${kind.name}: bad data loses its row and nothing else`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone } = await ready(t, source);
    await source.put('mixed', ['10.3.0.1', 'non sense', '224.0.0.1']);
    await zone.until('the good endpoint', () => zone.addresses('mixed')[0] === '10.3.0.1');
    await zone.until('both bad ones are told', () => zone.status.rejected.length === 2);
    t.match(zone.status.rejected.map(({ reason }) => reason).join(), /IP address.*not "non sense".*is multicast/);
  });

  t.test(`${kind.name}: its host name resolves elsewhere`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const first = await FaultProxy.start(source.port);
    const second = await FaultProxy.start(source.port, undefined, { host: '127.0.0.2', port: first.port });
    t.teardown(() => Promise.all([first.stop(), second.stop()]));
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const name = `${kind.name.replaceAll(' ', '-')}.moved.test`;
    resolveTo(name, '127.0.0.1');
    const zone = open(t, `{ ${source.registry(`http://${name}:${first.port}`)} }`);
    await known(zone);
    t.equal(second.requests.length, 0);
    resolveTo(name, '127.0.0.2');
    await zone.pass(1500);
    await first.break({ kind: 'refuse' });
    await recovers(zone, source);
    t.ok(second.requests.length > 0, 'the other place is asked');
  });

  t.test(`${kind.name}: the certificate expires`, { buffered: true, skip }, async (t) => {
    const certificates = makeCertificates(t.testdir({}));
    if (certificates === undefined) return t.pass('skipped: no openssl here', { skip: 'no openssl' });
    const source = await kind.source(t);
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const proxy = await FaultProxy.start(source.port, certificates.good);
    t.teardown(() => proxy.stop());
    proxy.askers = 2;
    const stranger = open(t, `{ ${source.registry(proxy.origin)} }`);
    const zone = open(t, `{ ${source.registry(proxy.origin)}, caFile: ${certificates.caFile} }`);
    await known(zone);
    await stranger.until('another authority is not trusted', notHeard(stranger, /not signed by a known authority/));
    proxy.certify(certificates.expired);
    await zone.until('the outage is told', notHeard(zone, /the certificate has expired/));
    await zone.pass(1000);
    proxy.certify(certificates.good);
    await recovers(zone, source);
  });
}

t.test('http: the bearer token is revoked, and replaced', { buffered: true }, async (t) => {
  const server = await TargetsServer.start();
  t.teardown(() => server.stop());
  const dir = t.testdir({ token: 'first-secret\n' });
  server.authorization = 'Bearer first-secret';
  const source = httpSource(server);
  const { zone } = await ready(t, source, `, tokenFile: ${join(dir, 'token')}`);
  server.authorization = 'Bearer second-secret';
  await zone.until('the outage is told', notHeard(zone, /status 401 \(not authorized\)/));
  await zone.pass(1000);
  writeFileSync(join(dir, 'token'), 'second-secret\n');
  await recovers(zone, source);
  server.authorization = `Basic ${Buffer.from('me:pass-secret').toString('base64')}`;
  writeFileSync(join(dir, 'password'), 'pass-secret');
  const other = open(
    t,
    `{ ${source.registry(`http://127.0.0.1:${server.port}`)}, username: me, passwordFile: ${join(dir, 'password')} }`,
  );
  await known(other);
  t.notMatch(JSON.stringify([zone.reports, zone.logged, zone.status, other.status]), /secret/);
});

t.test('http: what is no list is not believed', { buffered: true }, async (t) => {
  const source = await http.source(t);
  const { zone, proxy } = await ready(t, source);
  await proxy.break({ kind: 'rewrite', path: /sd/, rewrite: () => '{"targets": []}' });
  await zone.until('the outage is told', notHeard(zone, /not believable: .*not a list of target groups/));
  await proxy.mend();
  await recovers(zone, source);
});

const skip = etcd.missing ?? false;

/** An etcd that this story may stop and break. */
async function ownEtcd(t: Test): Promise<EtcdServer> {
  const server = await EtcdServer.start(join(t.testdir({}), 'etcd'));
  t.teardown(() => server.stop());
  return server;
}

t.test('etcd: it is restarted', { buffered: true, skip }, async (t) => {
  const server = await ownEtcd(t);
  const source = etcdSource(server, '/own');
  const { zone } = await ready(t, source);
  await server.stop();
  await zone.until('the outage is told', () => !zone.status.heard);
  await zone.pass(1500);
  await server.run();
  await recovers(zone, source);
  t.equal(zone.status.guarded, 0);
});

t.test('etcd: it is restarted with an empty store', { buffered: true, skip }, async (t) => {
  const server = await ownEtcd(t);
  const source = etcdSource(server, '/own');
  const { zone } = await ready(t, source);
  await server.stop();
  server.wipe();
  await server.run();
  await zone.until('it is doubted', notHeard(zone, /not believable: revision went back/));
  await zone.until('it is believed at the second read, and the guard holds', () => zone.status.guarded === 5);
  t.equal(zone.status.heard, true);
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  await zone.until('nothing is held', () => zone.status.guarded === 0);
});

t.test('etcd: it is restored from an older backup', { buffered: true, skip }, async (t) => {
  const server = await ownEtcd(t);
  const source = etcdSource(server, '/own');
  await source.put('orders', KNOWN.orders);
  await server.stop();
  const backup = join(t.testdirName, 'backup');
  server.backUp(backup);
  await server.run();
  const { zone } = await ready(t, source);
  await server.stop();
  server.restore(backup);
  await server.run();
  await zone.until('it is doubted', notHeard(zone, /not believable: revision went back/));
  await zone.until('what came after the backup is held', () => zone.status.guarded === KNOWN.billing.length);
  await recovers(zone, source);
});

t.test('etcd: another cluster answers in its place', { buffered: true, skip }, async (t) => {
  const first = await ownEtcd(t);
  const { zone, proxy } = await ready(t, etcdSource(first, '/own'));
  const second = await EtcdServer.start(join(t.testdirName, 'second'));
  t.teardown(() => second.stop());
  const source = etcdSource(second, '/own');
  await source.put('orders', KNOWN.orders.slice(1));
  await source.put('billing', KNOWN.billing);
  proxy.route(second.port);
  await zone.until('R7: one row that left is held', () => zone.status.guarded === 1);
  t.match(zone.logged.join(), /epoch-changed/);
  await source.put('late', ['10.0.9.9']);
  await zone.until('the new service', () => zone.addresses('late')[0] === '10.0.9.9');
});

t.test('etcd: a member that is behind answers for a while', { buffered: true, skip }, async (t) => {
  const source = await etcd.source(t);
  const { zone, proxy } = await ready(t, source);
  const rewrite = (body: string): string => {
    const reply = JSON.parse(body) as { header: { revision: string }; kvs?: unknown[]; count?: string };
    reply.header.revision = '1';
    return JSON.stringify({ header: reply.header });
  };
  await proxy.break({ kind: 'rewrite', path: /range/, rewrite });
  await zone.until('it is doubted', notHeard(zone, /not believable: revision went back from \d+ to 1$/));
  await zone.pass(2000);
  await proxy.mend();
  await recovers(zone, source);
  t.equal(zone.status.guarded, 0);
});

t.test('etcd: a watch is half open while reads are answered', { buffered: true, skip }, async (t) => {
  const source = await etcd.source(t);
  const { zone, proxy } = await ready(t, source);
  await zone.pass(1200);
  await proxy.break({ kind: 'silent', path: /watch/ });
  const watches = (): number => proxy.requests.filter((path) => path.endsWith('watch')).length;
  const before = watches();
  await source.put('hidden', ['10.4.0.1']);
  await zone.until('the change comes all the same', () => zone.addresses('hidden')[0] === '10.4.0.1');
  t.equal(zone.status.heard, true);
  await zone.until('another watch begins after the list', () => watches() > before);
  await proxy.mend();
  await recovers(zone, source);
});

t.test('etcd: the watch begins where the history was compacted', { buffered: true, skip }, async (t) => {
  const server = await ownEtcd(t);
  const source = etcdSource(server, '/own');
  const proxy = await FaultProxy.start(server.port);
  t.teardown(() => proxy.stop());
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  await proxy.break({ kind: 'delay', path: /watch/, ms: 800 });
  const zone = open(t, `{ ${source.registry(proxy.origin)} }`);
  await known(zone);
  await source.put('missed', ['10.5.0.1']);
  const revision = await server.put('/elsewhere', 'x');
  await server.call('kv/compaction', { revision: String(revision) });
  await zone.until('it is listed again', () => zone.addresses('missed')[0] === '10.5.0.1');
  t.match(zone.logged.join('\n'), /watch-failed .*revisions before \d+ are gone/);
  await proxy.mend();
  await recovers(zone, source);
});

t.test(
  'etcd: other keys of the cluster change, and the zone is asked no more for that',
  { buffered: true, skip },
  async (t) => {
    const server = await ownEtcd(t);
    const { zone, proxy } = await ready(t, etcdSource(server, '/own'));
    const before = proxy.requests.length;
    for (let i = 0; i < 50; i++) await server.put(`/elsewhere/${i}`, 'x');
    await zone.pass(3000);
    t.ok(proxy.requests.length - before <= 4, `${proxy.requests.length - before} requests`);
    t.equal(zone.status.state, 'fresh');
  },
);

t.test('etcd: of several members the dead ones do no harm', { buffered: true, skip }, async (t) => {
  const source = await etcd.source(t);
  const { zone, proxy } = await ready(t, source);
  const backwards = source.registry(proxy.origin).replace('["', '["http://127.0.0.1:9", "');
  proxy.askers = 2;
  const second = open(t, `{ ${backwards} }`);
  await known(second);
  await proxy.break({ kind: 'status', status: 503 });
  const both = /127\.0\.0\.1:9: connection refused; http:\S+: status 503 \(not available\)/;
  await second.until('all members are told', notHeard(second, both));
  await proxy.mend();
  await recovers(second, source);
  await recovers(zone, source);
});

t.test('etcd: of three members the leader is killed', { buffered: true, skip }, async (t) => {
  const members = await EtcdServer.cluster(t.testdir({}), 3);
  t.teardown(() => Promise.all(members.map((member) => member.stop())));
  const leader = await leaderOf(members);
  const others = members.filter((member) => member !== leader);
  const source = etcdSource(others[0]!, '/three');
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  const proxies = await Promise.all([leader, ...others].map(({ port }) => FaultProxy.start(port)));
  t.teardown(() => Promise.all(proxies.map((proxy) => proxy.stop())));
  const endpoints = proxies.map(({ origin }) => origin);
  const zone = open(t, `{ type: etcd, endpoints: ${JSON.stringify(endpoints)}, layout: plain, prefix: /three }`);
  await known(zone);
  await leader.stop();
  await leaderOf(others);
  await recovers(zone, source);
});

t.test(
  'etcd: a follower without a quorum confirms nothing, and its word takes nothing away',
  { buffered: true, skip },
  async (t) => {
    const members = await EtcdServer.cluster(t.testdir({}), 3);
    t.teardown(() => Promise.all(members.map((member) => member.stop())));
    const leader = await leaderOf(members);
    const [follower, ...rest] = members.filter((member) => member !== leader);
    const source = etcdSource(follower!, '/alone');
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const proxy = await FaultProxy.start(follower!.port);
    t.teardown(() => proxy.stop());
    const zone = open(t, `{ ${source.registry(proxy.origin)} }`);
    await known(zone);
    for (const member of [leader, ...rest]) await member.stop();
    await zone.until('it is not heard', () => !zone.status.heard);
    await zone.pass(3000);
    for (const member of [leader, ...rest]) void member.run();
    await leaderOf(members);
    await recovers(zone, source);
  },
);

/** The member that the others follow, once there is one. */
async function leaderOf(members: readonly EtcdServer[]): Promise<EtcdServer> {
  for (let i = 0; i < 300; i++) {
    for (const member of members) if (await member.leads()) return member;
    await sleep(100);
  }
  throw new Error('no leader');
}

t.test('etcd: users, tokens that a restart forgets, a password that changes', { buffered: true, skip }, async (t) => {
  const server = await ownEtcd(t);
  const source = etcdSource(server, '/own');
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  for (const [name, password] of [
    ['root', 'root-secret'],
    ['reader', 'reader-secret'],
  ]) {
    await server.call('auth/user/add', { name, password });
  }
  const range = { key: btoa('/own/'), range_end: btoa('/own0') };
  await server.call('auth/role/add', { name: 'root' });
  await server.call('auth/role/add', { name: 'read' });
  await server.call('auth/role/grant', { name: 'read', perm: { permType: 'READ', ...range } });
  await server.call('auth/user/grant', { user: 'root', role: 'root' });
  await server.call('auth/user/grant', { user: 'reader', role: 'read' });
  await server.call('auth/enable', {});
  await server.signIn('root', 'root-secret');
  const password = join(t.testdirName, 'password');
  writeFileSync(password, 'reader-secret\n');
  const proxy = await FaultProxy.start(server.port);
  t.teardown(() => proxy.stop());
  const registry = `${source.registry(proxy.origin)}, username: reader, passwordFile: ${password}`;
  const zone = open(t, `{ ${registry} }`);
  await known(zone);
  await recovers(zone, source);

  await server.stop();
  await server.run();
  await server.signIn('root', 'root-secret');
  await source.put('again', ['10.6.0.1']);
  await zone.until('a new token', () => zone.addresses('again')[0] === '10.6.0.1');

  await server.call('auth/role/revoke', { role: 'read', ...range });
  await server.signIn('root', 'root-secret');
  await zone.until('the outage is told', notHeard(zone, /permission denied/));
  await server.call('auth/role/grant', { name: 'read', perm: { permType: 'READ', ...range } });
  await server.signIn('root', 'root-secret');
  await zone.until('heard again', () => zone.status.heard);

  await server.call('auth/user/changepw', { name: 'reader', password: 'other-secret' });
  await server.signIn('root', 'root-secret');
  await zone.until('the outage is told', notHeard(zone, /authentication failed/));
  writeFileSync(password, 'other-secret\n');
  await zone.until('heard again', () => zone.status.heard);
  t.notMatch(JSON.stringify([zone.reports, zone.logged, zone.status]), /secret/);
  t.match(readFileSync(password, 'utf8'), /secret/, 'there was something to leak');
});

t.test("etcd: CoreDNS's records", { buffered: true, skip }, async (t) => {
  shared ??= EtcdServer.start(join(folder, 'etcd'));
  const server = await shared;
  await server.put('/skydns/test/svc/web/x1', { host: '10.7.0.1', port: 80 });
  await server.put('/skydns/test/svc/web/blue/x2', { host: '10.7.0.2', port: 80, ttl: 60 });
  await server.put('/skydns/test/other/web/x1', { host: '10.7.9.9', port: 80 });
  const zone = open(t, `{ type: etcd, endpoints: ["${server.origin}"] }`);
  await zone.until('the first list', () => zone.status.state === 'fresh');
  t.same(zone.addresses('web'), ['10.7.0.1', '10.7.0.2']);
  t.same(zone.addresses('blue.web'), ['10.7.0.2']);
  await server.delete('/skydns/test/svc/web/x1');
  await zone.until('a record less', () => zone.addresses('web').length === 1);
});

/** As many leaders die as there are elections in so long, and two at least. */
const ELECTIONS_MS = 12_000;

const noConsul = consul.missing ?? false;

/** Consul that this story may stop and break. */
async function ownConsul(t: Test, options: ConsulOptions = {}): Promise<ConsulServer> {
  const server = await ConsulServer.start(join(folder, `consul-${++started}`), options);
  t.teardown(() => server.stop());
  return server;
}

t.test('consul: it is restarted, then with an empty store', { buffered: true, skip: noConsul }, async (t) => {
  const server = await ownConsul(t);
  const source = consulSource(server);
  const { zone } = await ready(t, source);
  await server.stop();
  await zone.until('the outage is told', () => !zone.status.heard);
  await zone.pass(500);
  await server.run();
  await recovers(zone, source);
  t.equal(zone.status.guarded, 0);

  await server.stop();
  server.wipe();
  await server.run();
  await zone.until('R7: another store, another epoch, and everything is held', () => zone.status.guarded === 6);
  t.match(zone.logged.join(), /epoch-changed/);
  await source.put('late', ['10.0.9.9']);
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  await zone.until('nothing is held', () => zone.status.guarded === 0);
});

t.test('consul: it is restored from an older backup', { buffered: true, skip: noConsul }, async (t) => {
  const server = await ownConsul(t);
  const source = consulSource(server);
  await source.put('orders', KNOWN.orders);
  const backup = await server.snapshot();
  const { zone } = await ready(t, source);
  await server.restore(backup);
  await zone.until('it is doubted', notHeard(zone, /not believable: revision went back/));
  await zone.until('what came after the backup is held', () => zone.status.guarded === KNOWN.billing.length);
  t.match(zone.logged.join(), /epoch-changed/);
  await recovers(zone, source);
});

t.test('consul: of three servers the leader dies, then another one', { buffered: true, skip: noConsul }, async (t) => {
  const servers = await ConsulServer.cluster(join(folder, 'three'), 3);
  t.teardown(() => Promise.all(servers.map((server) => server.stop())));
  const led = await Promise.all(servers.map((server) => server.leads()));
  const leader = servers[led.indexOf(true)]!;
  const [asked, other] = servers.filter((server) => server !== leader);
  const source = consulSource(asked!);
  const { zone, proxy } = await ready(t, source, ', maxLag: 2s');
  const before = proxy.requests.length;
  const start = performance.now();
  await leader.stop();
  await zone.pass(1000);
  await asked!.ready();
  await recovers(zone, source);
  t.ok(proxy.requests.length - before <= 40 + (10 * (performance.now() - start)) / 1000, 'no storm');

  await other!.stop();
  await zone.until('the outage is told', notHeard(zone, /no leader|not heard of its leader/));
  await zone.pass(1000);
  t.equal(zone.status.guarded, 0);
  await other!.run(false);
  await asked!.ready();
  await source.put('again', ['10.9.9.9']);
  await zone.until('what is new', () => zone.addresses('again')[0] === '10.9.9.9' && zone.status.heard);
});

t.test(
  'D41: consul: leaders die one after another under a thousand queries a second',
  {
    buffered: true,
    skip: noConsul,
  },
  async (t) => {
    const servers = await ConsulServer.cluster(join(folder, 'elections'), 3);
    t.teardown(() => Promise.all(servers.map((server) => server.stop())));
    const source = consulSource(servers[0]!);
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const origins = servers.map(({ origin }) => JSON.stringify(origin)).join();
    const zone = open(t, `{ type: consul, addresses: [${origins}] }`);
    await known(zone);
    const services = Object.keys(KNOWN) as (keyof typeof KNOWN)[];
    let [asked, wrong] = [0, 0];
    const begun = performance.now();
    const timer = setInterval(() => {
      for (; asked < performance.now() - begun; asked++) {
        const service = services[asked % services.length]!;
        if (zone.addresses(service).join() !== KNOWN[service].join()) wrong++;
      }
    }, 2);
    t.teardown(() => clearInterval(timer));
    let kills = 0;
    while (kills < 2 || performance.now() - begun < ELECTIONS_MS) {
      const led = await Promise.all(servers.map((server) => server.leads()));
      const leader = servers[led.indexOf(true)];
      if (leader === undefined) continue;
      await leader.stop();
      kills++;
      await Promise.all(servers.filter((server) => server !== leader).map((server) => server.ready()));
      await leader.run(false);
      await leader.ready();
    }
    await zone.until('it is heard', () => zone.status.heard);
    clearInterval(timer);
    t.equal(wrong, 0, `${kills} leaders, ${asked} queries`);
    t.equal(zone.status.guarded, 0);
  },
);

t.test('consul: of several agents the dead ones do no harm', { buffered: true, skip: noConsul }, async (t) => {
  const source = await consul.source(t);
  const { zone, proxy } = await ready(t, source);
  proxy.askers = 2;
  const second = open(t, `{ type: consul, addresses: ["http://127.0.0.1:9", "${proxy.origin}"] }`);
  await known(second);
  await proxy.break({ kind: 'status', status: 503 });
  const both = /127\.0\.0\.1:9: connection refused; http:\S+: status 503 \(not available\)/;
  await second.until('all agents are told', notHeard(second, both));
  await proxy.mend();
  await recovers(second, source);
  await recovers(zone, source);
});

t.test('consul: a token is revoked, replaced, and may do less', { buffered: true, skip: noConsul }, async (t) => {
  const server = await ownConsul(t, { managementToken: '11111111-aaaa-bbbb-cccc-000000000000' });
  const source = consulSource(server);
  const token = join(t.testdirName, 'token');
  mkdirSync(t.testdirName, { recursive: true });
  const policy = async (name: string, rules: string): Promise<void> => {
    await server.put('acl/policy', { Name: name, Rules: rules });
  };
  const issue = async (name: string): Promise<string> => {
    const made = JSON.parse(await server.put('acl/token', { Policies: [{ Name: name }] })) as Record<string, string>;
    return `${made.AccessorID} ${made.SecretID}`;
  };
  await policy('all', 'service_prefix "" { policy = "read" } node_prefix "" { policy = "read" }');
  await policy('some', 'service "orders" { policy = "read" } node_prefix "" { policy = "read" }');
  const [accessor, secret] = (await issue('all')).split(' ') as [string, string];
  writeFileSync(token, `${secret}\n`);
  const { zone } = await ready(t, source, `, tokenFile: ${token}`);
  await recovers(zone, source);
  await server.delete(`acl/token/${accessor}`);
  await zone.until('the outage is told', notHeard(zone, /status 403 \(forbidden\)/));
  await zone.pass(500);

  const [, some] = (await issue('some')).split(' ') as [string, string];
  writeFileSync(token, some);
  await zone.until('what is hidden is told', () => zone.status.rejected.some(({ reason }) => /token/.test(reason)));
  await zone.until('it is heard', () => zone.status.heard);
  await source.put('orders', KNOWN.orders.slice(1));
  zone.hold({ billing: KNOWN.billing });
  await zone.until('what it sees goes', () => zone.addresses('orders').length === 2);
  await zone.pass(500);
  await source.put('orders', KNOWN.orders);

  const [, all] = (await issue('all')).split(' ') as [string, string];
  writeFileSync(token, all);
  await source.put('newer', ['10.9.9.9']);
  await zone.until('everything is seen', () => zone.addresses('orders').length === 3);
  const told = JSON.stringify([zone.reports, zone.logged, zone.status]);
  for (const word of [secret, some, all]) t.notOk(told.includes(word), 'a secret is not told');
});

t.test('A22: consul: indexes of nonsense bring no storm', { buffered: true, skip: noConsul }, async (t) => {
  const source = await consul.source(t);
  const { zone, proxy } = await ready(t, source);
  for (const index of ['0', '', '1', 'soon']) {
    await proxy.break({ kind: 'rewrite', path: /./, rewrite: (body) => body, headers: { 'x-consul-index': index } });
    const before = proxy.requests.length;
    await zone.pass(2000);
    t.ok(proxy.requests.length - before <= 20, `${proxy.requests.length - before} requests with ${index || 'none'}`);
    await proxy.mend();
    await recovers(zone, source);
  }
});

t.test('consul: a watch is half open while reads are answered', { buffered: true, skip: noConsul }, async (t) => {
  const source = await consul.source(t);
  const { zone, proxy } = await ready(t, source);
  await zone.pass(1200);
  await proxy.break({ kind: 'silent', path: /wait=/ });
  await source.put('hidden', ['10.4.0.1']);
  await zone.until('the change comes all the same', () => zone.addresses('hidden')[0] === '10.4.0.1');
  t.equal(zone.status.heard, true);
  await proxy.mend();
  await recovers(zone, source);
});

t.test('consul: checks of instances and nodes, maintenance, ports', { buffered: true, skip: noConsul }, async (t) => {
  const server = await ownConsul(t);
  const source = consulSource(server);
  const { zone } = await ready(t, source);
  const check = (id: string, status: string, service = ''): Promise<void> =>
    server.register({
      Node: CONSUL_NODE,
      SkipNodeUpdate: true,
      Check: { CheckID: id, Name: 'test', Status: status, ServiceID: service },
    });
  zone.hold({ billing: KNOWN.billing });
  await check('service:orders-0', 'critical', 'orders-0');
  await zone.until('an instance is held back', () => zone.addresses('orders').length === 2);
  await check('service:orders-0', 'warning', 'orders-0');
  await zone.until('a warning is answered', () => zone.addresses('orders').length === 3);
  await check('_service_maintenance:orders-1', 'critical', 'orders-1');
  await zone.until('maintenance drains', () => zone.addresses('orders').join() === '10.0.0.1,10.0.0.3');
  await server.put('catalog/deregister', { Node: CONSUL_NODE, CheckID: '_service_maintenance:orders-1' });
  await zone.until('and ends', () => zone.addresses('orders').length === 3);
  zone.hold({});
  await check('serfHealth', 'critical');
  await zone.until('the guard holds what a node takes with it', () => zone.status.guarded === 5);
  await check('serfHealth', 'passing');
  await zone.until('nothing is held', () => zone.status.guarded === 0);

  await server.put('kv/holdfast/svc.test/.release/orders', '2020-01-01T00:00:00Z');
  await server.put('kv/holdfast/svc.test/.release/bad', 'soon');
  await zone.until('marks are read', () => zone.status.rejected.some(({ where }) => /\.release\/bad/.test(where)));
  await server.register({
    Node: CONSUL_NODE,
    SkipNodeUpdate: true,
    Service: { ID: 'orders-2', Service: 'orders', Address: '10.0.0.33', Port: 80 },
  });
  await zone.until('an address that changed alone', () => zone.addresses('orders').includes('10.0.0.33'));
});

t.test('consul: another datacenter is away for a while', { buffered: true, skip: noConsul }, async (t) => {
  const near = await ownConsul(t, { datacenter: 'dc1' });
  const far = await ownConsul(t, { datacenter: 'dc2', node: 'far-1', joinWan: [near.wanPort] });
  await consulSource(near).put('orders', KNOWN.orders);
  const there = consulSource(far);
  await there.put('orders', ['10.2.0.1']);
  await there.put('remote', ['10.2.0.2']);
  const naming = 'naming: consul\n    datacenters: [dc1, dc2]';
  const zone = new ObservedZone(`{ type: consul, address: "${near.origin}" }`, '2s', naming);
  t.teardown(() => zone.stop());
  const reached = (): boolean => zone.addresses('remote.service.dc2')[0] === '10.2.0.2';
  await zone.until('both datacenters', () => reached() && zone.addresses('orders.service').length === 3);
  zone.hold({
    'orders.service': KNOWN.orders,
    'orders.service.dc1': KNOWN.orders,
    'orders.service.dc2': ['10.2.0.1'],
    'remote.service.dc2': ['10.2.0.2'],
  });
  await far.stop();
  await zone.until('it is told', () => zone.status.rejected.some(({ reason }) => /datacenter dc2: /.test(reason)));
  await consulSource(near).put('late', ['10.0.9.9']);
  await zone.until('the near one goes on', () => zone.addresses('late.service')[0] === '10.0.9.9' && zone.status.heard);
  await far.run();
  await there.put('again', ['10.2.0.3']);
  await zone.until('it is back', () => zone.addresses('again.service.dc2')[0] === '10.2.0.3', 80_000);
});
