/** `npm run bench:scale`: what more endpoints cost: memory, start, a query, a change. */

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { DataSet } from './lib/data.mjs';
import { writeConfig } from './lib/holdfast.mjs';
import { runInside } from './lib/inside.mjs';
import { dnsperf } from './lib/load.mjs';
import { count, median, mib, ms, ratio, times, us } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { prepareSnapshot, startFromSnapshot } from './lib/snapshot.mjs';
import { load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const GIB = 2 ** 30;
const MOST_BLOCKED_MS = 50;
const EACH = 10;
const STARTS = 3;
const SETTLE_LIMIT_MS = 120_000;
const FEW_NAMES = 1000;
const MANY_NAMES = 1_000_000;
const QUERIES = 10_000_000;
const CHANGES_A_SECOND = 10_000;

const options = new Command('bench:scale')
  .description('what more endpoints cost')
  .option('--endpoints <list>', 'sizes of the zone', '10000,100000,1000000')
  .option('--rounds <n>', 'rounds of queries', Number, 9)
  .option('--skip <parts>', 'leave out some of zone,query,change,torn', '')
  .parse()
  .opts();
const sizes = options.endpoints.split(',').map(Number);
const skip = options.skip.split(',');

await atWorkbench(async (bench) => {
  const lines = [];
  if (!skip.includes('zone')) lines.push(...(await zones(bench)), '');
  if (!skip.includes('query')) lines.push(...(await queries(bench)), '');
  if (!skip.includes('change')) lines.push(...(await changes(bench)), '');
  if (!skip.includes('torn')) lines.push(...(await torn()), '');
  writeSection('scale', 'Scale', 'npm run bench:scale', [], lines);
});

async function zones(bench) {
  const rows = [];
  let largest;
  for (const endpoints of sizes) {
    const data = new DataSet(bench.folder(`data-${endpoints}`), { services: endpoints / EACH, each: EACH });
    say(`${count(endpoints)} endpoints: first list and snapshot`);
    const snapshot = await prepareSnapshot(bench, `zone-${endpoints}`, data);
    const starts = [];
    let atAnswer = { now: Number.NaN };
    let settled;
    for (let i = 0; i < STARTS; i++) {
      const { program, ms: took } = await startFromSnapshot(bench, snapshot);
      starts.push(took);
      atAnswer = program.memory();
      if (i === STARTS - 1) settled = await memoryAtRest(program);
      await program.stop();
    }
    say(
      `${count(endpoints)} endpoints: first answer after ${ms(median(starts))} ms, ${mib(settled.now)} MiB, at most ${mib(settled.peak)}, blocked for ${ms(snapshot.blockedMs)} ms`,
    );
    rows.push([
      count(endpoints),
      ms(snapshot.listMs),
      ms(median(starts)),
      mib(atAnswer.now),
      mib(settled.now),
      mib(Math.max(settled.peak, snapshot.memory.peak)),
      ms(snapshot.blockedMs),
    ]);
    largest = {
      endpoints,
      bytes: settled.now,
      peak: Math.max(settled.peak, snapshot.memory.peak),
      blockedMs: snapshot.blockedMs,
    };
  }
  return [
    `### Memory and start, services of ${EACH} endpoints`,
    '',
    ...table(
      [
        'endpoints',
        'all answered from the first list, ms',
        'first answer from the snapshot, ms',
        'MiB then',
        'MiB at rest, list read',
        'MiB at most',
        'control thread blocked at most in the first list, ms',
      ],
      rows,
    ),
    '',
    goal(`${count(largest.endpoints)} endpoints, MiB at rest`, largest.bytes, GIB, mib),
    goal(`${count(largest.endpoints)} endpoints, MiB at most`, largest.peak, GIB, mib),
    ...(Number.isNaN(largest.blockedMs)
      ? []
      : [goal(`${count(largest.endpoints)} endpoints, longest block, ms`, largest.blockedMs, MOST_BLOCKED_MS, ms)]),
  ];
}

/** When the registry has been read again and nothing runs any more. */
async function memoryAtRest(program) {
  let idle = 0;
  for (let waited = 0; waited < SETTLE_LIMIT_MS && idle < 4; waited += 500) {
    const before = program.cpu();
    await sleep(500);
    idle = program.cpu() - before < 0.05 ? idle + 1 : 0;
  }
  return program.memory();
}

async function queries(bench) {
  const servers = [];
  for (const names of [FEW_NAMES, MANY_NAMES]) {
    const data = new DataSet(bench.folder(`data-names-${names}`), { services: Math.floor(names / 3), each: 3 });
    const file = data.mixed(names);
    say(`${count(names)} names: first list and snapshot`);
    const { program, port } = await startWithNames(bench, names, data);
    servers.push({ port, program, file, cpuUs: [] });
  }
  for (const { port, file } of servers) await dnsperf(port, file, { seconds: 3 });
  for (let round = 0; round < options.rounds; round++) {
    for (const server of servers) {
      const before = server.program.cpu();
      const { answered } = await dnsperf(server.port, server.file, { seconds: 2 });
      server.cpuUs.push(((server.program.cpu() - before) / answered) * 1e6);
    }
    say(
      `query, round ${round + 1} of ${options.rounds}, load ${load()}: ${servers.map(({ cpuUs }) => us(cpuUs.at(-1))).join(', ')} µs`,
    );
  }
  for (const { program } of servers) await program.stop();
  const [few, many] = servers.map(({ cpuUs }) => cpuUs);
  return [
    '### CPU a query',
    '',
    'SRV of a third of the names, A of the targets of the others, in random order.',
    '',
    ...table(
      ['names asked', 'CPU µs a query'],
      [
        [count(FEW_NAMES), us(median(few))],
        [count(MANY_NAMES), us(median(many))],
      ],
    ),
    '',
    goal(`at ${count(MANY_NAMES)} names / at ${count(FEW_NAMES)}`, ratio(many, few), 1.1, times),
  ];
}

async function startWithNames(bench, names, data) {
  const snapshot = await prepareSnapshot(bench, `names-${names}`, data, { answerTtl: '24h' });
  const { program } = await startFromSnapshot(bench, snapshot, SERVER_CORE);
  await memoryAtRest(program);
  return { program, port: snapshot.port };
}

async function changes(bench) {
  const rows = [];
  for (const endpoints of sizes) {
    const folder = bench.folder(`change-${endpoints}`);
    const config = writeConfig(folder, await bench.port(), join(folder, 'services.json'));
    const { names, us: took } = await runInside('change', [config, endpoints], { core: SERVER_CORE });
    say(`a change beside ${count(endpoints)} endpoints: ${us(took)} µs`);
    rows.push([count(endpoints), count(names), us(took)]);
  }
  return [
    '### A change to one service of 10 endpoints',
    '',
    ...table(['endpoints', 'names in the table', 'µs of the control thread, median'], rows),
  ];
}

async function torn() {
  say(`${count(QUERIES)} queries under ${count(CHANGES_A_SECOND)} changes a second`);
  const result = await runInside('torn', [QUERIES, CHANGES_A_SECOND]);
  return [
    '### Torn answers',
    '',
    `${count(result.queries)} queries in ${result.seconds.toFixed(0)} s from one thread, ${count(result.changes / result.seconds)} changes a second ` +
      `from another, ${mib(result.capacity)} MiB of table at the end.`,
    '',
    goal('torn answers', result.torn, 0, String),
  ];
}
