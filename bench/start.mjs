/**
 * `npm run bench:start`: from the start of the process to its first answer from a snapshot, beside a Node process that
 * does nothing.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Command } from 'commander';
import { DataSet } from './lib/data.mjs';
import { median, ms } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { prepareSnapshot, startFromSnapshot } from './lib/snapshot.mjs';
import { load } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const options = new Command('bench:start')
  .description('time to the first answer from a snapshot')
  .option('--rounds <n>', 'starts of the small zone', Number, 21)
  .option('--large-rounds <n>', 'starts of the large zone', Number, 5)
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const small = new DataSet(bench.folder('data-small'), { services: 1000, each: 10 });
  const large = new DataSet(bench.folder('data-large'), { services: 10_000, each: 10 });
  const bare = [];
  const kinds = [
    { title: 'without checks', zone: {}, firsts: [], cpu: [], extra: [] },
    { title: 'each endpoint probed', zone: { check: { type: 'tcp' } }, firsts: [], cpu: [], extra: [] },
  ];
  for (const [i, kind] of kinds.entries()) kind.snapshot = await prepareSnapshot(bench, `small-${i}`, small, kind.zone);
  for (let round = 0; round < options.rounds; round++) {
    bare.push(await bareNode());
    for (const kind of kinds) {
      const { took, cpuMs } = await firstAnswer(bench, kind.snapshot);
      kind.firsts.push(took);
      kind.cpu.push(cpuMs);
      kind.extra.push(took - bare.at(-1));
    }
    const times = kinds.map(({ title, firsts }) => `${ms(firsts.at(-1))} ms ${title}`).join(', ');
    say(
      `start ${round + 1} of ${options.rounds}, load ${load()}: node ${ms(bare.at(-1))} ms, first answer after ${times}`,
    );
  }
  const many = [];
  const manyCpu = [];
  const largeSnapshot = await prepareSnapshot(bench, 'large', large);
  for (let round = 0; round < options.largeRounds; round++) {
    const { took, cpuMs } = await firstAnswer(bench, largeSnapshot);
    many.push(took);
    manyCpu.push(cpuMs);
    say(`large start ${round + 1} of ${options.largeRounds}: ${ms(many.at(-1))} ms`);
  }
  const row = (title, values) => [title, ms(median(values)), ms(Math.min(...values)), ms(Math.max(...values))];
  const facts = [
    `medians of ${options.rounds} starts in turns, ${options.largeRounds} of the large zone; nothing pinned`,
  ];
  writeSection('start', 'Start', 'npm run bench:start', facts, [
    ...table(
      ['from the start of the process', 'median ms', 'least', 'most'],
      [
        row('`node -e 0`, to its end', bare),
        ...kinds.flatMap(({ title, firsts, cpu, extra }) => [
          row(`holdfast, 1,000 services of 10 endpoints, ${title}, to the first answer`, firsts),
          row('- CPU of all its threads till then', cpu),
          row('- more than `node -e 0`', extra),
        ]),
        row('holdfast, 10,000 services of 10 endpoints, to the first answer', many),
        row('- CPU of all its threads till then', manyCpu),
      ],
    ),
    '',
    ...kinds.map(({ title, extra }) =>
      goal(`1,000 services of 10 endpoints, ${title}, more than \`node -e 0\`, ms`, median(extra), 200, ms),
    ),
    goal('100,000 endpoints, ms', median(many), 3000, ms),
  ]);
});

async function bareNode() {
  const began = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - began;
}

async function firstAnswer(bench, snapshot) {
  const { program, ms: took } = await startFromSnapshot(bench, snapshot);
  const cpuMs = program.cpu() * 1000;
  // By a signal that it takes as such: after deaths it would start in another way.
  await program.stop();
  return { took, cpuMs };
}
