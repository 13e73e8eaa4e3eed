/**
 * `npm run bench:verdicts`: answers while the verdicts of 20,000 endpoints cross the socket and change what is answered,
 * beside the same without, and beside the C loop on the same core with a thread that burns as much of it.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { askSteadily } from './lib/load.mjs';
import { metric, metrics } from './lib/metrics.mjs';
import { count, median, ms, times } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { CLIENT_CORE, load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const EACH = 20;
/** One endpoint in so many does not fail. */
const SURVIVES = 10;
const RATE = 20_000;
/** All of them fail once and come back once in so long. */
const SECONDS = 4;
const FLIPS = 2;
/** What an answer thread sets for itself. */
const PRIORITY = -10;
const STALL_MS = 5;
/** What a scheduler makes of two threads on one core is no stall of ours. */
const MOST_OVER_EQUAL = 1.5;
const MOST_OVER_CALM = 2;
/** With nothing to disturb it but the machine, which makes everything wait at times. */
const MOST_OVER_ALONE = 2;
/** The asker is the clock of this measurement: nothing may come between. */
const CLIENT_PRIORITY = -15;

const options = new Command('bench:verdicts')
  .description('the slowest answers while verdicts of very many endpoints change')
  .option('--endpoints <n>', 'endpoints', Number, 20_000)
  .option('--rounds <n>', 'rounds, each with a resolver of its own', Number, 9)
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const { endpoints, rounds } = options;
  const data = new DataSet(bench.folder('data'), { services: endpoints / EACH, each: EACH });
  const registry = data.registryFile();
  const file = data.list('asked', (i) => `${serviceName(i)}.${ZONE} SRV`);
  const flipping = { title: '**holdfast, verdicts change**', rounds: [] };
  const wide = { title: '**holdfast with both cores, verdicts change**', rounds: [] };
  const calm = { title: 'holdfast, nothing changes', rounds: [] };
  const loops = [];
  const burns = [];
  for (let round = 0; round < rounds; round++) {
    const { still, moved, burnMs } = await measure(bench, registry, file, SERVER_CORE);
    calm.rounds.push(still);
    flipping.rounds.push(moved);
    burns.push(burnMs);
    wide.rounds.push((await measure(bench, registry, file)).moved);
    if (round === 0) {
      const rest = (SECONDS * 1000) / FLIPS - burnMs;
      const burn = [1, Math.round(burnMs), Math.round(rest)];
      loops.push(
        await startLoop(bench, 'C loop, nothing else on its core', [PRIORITY]),
        await startLoop(bench, 'C loop, equal burn', [0, ...burn]),
        await startLoop(bench, `C loop at holdfast's priority (${PRIORITY}), equal burn`, [PRIORITY, ...burn]),
      );
    }
    for (const { port, running, rounds } of loops) {
      running.thaw();
      rounds.push(await steadily(bench, port, file));
      running.freeze();
    }
    const seen = [flipping, wide, calm, ...loops].map(({ rounds }) => ms(rounds.at(-1).maxUs / 1000));
    say(`round ${round + 1} of ${rounds}, load ${load()}, most in ms: ${seen.join(', ')}; ${ms(burnMs)} ms a flip`);
  }
  report([flipping, wide, calm, ...loops], median(burns));
});

function steadily(bench, port, file, seconds = SECONDS) {
  return askSteadily(bench, port, file, { rate: RATE, seconds, timeoutMs: 2_000, priority: CLIENT_PRIORITY });
}

async function startLoop(bench, title, more) {
  const port = await bench.port();
  const running = bench.start(bench.tool('c-loop'), [port, ...more].map(String), { core: SERVER_CORE });
  running.freeze();
  return { title, port, running, rounds: [] };
}

/**
 * One resolver: warmed up, then asked while nothing changes, then while everything fails and comes back.
 * @param core the only one that it may use; undefined: any
 */
async function measure(bench, registry, file, core) {
  const { endpoints } = options;
  const folder = bench.folder('holdfast');
  const [port, admin] = [await bench.port(), await bench.port()];
  const config = writeConfig(folder, port, registry, {
    zone: { check: { type: 'tcp', rise: 1, fall: 1, interval: '5s', timeout: '1s', pinned: true } },
    more: { admin: `127.0.0.1:${admin}` },
  });
  const resolver = bench.start(process.execPath, serveArguments(config, 'batched'), { core });
  await ask(port, `${serviceName(0)}.${ZONE}`, 'SRV', { timeout: 30_000, accept: (reply) => reply.answers > 0 });
  const inside = new URL('./inside/flipper.mjs', import.meta.url).pathname;
  const args = ['-n', '15', process.execPath, inside, join(folder, 'run', 'prober.sock'), String(SURVIVES)];
  const prober = bench.start('nice', args, { core: CLIENT_CORE });
  await until(() => prober.output.includes(`targets ${endpoints}`));
  await until(async () => (await metric(admin, 'holdfast_probe_results_total{outcome="pass"}')) >= endpoints);
  await steadily(bench, port, file, 2);
  const still = await clocked(admin, () => steadily(bench, port, file));
  let heldBack = 0;
  const moved = await clocked(admin, async () => {
    const before = controlCpu(resolver);
    const asking = steadily(bench, port, file);
    await sleep(500);
    prober.signal('SIGUSR1');
    await sleep((SECONDS * 1000) / FLIPS - 100);
    heldBack = await metric(admin, 'holdfast_zone_endpoints_held_back');
    prober.signal('SIGUSR1');
    const result = await asking;
    return { ...result, burnMs: (controlCpu(resolver) - before) / FLIPS };
  });
  await prober.kill();
  await resolver.kill();
  if (heldBack < (endpoints * (SURVIVES - 1)) / SURVIVES) throw new Error(`only ${heldBack} were held back`);
  return { still, moved, burnMs: moved.burnMs };
}

