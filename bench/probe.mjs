/**
 * `npm run bench:probe`: what probing very many endpoints costs, how regularly each is probed, and that none fails for
 * no reason: at the load that is meant, with packets lost, at five times the load, and when all of them die.
 */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { askSteadily } from './lib/load.mjs';
import { count, mib, ms, percent } from './lib/numbers.mjs';
import { enterOwnNetwork, keepPackets, losePackets, raiseLoopback, timeWait, tracked } from './lib/own-network.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { CLIENT_CORE, launcher, load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const EACH = 100;
const INTERVAL_S = 5;
const OVERLOAD = 5;
const LOSS = 0.005;
const LATE = 0.2;
const MOST_CPU = 0.25;
const STALL_US = 5_000;
const STALL_RATE = 5_000;
/** One endpoint in so many does not die at the end. */
const SURVIVES = 10;
const REAL_TIME = ['-f', '10'];

const options = new Command('bench:probe')
  .description('CPU, memory and regularity of TCP probes of very many endpoints')
  .option('--endpoints <n>', 'endpoints', Number, 20_000)
  .option('--minutes <n>', 'of each phase', Number, 2)
  .parse()
  .opts();

const own = enterOwnNetwork();
const counted = own && raiseLoopback();

await atWorkbench(async (bench) => {
  const { endpoints } = options;
  const port = await bench.port();
  const address = (s, i) => addressAt(s * EACH + i);
  const lasting = await bench.port();
  const portOf = (_s, i) => (i % SURVIVES === 0 ? lasting : port);
  const data = new DataSet(bench.folder('data'), { services: endpoints / EACH, each: EACH, address, port: portOf });
  const registry = data.registryFile();
  const accept = (at) =>
    bench.start('chrt', [...REAL_TIME, bench.tool('acceptor'), at, endpoints].map(String), { core: CLIENT_CORE });
  const acceptors = [accept(port), accept(lasting)];
  const folder = bench.folder('holdfast');
  const dns = await bench.port();
  const admin = await bench.port();
  const configure = (interval, budget) =>
    writeConfig(folder, dns, registry, {
      zone: { check: { type: 'tcp', interval: `${interval}s`, timeout: '1s', pinned: true } },
      more: { admin: `127.0.0.1:${admin}`, prober: { budget, conntrackShare: 1 } },
    });
  const config = configure(INTERVAL_S, 1.5 * (endpoints / INTERVAL_S));
  // Not at real-time priority: of two such threads on one core the one would wait for the other.
  const serve = [process.execPath, ...serveArguments(config, 'batched')];
  const resolver = bench.start('nice', ['-n', '-5', ...serve], { core: SERVER_CORE });
  await ask(dns, `${serviceName(0)}.${ZONE}`, 'SRV', { timeout: 30_000, accept: (reply) => reply.answers > 0 });
  const startProber = (core = SERVER_CORE, file = config) =>
    bench.start('chrt', [...REAL_TIME, process.execPath, launcher, 'probe', '--config', file], { core });
  const alone = startProber(SERVER_CORE, writeConfig(bench.folder('alone'), dns, registry));
  await sleep(3_000);
  const idle = alone.memory().now;
  await alone.stop();
  let prober = startProber();
  await settled(admin, endpoints);
  say(`${count(endpoints)} endpoints are probed, load ${load()}`);

  const phase = async (title) => {
    await sleep(2 * INTERVAL_S * 1000);
    for (const acceptor of acceptors) acceptor.signal('SIGUSR1');
    const before = await readings(admin, prober);
    const most = { tracked: 0, timeWait: 0 };
    const end = performance.now() + options.minutes * 60_000;
    while (performance.now() < end) {
      await sleep(1_000);
      most.tracked = Math.max(most.tracked, tracked() ?? 0);
      most.timeWait = Math.max(most.timeWait, timeWait() ?? 0);
    }
    const after = await readings(admin, prober);
    for (const acceptor of acceptors) acceptor.signal('SIGUSR2');
    await sleep(500);
    const [regularity, rest] = acceptors.map(({ output }) => JSON.parse(output.trim().split('\n').at(-1)));
    regularity.visits += rest.visits;
    regularity.leastMs = Math.min(regularity.leastMs, rest.leastMs);
    regularity.mostMs = Math.max(regularity.mostMs, rest.mostMs);
    const cpu = (after.cpu - before.cpu) / ((after.at - before.at) / 1000);
    const result = {
      title,
      ...regularity,
      ...most,
      cpu,
      perProbeUs: ((after.cpu - before.cpu) / regularity.visits) * 1e6,
      rate: regularity.visits / ((after.at - before.at) / 1000),
      failures: after.failures - before.failures,
      localErrors: after.localErrors - before.localErrors,
      heldBack: after.heldBack,
      memory: prober.memory().now,
    };
    say(`${title}: ${JSON.stringify(result)}`);
    return result;
  };

  const phases = [await phase(`each ${INTERVAL_S} s`)];
  const lossy = own && losePackets(port, LOSS) && losePackets(lasting, LOSS);
  if (lossy) phases.push(await phase(`each ${INTERVAL_S} s, ${percent(LOSS)} of the packets lost`));
  if (lossy) keepPackets();
  configure(INTERVAL_S / OVERLOAD, 100_000);
  resolver.signal('SIGHUP');
  await prober.stop();
  prober = startProber();
  await settled(admin, endpoints);
  phases.push(await phase(`${OVERLOAD} times the load`));

  configure(INTERVAL_S, 1.5 * (endpoints / INTERVAL_S));
  resolver.signal('SIGHUP');
  await prober.stop();
  prober = startProber(CLIENT_CORE);
  await settled(admin, endpoints);
  const file = data.list('asked', (i) => `${serviceName(i)}.${ZONE} SRV`);
  const calm = await askSteadily(bench, dns, file, { rate: STALL_RATE, seconds: 15, timeoutMs: 2_000 });
  const asking = askSteadily(bench, dns, file, { rate: STALL_RATE, seconds: 25, timeoutMs: 2_000 });
  await sleep(2_000);
  await acceptors[0].kill();
  const stall = await asking;
  const dead = await metric(admin, 'holdfast_zone_endpoints_held_back');
  say(`all dead: ${JSON.stringify({ ...stall, dead })}`);
  report(phases, calm, stall, dead, idle);
});

