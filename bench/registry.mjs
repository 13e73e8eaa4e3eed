/**
 * `npm run bench:registry`: Consul's catalog of many services is mirrored from a fake: how many requests that takes, how
 * many at once, and what the mirror costs when nothing changes, when checks change, and when it is read anew.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { FakeConsul } from '../build/test/fake-consul.js';
import { ask } from './lib/ask.mjs';
import { ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { count, median, ms, percent } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const MOST_IN_FLIGHT = 50;
const MOST_A_SECOND = 50;
const MOST_CPU = 0.1;
const MOST_FIRST_MS = 100;
const MOST_CHURN_MS = 1000;
const QUIET_MS = 10_500;
const MIRROR_MS = 900_000;

const options = new Command('bench:registry')
  .description('what a mirror of a large catalog of Consul costs')
  .option('--services <n>', 'services', Number, 10_000)
  .option('--each <n>', 'endpoints of each', Number, 2)
  .option('--seconds <s>', 'of quiet, and of churn', Number, 60)
  .option('--changes <n>', 'changes after a quiet time', Number, 5)
  .parse()
  .opts();

const instance = (service, i, more = {}) => ({
  id: `s${service}-${i}`,
  node: `n${service % 500}`,
  address: `10.${(service >> 8) & 255}.${service & 255}.${i + 1}`,
  status: 'passing',
  ...more,
});

await atWorkbench(async (bench) => {
  const consul = await FakeConsul.start();
  for (let service = 0; service < options.services; service++) {
    for (let i = 0; i < options.each; i++) consul.set(`s${service}`, instance(service, i));
  }
  const folder = bench.folder('holdfast');
  const port = await bench.port();
  const registry = { type: 'consul', address: consul.origin };
  const config = writeConfig(folder, port, '', { zone: { registry } });
  const running = bench.start(process.execPath, serveArguments(config));
  const began = performance.now();
  const cpuBefore = running.cpu();
  say(`mirroring ${count(options.services)} services`);
  await ask(port, `s${options.services - 1}.${ZONE}`, 'A', {
    timeout: MIRROR_MS,
    retry: 500,
    accept: (reply) => reply.answers > 0,
  });
  const mirror = { ms: performance.now() - began, cpu: running.cpu() - cpuBefore, requests: consul.requests.length };
  const inFlight = consul.mostInFlight;
  const aSecond = consul.mostInASecond();
  say(`mirrored in ${Math.round(mirror.ms / 1000)} s`);
  await sleep(5000);
  const quiet = await cost(running, consul, () => sleep(options.seconds * 1000));
  const first = [];
  for (let i = 0; i < options.changes; i++) {
    await sleep(QUIET_MS);
    first.push(await change(port, consul, 10 + i));
  }
  const churned = [];
  const churn = await cost(running, consul, async () => {
    const end = performance.now() + options.seconds * 1000;
    for (let i = 0; performance.now() < end; i++) churned.push(await change(port, consul, 1000 + (i % 1000)));
  });
  report({ mirror, inFlight, aSecond, quiet, first, churn, churned });
  await consul.stop();
});

/** Turns an instance critical. Resolves with how long that took to be in the answers, in ms. */
async function change(port, consul, service) {
  const status = 'critical';
  consul.set(`s${service}`, instance(service, 0, { status }));
  const began = performance.now();
  await ask(port, `s${service}.${ZONE}`, 'A', {
    timeout: 60_000,
    retry: 5,
    accept: (reply) => reply.answers === options.each - 1,
  });
  return performance.now() - began;
}

async function cost(running, consul, run) {
  const requests = consul.requests.length;
  const cpu = running.cpu();
  const began = performance.now();
  await run();
  const seconds = (performance.now() - began) / 1000;
  return { share: (running.cpu() - cpu) / seconds, requests: (consul.requests.length - requests) / seconds };
}

function report({ mirror, inFlight, aSecond, quiet, first, churn, churned }) {
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
    `${count(options.services)} services of ${options.each} endpoints on 500 nodes in a fake of Consul in the process of the benchmark; the first mirror took ${count(mirror.requests)} requests`,
    `${first.length} changes of a check, each after more than 10 s without one: in the answers after ${ms(median(first))} ms, the slowest after ${ms(Math.max(...first))} ms`,
  ];
  writeSection('registry', 'A large catalog of Consul', 'npm run bench:registry', facts, [
    ...table(['', 'time', 'requests a second', 'CPU of a core'], rows),
    '',
    goal('requests under way at once', inFlight, MOST_IN_FLIGHT, String),
    goal('requests in the busiest second', aSecond, MOST_A_SECOND, String),
    goal('CPU of a core when nothing changes', quiet.share, MOST_CPU, percent),
    goal('a change after a quiet time is answered, median, ms', median(first), MOST_FIRST_MS, ms),
    goal('a change under churn is answered, median, ms', median(churned), MOST_CHURN_MS, ms),
    goal('a change under churn is answered, the slowest, ms', Math.max(...churned), MOST_CHURN_MS, ms),
  ]);
}
