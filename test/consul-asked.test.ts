/** Consul on demand (R33), against a fake that breaks in ways that a real one does rarely. */
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { ConsulRegistryConfig, FilterConfig } from '../src/config/types.js';
import { registryIdentity } from '../src/registry/identity.js';
import type { LookUp } from '../src/registry/look-up.js';
import { openAdapter } from '../src/registry/open.js';
import type { Report, Row } from '../src/registry/registry.js';
import type { SeenRevision } from '../src/registry/revision-memory.js';
import type { SyncLoop } from '../src/registry/sync.js';
import { configOf, fakeConsul, following, instance, LIMITS, until } from './consul-fixture.js';
import { FakeConsul } from './fake-consul.js';

t.jobs = 8;

interface Followed {
  readonly loop: SyncLoop;
  /** What was reported of each service last. */
  readonly rows: Map<string, readonly Row[]>;
  readonly reports: Report[];
  lookUp(service: string): Promise<LookUp>;
  last(): Report['kind'] | undefined;
}

interface Options {
  readonly config?: Partial<ConsulRegistryConfig>;
  readonly filter?: FilterConfig;
  readonly known?: readonly string[];
  readonly softTtl?: number;
  readonly naming?: 'rfc2782' | 'consul';
  readonly datacenters?: readonly string[];
  readonly seen?: SeenRevision;
}

/** A loop that runs. */
function asking(t: Test, fake: FakeConsul, { seen, ...options }: Options = {}): Followed {
  const config: ConsulRegistryConfig = { ...configOf(fake), mirror: 'asked', ...options.config };
  const adapter = openAdapter(options.filter === undefined ? config : { ...config, filter: options.filter }, {
    softTtl: options.softTtl ?? 2000,
    limits: LIMITS,
    allowAddresses: [],
    naming: options.naming ?? 'rfc2782',
    datacenters: options.datacenters ?? ['dc1'],
    seen,
  });
  adapter.onDemand?.order(options.known ?? []);
  const { loop, rows, reports } = following(t, adapter, seen);
  const lookUp = (service: string): Promise<LookUp> =>
    new Promise((resolve) => {
      void loop.lookUp(service, (found) => {
        if (found.kind === 'found') rows.set(found.listing.name, found.listing.rows);
        resolve(found);
      });
    });
  return { loop, rows, reports, lookUp, last: () => reports.at(-1)?.kind };
}

const addresses = (rows: readonly Row[] | undefined): string[] => (rows ?? []).map(({ address }) => address).sort();

t.test('nothing is read of what nobody asks for; what is found is one read, and watched from then on', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 20; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`));
  const { rows, reports, lookUp } = asking(t, fake);
  await until('the first list', () => reports[0]?.kind === 'list');
  t.equal(rows.size, 0);
  t.equal(fake.count(/^health\/service/), 0);
  t.equal(fake.count(/^catalog\/nodes|^health\/state\/any|^catalog\/services\?(?!.*node-meta)/), 0, 'no list is read');
  const found = await lookUp('s3');
  t.equal(found.kind, 'found');
  t.same(addresses(rows.get('s3')), ['10.0.0.4']);
  t.equal(fake.count(/^health\/service\/s3(?!.*index)/), 1);
  await until('the watch', () => fake.count(/^health\/service\/s3.*index/) > 0);
  fake.set('s3', instance('more', '10.0.1.1'));
  await until('the change', () => rows.get('s3')?.length === 2);
  fake.set('s3', instance('more', '10.0.1.1', { status: 'critical' }));
  await until('the check', () => rows.get('s3')?.some(({ state }) => state === 'critical') === true);
  t.equal(fake.count(/^health\/service\/(?!s3)/), 0, 'and nothing else');
});

t.test('what the registry has not is unknown, and not watched', async (t) => {
  const fake = await fakeConsul(t);
  const { reports, lookUp } = asking(t, fake);
  t.same(await lookUp('nope'), { kind: 'unknown' });
  await until('some confirmations', () => reports.filter(({ kind }) => kind === 'confirmed').length >= 2);
  t.equal(fake.count(/^health\/service\/nope/), 1);
});

t.test('a service that is known and goes altogether is gone, and there when it is back', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  const { rows, lookUp } = asking(t, fake);
  await lookUp('web');
  fake.remove('web', 'w');
  await until('it is gone', () => !rows.has('web'));
  fake.set('web', instance('w', '10.0.0.2'));
  await until('it is back', () => addresses(rows.get('web')).join() === '10.0.0.2');
});

t.test(
  'known services are confirmed within the soft TTL, a few by watches and many in turn, 50 requests a second',
  async (t) => {
    const fake = await fakeConsul(t);
    const known: string[] = [];
    for (let i = 0; i < 120; i++) {
      known.push(`s${i}`);
      fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`));
    }
    const { rows, reports } = asking(t, fake, { known, softTtl: 10_000 });
    await until('the list', () => rows.size === 120);
    const first = fake.requests.filter(({ path }) => path.startsWith('health/service/')).slice(0, 30);
    const ranks = first.map(({ path }) => Number(/service\/s(\d+)/.exec(path)?.[1]));
    t.ok(Math.max(...ranks) < 60, `most-asked first (R3): ${ranks}`);
    await until('a confirmation', () => reports.some(({ kind }) => kind === 'confirmed'));
    t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
    t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
    fake.set('s119', instance('more', '10.0.1.1'));
    await until('a change of one that is read in turn', () => rows.get('s119')?.length === 2);
    fake.set('s0', instance('more', '10.0.1.2'));
    await until('a change of one that is watched', () => rows.get('s0')?.length === 2);
  },
);

