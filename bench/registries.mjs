/**
 * `npm run bench:registries`: from a change that a real registry has to the answer with it: of Consul with catalogs of
 * several sizes, beside what Consul itself takes to tell of the change, and of etcd.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { EtcdServer, etcdVersion } from '../build/test/integration/etcd-server.js';
import { ask } from './lib/ask.mjs';
import { ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { count, median, ms } from './lib/numbers.mjs';
import { RealConsul } from './lib/real-consul.mjs';
import { answered, change, KINDS, NODES, QUIET_MS } from './lib/registry-changes.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const MOST_FIRST_MS = 100;
const MIRROR_MS = 900_000;
const TIMES = 7;
/** What is seen least of, and so takes longest to be found where nobody asks for it. */
const LEAST_TRACES = 'an endpoint comes without a check';
/** What Consul has to compute for each change that leaves nothing else to see. */
const FLOOR = ['catalog/services', 'health/state/any', 'internal/ui/services'];

const sizes = (text) => text.split(',').filter(Boolean).map(Number);
const options = new Command('bench:registries')
  .description('how soon changes of real registries are in the answers')
  .option('--consul <sizes>', 'services in Consul, one catalog each', sizes, [1000, 3000, 5000, 10_000])
  .option('--etcd <n>', 'services in etcd; 0: without', Number, 1000)
  .option('--each <n>', 'endpoints of each', Number, 2)
  .option('--changes <n>', 'changes of each kind, each after a quiet time', Number, 3)
  .parse()
  .opts();
const { each } = options;

await atWorkbench(async (bench) => {
  const consul = [];
  if (RealConsul.isThere) for (const services of options.consul) consul.push(await ofConsul(bench, services));
  else say('no Consul: `node build/test/integration/consul-build.js` builds one');
  const etcd = etcdVersion() !== undefined && options.etcd > 0 ? await ofEtcd(bench, options.etcd) : undefined;
  report(consul, etcd);
});

async function ofConsul(bench, services) {
  const consul = await RealConsul.start(bench.folder(`consul-${services}`));
  say(`filling Consul with ${count(services)} services`);
  await consul.fill(services, each);
  const { port, running } = await serve(bench, `beside-consul-${services}`, { type: 'consul', address: consul.origin });
  await answered(port, services - 1, each, MIRROR_MS);
  await sleep(3000);
  let next = 10;
  const kinds = {};
  for (const [name, kind] of Object.entries(KINDS)) {
    for (const asked of kind === KINDS[LEAST_TRACES] ? [false, true] : [false]) {
      const title = asked ? `${name}, of a service that is asked` : name;
      kinds[title] = [];
      for (let i = 0; i < options.changes; i++, next++)
        kinds[title].push(await change(port, kind(consul, next, each), next, each, QUIET_MS, asked));
      say(`${count(services)} services, ${title}: ${kinds[title].map(ms).join(', ')} ms`);
    }
  }
  await running.stop();
  const floor = {};
  for (const path of FLOOR) {
    floor[path] = [];
    for (let i = 0; i < TIMES; i++) floor[path].push(await consul.time(path));
  }
  await consul.stop();
  return { services, kinds, floor };
}

async function ofEtcd(bench, services) {
  const etcd = await EtcdServer.start(bench.folder('etcd'));
  const key = (service, i) => `/bench/s${service}/${i}`;
  const value = (service, i) => ({ address: `10.${(service >> 8) & 255}.${service & 255}.${i + 1}`, port: 80 });
  say(`filling etcd with ${count(services)} services`);
  for (let service = 0; service < services; service++)
    for (let i = 0; i < each; i++) await etcd.put(key(service, i), value(service, i));
  const registry = { type: 'etcd', endpoints: [etcd.origin], layout: 'plain', prefix: '/bench' };
  const { port, running } = await serve(bench, 'beside-etcd', registry);
  await answered(port, services - 1, each, MIRROR_MS);
  const kinds = { 'an endpoint comes': [], 'an endpoint goes': [] };
  for (let i = 0; i < options.changes; i++) {
    const [came, went] = [10 + 2 * i, 11 + 2 * i];
    const coming = [() => etcd.put(key(came, each), value(came, each)), each + 1];
    kinds['an endpoint comes'].push(await change(port, coming, came, each, QUIET_MS));
    const going = [() => etcd.delete(key(went, 0)), each - 1];
    kinds['an endpoint goes'].push(await change(port, going, went, each, QUIET_MS));
  }
  await running.stop();
  await etcd.stop();
  return { services, kinds };
}

async function serve(bench, name, registry) {
  const port = await bench.port();
  const config = writeConfig(bench.folder(name), port, '', { zone: { registry } });
  const running = bench.start(process.execPath, serveArguments(config));
  await ask(port, `nobody.${ZONE}`, 'A', { timeout: 30_000 });
  return { port, running };
}

function report(consul, etcd) {
  const show = (times) => `${ms(median(times))} (${ms(Math.max(...times))})`;
  const facts = [
    `${each} endpoints of each service, in Consul on ${NODES} nodes, each with a check; services that nobody asked for before the change, where nothing else is said; then they are asked for until the answer has it`,
    `${options.changes} changes of each kind, each after more than 10 s without one: ms from when the registry has it to the answer, the median and the longest`,
  ];
  const lines = [];
  if (consul.length > 0) {
    const head = ['services in Consul', ...consul.map(({ services }) => count(services))];
    const rows = Object.keys(consul[0].kinds).map((name) => [name, ...consul.map(({ kinds }) => show(kinds[name]))]);
    const floors = FLOOR.map((path) => [`Consul alone: ${path}`, ...consul.map(({ floor }) => show(floor[path]))]);
    lines.push(...table(head, [...rows, ...floors]), '');
  }
  if (etcd !== undefined) {
    const rows = Object.entries(etcd.kinds).map(([name, times]) => [name, show(times)]);
    lines.push(...table(['services in etcd', count(etcd.services)], rows), '');
  }
  for (const { services, kinds } of consul) {
    for (const [name, times] of Object.entries(kinds))
      lines.push(goal(`Consul, ${count(services)} services: ${name}, median, ms`, median(times), MOST_FIRST_MS, ms));
  }
  for (const [name, times] of Object.entries(etcd?.kinds ?? {}))
    lines.push(goal(`etcd, ${count(etcd.services)} services: ${name}, median, ms`, median(times), MOST_FIRST_MS, ms));
  writeSection('registries', 'Changes in real registries', 'npm run bench:registries', facts, lines);
}
