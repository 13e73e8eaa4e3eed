/** Watches of single services of Consul: what ends one of them ends no other, and it is begun again. */
import t from 'tap';
import type { AskedReads } from '../src/registry/consul-asked-reads.js';
import { AskedService } from '../src/registry/consul-asked-service.js';
import { AskedWatches } from '../src/registry/consul-asked-watches.js';
import { HotWatches } from '../src/registry/consul-hot.js';
import { fakeConsul, following, instance, registryOf, until } from './consul-fixture.js';
import { FakeTime } from './fake-time.js';

/** Watches that last so long each, and then end or throw. */
function watching(lasting: number, end: () => void) {
  const time = new FakeTime();
  const begun: Record<string, number[]> = {};
  const ended: number[] = [];
  const hot = new HotWatches({
    watch: (name, signal) => {
      (begun[name] ??= []).push(time.now - 1000);
      return new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => resolve(undefined), { once: true });
        if (name !== 'good')
          time.after(lasting, () => {
            try {
              resolve(end());
            } catch (error) {
              reject(error);
            }
          });
      });
    },
    ended: () => ended.push(time.now - 1000),
    random: () => 0.999_999,
    now: () => time.now,
    after: time.after,
  });
  return { time, begun, ended, hot };
}

const throwing = (): never => {
  throw new Error('a bug');
};

for (const [how, end] of [
  ['throws', throwing],
  ['ends', () => undefined],
] as const) {
  t.test(`one that ${how} is begun again later and later, and its service is read meanwhile`, async (t) => {
    const { time, begun, ended, hot } = watching(100, end);
    hot.set(['good', 'bad']);
    t.same([hot.has('good'), hot.has('bad')], [true, true]);
    await time.pass(200);
    t.same([hot.has('good'), hot.has('bad')], [true, false], 'it is watched no more');
    t.same(ended, [100], 'whoever reads is told');
    await time.pass(120_000);
    const [first, ...others] = begun.bad!;
    const gaps = others.map((at, i) => Math.round((at - (i === 0 ? first! : others[i - 1]!)) / 100));
    t.same(gaps.slice(0, 5), [61, 181, 301, 301, 301], 'in tenths of a second, up to 30 s');
    t.same(begun.good, [0], 'the other goes on');
    hot.set([]);
    const before = begun.bad!.length;
    await time.pass(120_000);
    t.equal(begun.bad!.length, before, 'and never when it is not wanted');
  });
}

t.test('one that lasted was a good one', async (t) => {
  const { time, begun, hot } = watching(60_000, throwing);
  hot.set(['bad']);
  await time.pass(200_000);
  t.same(begun.bad!.map(Math.round), [0, 66_000, 132_000, 198_000]);
  hot.set([]);
});

t.test('a service whose watch failed is read like any other, and watched again', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const registry = registryOf(t, fake);
  const { rows, reports } = following(t, registry);
  await until('the list', () => rows.size === 5);
  fake.faults = { status: { path: /^health\/service\/s3$/, status: 500 } };
  registry.mostAsked(['s3', 's4']);
  await until('one of them is watched', () => fake.count(/s4\?.*index=/) > 0);
  t.equal(fake.count(/s3\?.*index=/), 0);
  fake.faults = {};
  fake.set('s3', instance('i3', '10.0.0.4', { node: 'n3', port: 8080 }));
  await until('the port', () => rows.get('s3')?.[0]?.port === 8080);
  await until('both are watched', () => fake.count(/s3\?.*index=/) > 0);
  t.notOk(reports.some(({ kind }) => kind === 'unreachable' || kind === 'unbelievable'));
});

t.test('on demand: what throws ends all watches, and whoever began them is told', async (t) => {
  const { parts } = new AskedService('web', [undefined], 0);
  const reads = { read: async () => throwing(), isAsOfNow: () => false } as unknown as AskedReads;
  const watches = new AskedWatches(
    {
      reads,
      reading: { origin: 'http://127.0.0.1:9' },
      interval: 1000,
      parts: () => [...parts],
      news: () => undefined,
    },
    AbortSignal.timeout(10_000),
  );
  t.equal(await watches.run(), 'a bug');
  t.equal(parts[0]?.busy, false, 'it can be read again');
});
