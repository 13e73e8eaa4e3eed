/** R3: the real program with a large catalog of Consul that takes its time to say what changed. */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { FakeConsul } from '../fake-consul.js';
import { freePort, Host, until, ZONE } from './program.js';

t.test('whoever asks has a change at once, however long it takes to find out what changed', async (t) => {
  const fake = await FakeConsul.start();
  t.teardown(() => fake.stop());
  fake.summaryDelay = 600_000;
  for (let i = 0; i < 9; i++)
    fake.set(`s${i}`, { id: `i${i}`, node: `n${i}`, address: `10.0.0.${i + 1}`, status: 'passing' });
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  const lines = [
    'version: 1',
    `listen: ["127.0.0.1:${host.port}"]`,
    'stateDir: state',
    'runDir: run',
    'zones:',
    `  - name: ${ZONE}`,
    `    registry: { type: consul, address: "${fake.origin}", filter: { prefix: s } }`,
    '    check: { type: none }',
  ];
  writeFileSync(host.config, `${lines.join('\n')}\n`);
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
