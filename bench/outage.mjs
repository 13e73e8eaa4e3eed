/**
 * `npm run bench:outage`: 1,000 names with a TTL of 5 s are known, then their source goes, and a third of the endpoints
 * with it. What is answered 8 s later, the second time, and after a restart in the outage? A loop that sends back what
 * comes is asked the same in turn: where that takes longer than the limit, the machine says nothing about a server.
 */
import { once } from 'node:events';
import { unlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { startUpstream, untilAnswers } from './lib/line-up.mjs';
import { askSteadily, dnsperf } from './lib/load.mjs';
import { ms, percent } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { launcher, load } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';
import { forwarding } from './peers/holdfast.mjs';
import { findServers, versionFacts } from './peers/index.mjs';

const SERVICES = 1000;
const EACH = 3;
const TTL_SECONDS = 5;
const LATER_MS = 8000;
const RESTART_MS = 3000;
const RATE = 500;
const PATIENCE_MS = 5000;
const WORST_MS = 5;
/** As answer threads have. */
const LOOP_NICE = '-10';
const SAMPLE = 100;
const SAMPLE_AT_ONCE = 20;
const PROBED_MS = 6000;
const HOLDFAST = { key: 'holdfast', title: '**holdfast**', serves: 'registry' };
const CHECK = { type: 'tcp', interval: '2s', timeout: '1s', rise: 2, fall: 2 };

const options = new Command('bench:outage')
  .description('what is answered when the source of the data is gone')
  .option('--servers <keys>', 'some peers only, by key (see peers/)')
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const { servers, missing } = findServers(options.servers?.split(','), ['cache']);
  const tried = [HOLDFAST, forwarding, ...servers];
  const live = await backend();
  const dying = await backend();
  const data = dataSet(bench, live.address().port, dying.address().port);
  const upstream = await startUpstream(bench, data.zoneFile());
  const loop = await bench.port();
  bench.start(bench.tool('c-loop'), [String(loop), LOOP_NICE]);
  const results = [];
  for (const server of tried) {
    const folder = bench.folder(server.key);
    const port = await bench.port();
    const context = { bench, folder, port, data, dying, upstream, loop };
    results.push(await outage(context, server === HOLDFAST ? holdfast(context) : peer(context, server)));
  }
  report(results, versionFacts(tried, missing));
});

/** Endpoints on loopback addresses of their own; the last of each service has the port that will die. */
function dataSet(bench, livePort, dyingPort) {
  return new DataSet(bench.folder('data'), {
    services: SERVICES,
    each: EACH,
    ttl: TTL_SECONDS,
    address: (s, i) => `127.${1 + i}.${s >> 8}.${s & 255}`,
    port: (_, i) => (i === EACH - 1 ? dyingPort : livePort),
  });
}

/** Accepts on every loopback address, and closes. */
async function backend() {
  const server = createServer((socket) => socket.on('error', () => undefined).destroy());
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4096 });
  await once(server, 'listening');
  return server;
}

/** How a server is started and cut off from its source. */
function holdfast({ bench, folder, port, data }) {
  const registry = data.registryFile();
  const config = writeConfig(folder, port, registry, {
    zone: { check: CHECK, idleInterval: CHECK.interval, answerTtl: `${TTL_SECONDS}s` },
    more: { prober: { budget: 5000, conntrackShare: 1 } },
  });
  return {
    server: HOLDFAST,
    start: () => bench.start(process.execPath, serveArguments(config)),
    beside: () => bench.start(process.execPath, [launcher, 'probe', '--config', config]),
    cut: () => unlinkSync(registry),
    mend: () => undefined,
  };
}

function peer({ bench, folder, port, data, upstream }, server) {
  const registryFile = data.registryFile();
  return {
    server,
    start: () => server.start({ bench, folder, port, zone: ZONE, registryFile, upstream: upstream.port, stale: true }),
    beside: () => undefined,
    cut: () => upstream.running.freeze(),
    mend: () => upstream.running.thaw(),
  };
}

/** One server through its outage. */
async function outage({ bench, port, data, dying, loop }, { server, start, beside, cut, mend }) {
  const file = data.questions('SRV');
  const { port: deadPort } = dying.address();
  const companion = beside();
  let running = start();
  try {
    await untilAnswers(server, port, running);
    // What a cache did not keep the first time it keeps the second.
    for (let i = 0; i < 2; i++) await dnsperf(port, file, { outstanding: 20, core: undefined });
    await sleep(PROBED_MS);
    cut();
    dying.close();
    await sleep(LATER_MS);
    const first = await pass(bench, port, file, deadPort, loop);
    const second = await pass(bench, port, file, deadPort, loop);
    await running.kill();
    running = start();
    await sleep(RESTART_MS);
    const restarted = await pass(bench, port, file, deadPort, loop);
    say(`${server.title}, load ${load()}: ${[first, second, restarted].map(cell).join('; ')}`);
    return { server, passes: [first, second, restarted] };
  } catch (error) {
    say(`${server.title} is left out: ${error.message}\n${running.output}`);
    return { server, passes: [] };
  } finally {
    mend();
    await running.kill();
    await companion?.kill();
    if (!dying.listening) dying.listen({ port: deadPort, host: '0.0.0.0', backlog: 4096 });
  }
}

