/**
 * `npm run bench:registry`: Consul's catalog of many services is mirrored from a fake: how many requests that takes, how
 * many at once, and what the mirror costs when nothing changes, when checks change, and when it is read anew.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { count, median, ms, percent } from './lib/numbers.mjs';
import { OwnFakeConsul } from './lib/own-fake-consul.mjs';
import { answered, change, instances, KINDS, NODES, QUIET_MS } from './lib/registry-changes.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const MOST_IN_FLIGHT = 50;
const MOST_A_SECOND = 50;
const MOST_CPU = 0.1;
const MOST_FIRST_MS = 100;
const MOST_CHURN_MS = 1000;
const MIRROR_MS = 900_000;

const options = new Command('bench:registry')
  .description('what a mirror of a large catalog of Consul costs')
  .option('--services <n>', 'services', Number, 10_000)
  .option('--each <n>', 'endpoints of each', Number, 2)
  .option('--seconds <s>', 'of quiet, and of churn', Number, 30)
  .option('--changes <n>', 'changes of each kind after a quiet time', Number, 3)
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const consul = await OwnFakeConsul.start();
  await consul.set(...instances(options.services, options.each));
  const folder = bench.folder('holdfast');
  const port = await bench.port();
  const registry = { type: 'consul', address: consul.origin };
  const config = writeConfig(folder, port, '', { zone: { registry } });
  const running = bench.start(process.execPath, serveArguments(config));
  const began = performance.now();
  const cpuBefore = running.cpu();
  say(`mirroring ${count(options.services)} services`);
  await answered(port, options.services - 1, options.each, MIRROR_MS);
  const mirror = { ms: performance.now() - began, cpu: running.cpu() - cpuBefore, ...(await consul.counts()) };
  say(`mirrored in ${Math.round(mirror.ms / 1000)} s`);
  await sleep(5000);
  const quiet = await cost(running, consul, () => sleep(options.seconds * 1000));
  let next = 10;
  const kinds = [];
  for (const [name, kind] of Object.entries(KINDS)) {
    const times = { asked: [], others: [] };
    for (let i = 0; i < options.changes; i++) {
      times.others.push(await change(port, kind(consul, next, options.each), next++, options.each, QUIET_MS));
      times.asked.push(await change(port, kind(consul, next, options.each), next, options.each, QUIET_MS, true));
      next++;
    }
    say(`${name}: ${times.others.map(ms).join(', ')} ms, asked: ${times.asked.map(ms).join(', ')} ms`);
    kinds.push({ name, ...times });
  }
  const churned = [];
  const churn = await cost(running, consul, async () => {
    const end = performance.now() + options.seconds * 1000;
    const kind = KINDS['a check becomes critical'];
    for (let i = 0; performance.now() < end; i++) {
      const service = 1000 + (i % 1000);
      churned.push(await change(port, kind(consul, service, options.each), service, options.each));
    }
  });
  report({ mirror, counts: await consul.counts(), quiet, kinds, churn, churned });
  await consul.stop();
});

async function cost(running, consul, run) {
  const { requests } = await consul.counts();
  const cpu = running.cpu();
  const began = performance.now();
  await run();
  const seconds = (performance.now() - began) / 1000;
  return { share: (running.cpu() - cpu) / seconds, requests: ((await consul.counts()).requests - requests) / seconds };
}

function report({ mirror, counts, quiet, kinds, churn, churned }) {
  const perSecond = (value) => value.toFixed(1);
  const rows = [
    [
      'first mirror',
      `${Math.round(mirror.ms / 1000)} s`,
      perSecond((mirror.requests * 1000) / mirror.ms),
      percent(mirror.cpu / (mirror.ms / 1000)),
    ],
    ['nothing changes', `${options.seconds} s`, perSecond(quiet.requests), percent(quiet.share)],
    [
      `${count(churned.length)} changes one after another`,
      `${options.seconds} s`,
      perSecond(churn.requests),
      percent(churn.share),
    ],
  ];
  const facts = [
    `${count(options.services)} services of ${options.each} endpoints on ${NODES} nodes in a fake of Consul in a process of its own; the first mirror took ${count(mirror.requests)} requests`,
    `${options.changes} changes of each kind, each after more than 10 s without one, of services that are asked all the time and of others: median of the time to the answers, and the longest`,
  ];
  const times = (list) => `${ms(median(list))} (${ms(Math.max(...list))})`;
  const flips = kinds[0].others;
  const ofAsked = kinds.flatMap(({ asked }) => asked);
  writeSection('registry', 'A large catalog of Consul', 'npm run bench:registry', facts, [
    ...table(['', 'time', 'requests a second', 'CPU of a core'], rows),
    '',
    ...table(
      ['after a quiet time', 'ms, asked', 'ms, others'],
      kinds.map(({ name, asked, others }) => [name, times(asked), times(others)]),
    ),
    '',
    goal('requests under way at once', counts.inFlight, MOST_IN_FLIGHT, String),
    goal('requests in the busiest second', counts.aSecond, MOST_A_SECOND, String),
    goal('CPU of a core when nothing changes', quiet.share, MOST_CPU, percent),
    goal('a check becomes critical after a quiet time, median, ms', median(flips), MOST_FIRST_MS, ms),
    goal('any change of what is asked, after a quiet time, median, ms', median(ofAsked), MOST_FIRST_MS, ms),
    goal('a change under churn is answered, median, ms', median(churned), MOST_CHURN_MS, ms),
    goal('a change under churn is answered, the slowest, ms', Math.max(...churned), MOST_CHURN_MS, ms),
  ]);
}
