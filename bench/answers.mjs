/**
 * `npm run bench`: what a query costs holdfast and its peers, side by side. In each round every server is measured once,
 * one after the other, so that what disturbs the machine disturbs all; numbers are medians over the rounds.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { lineUp } from './lib/line-up.mjs';
import { askSteadily, dnsperf } from './lib/load.mjs';
import { count, median, percent, ratio, times, us } from './lib/numbers.mjs';
import { wakeUps } from './lib/process.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { load } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';
import { findServers, versionFacts } from './peers/index.mjs';

const STEADY_RATE = 20_000;
const WARM_UP_SECONDS = 1.5;
/** A server that loses more does not serve this. */
const MOST_LOST = 0.1;
const IDLE_SECONDS = 10;
/** A round in which much else ran says little. */
const BUSY_LOAD = 1.5;

const SCENARIOS = [
  {
    key: 'srv',
    title: 'SRV, 3 SRV + 3 A, 1,000 names',
    services: 1000,
    type: 'SRV',
    questions: (data) => data.questions('SRV'),
  },
  {
    key: 'a-edns',
    title: 'A with EDNS, 3 A, 1,000 names',
    services: 1000,
    type: 'A',
    edns: true,
    questions: (data) => data.questions('A'),
  },
  {
    key: 'nxdomain',
    title: 'NXDOMAIN, 1,000 names',
    services: 1000,
    type: 'A',
    name: `absent-0.${ZONE}`,
    questions: (data) => data.absent(),
  },
  {
    key: 'tcp',
    title: 'SRV over TCP, pipelined, 1,000 names',
    services: 1000,
    type: 'SRV',
    tcp: true,
    questions: (data) => data.questions('SRV'),
  },
  {
    key: 'srv-many',
    title: 'SRV, 3 SRV + 3 A, 100,000 names',
    services: 100_000,
    type: 'SRV',
    questions: (data) => data.questions('SRV'),
  },
];

const options = new Command('bench')
  .description('compare what a query costs holdfast and other name servers')
  .option('--rounds <n>', 'rounds', Number, 9)
  .option('--seconds <s>', 'of full load a server, scenario and round', Number, 1.5)
  .option('--scenarios <keys>', `some of ${SCENARIOS.map(({ key }) => key).join(',')}`)
  .option('--servers <keys>', 'some servers only, by key (see peers/)')
  .option('--patience <s>', `wait so long for a round in which the machine's load is below ${BUSY_LOAD}`, Number, 20)
  .parse()
  .opts();

const wanted = options.scenarios?.split(',');
const scenarios = SCENARIOS.filter(({ key }) => wanted === undefined || wanted.includes(key));

await atWorkbench(async (bench) => {
  const { servers, missing } = findServers(options.servers?.split(','));
  const lines = [];
  const failed = new Set();
  for (const services of new Set(scenarios.map((scenario) => scenario.services))) {
    const data = new DataSet(bench.folder(`data-${services}`), { services });
    const group = scenarios
      .filter((scenario) => scenario.services === services)
      .map((scenario) => ({ ...scenario, file: scenario.questions(data) }));
    say(`starting servers with ${count(services)} names`);
    const { ready, failed: down, upstream } = await lineUp(bench, servers, data, group);
    for (const title of down) failed.add(title);
    if (lines.length === 0) lines.push(...(await idleWakeUps(ready, group[0])));
    for (const scenario of group) {
      lines.push(...report(scenario, await measure(bench, ready, scenario)), '');
      // Each scenario takes minutes: what is known is kept.
      writeSection('answers', 'What a query costs', 'npm run bench', facts(servers, missing, failed), lines);
    }
    for (const { running } of [...ready, upstream]) await running.stop();
  }
});

function facts(servers, missing, failed) {
  return [
    ...versionFacts(servers, missing),
    ...(failed.size > 0 ? [`did not come up: ${[...failed].join(', ')}`] : []),
    'each server on core 0, the client on core 1; one thread each; authoritative ones from a zone file, caches warmed up ' +
      'and then cut off from their upstream; logs off. holdfast with its list of permitted clients, counters, histogram ' +
      'and weighted order on, as always',
    'CPU: of the whole process and its children, from the kernel, over the queries answered under full load (dnsperf, ' +
      `200 outstanding); latency: at ${count(STEADY_RATE)} queries a second, from send to the kernel's receive stamp; ` +
      `medians of ${options.rounds} rounds; ratios are medians of the rounds' own`,
  ];
}

async function measure(bench, servers, scenario) {
  const entries = [];
  for (const server of servers) {
    if (scenario.tcp && server.serves === 'echo') continue;
    const name = scenario.name ?? `${serviceName(0)}.${ZONE}`;
    try {
      entries.push({ server, reply: await ask(server.port, name, scenario.type, { edns: scenario.edns }), rounds: [] });
    } catch (error) {
      say(`${server.title} is left out: ${error.message}`);
    }
  }
  // Not counted: what is compiled or allocated while it runs is so now.
  for (const { server } of entries)
    await dnsperf(server.port, scenario.file, { ...scenario, seconds: WARM_UP_SECONDS, timeout: 1 });
  for (let round = 0; round < options.rounds; round++) {
    await quiet(options.patience);
    for (const entry of entries) entry.rounds.push(await measureOnce(bench, entry.server, scenario));
    const costs = entries.map(({ server, rounds }) => `${server.key} ${us(rounds.at(-1).cpuUs)}`);
    say(
      `${scenario.title}, round ${round + 1} of ${options.rounds}, load ${load()}, µs CPU a query: ${costs.join(', ')}`,
    );
  }
  return entries;
}

