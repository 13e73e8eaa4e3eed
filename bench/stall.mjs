/**
 * `npm run bench:stall`: latency while the registry's answer of 50 MB comes in again and again, each time with changes,
 * beside the C loop on the same core with threads that burn as much of it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { askSteadily } from './lib/load.mjs';
import { count, median, mib, ms, percent, times } from './lib/numbers.mjs';
import { RenewedRegistry } from './lib/renewed-registry.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const RATE = 20_000;
const SERVICES = 26_500;
const EACH = 10;
/** One service in so many changes from one list to the next. */
const CHANGED = 100;
const LIST_MS = 120_000;
const PRIORITY = -10;
const MAX_US = 10_000;

const options = new Command('bench:stall')
  .description('latency while the control thread takes in a registry answer of 50 MB over and over')
  .option('--rounds <n>', 'rounds', Number, 9)
  .option('--seconds <s>', 'a round and server', Number, 10)
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const data = new DataSet(bench.folder('data'), { services: SERVICES, each: EACH });
  const registry = new RenewedRegistry(data, CHANGED);
  const file = data.list('asked', (i) => `${serviceName(i)}.${ZONE} SRV`, 1000);
  const holdfast = await startHoldfast(bench, registry);
  say(`a registry answer of ${mib(registry.bytes)} MiB`);
  await burnOf(holdfast, registry, 20);
  const burn = await burnOf(holdfast, registry, 20);
  say(`beside its answer threads holdfast burns ${percent(burn)} of the core under it`);
  // As long bursts as a list takes, so that the core is shared in the same way.
  const busyMs = Math.round(registry.everyMs * Math.min(burn, 1));
  const restMs = Math.round(registry.everyMs - busyMs);
  const equals = [];
  for (const priority of [0, PRIORITY]) {
    const port = await bench.port();
    const args = [port, priority, 1, busyMs, restMs].map(String);
    const running = bench.start(bench.tool('c-loop'), args, { core: SERVER_CORE });
    const title = priority === 0 ? 'C loop, equal burn' : `C loop at holdfast's priority (${priority}), equal burn`;
    running.freeze();
    equals.push({ title, port, running, rounds: [] });
  }
  const ours = { title: '**holdfast, 50 MB again and again**', ...holdfast, registry, rounds: [] };
  const servers = [ours, ...equals];
  for (let round = 0; round < options.rounds; round++) {
    for (const server of servers) server.rounds.push(await measure(bench, server, file));
    const seen = servers.map(({ rounds }) => `${ms(rounds.at(-1).p999Us / 1000)}/${ms(rounds.at(-1).maxUs / 1000)}`);
    say(`round ${round + 1} of ${options.rounds}, load ${load()}, p99.9/max in ms: ${seen.join(', ')}`);
  }
  report(servers, registry, burn, busyMs, restMs);
});

async function startHoldfast(bench, registry) {
  const folder = bench.folder('holdfast');
  const port = await bench.port();
  const config = writeConfig(folder, port, registry.path);
  const running = bench.start(process.execPath, serveArguments(config, 'batched'), { core: SERVER_CORE });
  await ask(port, `${serviceName(SERVICES - 1)}.${ZONE}`, 'SRV', {
    timeout: LIST_MS,
    accept: (reply) => reply.answers > 0,
  });
  return { port, running };
}

/** Resolves when the last service that changes has the present weight. */
function taken(port, registry) {
  const last = Math.floor((SERVICES - 1) / CHANGED) * CHANGED;
  const accept = (reply) => reply.weights[0] === registry.weight;
  return ask(port, `${serviceName(last)}.${ZONE}`, 'SRV', { timeout: LIST_MS, retry: 100, accept });
}

/** Of the server's core, what its other threads use while lists come in. */
async function burnOf({ port, running }, registry, seconds) {
  registry.start(() => taken(port, registry));
  const before = running.cpu();
  const began = performance.now();
  await sleep(seconds * 1000);
  const burn = (running.cpu() - before) / ((performance.now() - began) / 1000);
  await registry.stop();
  return burn;
}

async function measure(bench, { port, running, registry }, file) {
  const renewals = registry?.renewals;
  running.thaw();
  registry?.start(() => taken(port, registry));
  const result = await askSteadily(bench, port, file, { rate: RATE, seconds: options.seconds, timeoutMs: 2000 });
  await registry?.stop();
  if (registry === undefined) running.freeze();
  return { ...result, lists: registry === undefined ? undefined : registry.renewals - renewals };
}

function report(servers, registry, burn, busyMs, restMs) {
  const series = ({ rounds }, key) => rounds.map((round) => round[key]);
  const lost = ({ rounds }) => rounds.reduce((sum, round) => sum + round.sent - round.received + round.unsent, 0);
  const rows = servers.map((server) => [
    server.title,
    ms(median(series(server, 'p50Us')) / 1000),
    ms(median(series(server, 'p99Us')) / 1000),
    ms(median(series(server, 'p999Us')) / 1000),
    ms(median(series(server, 'maxUs')) / 1000),
    ms(Math.max(...series(server, 'maxUs')) / 1000),
    count(lost(server)),
  ]);
  const [ours, ...equals] = servers;
  const compared = equals.map((server) =>
    goal(
      `p99.9, holdfast / ${server.title}`,
      median(series(ours, 'p999Us').map((value, i) => value / server.rounds[i].p999Us)),
      1.5,
      times,
    ),
  );
  const facts = [
    `${count(RATE)} queries a second for ${options.seconds} s in each of ${options.rounds} rounds, servers in turns; the whole server on core 0, the client on core 1`,
    `registry file of ${mib(registry.bytes)} MiB: ${count(SERVICES)} services of ${EACH} endpoints, 1 in ${CHANGED} changes each time; ` +
      `${count(ours.rounds.reduce((sum, { lists }) => sum + lists, 0))} lists taken in`,
    `holdfast's other threads use ${percent(burn)} of the core; the C loop's burner is busy for ${busyMs} ms, then rests for ${restMs} ms`,
  ];
  writeSection('stall', 'While a registry answer of 50 MB comes in again and again', 'npm run bench:stall', facts, [
    ...table(['server', 'p50 ms', 'p99 ms', 'p99.9 ms', 'most, median ms', 'most of all ms', 'lost'], rows),
    '',
    ...compared,
    goal('longest, median of the rounds, ms', median(series(ours, 'maxUs')) / 1000, MAX_US / 1000, ms),
    goal('lost', lost(ours), 0, String),
  ]);
}
