/** Consul as a registry, against a fake that breaks in ways that a real one does rarely. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { ConsulRegistryConfig, LimitsConfig } from '../src/config/types.js';
import { ConsulRegistry, type ConsulRegistryOptions } from '../src/registry/consul.js';
import { ConsulMirror } from '../src/registry/consul-mirror.js';
import { ReadPlan } from '../src/registry/consul-reads.js';
import { Notes } from '../src/registry/notes.js';
import type { Report, Row } from '../src/registry/registry.js';
import { RequestGate } from '../src/registry/request-gate.js';
import { RevisionMemory } from '../src/registry/revision-memory.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { type Observation, SyncLoop } from '../src/registry/sync.js';
import { bootClock } from '../src/system/boot-clock.js';
import { FakeConsul, type FakeInstance } from './fake-consul.js';

t.jobs = 8;

const LIMITS: LimitsConfig = { maxServices: 1000, maxEndpoints: 1000, maxEndpointsPerService: 50, maxBody: 1 << 20 };
const POLICY = new AddressPolicy([], false);
const NEVER = new AbortController().signal;
const PATIENCE_MS = 20_000;

async function fakeConsul(t: Test): Promise<FakeConsul> {
  const fake = await FakeConsul.start();
  t.teardown(() => fake.stop());
  return fake;
}

function registryOf(
  t: Test,
  fake: FakeConsul,
  options: Partial<ConsulRegistryOptions> = {},
  config: Partial<ConsulRegistryConfig> = {},
): ConsulRegistry {
  const registry = new ConsulRegistry(
    {
      type: 'consul',
      addresses: [fake.origin],
      stale: true,
      maxLag: 10_000,
      kvPrefix: 'holdfast/test',
      mirror: 'all',
      ...config,
    },
    { softTtl: 2000, limits: LIMITS, allowAddresses: [], ...options },
  );
  t.teardown(() => registry.close());
  return registry;
}

const instance = (id: string, address: string, more: Partial<FakeInstance> = {}): FakeInstance => ({
  id,
  node: 'n1',
  address,
  status: 'passing',
  ...more,
});

/** One poll, as the loop makes it. */
function poll(registry: ConsulRegistry): Promise<Observation> {
  return registry.poll({ signal: NEVER, fresh: true }) as Promise<Observation>;
}

/** The addresses of each service of a list, in short. */
function addresses(observation: Observation): Record<string, string[]> {
  if (observation.kind !== 'list') throw new Error(`no list: ${JSON.stringify(observation)}`);
  return Object.fromEntries(observation.services.map(({ name, rows }) => [name, rows.map(({ address }) => address)]));
}

/** A loop that runs, and what it reported of each service last. */
function following(t: Test, registry: ConsulRegistry): { rows: Map<string, readonly Row[]>; reports: Report[] } {
  const rows = new Map<string, readonly Row[]>();
  const reports: Report[] = [];
  const loop = new SyncLoop(registry, {
    clock: bootClock(),
    random: Math.random,
    limits: LIMITS,
    emit: (report) => {
      reports.push(report);
      if (report.kind !== 'list' && report.kind !== 'change') return;
      if (report.kind === 'list') rows.clear();
      else for (const name of report.gone) rows.delete(name);
      for (const listing of report.services) rows.set(listing.name, listing.rows);
    },
    watchFailed: () => undefined,
  });
  loop.start(false);
  t.teardown(() => loop.stop());
  return { rows, reports };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  const start = performance.now();
  while (!holds()) {
    if (performance.now() - start > PATIENCE_MS) throw new Error(`not in time: ${what}`);
    await sleep(10);
  }
}

