/** R6, R7: the real program is started again, and meanwhile its registry was restored from an older backup. */
import t from 'tap';
import { consulScene, fill } from './consul-scene.js';
import { until } from './program.js';

t.test('what an older backup does not have is not gone, though it was restored while nobody looked', async (t) => {
  const { fake, host } = await consulScene(t, 10);
  const running = await host.serve();
  await running.said('zone-synced');
  await until('the watches', () => fake.count(/index=/) >= 4);
  // A change has no revision of its own.
  fake.set('s3', { id: 'more', node: 'n0', address: '10.9.9.9' });
  await until('the change', async () => (await host.ask('s3 A')).answers.length === 2);
  running.kill('SIGTERM');
  await running.ended;
  fake.wipe();
  fill(fake, 9);
  const again = await host.serve();
  const there = async (): Promise<boolean> => (await host.ask('s9 A')).answers.length === 1;
  await until('an answer', there);
  await until('that it went back', () => again.output.includes('went back'));
  t.ok(await there());
  await again.said('epoch-changed');
  await until('what is new', async () => (await host.ask('s3 A')).answers.length >= 1);
  t.ok(await there());
});
