/** What Consul alone may do to a zone, against the real server. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ConsulServer } from './consul-server.js';
import { ObservedZone } from './observed-zone.js';
import {
  askThousandASecond,
  CONSUL_NODE,
  consul,
  consulSource,
  KNOWN,
  known,
  notHeard,
  open,
  ownConsul,
  ready,
  recovers,
} from './registry-stories.js';

// Stories wait more than they work: they run side by side.
t.jobs = 16;
t.setTimeout(110_000);

/** As many leaders die as there are elections in so long, and two at least. */
const ELECTIONS_MS = 12_000;

const skip = consul.missing ?? false;

t.test('consul: it is restarted, then with an empty store', { buffered: true, skip }, async (t) => {
  const server = await ownConsul(t);
  const source = consulSource(server);
  const { zone } = await ready(t, source);
  await server.stop();
  await zone.until('the outage is told', () => !zone.status.heard);
  await zone.pass(500);
  await server.run();
  const late = await recovers(zone, source);
  t.equal(zone.status.guarded, 0);

  await server.stop();
  server.wipe();
  await server.run();
  await zone.until('R7: another store, another epoch, and everything is held', () => zone.status.guarded === 6);
  t.match(zone.logged.join(), /epoch-changed/);
  await source.put(late, ['10.0.9.9']);
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  await zone.until('nothing is held', () => zone.status.guarded === 0);
});

t.test('consul: it is restored from an older backup', { buffered: true, skip }, async (t) => {
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

t.test('consul: of three servers the leader dies, then another one', { buffered: true, skip }, async (t) => {
  const servers = await ConsulServer.cluster(join(t.testdir({}), 'three'), 3);
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
    skip,
  },
  async (t) => {
    const servers = await ConsulServer.cluster(join(t.testdir({}), 'elections'), 3);
    t.teardown(() => Promise.all(servers.map((server) => server.stop())));
    const source = consulSource(servers[0]!);
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const origins = servers.map(({ origin }) => JSON.stringify(origin)).join();
    const zone = open(t, `{ type: consul, addresses: [${origins}] }`);
    await known(zone);
    const begun = performance.now();
    const queries = askThousandASecond(t, zone);
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
    queries.end(`${kills} leaders`);
    t.equal(zone.status.guarded, 0);
  },
);

t.test('consul: of several agents the dead ones do no harm', { buffered: true, skip }, async (t) => {
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

t.test('consul: a token is revoked, replaced, and may do less', { buffered: true, skip }, async (t) => {
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
  await source.put('newer', ['10.9.9.9']);
  // The watches have come to the newest index with the token of before: nothing changes from now on but the token.
  await zone.pass(1500);
  const renewals = (): number => zone.logged.filter((line) => line.startsWith('credentials-changed ')).length;
  const before = renewals();
  writeFileSync(token, all);
  await zone.until('everything is seen', () => zone.addresses('newer')[0] === '10.9.9.9');
  await zone.until('it is told', () => renewals() > before);
  await zone.until('and what came back', () => zone.addresses('orders').length === 3);
  await zone.pass(1500);
  t.equal(renewals(), before + 1, 'it is told once');
  const told = JSON.stringify([zone.reports, zone.logged, zone.status]);
  for (const word of [secret, some, all]) t.notOk(told.includes(word), 'a secret is not told');
});

t.test('A22: consul: indexes of nonsense bring no storm', { buffered: true, skip }, async (t) => {
  const source = await consul.source(t);
  const { zone, proxy } = await ready(t, source);
  for (const index of ['0', '', '1', 'soon']) {
    // What the service that was new before has read anyway is no part of it.
    await zone.pass(1500);
    await proxy.break({ kind: 'rewrite', path: /./, rewrite: (body) => body, headers: { 'x-consul-index': index } });
    const before = proxy.requests.length;
    await zone.pass(2000);
    t.ok(proxy.requests.length - before <= 20, `${proxy.requests.length - before} requests with ${index || 'none'}`);
    await proxy.mend();
    await recovers(zone, source);
  }
});

t.test('consul: a watch is half open while reads are answered', { buffered: true, skip }, async (t) => {
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

t.test('consul: checks of instances and nodes, maintenance, ports', { buffered: true, skip }, async (t) => {
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

t.test('consul: another datacenter is away for a while', { buffered: true, skip }, async (t) => {
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
