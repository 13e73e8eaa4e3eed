/**
 * `npm run bench:deaths`: how long after its death an endpoint is still answered, and how long after its return it is
 * not yet, with the real programs. Backends are killed, or stand still, at moments that no schedule knows of; so are
 * some that nobody probes at the time, and clients report those.
 */

import { writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command } from 'commander';
import { ZONE } from './lib/data.mjs';
import { serveArguments, writeConfig } from './lib/holdfast.mjs';
import { allPass, metric } from './lib/metrics.mjs';
import { median } from './lib/numbers.mjs';
import { goal, table, writeSection } from './lib/results.mjs';
import { CLIENT_CORE, launcher, load, SERVER_CORE } from './lib/system.mjs';
import { AnswerWatch } from './lib/watch.mjs';
import { atWorkbench, say } from './lib/workbench.mjs';

const INTERVAL_MS = 5_000;
const TIMEOUT_MS = 1_000;
const FALL = 3;
const RISE = 2;
const PLAY = 1.2;
const BEYOND_MS = 200;
const REPORTED_MS = 300;
/** Endpoints of a backend that dies, each of a service of its own beside two of a backend that lives. */
const EACH = 10;
const LOOK_MS = 20;
/** Reports of one user of the host are limited to 20 a second. */
const REPORT_EVERY_MS = 120;

const options = new Command('bench:deaths')
  .description('from the death of an endpoint to its absence from answers, and from its return to its presence')
  .option('--rounds <n>', 'rounds, each with programs of its own', Number, 3)
  .option('--backends <n>', 'that die in each way in a round', Number, 10)
  .parse()
  .opts();

/** Both are 127.X.BACKEND.I; a service is named after it. */
const WAYS = {
  killed: { net: 2, check: 'tcp', leave: (backend) => backend.kill(), comeBack: (backend) => backend.restart() },
  'stands still': {
    net: 3,
    check: 'http',
    leave: (backend) => backend.freeze(),
    comeBack: (backend) => backend.thaw(),
  },
};

/** One that can be started again at its port. */
class Backend {
  constructor(bench, port) {
    this.bench = bench;
    this.port = port;
  }

  async start() {
    this.program = this.bench.start(
      process.execPath,
      [new URL('./inside/backend.mjs', import.meta.url).pathname, String(this.port)],
      {
        core: CLIENT_CORE,
      },
    );
    while (!this.program.output.includes('ready')) {
      if (!this.program.alive) throw new Error(`a backend ended: ${this.program.output}`);
      await sleep(5);
    }
    return this;
  }

  kill = () => this.program.kill();
  restart = () => this.start();
  freeze = async () => this.program.freeze();
  thaw = async () => this.program.thaw();
}

await atWorkbench(async (bench) => {
  const gone = Object.fromEntries(Object.keys(WAYS).map((way) => [way, { down: [], up: [] }]));
  const stretches = [];
  for (let round = 0; round < options.rounds; round++) {
    await deaths(bench, gone, stretches);
    for (const [way, { down, up }] of Object.entries(gone))
      say(`round ${round + 1} of ${options.rounds}, ${way}: ${show(down)} out, ${show(up)} back, load ${load()}`);
  }
  const reported = await reports(bench);
  for (const [how, times] of Object.entries(reported)) say(`reported, ${how}: ${show(times)}`);
  writeReport(gone, reported, Math.max(...stretches));
});

async function startPrograms(bench, services, zone) {
  const folder = bench.folder('holdfast');
  const registry = join(folder, 'services.json');
  writeFileSync(registry, JSON.stringify({ services }));
  const [dns, admin] = [await bench.port(), await bench.port()];
  const config = writeConfig(folder, dns, registry, { zone, more: { admin: `127.0.0.1:${admin}` } });
  const resolver = bench.start(process.execPath, serveArguments(config), { core: SERVER_CORE });
  const prober = bench.start(process.execPath, [launcher, 'probe', '--config', config], { core: SERVER_CORE });
  await allPass(
    admin,
    Object.values(services).reduce((sum, { endpoints }) => sum + endpoints.length, 0),
  );
  return {
    dns,
    admin,
    socket: join(folder, 'run', 'public.sock'),
    stop: () => Promise.all([resolver.stop(), prober.stop()]),
  };
}

/** `EACH` services of the backend, each with two endpoints that live. */
function servicesOf(prefix, net, index, port, living) {
  return Array.from({ length: EACH }, (_, i) => [
    `${prefix}-${index}-${i}`,
    {
      endpoints: [
        { address: `127.${net}.${index}.${i + 1}`, port },
        { address: `127.${net}.${index}.${100 + i}`, port: living },
        { address: `127.${net}.${index}.${200 + i}`, port: living },
      ],
    },
  ]);
}