t.test('a catalog is mirrored with 50 requests under way and 50 begun a second at most', async (t) => {
  const fake = await fakeConsul(t);
  fake.serviceDelay = 1500;
  for (let i = 0; i < 90; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`));
  const list = await poll(registryOf(t, fake));
  t.equal(Object.keys(addresses(list)).length, 90);
  t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
  t.equal(fake.count(/^health\/service/), 90, 'each service is read once');
});

t.test('a change of a check needs no read, one that leaves no trace is looked for', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 5);
  await until('the watches', () => fake.count(/index=/) >= 3);
  const reads = fake.count(/^health\/service/);
  fake.set('s1', instance('i1', '10.0.0.2', { status: 'critical' }));
  await until('the check', () => rows.get('s1')?.[0]?.state === 'critical');
  t.equal(fake.count(/^health\/service/), reads);
  fake.set('s2', instance('i2', '10.0.0.3', { port: 8080 }));
  await until('the port', () => rows.get('s2')?.[0]?.port === 8080);
  fake.set('s2', instance('other', '10.0.0.30'));
  await until('another instance', () => rows.get('s2')?.length === 2);
  fake.setNode('n2', '10.7.0.1');
  fake.set('s3', { id: 'plain', node: 'n2' });
  await until('the address of a node', () => rows.get('s3')?.some(({ address }) => address === '10.7.0.1') === true);
  fake.setNode('n2', '10.7.0.2');
  await until('another address', () => rows.get('s3')?.some(({ address }) => address === '10.7.0.2') === true);
  fake.remove('s3', 'plain');
  await until('one that went without a check', () => rows.get('s3')?.length === 1);
  fake.remove('s4', 'i4');
  await until('a service that went', () => !rows.has('s4'));
  t.notOk(reports.some(({ kind }) => kind === 'unreachable' || kind === 'unbelievable'));
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
  await until('the watches', () => fake.count(/index=/) >= 3);
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

t.test('what was being read when the watch broke is read again', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['a', 'b']) fake.set(name, instance(name, '10.0.0.1'));
  const registry = registryOf(t, fake);
  await poll(registry);
  fake.serviceDelay = 400;
  const watch = new AbortController();
  const following = registry.follow(watch.signal, () => undefined);
  await until('the watches', () => fake.count(/index=/) >= 3);
  const reads = fake.count(/^health\/service/);
  fake.set('a', instance('a', '10.0.0.1', { tags: ['new'] }));
  await until('the read', () => fake.count(/^health\/service/) > reads);
  watch.abort();
  await following;
  fake.serviceDelay = 0;
  const list = await poll(registry);
  t.match(list, { services: [{ name: 'a', rows: [{ tags: ['new'] }] }, { name: 'b' }] });
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
  mirror.takeServices({ body: { web: [] }, filtered: false });
  mirror.takeNodes({ body: [node], filtered: false }, 1);
  mirror.takeService('web', { body: [{ Node: node, Service: { ID: 'a', Port: 80 } }], filtered: false });
  t.same([...mirror.takeNodes({ body: [], filtered: true }, 2)!.changed], [], 'hidden');
  t.same([...mirror.takeNodes({ body: [], filtered: false }, 3)!.changed], ['web'], 'gone');
});

t.test('R7: a store that begins again has an index that went back, or another trust domain', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('a', instance('a', '10.0.0.1'));
  const registry = registryOf(t, fake);
  const before = await poll(registry);
  t.match(before, { epoch: 'one.consul', revision: '11.11.11' });
  fake.wipe();
  const after = await poll(registry);
  t.match(after, { epoch: 'one.consul', revision: '5.5.5', services: [] });
  fake.trustDomain = 'two.consul';
  t.match(await poll(registry), { epoch: 'two.consul' });
  fake.faults = { status: { path: /roots/, status: 500 } };
  t.match(await poll(registry), { epoch: 'two.consul' }, 'the last word stands');
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

t.test('rows say what Consul says of an instance', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const service = (id: string, more: object = {}) => ({
    ID: id,
    Service: 'web',
    Port: 80,
    Address: '10.0.0.1',
    ...more,
  });
  const node = (name: string) => ({ Node: name, Address: '10.9.0.1', Datacenter: 'dc1', ModifyIndex: 1 });
  const check = (id: string, status: string, serviceId = '', more: object = {}) => ({
    Node: 'n1',
    CheckID: id,
    Status: status,
    ServiceID: serviceId,
    ServiceName: serviceId === '' ? '' : 'web',
    ModifyIndex: 2,
    ...more,
  });
  const read = (instances: object[], checks: object[] = []) => {
    mirror.takeServices({ body: { web: [] }, filtered: false });
    mirror.takeNodes({ body: [node('n1')], filtered: false }, 1);
    mirror.takeChecks({ body: checks, filtered: false }, 2);
    mirror.takeService('web', {
      body: instances.map((Service) => ({ Node: node('n1'), Service, Checks: [] })),
      filtered: false,
    });
    const notes = new Notes();
    const contents = mirror.contents('web', notes)!;
    return { ...contents, notes: notes.list('') };
  };
  const meta = { 'holdfast-priority': '7', 'holdfast-port-name': 'HTTP', 'holdfast-zone': 'az-a' };
  t.match(read([service('a', { Tags: ['v1', ''], Weights: { Passing: 100_000, Warning: 2 }, Meta: meta })]).rows, [
    { id: 'a', priority: 7, portName: 'http', zone: 'az-a', weight: 65_535, tags: ['v1'], state: 'passing' },
  ]);
  t.match(read([service('a', { Address: '' })]).rows, [
    { address: '10.9.0.1', atNode: true, node: { name: 'n1', datacenter: 'dc1' } },
  ]);
  t.match(read([service('a', { Weights: { Passing: 0, Warning: 1 } })]).rows, [{ state: 'draining' }]);
  const states: [object[], string][] = [
    [[check('service:a', 'warning', 'a')], 'warning'],
    [[check('service:a', 'critical', 'a'), check('more', 'passing', 'a')], 'critical'],
    [[check('serfHealth', 'critical')], 'critical'],
    [[check('_node_maintenance', 'critical'), check('service:a', 'critical', 'a')], 'draining'],
    [[check('_service_maintenance:a', 'critical', 'a')], 'draining'],
    [[check('service:b', 'critical', 'b')], 'passing'],
  ];
  for (const [checks, state] of states) t.match(read([service('a')], checks).rows, [{ state }], JSON.stringify(checks));
  t.match(read([service('a', { Weights: { Passing: 9, Warning: 3 } })], [check('x', 'warning', 'a')]).rows, [
    { weight: 3 },
  ]);

  const tests: [object, object | undefined][] = [
    [{ Type: 'tcp' }, { type: 'tcp' }],
    [{ Type: 'http' }, undefined],
    [{ Type: 'ttl' }, undefined],
    [{ Definition: { HTTP: 'http://192.0.2.1:8080/health?x=1' } }, { type: 'http', port: 8080, path: '/health' }],
    [
      { Definition: { HTTP: 'https://192.0.2.1/', TLSServerName: 'web.example' } },
      { type: 'https', port: 443, path: '/', tlsName: 'web.example' },
    ],
    [{ Definition: { TCP: 'somewhere:99' } }, { type: 'tcp', port: 99 }],
    [{ Definition: { GRPC: '192.0.2.1:50/health' } }, { type: 'grpc', port: 50 }],
    [{ Definition: { ScriptArgs: ['/bin/sh'] } }, undefined],
  ];
  for (const [more, expected] of tests) {
    t.strictSame(read([service('a')], [check('c', 'passing', 'a', more)]).check, expected, JSON.stringify(more));
  }
  const wish = { 'holdfast-check-type': 'http', 'holdfast-check-path': '/ok', 'holdfast-check-status': '200, 204' };
  t.strictSame(read([service('a', { Meta: wish })], [check('c', 'passing', 'a', { Type: 'tcp' })]).check, {
    type: 'http',
    path: '/ok',
    status: [
      [200, 200],
      [204, 204],
    ],
  });
  t.match(read([service('a', { Meta: { 'holdfast-check-type': 'exec' } })]), {
    rows: [{ id: 'a' }],
    notes: [{ where: 'web, a on n1', reason: /check.type must be one of/ }],
  });
});

t.test('what an index that moved means is looked for where nothing explains it', async (t) => {
  const plan = new ReadPlan();
  plan.moved(10n, true);
  plan.want(['a', 'b', 'c']);
  for (const name of plan.wanted) plan.done(name, plan.begin(name), { newest: 9n, lost: false, index: 10n });
  t.same([plan.unexplained, plan.unverified(['a', 'b', 'c'])], [false, []]);
  plan.moved(12n, false);
  t.equal(plan.unexplained, true);
  t.same(plan.unverified(['a', 'b', 'c']), ['a', 'b', 'c']);
  plan.done('b', plan.begin('b'), { newest: 12n, lost: false, index: 12n });
  t.same([plan.unexplained, plan.unverified(['a', 'b', 'c'])], [false, ['a', 'c']], 'one change may hide another');
  plan.moved(13n, false);
  plan.done('a', plan.begin('a'), { newest: 9n, lost: true, index: 13n });
  t.equal(plan.unexplained, false, 'an instance that went leaves no index of its own');
});

t.test('a gate lets requests through in their order, so many at once and so many a second', async (t) => {
  const timers: (() => void)[] = [];
  const gate = new RequestGate({ inFlight: 2, burst: 3, gap: 100 }, (_, run) => {
    timers.push(run);
    return () => undefined;
  });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    void gate.run(() => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  }
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  await settle();
  t.same(begun, ['a', 'b']);
  ends.get('a')!();
  await settle();
  t.same(begun, ['a', 'b', 'c']);
  ends.get('b')!();
  await settle();
  t.same(begun, ['a', 'b', 'c'], 'three at once');
  t.equal(timers.length, 1);
  timers.shift()!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd']);
  timers.shift()!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd'], 'two are under way');
  ends.get('c')!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd', 'e']);
});

t.test('R6, R7: of several numbers none may go back, and what is believed in the end is another lineage', async (t) => {
  const memory = new RevisionMemory();
  t.equal(memory.judge('e', '10.20.30', 0), undefined);
  t.match(memory.judge('e', '11.19.31', 1000), { reason: 'revision went back from 10.20.30 to 11.19.31' });
  t.equal(memory.lineage, 0);
  t.equal(memory.judge('e', '11.19.32', 11_000), undefined);
  t.equal(memory.lineage, 1);
  t.equal(memory.judge('e', '11.20.32', 12_000), undefined);
});