/** Asks for every name once, then looks into some of the answers. */
async function pass(bench, port, file, deadPort, loop) {
  const { sent, unsent, rcodes, meanUs, maxUs, reference } = await askSteadily(bench, port, file, {
    rate: RATE,
    seconds: 0,
    timeoutMs: PATIENCE_MS,
    reference: loop,
  });
  const dead = [];
  for (let i = 0; i < SAMPLE; i += SAMPLE_AT_ONCE) {
    const names = Array.from(
      { length: SAMPLE_AT_ONCE },
      (_, n) => `${serviceName((i + n) * Math.floor(SERVICES / SAMPLE))}.${ZONE}`,
    );
    const replies = await Promise.all(
      names.map((name) => ask(port, name, 'SRV', { timeout: PATIENCE_MS, retry: PATIENCE_MS }).catch(() => undefined)),
    );
    for (const reply of replies) if (reply?.answers > 0) dead.push(reply.ports.includes(deadPort));
  }
  const answered = (rcodes[0] ?? 0) / (sent + unsent);
  return {
    answered,
    meanUs,
    maxUs,
    loopUs: reference.maxUs,
    withDead: dead.length === 0 ? undefined : dead.filter(Boolean).length / dead.length,
  };
}

function cell({ answered, meanUs, maxUs, loopUs }) {
  if (answered === 0) return percent(0);
  return `${percent(answered)}, mean ${ms(meanUs / 1000)} ms, worst ${ms(maxUs / 1000)} ms (loop ${ms(loopUs / 1000)})`;
}

/** The longest time of all passes in which the loop kept the limit. */
function worst(title, passes) {
  const judged = passes.filter(({ loopUs }) => loopUs / 1000 <= WORST_MS);
  const left = passes.length - judged.length;
  const what = left > 0 ? `${title} (${left} of ${passes.length} passes say nothing: the loop took longer)` : title;
  if (judged.length === 0) return `- ${what}: not to be judged on this machine`;
  return goal(what, Math.max(...judged.map(({ maxUs }) => maxUs)) / 1000, WORST_MS, ms);
}

function report(results, facts) {
  const rows = results
    .filter(({ passes }) => passes.length > 0)
    .map(({ server, passes }) => {
      const shares = passes.map(({ withDead }) => withDead).filter((share) => share !== undefined);
      return [server.title, ...passes.map(cell), shares.length === 0 ? '-' : percent(Math.max(...shares))];
    });
  const failed = results.filter(({ passes }) => passes.length === 0).map(({ server }) => server.title);
  const ours = results.find(({ server }) => server.serves === 'registry')?.passes ?? [];
  const goals =
    ours.length === 0
      ? []
      : [
          goal(
            'holdfast: not answered, in all passes',
            1 - Math.min(...ours.map(({ answered }) => answered)),
            0,
            percent,
          ),
          worst('holdfast: worst, ms', ours),
          goal(
            'holdfast: answers with a dead endpoint',
            Math.max(...ours.map(({ withDead }) => withDead ?? 1)),
            0,
            percent,
          ),
        ];
  const kept = results.find(({ server }) => server === forwarding)?.passes.slice(0, 2) ?? [];
  if (kept.length > 0) {
    goals.push(
      goal('names of elsewhere, kept: not answered', 1 - Math.min(...kept.map(({ answered }) => answered)), 0, percent),
      worst('names of elsewhere, kept: worst, ms', kept),
    );
  }
  writeSection(
    'outage',
    'In an outage',
    'npm run bench:outage',
    [
      ...facts,
      ...(failed.length > 0 ? [`did not come up: ${failed.join(', ')}`] : []),
      `${SERVICES} names with a TTL of ${TTL_SECONDS} s, each asked for its SRV records at ${RATE} questions a second, ${PATIENCE_MS / 1000} s of patience; ` +
        'peers with what they have for serving stale data. Of peers, and of holdfast as a cache in front of a name server, ' +
        'the upstream is frozen, of holdfast with a registry the file is deleted; at that moment a third of the endpoints is dead',
      `loop: the worst of a C program that sends back what comes, asked the same in turn with each server, at priority ${LOOP_NICE}`,
    ],
    [
      ...table(
        [
          'server',
          `${LATER_MS / 1000} s later`,
          'once more',
          'after a restart in the outage',
          'answers with a dead endpoint',
        ],
        rows,
      ),
      '',
      ...goals,
    ],
  );
}