async function measureOnce(bench, { port, running }, { file, edns, tcp }) {
  const before = running.cpu();
  const { seconds } = options;
  const full = await dnsperf(port, file, { seconds, edns, tcp, timeout: 1 });
  // Children that a server forks for a connection end a little later.
  if (tcp) await sleep(100);
  const lost = full.lost / full.sent;
  const cpuUs = lost > MOST_LOST ? Number.NaN : ((running.cpu() - before) / full.answered) * 1e6;
  const steady = tcp
    ? {}
    : await askSteadily(bench, port, file, { rate: STEADY_RATE, seconds: 0.5, timeoutMs: 500, edns });
  return { cpuUs, qps: full.qps, lost, meanUs: steady.meanUs, p999Us: steady.p999Us };
}

function report(scenario, entries) {
  const series = ({ rounds }, key) => rounds.map((round) => round[key]);
  const find = (key) => entries.find(({ server }) => server.key === key);
  const base = find('c-loop');
  const unbound = find('unbound');
  const versus = (entry, other) =>
    other === undefined ? '-' : times(ratio(series(entry, 'cpuUs'), series(other, 'cpuUs')));
  const cost = (entry) => median(series(entry, 'cpuUs')) || Number.MAX_VALUE;
  const sorted = [...entries].sort((a, b) => cost(a) - cost(b));
  const rows = sorted.map((entry) => [
    entry.server.title,
    us(median(series(entry, 'cpuUs'))),
    versus(entry, base),
    versus(entry, unbound),
    count(median(series(entry, 'qps'))),
    us(median(series(entry, 'meanUs'))),
    us(median(series(entry, 'p999Us'))),
    percent(median(series(entry, 'lost'))),
    recordsOf(entry, scenario),
  ]);
  const head = [
    'server',
    'CPU µs a query',
    '/ C loop',
    '/ Unbound',
    'queries a second',
    'mean µs',
    'p99.9 µs',
    'lost',
    'records, bytes',
  ];
  return [`### ${scenario.title}`, '', ...table(head, rows), '', ...goals(scenario, entries)];
}

/** Records of the sections, OPT included. */
function recordsOf({ server, reply }) {
  if (server.serves === 'echo') return '-';
  return `${reply.answers}+${reply.authorities}+${reply.additionals}, ${reply.size}`;
}

function goals(scenario, entries) {
  const series = (key) => entries.find(({ server }) => server.key === key)?.rounds.map(({ cpuUs }) => cpuUs);
  const ours = series('batched');
  if (ours === undefined) return [];
  const lines = [];
  const check = (key, title, most) => {
    const theirs = series(key);
    if (theirs !== undefined && Number.isFinite(median(theirs)))
      lines.push(goal(`CPU a query, holdfast batched / ${title}`, ratio(ours, theirs), most, times));
  };
  check('c-loop', 'C loop', 1.2);
  check('unbound', 'Unbound', 0.95);
  check('nsd', 'NSD', 1.05);
  for (const { server } of entries) {
    if (server.serves === 'cache' && server.key !== 'unbound') check(server.key, server.title, 1);
  }
  const portable = series('portable');
  if (portable !== undefined && !scenario.tcp) {
    lines.push(goal('CPU a query, holdfast portable / batched', ratio(portable, ours), 2, times));
    const bare = series('dgram-loop');
    if (bare !== undefined) {
      lines.push(
        `- of which node:dgram alone, no DNS: ${times(ratio(bare, ours))}; holdfast portable / that: ${times(ratio(portable, bare))}`,
      );
    }
  }
  return lines;
}

/** Waits for other work on this machine to end, but not for ever. */
async function quiet(patience) {
  for (let waited = 0; waited < patience && load() > BUSY_LOAD; waited += 2) await sleep(2000);
}

/** Wake-ups a second of the batched server's answer thread, which is the one that works under load, while nobody asks. */
async function idleWakeUps(servers, scenario) {
  const server = servers.find(({ key }) => key === 'batched');
  if (server === undefined) return [];
  const before = server.running.cpuByThread();
  await dnsperf(server.port, scenario.file, { ...scenario, seconds: 1 });
  const worked = [...server.running.cpuByThread()].map(([thread, cpu]) => [thread, cpu - (before.get(thread) ?? 0)]);
  const [thread] = worked.reduce((most, one) => (one[1] > most[1] ? one : most));
  const began = wakeUps(server.running.pid, thread);
  say(`an idle server is watched for ${IDLE_SECONDS} s`);
  await sleep(IDLE_SECONDS * 1000);
  const idle = (wakeUps(server.running.pid, thread) - began) / IDLE_SECONDS;
  return ['### Idle', '', goal('wake-ups a second of an idle answer thread', idle, 1, times), ''];
}
