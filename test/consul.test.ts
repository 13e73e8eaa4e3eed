/** Lists of Consul, and what they may be believed for, against a fake that breaks in ways that a real one does rarely. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { ConsulMirror } from '../src/registry/consul-mirror.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { addresses, fakeConsul, following, instance, NEVER, poll, registryOf, until } from './consul-fixture.js';
import type { FakeConsul, FakeInstance } from './fake-consul.js';

t.jobs = 8;

const POLICY = new AddressPolicy([], false);

t.test('a catalog is mirrored with 50 requests under way and 50 begun a second at most', async (t) => {
  const fake = await fakeConsul(t);
  fake.serviceDelay = 1500;
  for (let i = 0; i < 90; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const list = await poll(registryOf(t, fake));
  t.equal(Object.keys(addresses(list)).length, 90);
  t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
  t.equal(fake.count(/^health\/service/), 90, 'each service is read once');
});

t.test('where there are fewer nodes than services, a catalog is mirrored by its nodes', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 90; i++) {
    for (const node of ['n1', 'N2', 'n3']) {
      const more = { node, status: i === 7 ? 'critical' : 'passing', meta: { 'holdfast-priority': '3' } };
      fake.set(`s${i}`, instance(`i${i}-${node}`, `10.0.${node.slice(1)}.${i + 1}`, more));
    }
  }
  fake.set('elsewhere', { id: 'e', node: 'n4', address: '10.0.4.1' });
  const list = await poll(registryOf(t, fake));
  t.equal(Object.keys(addresses(list)).length, 91);
  t.same(addresses(list).s8, ['10.0.1.9', '10.0.2.9', '10.0.3.9']);
  t.match(list, {
    removalsBelievable: true,
    services: { 7: { name: 's7', rows: [{ state: 'critical', priority: 3 }] } },
  });
  t.equal(fake.count(/^catalog\/node-services/), 4);
  t.equal(fake.count(/^health\/service/), 0);
  const old = await fakeConsul(t);
  for (let i = 0; i < 90; i++) old.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i % 2}` }));
  old.faults = { status: { path: /node-services/, status: 405 } };
  t.equal(Object.keys(addresses(await poll(registryOf(t, old)))).length, 90, 'by services where nodes cannot be read');
});

t.test('R6: what a token does not see any more stands, what it sees goes', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['mine', 'yours']) fake.set(name, instance(name, '10.0.0.1'));
  fake.set('mine', instance('second', '10.0.0.2'));
  const registry = registryOf(t, fake);
  await poll(registry);
  fake.faults = { hidden: (name) => name === 'yours' };
  fake.remove('mine', 'second');
  const list = await poll(registry);
  t.match(list, { removalsBelievable: false });
  t.same(addresses(list).yours, ['10.0.0.1'], 'it is hidden, not gone');
  fake.faults = {};
  fake.remove('yours', 'yours');
  t.match(await poll(registry), { removalsBelievable: true, services: [{ name: 'mine' }] });
});

t.test('R6: that a token sees less is told by the watch, too', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['mine', 'yours']) fake.set(name, instance(name, '10.0.0.1'));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 2);
  await until('the watches', () => fake.count(/index=/) >= 4);
  fake.faults = { hidden: (name) => name === 'yours' };
  fake.set('mine', instance('second', '10.0.0.2'));
  await until('the change', () => rows.get('mine')?.length === 2);
  await until('it is told', () => {
    const last = reports.findLast((report) => report.kind === 'change' || report.kind === 'list');
    return (
      last !== undefined && 'rejected' in last && last.rejected.some(({ reason }) => /token does not see/.test(reason))
    );
  });
  t.same(
    rows.get('yours')?.map(({ address }) => address),
    ['10.0.0.1'],
  );
});

t.test('R6: a server without its leader is believed for what is new alone', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  const registry = registryOf(t, fake);
  t.match(await poll(registry), { removalsBelievable: true });
  for (const staleHeaders of [{ 'x-consul-knownleader': 'false' }, { 'x-consul-lastcontact': '60000' }] as const) {
    fake.faults = { staleHeaders, noLeader: true };
    const list = await poll(registry);
    t.match(list, { kind: 'list', removalsBelievable: false, rejected: [{ reason: /leader/ }] });
    t.match(await registry.follow(NEVER, () => undefined), /leader/, 'it is not watched');
    fake.faults = { staleHeaders };
    t.match(await poll(registry), { removalsBelievable: true }, 'the leader is asked, where there is one');
  }
  fake.faults = { staleHeaders: { 'x-consul-index': '3' } };
  t.match(await poll(registry), { removalsBelievable: true }, 'so it is when a server lags');
  fake.faults = { staleHeaders: { 'x-consul-index': '3' }, noLeader: true };
  t.match(await poll(registry), { kind: 'unbelievable', reason: /index went back from \d+ to 3, and no leader/ });
});

t.test('D41: twenty elections take nothing away, whatever servers say meanwhile', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 6; i++) fake.set(`s${i % 3}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i % 2}` }));
  const registry = registryOf(t, fake);
  const before = addresses(await poll(registry));
  const leaderless = { 'x-consul-knownleader': 'false' };
  const elections: FakeConsul['faults'][] = [
    { status: { path: /./, status: 500 } },
    { noLeader: true, staleHeaders: leaderless },
    { noLeader: true, staleHeaders: leaderless, body: { path: /^catalog\/services/, body: '{}' } },
    { noLeader: true, staleHeaders: leaderless, body: { path: /^health\/|^catalog\/nodes/, body: '[]' } },
    { noLeader: true, staleHeaders: { ...leaderless, 'x-consul-index': '1' } },
  ];
  for (let election = 0; election < 20; election++) {
    fake.faults = elections[election % elections.length]!;
    fake.touchChecks();
    const meanwhile = await poll(registry);
    if (meanwhile.kind === 'list') t.equal(meanwhile.removalsBelievable, false, `election ${election}`);
    else t.match(meanwhile.kind, /^un(?:reachable|believable)$/, `election ${election}`);
    fake.faults = {};
    const after = await poll(registry);
    t.match(after, { kind: 'list', removalsBelievable: true });
    t.same(addresses(after), before);
  }
});

t.test('R6: a read whose index went back takes nothing away', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['a', 'b']) fake.set(name, instance(name, '10.0.0.1', { node: name, status: 'critical' }));
  fake.setNodeCheck('b', 'critical');
  const registry = registryOf(t, fake);
  const { rows, reports } = following(t, registry);
  await until('the list', () => rows.size === 2);
  await until('the watches', () => fake.count(/index=/) >= 4);
  for (const path of [/health\/service\/a/, /state\/any/]) {
    fake.faults = { headersOf: path, headers: { 'x-consul-index': '3' }, body: { path, body: '[]' } };
    const asked = fake.count(path);
    if (path.test('health/state/any')) fake.setNodeCheck('b', 'passing');
    else fake.set('a', instance('a', '10.0.0.1', { node: 'a', status: 'critical', tags: ['new'] }));
    await until('it is asked for', () => fake.count(path) > asked);
    await sleep(300);
    t.same(
      [...rows.values()].map(({ length }) => length),
      [1, 1],
    );
    fake.faults = {};
    await until('it is heard', () => reports.at(-1)?.kind !== 'unbelievable' && rows.get('a')?.[0]?.tags[0] === 'new');
    await until('the others were looked at', () => fake.count(/^health\/service\/b/) >= 2);
  }
  t.equal(rows.get('b')?.[0]?.state, 'critical');
});

t.test('a service that could not be read and has gone is not held against the list', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  fake.set('b', instance('b', '10.0.0.2'));
  fake.faults = { status: { path: /service\/b/, status: 500 } };
  const registry = registryOf(t, fake);
  t.match(await poll(registry), { removalsBelievable: false });
  fake.remove('b', 'b');
  t.strictSame((await poll(registry)) as object, {
    ...((await poll(registry)) as object),
    removalsBelievable: true,
    rejected: [],
  });
});

t.test('what is hidden is asked for once, not with every change of others', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, '10.0.0.1'));
  const registry = registryOf(t, fake);
  await poll(registry);
  fake.faults = { hidden: (name) => name !== 's0' };
  await poll(registry);
  const reads = fake.count(/^health\/service/);
  for (let i = 0; i < 3; i++) {
    fake.set('s0', instance(`more${i}`, `10.0.1.${i}`));
    await poll(registry);
  }
  t.ok(fake.count(/^health\/service/) - reads <= 4, 'only what changed');
});

t.test('the instances of a node that left go with it', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  const answer = (body: unknown, index: number, filtered = false) => ({ body, index, filtered });
  mirror.takeServices(answer({ web: [] }, 1));
  mirror.takeNodes(answer([node], 1));
  mirror.takeService('web', answer([{ Node: node, Service: { ID: 'a', Port: 80 } }], 1));
  t.same([...mirror.takeNodes(answer([], 2, true))!.changed], [], 'hidden');
  t.same([...mirror.takeNodes(answer([], 3))!.changed], ['web'], 'gone');
});

t.test('what is no index of Consul is none: one odd number keeps nothing from being read', async (t) => {
  const fake = await fakeConsul(t);
  for (const [i, name] of ['a', 'b', 'c'].entries()) fake.set(name, instance(name, `10.0.0.${i + 1}`, { node: name }));
  for (const odd of ['1.5', '1e999', '-7', '9007199254740993', '"7"']) {
    const check = `{"Node":"b","CheckID":"c","Status":"critical","ServiceID":"b","ServiceName":"b","ModifyIndex":${odd}}`;
    const checks = odd.startsWith('"') ? '[]' : `[${check}]`;
    const node = `{"Node":"b","Address":"10.0.0.9","Datacenter":"dc1","ModifyIndex":${odd}}`;
    const service = `{"ID":"b","Service":"b","Address":"10.0.0.2","Port":80,"ModifyIndex":${odd}}`;
    fake.faults = {
      body: { path: /^health\/service\/b/, body: `[{"Node":${node},"Service":${service},"Checks":${checks}}]` },
    };
    const list = await poll(registryOf(t, fake));
    t.match(addresses(list), { a: ['10.0.0.1'], b: ['10.0.0.2'], c: ['10.0.0.3'] }, odd);
    fake.faults = {};
  }
});

t.test('R7: a store that begins again has an index that went back, or another trust domain', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  const registry = registryOf(t, fake);
  const before = await poll(registry);
  t.match(before, { epoch: 'one.consul', revision: '11.11.11' });
  fake.wipe();
  const asked = fake.requests.length;
  const after = await poll(registry);
  t.match(after, { epoch: 'one.consul', revision: '5.5.5', services: [] });
  t.same(
    fake.requests.slice(asked).flatMap(({ path }) => (/^(?:catalog|health)/.test(path) ? [path] : [])),
    ['catalog/services?stale', 'catalog/services', 'catalog/nodes', 'health/state/any'],
    'the leader, once it had to be asked',
  );
  fake.trustDomain = 'two.consul';
  t.match(await poll(registry), { epoch: 'two.consul' });
  fake.faults = { status: { path: /roots/, status: 500 } };
  t.match(await poll(registry), { epoch: 'two.consul' }, 'the last word stands');
});

t.test('R6: a backup from between the first list and the last change is doubted, too', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  fake.set('b', instance('b', '10.0.0.2'));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 2);
  await until('the watches', () => fake.count(/index=/) >= 4);
  for (let i = 0; i < 20; i++) fake.set('a', instance('a', '10.0.0.1', { port: 80 + i }));
  await until('the last change', () => rows.get('a')?.[0]?.port === 99);
  fake.wipe(20);
  fake.set('a', instance('a', '10.0.0.1', { port: 80 }));
  await until('its doubt', () => reports.some(({ kind }) => kind === 'unbelievable'));
  t.match(reports.at(-1), { kind: 'unbelievable', reason: /^revision went back from/ });
  t.equal(rows.has('b'), true);
});

t.test('R6: a server that is behind what was seen before a restart is no backup: the leader tells', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  fake.faults = { staleHeaders: { 'x-consul-index': '7' } };
  const seen = { epoch: 'one.consul', revision: '11.11.11' };
  const { reports } = following(t, registryOf(t, fake, { seen }), seen);
  await until('a report', () => reports.length > 0);
  t.match(reports[0], { kind: 'list', revision: '11.11.11' });
  const without = following(t, registryOf(t, fake, { seen: { ...seen, revision: '11.11' } }));
  await until('a list of one that was never seen', () => without.reports.length > 0);
  t.match(without.reports[0], { kind: 'list', revision: '7.7.7' });
});

t.test('R6: a datacenter that is not heard yet is no further back than it was', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  fake.faults = { noPathTo: 'dc2' };
  const seen = { epoch: 'one.consul', revision: 'dc1=11.11.11,dc2=30.31.32' };
  const { reports } = following(t, registryOf(t, fake, { datacenters: ['dc1', 'dc2'], seen }), seen);
  await until('a report', () => reports.length > 0);
  t.match(reports[0], { kind: 'list', revision: seen.revision });
  const other = following(t, registryOf(t, fake, { datacenters: ['dc1', 'dc2'] }));
  await until('a list of what was never seen', () => other.reports.length > 0);
  t.match(other.reports[0], { kind: 'list', revision: 'dc1=11.11.11' });
});

t.test('what cannot be read takes nothing away', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  fake.set('b', instance('b', '10.0.0.2'));
  const registry = registryOf(t, fake);
  await poll(registry);
  fake.faults = { status: { path: /service\/a/, status: 500 } };
  fake.set('a', instance('a', '10.0.0.1', { tags: ['new'] }));
  const list = await poll(registry);
  t.same(addresses(list), { a: ['10.0.0.1'], b: ['10.0.0.2'] });
  t.match(list, { removalsBelievable: true, rejected: [{ where: 'a', reason: /cannot be read: status 500/ }] });
  fake.set('c', instance('c', '10.0.0.3'));
  fake.faults = { status: { path: /service\/[ac]/, status: 500 } };
  t.match(await poll(registry), { removalsBelievable: false }, 'of c nothing is known');
  for (const body of ['{}', '[null]', '[{"Node":1}]', '"x"', 'null', '[[]]']) {
    fake.faults = { body: { path: /state\/any/, body } };
    t.match(await poll(registry), { kind: 'unbelievable' }, body);
  }
  for (const body of ['[]', 'null', '7']) {
    fake.faults = { body: { path: /catalog\/services/, body } };
    t.match(await poll(registry), { kind: 'unbelievable' }, body);
  }
  fake.faults = { status: { path: /./, status: 429 }, headers: {} };
  t.match(await poll(registry), { kind: 'unreachable', reason: /status 429 \(too many requests\)/ });
  fake.faults = {};
  t.same(addresses(await poll(registry)), { a: ['10.0.0.1'], b: ['10.0.0.2'], c: ['10.0.0.3'] });
});

t.test('another datacenter that cannot be reached stands as it was last seen', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  const registry = registryOf(t, fake, { datacenters: ['dc1', 'dc2'] });
  const first = await poll(registry);
  t.match(first, { nodes: [{ name: 'n1', meta: { rack: 'a' } }, { name: 'n1' }], removalsBelievable: true });
  fake.faults = { noPathTo: 'dc2' };
  const list = await poll(registry);
  t.match(list, { removalsBelievable: true, rejected: [{ reason: /datacenter dc2: .*stands/ }] });
  t.same(addresses(list), { a: ['10.0.0.1'] });
  const fresh = await poll(registryOf(t, fake, { datacenters: ['dc1', 'dc2'] }));
  t.match(fresh, { removalsBelievable: false }, 'where nothing is known of it, nothing is taken away');
  fake.faults = { noPathTo: 'dc1' };
  t.match(await poll(registry), { kind: 'unreachable', reason: /datacenter dc1: status 500/ });
});

t.test('a service beyond a limit makes the report one that is not believed, and bad data loses its row', async (t) => {
  const fake = await fakeConsul(t);
  const bad: Partial<FakeInstance>[] = [
    { port: 70_000 },
    { port: 0 },
    { address: 'no address' },
    { address: '127.0.0.1' },
  ];
  bad.forEach((more, i) => {
    fake.set('mixed', instance(`bad${i}`, '10.0.0.9', more));
  });
  fake.set('mixed', instance('good', '10.0.0.1'));
  fake.set('a name with spaces/', instance('odd', '10.0.0.2'));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 2);
  t.same(
    rows.get('mixed')?.map(({ address }) => address),
    ['10.0.0.1'],
  );
  const [list] = reports;
  t.equal(list?.kind === 'list' && list.rejected.length, 4);
  for (let i = 0; i < 51; i++) fake.set('many', instance(`m${i}`, `10.1.0.${i}`));
  await until('it is not believed', () => reports.some(({ kind }) => kind === 'unbelievable'));
  t.match(reports.at(-1), { kind: 'unbelievable', reason: /"many" has 51 endpoints, more than limits/ });
  t.ok(rows.has('mixed'));
});
