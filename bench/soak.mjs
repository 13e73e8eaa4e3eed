/**
 * `npm run bench:soak`: millions of queries of every kind in minutes, while lists change: does memory
 * stay flat, and the number of descriptors? What is there after a quarter of the time is the measure: until then tables,
 * caches and compiled code grow to their size.
 */

import { createSocket } from 'node:dgram';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ask } from './lib/ask.mjs';
import { DataSet, serviceName, ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { startUpstream } from './lib/line-up.mjs';
import { dnsperf } from './lib/load.mjs';
import { count, median, mib } from './lib/numbers.mjs';
import { RenewedRegistry } from './lib/renewed-registry.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { SERVER_CORE } from './lib/system.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const SERVICES = 2000;
const CHANGED = 20;
const SLICE_SECONDS = 2;
const LIST_MS = 60_000;
const CONNECTIONS = 50;
const REST_MS = 3000;
/** What the heap's own ups and downs may make of it. */
const MOST_GROWTH_MIB = 24;
const MOST_DESCRIPTORS = 8;
/** Foreign names that differ each time, so that the cache turns over. */
const FOREIGN = 200_000;

const options = new Command('bench:soak')
  .description('whether memory and descriptors stay flat under very many queries of every kind')
  .option('--seconds <s>', 'in all', Number, 240)
  .option('--transport <name>', 'batched or portable', 'batched')
  .parse()
  .opts();

await atWorkbench(async (bench) => {
  const data = new DataSet(bench.folder('data'), { services: SERVICES });
  const registry = new RenewedRegistry(data, CHANGED);
  const upstream = await startUpstream(bench, data.zoneFile());
  const port = await bench.port();
  const config = writeConfig(bench.folder('holdfast'), port, registry.path, {
    more: { forward: { upstreams: [`127.0.0.1:${upstream.port}`], cacheSize: '8MiB' } },
  });
  const running = bench.start(process.execPath, serveArguments(config, options.transport), { core: SERVER_CORE });
  const last = Math.floor((SERVICES - 1) / CHANGED) * CHANGED;
  const taken = () =>
    ask(port, `${serviceName(last)}.${ZONE}`, 'SRV', {
      timeout: LIST_MS,
      retry: 100,
      accept: ({ weights }) => weights[0] === registry.weight,
    });
  await taken();
  const kinds = [
    { title: 'hot SRV', file: data.questions('SRV') },
    { title: 'hot A with EDNS', file: data.questions('A'), edns: true },
    { title: 'NXDOMAIN', file: data.absent() },
    { title: 'forwarded, ever new names', file: data.list('foreign', (s) => `n${s}.example A`, FOREIGN), timeout: 1 },
    { title: 'SRV over TCP', file: data.questions('SRV'), tcp: true },
  ].map((kind) => ({ ...kind, answered: 0 }));
  const own = { malformed: 0, connections: 0 };
  registry.start(taken);
  const samples = [];
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  for (let turn = 0; seconds() < options.seconds; turn++) {
    const kind = kinds[turn % kinds.length];
    const result = await dnsperf(port, kind.file, { ...kind, seconds: SLICE_SECONDS, timeout: kind.timeout ?? 1 });
    kind.answered += result.answered;
    if (turn % kinds.length !== kinds.length - 1) continue;
    own.malformed += await malformed(port);
    own.connections += await connections(port);
    await sleep(REST_MS);
    samples.push({ at: seconds(), rss: running.memory().now, descriptors: descriptorsOf(running.pid) });
    const { at, rss, descriptors } = samples.at(-1);
    say(`${at.toFixed(0)} s: ${mib(rss)} MiB, ${descriptors} descriptors`);
  }
  await registry.stop();
  report(kinds, own, registry, samples);
});

function descriptorsOf(pid) {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** Datagrams that are no queries, as fast as they go. */
async function malformed(port) {
  const socket = createSocket('udp4');
  socket.on('error', () => {});
  const sent = 20_000;
  for (let i = 0; i < sent; i++) {
    const bytes = Buffer.alloc(i % 64, i);
    await new Promise((resolve) => socket.send(bytes, port, '127.0.0.1', resolve));
  }
  socket.close();
  return sent;
}

/** Connections that ask, or do not, or break off, and end. */
async function connections(port) {
  // SRV of s0.svc.internal, behind its length.
  const query = Buffer.from('00211234010000010000000000000273300373766308696e7465726e616c0000210001', 'hex');
  for (let i = 0; i < CONNECTIONS; i++) {
    await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => {});
      socket.on('close', resolve);
      socket.on('connect', () => {
        if (i % 3 === 0) socket.write(query.subarray(0, 9));
        if (i % 3 === 1) socket.write(query);
        setTimeout(() => socket.destroy(), 5);
      });
    });
  }
  return CONNECTIONS;
}

function report(kinds, own, registry, samples) {
  const settled = samples.slice(Math.ceil(samples.length / 4));
  const half = settled.length >> 1;
  const middle = (part, key) => median(part.map((sample) => sample[key]));
  const before = settled.slice(0, half);
  const after = settled.slice(half);
  const growth = (middle(after, 'rss') - middle(before, 'rss')) / 2 ** 20;
  const rows = [
    ...kinds.map(({ title, answered }) => [title, count(answered)]),
    ['malformed datagrams', count(own.malformed)],
    ['short TCP connections', count(own.connections)],
    ['lists taken in', count(registry.renewals)],
  ];
  const facts = [
    `${count(SERVICES)} services of 3 endpoints, 1 in ${CHANGED} changes each time, as fast as lists are taken in; ${options.transport} transport`,
    `resident memory of the process after each turn of all kinds and ${REST_MS / 1000} s of rest; from a quarter of the time on, the first half of it beside the second`,
  ];
  writeSection('soak', 'Millions of queries of every kind', 'npm run bench:soak', facts, [
    ...table(['what came', 'how many'], rows),
    '',
    ...table(
      ['at, s', 'MiB resident', 'descriptors'],
      samples.map(({ at, rss, descriptors }) => [at.toFixed(0), mib(rss), descriptors]),
    ),
    '',
    goal('growth of memory from half to half, MiB', growth, MOST_GROWTH_MIB, (value) => value.toFixed(1)),
    goal(
      'descriptors more at the end than after a quarter',
      settled.at(-1).descriptors - settled[0].descriptors,
      MOST_DESCRIPTORS,
      String,
    ),
  ]);
}
