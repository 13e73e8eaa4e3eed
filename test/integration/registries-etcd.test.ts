/** What etcd alone may do to a zone, against the real server. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { EtcdServer } from './etcd-server.js';
import { FaultProxy } from './fault-proxy.js';
import {
  askThousandASecond,
  etcd,
  etcdSource,
  KNOWN,
  known,
  notHeard,
  open,
  ownEtcd,
  ready,
  recovers,
  sharedEtcd,
} from './registry-stories.js';

// Stories wait more than they work: they run side by side.
t.jobs = 16;
t.setTimeout(110_000);

const skip = etcd.missing ?? false;
/** Of leaders, one after another, which are soon elected. */
const KILLS = 20;
const ELECTION_MS = 300;

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
    const start = performance.now();
    for (let i = 0; i < 50; i++) await server.put(`/elsewhere/${i}`, 'x');
    await zone.pass(3000);
    const [asked, seconds] = [proxy.requests.length - before, (performance.now() - start) / 1000];
    t.ok(asked <= 1 + seconds, `${asked} requests in ${seconds.toFixed(1)} s`);
    await zone.until('all is well', () => zone.status.state === 'fresh');
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

t.test('D41: etcd: twenty leaders die under a thousand queries a second', { buffered: true, skip }, async (t) => {
  const members = await EtcdServer.cluster(t.testdir({}), 3, ELECTION_MS);
  t.teardown(() => Promise.all(members.map((member) => member.stop())));
  const source = etcdSource(await leaderOf(members), '/elections');
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  const endpoints = JSON.stringify(members.map(({ origin }) => origin));
  const zone = open(t, `{ type: etcd, endpoints: ${endpoints}, layout: plain, prefix: /elections }`);
  await known(zone);
  const queries = askThousandASecond(t, zone);
  for (let kills = 0; kills < KILLS; kills++) {
    const leader = await leaderOf(members);
    await leader.stop();
    await leaderOf(members.filter((member) => member !== leader));
    await leader.run();
  }
  await zone.until('it is heard', () => zone.status.heard);
  queries.end(`${KILLS} leaders`);
  t.equal(zone.status.guarded, 0);
  // It follows what is there now.
  const last = etcdSource(await leaderOf(members), '/elections');
  await last.put('again', ['10.9.9.9']);
  await zone.until('what is new', () => zone.addresses('again')[0] === '10.9.9.9');
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
  const server = await sharedEtcd();
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