t.test('look-ups do not wait for reads, nor reads for look-ups', async (t) => {
  const fake = await fakeConsul(t);
  const known = Array.from({ length: 100 }, (_, i) => `s${i}`);
  for (const [i, name] of known.entries()) fake.set(name, instance(name, `10.0.0.${i + 1}`));
  fake.set('asked', instance('a', '10.0.1.1'));
  const { rows, lookUp } = asking(t, fake, { known });
  await until('the list is being read', () => fake.count(/^health\/service/) > 5);
  const warnings: Error[] = [];
  process.on('warning', (warning) => warnings.push(warning));
  const before = fake.count(/^health\/service/);
  t.equal((await lookUp('asked')).kind, 'found');
  t.ok(fake.count(/^health\/service/) - before < 60, 'long before the list is there');
  await Promise.all(Array.from({ length: 30 }, (_, i) => lookUp(`nope${i}`)));
  t.same(warnings, [], 'however many come at once');
  await until('the list', () => rows.size === 101);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
});

t.test('an answer that cannot be believed is a failure, and denies nothing', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  // Nothing else is asked meanwhile, by which the registry as a whole would not be believed.
  const { reports, lookUp } = asking(t, fake, { softTtl: 120_000 });
  await until('the first list', () => reports.length > 0);
  const path = /^health\/service/;
  const faults: Record<string, FakeConsul['faults']> = {
    'an error': { status: { path, status: 500 } },
    forbidden: { status: { path, status: 403 } },
    'no JSON': { body: { path, body: 'Bad gateway' } },
    'another JSON': { body: { path, body: '{"a":1}' } },
    'an entry that is none': { body: { path, body: '[{"Node":{}}]' } },
    'no index': { headers: { 'x-consul-index': '' } },
    'a token that sees nothing': { hidden: () => true },
    'no leader': { staleHeaders: { 'x-consul-knownleader': 'false' }, noLeader: true },
  };
  for (const [what, fault] of Object.entries(faults)) {
    fake.faults = fault;
    t.equal((await lookUp(`nope-${what.length}`)).kind, 'failed', what);
  }
  fake.faults = { staleHeaders: { 'x-consul-lastcontact': '60000' } };
  t.equal((await lookUp('nope')).kind, 'unknown', 'from the leader, where another server lags');
  fake.faults = { staleHeaders: { 'x-consul-knownleader': 'false' }, noLeader: true };
  t.equal((await lookUp('web')).kind, 'found', 'what is there is believed without a leader');
});

t.test('a registry that refuses, falls silent or forgets takes nothing away', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  const { rows, reports, lookUp, last } = asking(t, fake);
  await lookUp('web');
  for (const faults of [
    { status: { path: /./, status: 500 } },
    { status: { path: /./, status: 403 } },
    { body: { path: /./, body: 'nonsense' } },
  ]) {
    fake.faults = faults;
    await until('it is not heard', () => last() === 'unreachable' || last() === 'unbelievable');
    t.equal(rows.get('web')?.length, 1);
    fake.faults = {};
    await until('it is heard', () => last() === 'confirmed' || last() === 'list' || last() === 'change');
  }
  const seen = reports.length;
  fake.wipe();
  await until('an index that goes back', () => reports.slice(seen).some(({ kind }) => kind === 'unbelievable'));
  t.equal(rows.get('web')?.length, 1, 'is not believed');
});

t.test('R6: a backup from between the first list and the last change is doubted, too', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('web', '10.0.0.1'));
  // Nothing else tells meanwhile how far the registry is as a whole.
  const { rows, reports } = asking(t, fake, { known: ['web', 'db'], softTtl: 120_000 });
  await until('the list', () => rows.size === 1);
  await until('the watches', () => fake.count(/index=/) >= 3);
  for (let i = 0; i < 20; i++) fake.set('web', instance('web', '10.0.0.1', { port: 80 + i }));
  fake.set('db', instance('db', '10.0.0.2'));
  await until('the last changes', () => rows.get('web')?.[0]?.port === 99 && rows.has('db'));
  const seen = reports.length;
  fake.wipe(20);
  fake.set('web', instance('web', '10.0.0.1', { port: 80 }));
  await until('a report', () => reports.slice(seen).some(({ kind }) => kind !== 'change'));
  t.match(
    reports.slice(seen).find(({ kind }) => kind !== 'change'),
    { kind: 'unbelievable', reason: /^revision went back from/ },
  );
  t.equal(rows.has('db'), true);
});

