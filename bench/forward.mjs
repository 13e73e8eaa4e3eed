/**
 * `npm run bench:forward`: what a query costs for a name of elsewhere that is in the cache, beside caches that do nothing
 * else. Servers are measured in turns, as in `npm run bench`.
 */
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { lineUp } from './lib/line-up.mjs';
import { dnsperf } from './lib/load.mjs';
import { count, median, percent, ratio, times, us } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { load } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';
import { forwarding } from './peers/holdfast.mjs';
import { findServers, versionFacts } from './peers/index.mjs';

const SERVICES = 1_000;
const WARM_UP_SECONDS = 1;
const SCENARIOS = [
  { key: 'a', title: 'A, 3 records, 1,000 names', type: 'A', edns: false },
  { key: 'a-edns', title: 'A with EDNS, 3 records, 1,000 names', type: 'A', edns: true },
  { key: 'srv', title: 'SRV, 3 records, 1,000 names', type: 'SRV', edns: false },
];

const options = new Command('bench:forward')
  .description('compare what a query for a cached name of elsewhere costs')
  .option('--rounds <n>', 'rounds', Number, 9)
  .option('--seconds <s>', 'of full load a server, scenario and round', Number, 1)
  .option('--servers <keys>', 'some peers only, by key (see peers/)', 'unbound,dnsmasq')
  .option('--scenarios <keys>', `some of ${SCENARIOS.map(({ key }) => key).join(',')}`)
  .parse()
  .opts();

const wanted = options.scenarios?.split(',');
const scenarios = SCENARIOS.filter(({ key }) => wanted === undefined || wanted.includes(key));

await atWorkbench(async (bench) => {
  const { servers, missing } = findServers(options.servers.split(','), ['cache']);
  const data = new DataSet(bench.folder('data'), { services: SERVICES });
  const group = scenarios.map((scenario) => ({ ...scenario, file: data.questions(scenario.type) }));
  const { ready, failed } = await lineUp(bench, [forwarding, ...servers], data, group);
  const lines = [];
  for (const scenario of group) lines.push(...report(scenario, await measure(ready, scenario)), '');
  const facts = [
    ...versionFacts(servers, missing),
    ...(failed.length > 0 ? [`did not come up: ${failed.join(', ')}`] : []),
    'each server on core 0, the client on core 1; one thread each; caches warmed up and then cut off from their upstream; ' +
      'CPU: of the whole process, from the kernel, over the queries answered under full load (dnsperf, 200 outstanding); ' +
      `medians of ${options.rounds} rounds; ratios are medians of the rounds' own`,
  ];
  writeSection('forward', 'Cached names of elsewhere', 'npm run bench:forward', facts, lines);
});

async function measure(servers, { title, type, edns, file }) {
  const entries = [];
  for (const server of servers) {
    const reply = await ask(server.port, `${serviceName(0)}.${ZONE}`, type, { edns });
    entries.push({ server, reply, rounds: [] });
    await dnsperf(server.port, file, { edns, seconds: WARM_UP_SECONDS, timeout: 1 });
  }
  for (let round = 0; round < options.rounds; round++) {
    for (const { server, rounds } of entries) {
      const before = server.running.cpu();
      const { sent, answered, lost, qps } = await dnsperf(server.port, file, {
        edns,
        seconds: options.seconds,
        timeout: 1,
      });
      rounds.push({ cpuUs: ((server.running.cpu() - before) / answered) * 1e6, qps, lost: lost / sent });
    }
    const costs = entries.map(({ server, rounds }) => `${server.key} ${us(rounds.at(-1).cpuUs)}`);
    say(`${title}, round ${round + 1} of ${options.rounds}, load ${load()}, µs CPU a query: ${costs.join(', ')}`);
  }
  return entries;
}

function report({ title }, entries) {
  const series = ({ rounds }, key) => rounds.map((round) => round[key]);
  const [ours] = entries;
  const versus = (entry) => ratio(series(ours, 'cpuUs'), series(entry, 'cpuUs'));
  const rows = entries.map((entry) => [
    entry.server.title,
    us(median(series(entry, 'cpuUs'))),
    entry === ours ? '-' : times(versus(entry)),
    count(median(series(entry, 'qps'))),
    percent(median(series(entry, 'lost'))),
    `${entry.reply.answers}+${entry.reply.authorities}+${entry.reply.additionals}, ${entry.reply.size}`,
  ]);
  const head = ['server', 'CPU µs a query', 'holdfast / it', 'queries a second', 'lost', 'records, bytes'];
  const goals = entries
    .slice(1)
    .map((entry) =>
      goal(
        `CPU a query, holdfast / ${entry.server.title}`,
        versus(entry),
        entry.server.key === 'unbound' ? 1.3 : 1,
        times,
      ),
    );
  return [`### ${title}`, '', ...table(head, rows), '', ...goals];
}
