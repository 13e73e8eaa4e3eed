/** `npm run bench:probe-types`: what a probe of each type costs the prober in CPU and memory. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { allPass, proberReadings } from './lib/metrics.mjs';
import { count, mib } from './lib/numbers.mjs';
import { table, writeSection } from './lib/results.mjs';
import { CLIENT_CORE, launcher, load, SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const SERVICES = 40;
const SETTLE_MS = 5_000;
/** Of fewer endpoints the memory is noise. */
const LEAST_FOR_MEMORY = 500;
/** Each of their endpoints is a socket of the server. */
const UDP_SHARE = 0.25;

const options = new Command('bench:probe-types')
  .description('CPU and memory of a probe of each type')
  .option('--endpoints <n>', 'endpoints of one type at a time', Number, 4_000)
  .option('--rate <n>', 'probes a second', Number, 1_000)
  .option('--seconds <s>', 'of each type', Number, 8)
  .parse()
  .opts();

/** What is asked, of which of the servers; `share`: of the endpoints, and so of the rate, where a probe takes much. */
const TYPES = {
  tcp: { server: 'http', check: { type: 'tcp' } },
  http: { server: 'http', check: { type: 'http' } },
  grpc: { server: 'grpc', check: { type: 'grpc' } },
  udp: { server: 'udp', protocol: 'udp', check: { type: 'udp', send: 'ping', expect: 'pong' }, share: UDP_SHARE },
  dns: {
    server: 'dns',
    protocol: 'udp',
    check: { type: 'dns', query: 'bench.test', queryType: 'A' },
    share: UDP_SHARE,
  },
  tls: { server: 'https', check: { type: 'tls', tlsName: 'bench.test' }, share: 0.2 },
  https: { server: 'https', check: { type: 'https', tlsName: 'bench.test' }, share: 0.2 },
  exec: { server: 'http', check: { type: 'exec', command: ['/bin/true'] }, share: 0.04 },
};

await atWorkbench(async (bench) => {
  const folder = bench.folder('servers');
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const subject = ['-subj', '/CN=bench.test', '-addext', 'subjectAltName=DNS:bench.test', '-days', '3650'];
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  execFileSync('openssl', ['req', '-x509', ...curve, '-keyout', key, '-out', cert, ...subject], { stdio: 'ignore' });
  const ports = {};
  for (const name of ['http', 'https', 'grpc', 'dns', 'udp']) ports[name] = await bench.port();
  const inside = new URL('./inside/all-types.mjs', import.meta.url).pathname;
  const servers = bench.start(
    process.execPath,
    [inside, key, cert, SERVICES, (options.endpoints * UDP_SHARE) / SERVICES, ...Object.values(ports)].map(String),
    {
      core: CLIENT_CORE,
    },
  );
  while (!servers.output.includes('ready')) {
    if (!servers.alive) throw new Error(`the servers ended: ${servers.output}`);
    await sleep(20);
  }
  const idle = await measure(bench, undefined, ports);
  const rows = [];
  for (const [name, type] of Object.entries(TYPES)) {
    const result = await measure(bench, type, ports);
    say(`${name}: ${JSON.stringify(result)}, load ${load()}`);
    const each = (result.memory - idle.memory) / result.endpoints / 1024;
    rows.push([
      name,
      result.rate.toFixed(0),
      result.us.toFixed(0),
      mib(result.memory),
      count(result.endpoints),
      result.endpoints < LEAST_FOR_MEMORY ? '-' : each.toFixed(1),
      count(result.failures),
    ]);
  }
  const { endpoints, rate, seconds } = options;
  const facts = [
    `${count(endpoints)} endpoints, a probe of each ${endpoints / rate} s, ${seconds} s a type; fewer endpoints where a probe takes much; the prober and the resolver on core 0, the servers on core 1`,
    'CPU of the prober and of its children, by the kernel, both ends of the work in the kernel included, since it is one host; TLS is a full handshake with an EC key; exec is /bin/true',
    `a prober without endpoints takes ${mib(idle.memory)} MiB; what an endpoint takes is the growth over that, garbage that is not collected yet included`,
  ];
  const head = ['type', 'probes/s', 'CPU µs a probe', 'MiB', 'endpoints', 'KiB an endpoint', 'failures'];
  writeSection('types', 'A probe of each type', 'npm run bench:probe-types', facts, table(head, rows));
});

async function measure(bench, type, ports) {
  const { share = 1, server, check, protocol } = type ?? { share: 0 };
  const endpoints = Math.round(options.endpoints * share);
  const folder = bench.folder('holdfast');
  const registry = join(folder, 'services.json');
  const each = endpoints / SERVICES;
  const services = Array.from({ length: SERVICES }, (_, s) => [
    `s${s}`,
    {
      endpoints: Array.from({ length: each }, (_, i) => ({
        address: `127.1.${s}.${i + 1}`,
        port: ports[server],
        protocol,
      })),
    },
  ]);
  writeFileSync(registry, JSON.stringify({ services: Object.fromEntries(services) }));
  const [dns, admin] = [await bench.port(), await bench.port()];
  const interval = `${(options.endpoints / options.rate) * 1000}ms`;
  const config = writeConfig(folder, dns, registry, {
    zone: {
      check: { type: 'none' },
      services: { '*': { check: { ...check, interval, timeout: '1s', pinned: true } } },
    },
    more: { admin: `127.0.0.1:${admin}`, prober: { budget: 2 * options.rate, conntrackShare: 1 } },
  });
  const resolver = bench.start(process.execPath, serveArguments(config), { core: SERVER_CORE });
  const prober = bench.start(process.execPath, [launcher, 'probe', '--config', config], { core: SERVER_CORE });
  await (endpoints === 0 ? sleep(3_000) : allPass(admin, endpoints));
  await sleep(SETTLE_MS);
  const before = await proberReadings(admin, prober);
  await sleep(endpoints === 0 ? 0 : options.seconds * 1000);
  const after = await proberReadings(admin, prober);
  const { now } = prober.memory();
  await Promise.all([prober.stop(), resolver.stop()]);
  const results = after.results - before.results;
  return {
    endpoints,
    rate: results / ((after.at - before.at) / 1000),
    us: ((after.cpu - before.cpu) / results) * 1e6,
    memory: now,
    failures: after.failures,
  };
}
