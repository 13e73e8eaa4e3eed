/** R3: the real program with a large catalog of Consul that takes its time to say what changed. */
import t from 'tap';
import { consulScene } from './consul-scene.js';
import { until } from './program.js';

t.test('whoever asks has a change at once, however long it takes to find out what changed', async (t) => {
  const { fake, host } = await consulScene(t, 9, ', filter: { prefix: s }');
  fake.summaryDelay = 600_000;
  const running = await host.serve();
  await running.said('zone-synced');
  await until('the watches', () => fake.count(/index=/) >= 4);
  const reads = (): number => fake.count(/^health\/service\/s3/);
  const before = reads();
  fake.set('s3', { id: 'plain', node: 'n0', address: '10.9.9.9' });
  await until('the summary', () => fake.count(/^internal/) === 1);
  await until('the change', async () => (await host.ask('3 A')).answers.length === 2);
  t.equal(reads() - before, 1, 'it was read, once');
});
