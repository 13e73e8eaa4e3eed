/** Release marks in Consul (R9): a fleet is told once, whatever befell the watch for them before. */
import t from 'tap';
import { AskedConsul } from '../src/registry/consul-asked.js';
import { configOf, fakeConsul, following, LIMITS, registryOf, until } from './consul-fixture.js';

// Pauses are as short as they may be.
Math.random = () => 0;

const TIME = '2031-05-04T09:30:00Z';
const KEY = 'holdfast/test/.release/orders';

for (const mirror of ['all', 'asked'] as const) {
  t.test(`mirror: ${mirror}: marks that could not be read or watched for a while are seen later`, async (t) => {
    const fake = await fakeConsul(t);
    fake.faults = { status: { path: /^kv/, status: 500 } };
    const asked = (): AskedConsul =>
      new AskedConsul({ ...configOf(fake), mirror }, { softTtl: 20_000, limits: LIMITS, allowAddresses: [] });
    const registry = mirror === 'all' ? registryOf(t, fake) : asked();
    const { reports } = following(t, registry);
    const last = () => reports.findLast((one) => one.kind === 'list' || one.kind === 'change');
    await until('the list', () => last() !== undefined);
    t.match(last()?.rejected, [{ reason: /release marks cannot be read: status 500/ }]);
    fake.faults = {};
    fake.setMark(KEY, TIME);
    await until('a mark', () => last()?.releases.length === 1);
    t.match(last(), { rejected: [], releases: [{ service: 'orders', wall: Date.parse(TIME) }] });
    fake.setMark(`${KEY}-2`, TIME);
    await until('the next, at once', () => last()?.releases.length === 2);
    fake.faults = { status: { path: /^kv/, status: 503 } };
    fake.setMark(`${KEY}-3`, TIME);
    const questions = fake.count(/^kv/);
    await until('a watch that broke', () => last()?.rejected.length === 1);
    t.ok(fake.count(/^kv/) - questions <= 2, 'it is not asked again and again');
    t.equal(last()?.releases.length, 2, 'what was seen stands');
    fake.faults = {};
    await until('another one', () => last()?.releases.length === 3);
    t.equal(reports.filter(({ kind }) => kind === 'list').length, 1, 'nothing else was read for it');
  });
}
