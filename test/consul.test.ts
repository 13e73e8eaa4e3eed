/** Consul as a registry, against a fake that breaks in ways that a real one does rarely. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { ConsulRegistryConfig, LimitsConfig } from '../src/config/types.js';
import type { Observation } from '../src/registry/adapter.js';
import { ConsulRegistry } from '../src/registry/consul.js';
import { AllChecks } from '../src/registry/consul-all-checks.js';
import { CheckTable } from '../src/registry/consul-check-table.js';
import { groupKey } from '../src/registry/consul-checks.js';
import { ConsulMirror } from '../src/registry/consul-mirror.js';
import { ReadPlan } from '../src/registry/consul-reads.js';
import type { ConsulRegistryOptions } from '../src/registry/consul-source.js';
import { Notes } from '../src/registry/notes.js';
import type { Report, Row } from '../src/registry/registry.js';
import { RevisionMemory } from '../src/registry/revision-memory.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { SyncLoop } from '../src/registry/sync.js';
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
    { softTtl: 20_000, limits: LIMITS, allowAddresses: [], ...options },
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
  return Object.fromEntries(
    [...observation.services].map(({ name, rows }) => [name, rows.map(({ address }) => address)]),
  );
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

t.test('a change of a check needs no read, one that leaves no trace is looked for', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 5);
  await until('the watches', () => fake.count(/index=/) >= 4);
  const reads = (): number => fake.count(/^health\/service|node-services|state\/any/);
  const before = reads();
  fake.set('s1', instance('i1', '10.0.0.2', { node: 'n1', status: 'critical' }));
  await until('the check', () => rows.get('s1')?.[0]?.state === 'critical');
  t.equal(reads(), before);
  fake.set('s2', instance('i2', '10.0.0.3', { node: 'n2', port: 8080 }));
  await until('the port', () => rows.get('s2')?.[0]?.port === 8080);
  fake.set('s2', instance('other', '10.0.0.30'));
  await until('another instance', () => rows.get('s2')?.length === 2);
  fake.setNode('n7', '10.7.0.1');
  fake.set('s3', { id: 'plain', node: 'n7' });
  await until('the address of a node', () => rows.get('s3')?.some(({ address }) => address === '10.7.0.1') === true);
  fake.setNode('n7', '10.7.0.2');
  await until('another address', () => rows.get('s3')?.some(({ address }) => address === '10.7.0.2') === true);
  fake.remove('s3', 'plain');
  await until('one that went without a check', () => rows.get('s3')?.length === 1);
  fake.remove('s2', 'other');
  await until('one that went with its check', () => rows.get('s2')?.length === 1);
  fake.remove('s4', 'i4');
  await until('a service that went', () => !rows.has('s4'));
  t.notOk(reports.some(({ kind }) => kind === 'unreachable' || kind === 'unbelievable'));
});

t.test('what leaves no trace is looked for on all nodes, where they are fewer', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 30; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i % 3}` }));
  fake.faults = { status: { path: /internal/, status: 404 } };
  const { rows } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 30);
  await until('the watches', () => fake.count(/index=/) >= 4);
  const reads = fake.count(/node-services/);
  fake.set('s20', instance('i20', '10.0.0.21', { node: 'n2', port: 8080 }));
  await until('the port', () => rows.get('s20')?.[0]?.port === 8080);
  fake.set('s21', { id: 'plain', node: 'n0', address: '10.9.9.9' });
  await until('one that came without a check', () => rows.get('s21')?.length === 2);
  fake.remove('s21', 'plain');
  await until('one that went without a check', () => rows.get('s21')?.length === 1);
  t.equal(fake.count(/^health\/service/), 0);
  t.ok(fake.count(/node-services/) - reads <= 9);
  t.equal(fake.count(/internal/), 1, 'what cannot be had is not asked for again and again');
});

t.test('what comes or goes is found by one summary of all services, with a check or without', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 90; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const { rows } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 90);
  await until('the watches', () => fake.count(/index=/) >= 4);
  const long = (): number => fake.count(/node-services|state\/any/);
  const before = long();
  const reads = fake.count(/^health\/service\/s21/);
  const changes: readonly [() => void, number][] = [
    [() => fake.set('s21', { id: 'plain', node: 'n0', address: '10.9.9.9' }), 2],
    [() => fake.remove('s21', 'plain'), 1],
    [() => fake.set('s21', instance('more', '10.9.9.8')), 2],
    [() => fake.remove('s21', 'more'), 1],
  ];
  for (const [i, [change, rest]] of changes.entries()) {
    change();
    await until(`change ${i}`, () => rows.get('s21')?.length === rest);
    t.equal(fake.count(/internal/), i + 1);
    t.equal(fake.count(/^health\/service\/s21/) - reads, i + 1, 'one service is read');
  }
  t.equal(long(), before, 'nothing else');
});

t.test('a summary of which something is hidden, or that is none of Consul, is of no use and no fault', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i % 3}` }));
  for (const body of ['{}', '[{"Name":7}]', '[null]', '[{"Name":"s1","InstanceCount":1,"Nodes":7}]', '[]']) {
    const { rows, reports } = following(t, registryOf(t, fake));
    await until('the list', () => rows.size === 5);
    await until('the watches', () => fake.inFlight >= 4);
    fake.faults = { body: { path: /internal/, body }, headersOf: /internal/ };
    if (body === '[]') fake.faults = { ...fake.faults, headers: { 'x-consul-results-filtered-by-acls': 'true' } };
    fake.set('s1', { id: `plain${body.length}`, node: 'n0', address: `10.9.9.${body.length}` });
    await until(body, () => rows.get('s1')?.some(({ address }) => address === `10.9.9.${body.length}`) === true);
    t.notOk(reports.some(({ kind }) => kind === 'unreachable' || kind === 'unbelievable'));
    fake.faults = {};
  }
});

t.test('what leaves the list of critical checks is not answered before it is known to pass', async (t) => {
  const fake = await fakeConsul(t);
  const critical = { status: 'critical' };
  for (let i = 0; i < 60; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}`, ...critical }));
  for (let i = 0; i < 60; i++) fake.set(`s${i}`, instance(`j${i}`, `10.0.1.${i + 1}`, { node: `n${i}` }));
  const registry = registryOf(t, fake);
  const { rows, reports } = following(t, registry);
  await until('the list', () => rows.size === 60);
  await until('the watches', () => fake.count(/index=/) >= 4);
  const states = (name: string): string =>
    rows
      .get(name)
      ?.map(({ id, state }) => `${id} ${state}`)
      .join() ?? '';
  t.equal(states('s1'), 'i1 critical,j1 passing');
  const lists = fake.count(/state\/any/);
  fake.set('s1', instance('i1', '10.0.0.2', { node: 'n1' }));
  await until('it passes', () => states('s1') === 'i1 passing,j1 passing');
  fake.set('s1', instance('i1', '10.0.0.2', { node: 'n1', status: 'warning' }));
  await until('it warns', () => states('s1') === 'i1 warning,j1 passing');
  t.equal(fake.count(/state\/any/), lists, 'few are looked at by their services');
  fake.remove('s2', 'i2');
  await until('it goes', () => states('s2') === 'j2 passing');
  t.notOk(
    reports.some(
      (report) => 'services' in report && /"i2".{0,300}"passing"}.*"j2"/.test(JSON.stringify(report.services)),
    ),
    'it was never one that passes',
  );
  for (let i = 10; i < 60; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const reads = fake.count(/^health\/service/);
  await until(
    'all pass',
    () => states('s59') === 'i59 passing,j59 passing' && states('s10') === 'i10 passing,j10 passing',
  );
  t.ok(fake.count(/^health\/service/) - reads < 50, 'many are told by the list of all');
});

t.test('a check of a node counts for all that is on it, and comes and goes with it', async (t) => {
  const fake = await fakeConsul(t);
  for (const node of ['n1', 'n2']) fake.set('web', instance(`on-${node}`, `10.0.0.${node.slice(1)}`, { node }));
  const { rows } = following(t, registryOf(t, fake));
  const states = (): string | undefined =>
    rows
      .get('web')
      ?.map(({ state }) => state)
      .join();
  await until('the list', () => states() === 'passing,passing');
  await until('the watches', () => fake.count(/index=/) >= 4);
  fake.setNodeCheck('n2', 'critical');
  await until('it is critical', () => states() === 'passing,critical');
  fake.setNodeCheck('n2', 'passing');
  await until('it passes', () => states() === 'passing,passing');
  fake.setNodeCheck('n2', 'critical');
  await until('it is critical again', () => states() === 'passing,critical');
  fake.setNodeCheck('n2', undefined);
  await until('it is gone', () => states() === 'passing,passing');
});

t.test('R3: what is asked most is watched by itself, and shows what leaves no trace', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 30; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const registry = registryOf(t, fake);
  const { rows } = following(t, registry);
  await until('the list', () => rows.size === 30);
  registry.mostAsked(['s5', 'never-was', ...Array.from({ length: 20 }, (_, i) => `s${10 + i}`)]);
  const watched = (): Set<string> =>
    new Set(fake.requests.flatMap(({ path }) => /service\/(s\d+)\?.*index=/.exec(path)?.[1] ?? []));
  await until('the watches', () => watched().size >= 16);
  const reads = fake.count(/^health\/service\/[^?]*\?(?!.*index)/);
  fake.set('s5', instance('i5', '10.0.0.6', { node: 'n5', port: 8080 }));
  await until('the port', () => rows.get('s5')?.[0]?.port === 8080);
  t.equal(fake.count(/^health\/service\/[^?]*\?(?!.*index)/), reads, 'nothing was looked for');
  t.equal(watched().size, 16);
  registry.mostAsked(['s6']);
  await until('another one', () => fake.count(/^health\/service\/s6\?.*index=/) > 0);
  await until('the others are not watched any more', () => fake.inFlight <= 6);
});

t.test(
  'R2: an index that moves for checks that pass is no sign of a broken watch, a watch that is mute is',
  async (t) => {
    const fake = await fakeConsul(t);
    fake.set('web', instance('a', '10.0.0.1', { status: 'critical' }));
    const registry = registryOf(t, fake, { softTtl: 1000 });
    await poll(registry);
    const watch = new AbortController();
    t.teardown(() => watch.abort());
    void registry.follow(watch.signal, () => undefined);
    await until('the watches', () => fake.count(/index=/) >= 4);
    for (let i = 0; i < 3; i++) {
      fake.touchChecks();
      t.match(await registry.present(NEVER), { kind: 'same' });
    }
    watch.abort();
    fake.faults = { mute: /critical/ };
    const { reports } = following(t, registry);
    await until('the list', () => reports.length > 0);
    await sleep(300);
    fake.set('web', instance('b', '10.0.0.2', { status: 'critical' }));
    fake.set('web', instance('a', '10.0.0.1'));
    await until('it is listed again', () => {
      return reports.some(
        (report) => 'services' in report && /"a".{0,200}"passing"/.test(JSON.stringify(report.services)),
      );
    });
  },
);

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
  }
  t.equal(rows.get('b')?.[0]?.state, 'critical');
});

t.test('what was being read when the watch broke is read again', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['a', 'b']) fake.set(name, instance(name, '10.0.0.1'));
  const registry = registryOf(t, fake);
  await poll(registry);
  fake.serviceDelay = 400;
  const watch = new AbortController();
  const following = registry.follow(watch.signal, () => undefined);
  await until('the watches', () => fake.count(/index=/) >= 4);
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
  const answer = (body: unknown, index: number, filtered = false) => ({ body, index, filtered });
  mirror.takeServices(answer({ web: [] }, 1));
  mirror.takeNodes(answer([node], 1));
  mirror.takeService('web', answer([{ Node: node, Service: { ID: 'a', Port: 80 } }], 1));
  t.same([...mirror.takeNodes(answer([], 2, true))!.changed], [], 'hidden');
  t.same([...mirror.takeNodes(answer([], 3))!.changed], ['web'], 'gone');
});

t.test('R6: an answer that is older than an instance that it does not have is not taken in', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const answer = (body: unknown, index: number) => ({ body, index, filtered: false });
  const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  const Service = { ID: 'a', Service: 'web', Port: 80, ModifyIndex: 20 };
  mirror.takeServices(answer({ web: [] }, 20));
  mirror.takeNodes(answer([Node], 20));
  mirror.takeService('web', answer([{ Node, Service }], 20));
  t.match(mirror.takeService('web', answer([], 19)), /older than what is known/);
  t.match(mirror.takeNode(answer({ Node, Services: [] }, 19), false), /older than what is known/);
  t.equal(mirror.contents('web', new Notes())?.rows.length, 1);
  t.match(mirror.takeNode(answer({ Node, Services: [] }, 21), false), { lost: true });
  t.equal(mirror.contents('web', new Notes())?.rows.length, 0);
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
    const mirror = new ConsulMirror(POLICY, 'dc1');
    const answer = (body: unknown) => ({ body, index: 2, filtered: false });
    mirror.takeServices(answer({ web: [] }));
    mirror.takeNodes(answer([node('n1')]));
    mirror.takeService('web', answer(instances.map((Service) => ({ Node: node('n1'), Service, Checks: checks }))));
    mirror.takeChecks(answer(checks));
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

  const portless = new ConsulMirror(new AddressPolicy([], false, true), 'dc1');
  const named = { body: { web: [] }, index: 2, filtered: false };
  portless.takeServices(named);
  const instances = ['a', 'b'].map((id) => ({
    Node: node('n1'),
    Service: service(id, { Port: id === 'a' ? undefined : 70_000 }),
  }));
  portless.takeService('web', { ...named, body: instances });
  t.match(portless.contents('web', new Notes())?.rows, [{ id: 'a', address: '10.0.0.1', port: 0 }], 'as an agent does');

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
  const names = (...list: string[]) => new Map(list.map((name) => [name, true]));
  plan.moved(10n, true);
  plan.want(['a', 'b', 'c']);
  for (const name of plan.wanted) {
    plan.verified('service', name, plan.begin(name));
    plan.found({ newest: 9n, lost: false, index: 10n });
  }
  t.same([plan.unexplained, plan.unverified('service', names('a', 'b', 'c'), 9)], [false, []]);
  plan.moved(12n, false);
  t.equal(plan.unexplained, true);
  t.equal(plan.traceless, false, 'the checks may tell');
  plan.compared(11n);
  t.equal(plan.traceless, false, 'not those that were asked for before it moved');
  plan.compared(12n);
  t.equal(plan.traceless, true);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 9), ['a', 'b', 'c']);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 2), ['a', 'b']);
  plan.verified('service', 'b', plan.begin('b'));
  plan.found({ newest: 12n, lost: false, index: 12n });
  t.equal(plan.unexplained, false);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 9), ['a', 'c'], 'one change may hide another');
  t.same(plan.unverified('service', names('new', 'a', 'b'), 9), ['new', 'a'], 'those of which nothing is known first');
  t.same(plan.unverified('node', names('n1', 'n2'), 9), ['n1', 'n2']);
  plan.verified('node', 'n1', plan.index);
  t.same(plan.unverified('node', names('n1', 'n2'), 9), ['n2']);
  plan.moved(13n, false);
  plan.found({ newest: 9n, lost: true, index: 13n });
  t.equal(plan.unexplained, false, 'an instance that went leaves no index of its own');
});

t.test('an older word of a check never takes the place of a newer one', async (t) => {
  const table = new CheckTable();
  const check = (id: string, Status: string, ModifyIndex: number) => {
    return { Node: 'n1', CheckID: id, Status, ServiceID: 'a', ServiceName: 'web', ModifyIndex };
  };
  const key = groupKey('n1', 'a');
  table.takeAll([check('x', 'passing', 5), check('y', 'passing', 6)], 6, false);
  t.equal(table.state('N1', 'a'), 'passing');
  t.match(table.takeBad('critical', [check('x', 'critical', 8)], 8), { changed: [{ id: 'x' }], left: [] });
  table.takeAll([check('x', 'passing', 5)], 7, false);
  t.equal(table.state('n1', 'a'), 'critical', 'a list from before');
  t.match(table.takeBad('critical', [], 9), { left: [{ id: 'x' }] });
  t.equal(table.state('n1', 'a'), 'critical', 'until it is known');
  t.match(table.takeBad('critical', [], 10), { left: [] }, 'told once');
  t.equal(table.agrees('critical', []), true);
  table.takeGroups([key], [check('x', 'critical', 8)], 8);
  t.equal(table.doubted().length, 1, 'a server that lags does not know');
  table.takeAll([check('x', 'critical', 8)], 9, false);
  t.equal(table.doubted().length, 0, 'it is there after all');
  t.equal(table.agrees('critical', []), false);
  t.equal(table.agrees('critical', [check('x', 'critical', 8)]), true);
  t.equal(table.agrees('critical', [check('x', 'critical', 11)]), false);
  t.equal(table.agrees('critical', [{}]), undefined);
  table.takeBad('critical', [], 12);
  t.match(table.takeGroups([key], [check('x', 'passing', 12)], 12), { changed: [{ state: 'passing' }] });
  table.takeBad('warning', [check('x', 'warning', 13)], 13);
  t.match(table.takeGroups([key], [], 14), { gone: [{ id: 'x' }] });
  t.equal(table.takeBad('warning', [], 15)?.left.length, 0);
  t.equal(table.takeAll([{ Node: 7 }], 16, false), undefined);
});

t.test(
  'the list of all checks is read when it may tell something, and never for more than a fifth of the time',
  async (t) => {
    const all = new AllChecks();
    all.took(10n, 1000, 1200);
    t.equal(all.due(10n, Number.POSITIVE_INFINITY), Number.POSITIVE_INFINITY);
    t.equal(all.due(11n, Number.POSITIVE_INFINITY), 301_200);
    t.equal(all.due(11n, 5000), 5000);
    t.equal(all.due(10n, 1300), 2200);
  },
);

t.test('R6, R7: of several numbers none may go back, and what is believed in the end is another lineage', async (t) => {
  const memory = new RevisionMemory();
  t.equal(memory.judge('e', '10.20.30', 0), undefined);
  t.match(memory.judge('e', '11.19.31', 1000), { reason: 'revision went back from 10.20.30 to 11.19.31' });
  t.equal(memory.lineage, 0);
  t.equal(memory.judge('e', '11.19.32', 11_000), undefined);
  t.equal(memory.lineage, 1);
  t.equal(memory.judge('e', '11.20.32', 12_000), undefined);
});
