/**
 * `npm run bench:probe`: what probing very many endpoints costs, how regularly each is probed, and that none fails for
 * no reason: at the load that is meant, with packets lost, and at five times the load.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { allPass, proberReadings } from './lib/metrics.mjs';
import { count, mib, percent, times } from './lib/numbers.mjs';
import {
  dropped,
  enterOwnNetwork,
  keepPackets,
  losePackets,
  raiseLoopback,
  timeWait,
  tracked,
} from './lib/own-network.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { CLIENT_CORE, launcher, load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const EACH = 100;
const INTERVAL_S = 5;
const TIMEOUT_S = 1;
/** When it is tried again at first and at last, as shares of the timeout. */
const RETRY_AT = [1 / 2, 3 / 4];
const OVERLOAD = 5;
const LOSS = 0.005;
const LATE = 0.2;
const MOST_CPU = 0.25;
/** A quarter of a core was set as the goal where a connection that is opened and reset took 51 µs. */
const MOST_OVER_BARE = (MOST_CPU * 1e6 * INTERVAL_S) / 20_000 / 51;
const BARE_S = 8;
/** Nothing else that runs here may be taken for a fault of the prober. */
const FIRST = ['nice', '-n', '-15'];

const options = new Command('bench:probe')
  .description('CPU, memory and regularity of TCP probes of very many endpoints')
  .option('--endpoints <n>', 'endpoints', Number, 20_000)
  .option('--minutes <n>', 'of each phase', Number, 2)
  .option('--overload-minutes <n>', 'of the last one, at most', Number, 2)
  .option('--loss <share>', 'of the packets, each way, in the second phase', Number, LOSS)
  .option('--phases <names>', 'of plain, lossy and overload', (text) => text.split(','), ['plain', 'lossy', 'overload'])
  .parse()
  .opts();

const own = enterOwnNetwork();
const counted = own && raiseLoopback();

await atWorkbench(async (bench) => {
  const { endpoints } = options;
  const port = await bench.port();
  const data = new DataSet(bench.folder('data'), {
    services: endpoints / EACH,
    each: EACH,
    address: (s, i) => addressAt(s * EACH + i),
    port: () => port,
  });
  const registry = data.registryFile();
  const acceptor = startFirst(
    bench,
    [bench.tool('acceptor'), port, endpoints, INTERVAL_S * 1000, ...RETRY_AT.map((share) => share * TIMEOUT_S * 1000)],
    CLIENT_CORE,
  );
  const folder = bench.folder('holdfast');
  const dns = await bench.port();
  const admin = await bench.port();
  const configure = (interval, budget) =>
    writeConfig(folder, dns, registry, {
      zone: { check: { type: 'tcp', interval: `${interval}s`, timeout: `${TIMEOUT_S}s`, pinned: true } },
      more: { admin: `127.0.0.1:${admin}`, prober: { budget, conntrackShare: 1 } },
    });
  const config = configure(INTERVAL_S, 1.5 * (endpoints / INTERVAL_S));
  const resolver = bench.start(process.execPath, serveArguments(config, 'batched'), { core: SERVER_CORE });
  await ask(dns, `${serviceName(0)}.${ZONE}`, 'SRV', { timeout: 30_000, accept: (reply) => reply.answers > 0 });
  const startProber = (file) => startFirst(bench, [process.execPath, launcher, 'probe', '--config', file], SERVER_CORE);
  const alone = startProber(writeConfig(bench.folder('alone'), dns, registry));
  await sleep(3_000);
  const idle = alone.memory().now;
  await alone.stop();
  const bareConnect = new URL('./inside/bare-connect.mjs', import.meta.url).pathname;
  const words = [process.execPath, bareConnect, port, endpoints / INTERVAL_S, BARE_S];
  const bareRun = startFirst(bench, words, SERVER_CORE);
  await bareRun.ended;
  const bareUs = JSON.parse(bareRun.output).us;
  let prober = startProber(config);
  await allPass(admin, endpoints);
  say(`${count(endpoints)} endpoints are probed, load ${load()}`);

  const phase = async (title, intervalS, minutes = options.minutes) => {
    await sleep(2 * INTERVAL_S * 1000);
    acceptor.signal('SIGUSR1');
    const droppedBefore = dropped();
    const before = await proberReadings(admin, prober);
    const most = { tracked: 0, timeWait: 0, heldBack: 0 };
    const end = performance.now() + minutes * 60_000;
    let after = before;
    while (performance.now() < end) {
      await sleep(1_000);
      after = await proberReadings(admin, prober);
      most.heldBack = Math.max(most.heldBack, after.heldBack);
      most.tracked = Math.max(most.tracked, tracked() ?? 0);
      most.timeWait = Math.max(most.timeWait, timeWait() ?? 0);
    }
    acceptor.signal('SIGUSR2');
    await sleep(500);
    const seen = JSON.parse(acceptor.output.trim().split('\n').at(-1));
    const seconds = (after.at - before.at) / 1000;
    const result = {
      title,
      intervalS,
      ...seen,
      ...most,
      cpu: (after.cpu - before.cpu) / seconds,
      perProbeUs: ((after.cpu - before.cpu) / (after.results - before.results)) * 1e6,
      rate: seen.visits / seconds,
      failures: after.failures - before.failures,
      localErrors: after.localErrors - before.localErrors,
      memory: prober.memory().now,
      tableDrops: dropped().byTable - droppedBefore.byTable,
      queueDrops: dropped().byQueue - droppedBefore.byQueue,
    };
    say(`${title}: ${JSON.stringify(result)}`);
    return result;
  };

  const phases = [];
  const wants = (name) => options.phases.includes(name);
  if (wants('plain')) phases.push(await phase(`each ${INTERVAL_S} s`, INTERVAL_S));
  if (wants('lossy') && own && losePackets(port, options.loss)) {
    phases.push(await phase(`each ${INTERVAL_S} s, ${percent(options.loss)} of the packets lost`, INTERVAL_S));
    keepPackets();
  }
  if (wants('overload')) {
    configure(INTERVAL_S / OVERLOAD, 100_000);
    resolver.signal('SIGHUP');
    await prober.stop();
    prober = startProber(config);
    await allPass(admin, endpoints);
    const least = Math.min(options.minutes, options.overloadMinutes);
    phases.push(await phase(`${OVERLOAD} times the load, ${least} min`, undefined, least));
  }
  report(phases, idle, bareUs);
});