async function deaths(bench, gone, stretches) {
  const living = await new Backend(bench, await bench.port()).start();
  const dying = [];
  const services = {};
  const checks = {};
  for (const [way, { net, check }] of Object.entries(WAYS)) {
    for (let n = 0; n < options.backends; n++) {
      const backend = await new Backend(bench, await bench.port()).start();
      const own = Object.fromEntries(servicesOf(check, net, n, backend.port, living.port));
      dying.push({ way, backend, names: Object.keys(own).map((name) => `${name}.${ZONE}`) });
      Object.assign(services, own);
    }
    checks[`${check}-*`] = { check: { type: check } };
  }
  const check = { type: 'tcp', interval: `${INTERVAL_MS}ms`, timeout: `${TIMEOUT_MS}ms`, pinned: true };
  const programs = await startPrograms(bench, services, { check, services: checks });
  const watch = new AnswerWatch(programs.dns, LOOK_MS);
  const looks = setInterval(async () => stretches.push(await metric(programs.admin, 'holdfast_prober_stretch')), 1_000);
  // Until each has its phase, and has passed more than once.
  await sleep(2 * INTERVAL_MS);
  await Promise.all(
    dying.map(async ({ way, backend, names }) => {
      await sleep(Math.random() * INTERVAL_MS);
      const { leave, comeBack } = WAYS[way];
      gone[way].down.push(...(await times(watch, names, backend, leave, false)));
      await sleep(Math.random() * INTERVAL_MS);
      gone[way].up.push(...(await times(watch, names, backend, comeBack, true)));
    }),
  );
  clearInterval(looks);
  watch.close();
  await programs.stop();
  await Promise.all([living, ...dying.map(({ backend }) => backend)].map((backend) => backend.kill()));
}

/** Milliseconds from what is done to the backend to what is seen of it. */
async function times(watch, names, backend, act, present) {
  const before = performance.now();
  await act(backend);
  // A death is over at once; one that starts is there when it says so.
  const from = present ? performance.now() : before;
  return Promise.all(names.map(async (name) => (await watch.until(name, backend.port, present)) - from));
}

/** From a report to absence: when the probe that it brings fails, and when none answers in time. */
async function reports(bench) {
  const living = await new Backend(bench, await bench.port()).start();
  const dying = await new Backend(bench, await bench.port()).start();
  const services = {};
  for (let n = 0; n < 2 * options.backends; n++)
    Object.assign(
      services,
      Object.fromEntries(servicesOf(n < options.backends ? 'tcp' : 'http', 4, n, dying.port, living.port)),
    );
  const check = { type: 'tcp', interval: '1h', timeout: `${TIMEOUT_MS}ms`, pinned: true };
  const programs = await startPrograms(bench, services, { check, services: { 'http-*': { check: { type: 'http' } } } });
  const watch = new AnswerWatch(programs.dns, 5);
  const result = {};
  const measure = async (type, attempts) => {
    const times = [];
    for (const [name, { endpoints }] of Object.entries(services)) {
      if (!name.startsWith(type)) continue;
      const [{ address, port }] = endpoints;
      const from = performance.now();
      const absent = watch.until(`${name}.${ZONE}`, port, false);
      const failure = type === 'tcp' ? 'refused' : 'timeout';
      await post(programs.socket, Array(attempts).fill({ address, port, failure }));
      times.push((await absent) - from);
      await sleep(REPORT_EVERY_MS * attempts);
    }
    return times;
  };
  dying.freeze();
  result['two attempts that timed out, and a probe that has no answer yet'] = await measure('http', 2);
  await dying.kill();
  result['one attempt, and a probe that fails, too'] = await measure('tcp', 1);
  watch.close();
  await programs.stop();
  await living.kill();
  return result;
}

function post(socketPath, reports) {
  const text = JSON.stringify({ reports });
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) };
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, path: '/v1/reports', method: 'POST', headers }, (response) => {
      response.resume();
      response.on('end', () =>
        response.statusCode === 202 ? resolve() : reject(new Error(`a report was answered ${response.statusCode}`)),
      );
    });
    asked.on('error', reject);
    asked.end(text);
  });
}

function show(times) {
  return `median ${seconds(median(times))}, worst ${seconds(Math.max(...times))} of ${times.length}`;
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(2)} s`;
}

function writeReport(gone, reported, stretch) {
  const downBound = FALL * INTERVAL_MS * PLAY + TIMEOUT_MS + BEYOND_MS;
  const upBound = RISE * INTERVAL_MS * PLAY;
  const events = [];
  for (const [way, { down, up }] of Object.entries(gone)) {
    const back = way === 'killed' ? 'started again' : 'goes on';
    events.push([`${way}, seen by ${WAYS[way].check}, to its absence`, down, downBound]);
    events.push([`${back}, seen by ${WAYS[way].check}, to its presence`, up, upBound]);
  }
  for (const [how, times] of Object.entries(reported))
    events.push([`reported (${how}), to its absence`, times, REPORTED_MS]);
  const rows = events.map(([what, times, bound]) => [
    what,
    String(times.length),
    seconds(Math.min(...times)),
    seconds(median(times)),
    seconds(Math.max(...times)),
    seconds(bound),
  ]);
  const facts = [
    `the resolver and the prober on core 0, the backends and whoever asks on core 1; interval ${INTERVAL_MS / 1000} s, timeout ${TIMEOUT_MS / 1000} s, fall ${FALL}, rise ${RISE}, as is usual; each service has two more endpoints, which live`,
    `every service is asked for each ${LOOK_MS} ms, each 5 ms after a report`,
    `intervals are at most ${stretch.toFixed(2)} times what is set: what holds no more probes stretches them (R17)`,
    `bounds: fall x interval x ${PLAY} + timeout + ${BEYOND_MS} ms, rise x interval x ${PLAY}, and ${REPORTED_MS} ms`,
  ];
  writeSection('deaths', 'From an endpoint’s death to its absence', 'npm run bench:deaths', facts, [
    ...table(['an endpoint', 'samples', 'least', 'median', 'worst', 'bound'], rows),
    '',
    ...events.map(([what, times, bound]) => goal(what, Math.max(...times), bound, seconds)),
  ]);
}
