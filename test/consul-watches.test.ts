/** What a change of Consul is found by, against a fake that counts what it is asked for. */
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { fakeConsul, following, instance, NEVER, poll, registryOf, until } from './consul-fixture.js';

t.jobs = 8;

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

t.test('a service that is watched by itself from now on is no change: the next one is passed on at once', async (t) => {
  const fake = await fakeConsul(t);
  fake.set('web', instance('w', '10.0.0.1'));
  const registry = registryOf(t, fake);
  const { rows, reports } = following(t, registry);
  await until('the list', () => rows.size === 1);
  await until('the watches', () => fake.count(/index=/) >= 4);
  registry.mostAsked(['web']);
  await until('its watch', () => fake.count(/^health\/service\/web.*index=/) > 0);
  t.notOk(reports.some((report) => report.kind === 'change' && [...report.services].length > 0));
});

t.test('a service that is watched by itself is read when Consul answers from what it streams', async (t) => {
  const fake = await fakeConsul(t);
  fake.streaming = true;
  const status = { path: /internal/, status: 404 };
  fake.faults = { status };
  fake.set('web', instance('w', '10.0.0.1'));
  const registry = registryOf(t, fake);
  const { rows } = following(t, registry);
  await until('the list', () => rows.size === 1);
  await until('the watches', () => fake.count(/index=/) >= 4);
  registry.mostAsked(['web']);
  const watches = (): number => fake.count(/^health\/service\/web.*index=/);
  for (let i = 1; i <= 3; i++) {
    await until('its watch', () => watches() >= i);
    fake.set('web', { id: `plain${i}`, node: 'n1', address: `10.0.1.${i}` });
    await until('one without a check', () => rows.get('web')?.length === i + 1);
  }
  t.equal(fake.count(/^health\/service\/web\?stale=?$/), 1, 'its watch is not begun again');
  const reads = fake.count(/^health\/service\/web(?!.*index=)/);
  fake.faults = { status, hidden: (service) => service === 'web' };
  fake.set('web', { id: 'another', node: 'n1', address: '10.0.1.9' });
  await until('a read', () => fake.count(/^health\/service\/web(?!.*index=)/) > reads);
  await sleep(200);
  t.equal(rows.get('web')?.length, 4, 'what the token does not see any more stands');
});

t.test('what is asked while it is looked for what changed is read at once, however long that takes', async (t) => {
  const fake = await fakeConsul(t);
  fake.summaryDelay = 60_000;
  for (let i = 0; i < 60; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const registry = registryOf(t, fake);
  const { rows, reports } = following(t, registry);
  await until('the list', () => rows.size === 60);
  await until('the watches', () => fake.count(/index=/) >= 4);
  const reads = (path: RegExp): number => fake.count(path) - (before.get(path) ?? 0);
  const one = /^health\/service\/s3(?!\d)/;
  // Those that were read longest ago are looked at again, one after another: these are the last.
  const others = /^health\/service\/s5[89]/;
  const before = new Map([one, others].map((path) => [path, fake.count(path)]));
  const seeks: boolean[] = [];
  registry.onSeek((seeking) => {
    seeks.push(seeking);
    if (seeking) registry.justAsked(['s3', 'never-was', 's4', 's3']);
  });
  registry.justAsked(['s58']);
  fake.set('s3', { id: 'plain', node: 'n0', address: '10.9.9.9' });
  await until('one without a check', () => rows.get('s3')?.length === 2);
  await until('that nothing is sought', () => seeks.length === 2);
  t.strictSame(seeks, [true, false]);
  t.equal(reads(one), 1);
  registry.justAsked(['s58', 's59']);
  await sleep(100);
  t.equal(reads(others), 0, 'when it is known what changed, nothing is read');
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

t.test('what comes or goes with a check is found by the list of all checks, where that takes less', async (t) => {
  const fake = await fakeConsul(t);
  fake.summaryDelay = 1_000;
  for (let i = 0; i < 90; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const { rows, reports } = following(t, registryOf(t, fake));
  await until('the list', () => rows.size === 90);
  await until('the watches', () => fake.count(/index=/) >= 5);
  const lists = fake.count(/state\/any/);
  const changes: readonly [() => void, string, number][] = [
    [() => fake.set('s21', instance('more', '10.9.9.8')), 's21', 2],
    [() => fake.remove('s21', 'more'), 's21', 1],
    [() => fake.set('s89', instance('last', '10.9.9.7', { node: 'n89' })), 's89', 2],
    [() => fake.remove('s0', 'i0'), 's0', 0],
  ];
  for (const [i, [change, name, rest]] of changes.entries()) {
    change();
    await until(`change ${i}`, () => (rows.get(name)?.length ?? 0) === rest);
  }
  t.ok(fake.count(/state\/any/) - lists <= 4, 'at most one list for each');
  t.equal(fake.count(/internal/), 0);
  fake.set('s21', { id: 'plain', node: 'n0', address: '10.9.9.9' });
  await until('one without a check', () => rows.get('s21')?.length === 2);
  t.equal(fake.count(/internal/), 1, 'the summary tells where no check does');
  t.ok(fake.count(/state\/any/) - lists <= 4, 'and is asked alone');
  // Everywhere something else is said, and on one node an instance came.
  for (let i = 0; i < 90; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  await until('what was so before', () => rows.get('s0')?.length === 1);
  fake.setNodeCheck('n7', 'critical');
  await until('a check of a node', () => rows.get('s7')?.[0]?.state === 'critical');
  fake.setNodeCheck('n7', 'passing');
  await until('it passes', () => rows.get('s7')?.[0]?.state === 'passing');
  t.notOk(reports.some(({ kind }) => kind === 'unreachable' || kind === 'unbelievable'));
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
  for (let i = 0; i < 50; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const registry = registryOf(t, fake);
  const { rows } = following(t, registry);
  await until('the list', () => rows.size === 50);
  registry.mostAsked(['s5', 'never-was', ...Array.from({ length: 40 }, (_, i) => `s${10 + i}`)]);
  const watched = (): Set<string> =>
    new Set(fake.requests.flatMap(({ path }) => /service\/(s\d+)\?.*index=/.exec(path)?.[1] ?? []));
  await until('the watches', () => watched().size >= 32);
  const reads = fake.count(/^health\/service\/[^?]*\?(?!.*index)/);
  fake.set('s5', instance('i5', '10.0.0.6', { node: 'n5', port: 8080 }));
  await until('the port', () => rows.get('s5')?.[0]?.port === 8080);
  t.equal(fake.count(/^health\/service\/[^?]*\?(?!.*index)/), reads, 'nothing was looked for');
  t.equal(watched().size, 32);
  registry.mostAsked(['s6']);
  await until('another one', () => fake.count(/^health\/service\/s6\?.*index=/) > 0);
  await until('the others are not watched any more', () => fake.inFlight <= 7);
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