t.test('R6: a server that is behind another one, or what was seen before a restart, is no backup', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('web', '10.0.0.1'));
  fake.faults = { staleHeaders: { 'x-consul-index': '7' }, headersOf: /./ };
  const seen = { epoch: 'one.consul', revision: '11.11.11' };
  const { reports } = asking(t, fake, { known: ['web'], seen });
  await until('a report', () => reports.length > 0);
  t.match(reports[0], { kind: 'list', revision: '11.11.11' });
  await until('a confirmation', () => reports.some(({ kind }) => kind === 'confirmed'));
  t.notOk(reports.some(({ kind }) => kind === 'unbelievable'));
});

t.test('one service that cannot be read stands, and the others go on', async (t) => {
  const fake = await fakeConsul(t);
  for (const name of ['a', 'b', 'c', 'd']) fake.set(name, instance(name, '10.0.0.1'));
  const { rows, reports } = asking(t, fake, { known: ['a', 'b', 'c', 'd'] });
  await until('the list', () => rows.size === 4);
  fake.faults = { status: { path: /service\/a$/, status: 500 } };
  fake.set('a', instance('more', '10.0.0.2'));
  fake.set('b', instance('more', '10.0.0.2'));
  await until('the change of another', () => rows.get('b')?.length === 2);
  await until('what is amiss is told', () =>
    reports.some(
      (report) => report.kind === 'change' && report.rejected.some(({ reason }) => /cannot be read/.test(reason)),
    ),
  );
  t.equal(rows.get('a')?.length, 1);
  fake.faults = {};
  await until('it can be read again', () => rows.get('a')?.length === 2);
});

t.test('of several agents the next is asked when one refuses', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  const gone = await FakeConsul.start();
  const { origin } = gone;
  await gone.stop();
  const { reports, lookUp } = asking(t, fake, { config: { addresses: [origin, fake.origin] } });
  t.equal((await lookUp('web')).kind, 'found');
  await until('the list', () => reports.some(({ kind }) => kind === 'list'));
});

t.test('a part of a registry is looked up by its own names, and has nothing else', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('team-a-web', instance('w', '10.0.0.1', { tags: ['prod'] }));
  fake.set('team-a-test', instance('x', '10.0.0.2'));
  fake.set('web', instance('y', '10.0.0.3', { tags: ['prod'] }));
  const filter = { prefix: 'team-a-', tag: 'prod', services: ['web', 'test'] };
  const { rows, lookUp, loop } = asking(t, fake, { filter });
  t.equal((await lookUp('web')).kind, 'found');
  t.same(addresses(rows.get('web')), ['10.0.0.1']);
  t.equal((await lookUp('test')).kind, 'unknown', 'without the tag it is not there');
  t.equal((await lookUp('other')).kind, 'unknown');
  t.equal(fake.count(/other/), 0, 'what can be no part is not asked for');
  fake.set('team-a-web', instance('more', '10.0.0.4', { tags: ['prod'] }));
  await until('the change', () => rows.get('web')?.length === 2);
  loop.know([], ['web']);
  const seen = fake.count(/team-a-web/);
  await sleep(1500);
  t.ok(fake.count(/team-a-web/) - seen <= 1, 'what is dropped is asked for no more');
});

t.test('each datacenter of the zone is asked, and one that is out of reach denies nothing', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  const { lookUp, reports } = asking(t, fake, { naming: 'consul', datacenters: ['dc1', 'dc2'] });
  await until('the first list', () => reports.length > 0);
  t.equal((await lookUp('web')).kind, 'found');
  t.equal(fake.count(/^health\/service\/web\?(?!.*index).*dc=dc1/), 1);
  t.equal(fake.count(/^health\/service\/web\?(?!.*index).*dc=dc2/), 1);
  fake.faults = { noPathTo: 'dc2' };
  t.equal((await lookUp('nope')).kind, 'failed');
});

t.test('a service in other letters has one name', async (t) => {
  const fake = await fakeConsul(t);
  const entry = (name: string, id: string): object => ({
    Node: { Node: 'n1', Address: '10.255.0.1', ModifyIndex: 5 },
    Service: { ID: id, Service: name, Address: `10.0.0.${id}`, Port: 80 },
    Checks: [],
  });
  const { lookUp } = asking(t, fake);
  fake.faults = { body: { path: /^health\/service/, body: JSON.stringify([entry('web', '1'), entry('Web', '2')]) } };
  const found = await lookUp('web');
  t.equal(found.kind === 'found' && found.listing.name, 'Web', 'the first in byte order (R22)');
  t.same(found.kind === 'found' && addresses(found.listing.rows), ['10.0.0.2']);
});

t.test('what is known on demand is no list of all: a snapshot of one is none of the other', (t) => {
  const base = { type: 'consul', addresses: ['http://a'], stale: true, maxLag: 1, kvPrefix: 'x' } as const;
  t.not(registryIdentity({ ...base, mirror: 'asked' }), registryIdentity({ ...base, mirror: 'all' }));
  t.end();
});