function startFirst(bench, words, core) {
  const [command, ...args] = [...FIRST, ...words].map(String);
  return bench.start(command, args, { core });
}

function addressAt(n) {
  return `127.${1 + (n >>> 16)}.${(n >>> 8) & 255}.${n & 255}`;
}

function report(phases, idle, bareUs) {
  const { endpoints, minutes } = options;
  const seconds = (value) => (value / 1000).toFixed(2);
  const rows = phases.map((one) => [
    one.title,
    count(Math.round(one.rate)),
    percent(one.cpu),
    one.perProbeUs.toFixed(1),
    mib(one.memory),
    seconds(one.meanMs),
    `${seconds(one.p001Ms)} to ${seconds(one.p999Ms)}`,
    `${seconds(one.leastMs)} to ${seconds(one.mostMs)}`,
    one.intervalS === undefined ? '-' : `${count(one.outside)} of ${count(one.gaps)}`,
    count(one.failures),
    count(one.heldBack),
    count(one.localErrors),
    counted ? count(one.tracked) : '-',
    count(one.timeWait),
    counted ? count(one.tableDrops) : '-',
    count(one.queueDrops),
  ]);
  const [first] = phases;
  const facts = [
    `${count(endpoints)} endpoints at as many addresses, one TCP probe each ${INTERVAL_S} s, ${minutes} minutes a phase; the prober on core 0 at priority -15, with the resolver; the endpoints on core 1`,
    first.seen === 'sent'
      ? 'an interval is the time from one SYN packet to the next at the address, by the clock of the kernel that got it; what is lost is lost after that'
      : 'an interval is the time from one accepted connection to the next at the address',
    `a prober without endpoints takes ${mib(idle)} MiB, so each takes ${((first.memory - idle) / endpoints / 1024).toFixed(1)} KiB`,
    `a connection that is opened and reset by a Node that does nothing else takes ${bareUs.toFixed(1)} µs of CPU here, both ends' work in the kernel included`,
    own ? 'in a network namespace of its own' : 'in the network of the machine: nothing is lost or counted',
  ];
  const head = ['', 'probes/s', 'CPU of a core', 'µs a probe', 'MiB', 'mean interval s', '99.8 % within s'];
  const more = [
    'all within s',
    'outside 20 %',
    'failures',
    'held back',
    'local errors',
    'tracked',
    'TIME_WAIT',
    'dropped by the table',
    'by the queue',
  ];
  const kept = phases.filter((one) => one.intervalS !== undefined);
  const goals = kept.flatMap(({ title, cpu, mostMs, leastMs, outside, gaps, intervalS }) => [
    goal(`${title}: CPU of one core`, cpu, MOST_CPU, percent),
    goal(
      `${title}: the longest interval of any endpoint, over what is meant`,
      mostMs / 1000 / intervalS - 1,
      LATE,
      percent,
    ),
    goal(`${title}: the shortest interval, under what is meant`, 1 - leastMs / 1000 / intervalS, LATE, percent),
    goal(`${title}: intervals that are off by more`, outside / gaps, 0, percent),
  ]);
  goals.push(...phases.map(({ title, failures }) => goal(`${title}: false failures`, failures, 0, String)));
  const most = (pick) => Math.max(...phases.map(pick));
  writeSection('probe', 'Probing', 'npm run bench:probe', facts, [
    ...table([...head, ...more], rows),
    '',
    ...goals,
    goal('µs a probe, over such a connection', first.perProbeUs / bareUs, MOST_OVER_BARE, times),
    goal(
      'endpoints held back without reason at any time, all phases',
      most((one) => one.heldBack),
      0,
      String,
    ),
    goal(
      'connections in TIME_WAIT, all phases',
      most((one) => one.timeWait),
      100,
      String,
    ),
  ]);
}