function addressAt(n) {
  return `127.${1 + (n >>> 16)}.${(n >>> 8) & 255}.${n & 255}`;
}

/** Resolves when every endpoint has a verdict. */
async function settled(admin, endpoints) {
  const end = performance.now() + 60_000;
  for (;;) {
    const seen = await metric(admin, 'holdfast_prober_targets').catch(() => 0);
    const results = await metric(admin, 'holdfast_probe_results_total{outcome="pass"}').catch(() => 0);
    if (seen === endpoints && results >= endpoints) return;
    if (performance.now() > end) throw new Error(`only ${results} results of ${seen} endpoints`);
    await sleep(500);
  }
}

async function readings(admin, prober) {
  const text = await metrics(admin);
  const sum = (pattern) => [...text.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0);
  return {
    at: performance.now(),
    cpu: prober.cpu(),
    failures: sum(/^holdfast_probe_results_total\{outcome="(?!pass)[^"]*"\} (\d+)/gm),
    localErrors: sum(/^holdfast_prober_local_errors (\d+)/gm),
    heldBack: sum(/^holdfast_zone_endpoints_held_back\{[^}]*\} (\d+)/gm),
  };
}

async function metric(admin, name) {
  const line = (await metrics(admin)).split('\n').find((one) => one.startsWith(name));
  return line === undefined ? 0 : Number(line.split(' ').at(-1));
}

function metrics(admin) {
  return new Promise((resolve, reject) => {
    request({ host: '127.0.0.1', port: admin, path: '/metrics' }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        text += chunk;
      });
      response.on('end', () => resolve(text));
    })
      .on('error', reject)
      .end();
  });
}

function report(phases, calm, stall, dead, idle) {
  const { endpoints, minutes } = options;
  const rows = phases.map((one) => [
    one.title,
    count(Math.round(one.rate)),
    percent(one.cpu),
    one.perProbeUs.toFixed(1),
    mib(one.memory),
    ms(one.meanMs / 1000),
    `${ms(one.p001Ms / 1000)} to ${ms(one.p999Ms / 1000)}`,
    `${ms(one.leastMs / 1000)} to ${ms(one.mostMs / 1000)}`,
    count(one.failures),
    count(one.heldBack),
    count(one.localErrors),
    counted ? count(one.tracked) : '-',
    count(one.timeWait),
  ]);
  const [plain] = phases;
  const head = [
    '',
    'probes/s',
    'CPU of a core',
    'µs a probe',
    'MiB',
    'mean interval s',
    '99.8 % within s',
    'all within s',
  ];
  const facts = [
    `${count(endpoints)} endpoints at as many addresses, one TCP probe each ${INTERVAL_S} s, ${minutes} minutes a phase; the prober on core 0 at real-time priority, with the resolver; the endpoints on core 1; while they die, the prober is there, too`,
    `a prober without endpoints takes ${mib(idle)} MiB, so each takes ${((plain.memory - idle) / endpoints / 1024).toFixed(1)} KiB`,
    own ? 'in a network namespace of its own' : 'in the network of the machine: nothing is lost or counted',
  ];
  writeSection('probe', 'Probing', 'npm run bench:probe', facts, [
    ...table([...head, 'failures', 'held back', 'local errors', 'tracked', 'TIME_WAIT'], rows),
    '',
    `While ${count(dead)} were held back within 25 s, ${count(STALL_RATE)} questions a second were answered: ` +
      `p99.9 ${ms(stall.p999Us / 1000)} ms, most ${ms(stall.maxUs / 1000)} ms, ${count(stall.sent - stall.received)} lost. ` +
      `Before that, with nothing to do: p99.9 ${ms(calm.p999Us / 1000)} ms, most ${ms(calm.maxUs / 1000)} ms.`,
    '',
    goal('CPU of one core', plain.cpu, MOST_CPU, percent),
    goal('longest interval, over what is meant', plain.mostMs / 1000 / INTERVAL_S - 1, LATE, percent),
    goal('shortest interval, under what is meant', 1 - plain.leastMs / 1000 / INTERVAL_S, LATE, percent),
    goal('endpoints held back without reason, all phases', Math.max(...phases.map((one) => one.heldBack)), 0, String),
    goal(
      'longest answer while verdicts change, over the longest before, ms',
      (stall.maxUs - calm.maxUs) / 1000,
      STALL_US / 1000,
      ms,
    ),
  ]);
}