async function until(look) {
  const end = performance.now() + 30_000;
  while (!(await look())) {
    if (performance.now() > end) throw new Error(`waited in vain: ${look}`);
    await sleep(50);
  }
}

/** CPU milliseconds of all threads but the one that answers, which works most. */
function controlCpu(resolver) {
  const [, ...others] = [...resolver.cpuByThread().values()].sort((a, b) => b - a);
  return others.reduce((sum, seconds) => sum + seconds, 0) * 1000;
}

/** Adds how long a batch took at most by the answer thread's own clock, from its histogram: a power of two of µs. */
async function clocked(admin, task) {
  const before = buckets(await metrics(admin));
  const result = await task();
  const after = buckets(await metrics(admin));
  const moved = [...after].map(([bound, total]) => [bound, total - (before.get(bound) ?? 0)]);
  const all = moved.at(-1)[1];
  // Buckets are cumulative: the first that has them all.
  return { ...result, ownUs: moved.find(([, total]) => total === all)[0] * 1e6 };
}

function buckets(text) {
  const found = text.matchAll(/^holdfast_answer_duration_seconds_bucket\{le="([^"]+)"\} (\d+)/gm);
  return new Map(
    [...found].map(([, bound, total]) => [bound === '+Inf' ? Number.POSITIVE_INFINITY : Number(bound), Number(total)]),
  );
}

function report(servers, burnMs) {
  const { endpoints, rounds } = options;
  const of = ({ rounds }, key) => rounds.map((round) => round[key] / 1000);
  const rows = servers.map((server) => [
    server.title,
    ms(median(of(server, 'p50Us'))),
    ms(median(of(server, 'p99Us'))),
    ms(median(of(server, 'p999Us'))),
    ms(median(of(server, 'maxUs'))),
    ms(Math.max(...of(server, 'maxUs'))),
    server.rounds[0].ownUs === undefined ? '-' : ms(median(of(server, 'ownUs'))),
    count(server.rounds.reduce((sum, { sent, received }) => sum + sent - received, 0)),
  ]);
  const [flipping, wide, calm, alone, ...equals] = servers;
  const most = (server) => median(of(server, 'maxUs'));
  const facts = [
    `${count(endpoints)} endpoints in services of ${EACH}, all probed as \`prober.sock\` sees it; nine in ten fail at once, and come back 2 s later: ${count((endpoints * (SURVIVES - 1)) / SURVIVES)} are held back between; ${burnMs.toFixed(0)} ms of CPU of the resolver's other threads each time`,
    `${count(RATE)} queries a second for ${SECONDS} s in each of ${rounds} rounds, servers in turns; the whole server on core 0 where not said otherwise, who asks and who makes results up on core 1, the former first`,
    'a new resolver in each round, warmed up for 2 s; "own clock" is the bucket of the answer thread’s histogram that the slowest batch was in, from its receipt to its sending',
  ];
  writeSection('verdicts', 'While verdicts change what is answered', 'npm run bench:verdicts', facts, [
    ...table(
      [
        'server',
        'p50 ms',
        'p99 ms',
        'p99.9 ms',
        'most, median ms',
        'most of all ms',
        'own clock, most, median ms',
        'lost',
      ],
      rows,
    ),
    '',
    goal('longest answer while verdicts change, with both cores, median of the rounds, ms', most(wide), STALL_MS, ms),
    goal('longest answer while verdicts change, on one core, median of the rounds, ms', most(flipping), STALL_MS, ms),
    goal(
      'longest batch by the answer thread’s own clock, on one core, median of the rounds, ms',
      median(of(flipping, 'ownUs')),
      STALL_MS,
      ms,
    ),
    goal(
      'lost',
      [...flipping.rounds, ...wide.rounds].reduce((sum, { sent, received }) => sum + sent - received, 0),
      0,
      count,
    ),
    goal(`longest, holdfast / ${alone.title}`, most(flipping) / most(alone), MOST_OVER_ALONE, times),
    ...equals.map((one) =>
      goal(`longest, holdfast / ${one.title}`, most(flipping) / most(one), MOST_OVER_EQUAL, times),
    ),
    goal('longest, while verdicts change / nothing changes', most(flipping) / most(calm), MOST_OVER_CALM, times),
  ]);
}
