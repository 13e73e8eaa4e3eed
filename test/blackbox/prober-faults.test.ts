/** The real prober while it is stopped, killed, starved, cut off and short of descriptors: no answer loses an endpoint. */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createNetServer } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { StatusDocument } from '../../src/admin/documents.js';
import { handProber } from '../prober-fixture.js';
import { ProberScene } from './prober-scene.js';
import { freePort, Host, until } from './program.js';

t.setTimeout(240_000);

const ENDPOINTS = 60;
const MANY = 200;

/** Endpoints at addresses of loopback that answer HTTP after a while, and a resolver that has heard that all pass. */
async function scene(
  test: Parameters<typeof ProberScene.start>[0],
  check: string,
  answerMs = 0,
  count = ENDPOINTS,
): Promise<ProberScene> {
  const server = createServer((_request, response) => setTimeout(() => response.end('ok'), answerMs));
  server.on('clientError', (_error, socket) => socket.destroy());
  // This process waits for commands now and then: what comes meanwhile must find room.
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4_096 });
  await once(server, 'listening');
  test.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const orders = Array.from({ length: count }, (_, i) => `127.0.1.${i + 1}:${port}`);
  return ProberScene.start(test, { check, services: { orders } });
}

const TCP = '{ type: tcp, interval: 250ms, timeout: 200ms, pinned: true }';

t.test('the prober is stopped, goes on, and is killed', async (t) => {
  const one = await scene(t, TCP);
  const { resolver, prober } = one;
  prober.kill('SIGSTOP');
  await one.meanwhile('silence in the metric', async () => (await one.metric('holdfast_prober_stale')) === 1);
  t.match(one.problems(), /the prober is silent/);
  await resolver.said('prober-stale');
  prober.kill('SIGCONT');
  await one.meanwhile('its word again', async () => (await one.metric('holdfast_prober_stale')) === 0);
  await resolver.said('prober-heard-again');
  t.equal(one.count('prober-stale'), 1, 'one line');
  t.equal(one.count('prober-heard-again'), 1);
  prober.kill('SIGKILL');
  await prober.ended;
  await one.meanwhile('silence again', async () => (await one.metric('holdfast_prober_stale')) === 1);
  await resolver.said('prober-gone');
  t.equal(one.count('prober-gone'), 1, 'one line');
});

t.test('the prober gets next to no time', async (t) => {
  const one = await scene(t, TCP);
  const { prober } = one;
  let starving = true;
  const starve = (async () => {
    while (starving) {
      prober.kill('SIGSTOP');
      await new Promise((done) => setTimeout(done, 1_500));
      prober.kill('SIGCONT');
      await new Promise((done) => setTimeout(done, 100));
    }
  })();
  await one.meanwhile('lateness in the log', () => one.count('prober-late') > 0);
  t.ok((await one.metric('holdfast_prober_late_seconds')) > 0.5, 'in the metric');
  t.match(one.problems(), /the prober is (late|silent)/);
  starving = false;
  await starve;
  await one.meanwhile('its end in the log', () => one.count('prober-late-ended') > 0);
  t.equal(one.count('prober-late'), 1, 'one line');
});

t.test('the prober has hardly any descriptors', async (t) => {
  const slow = '{ type: http, interval: 5s, timeout: 5s, pinned: true }';
  const one = await scene(t, slow, 2_000, MANY);
  const { resolver, prober } = one;
  prober.kill('SIGTERM');
  await prober.ended;
  one.host.probeWith('ulimit -n 120');
  await one.meanwhile('it in the log', () => one.count('prober-short') > 0);
  await one.meanwhile('it in the metric', async () => (await one.metric('holdfast_prober_short')) === 1);
  t.match(one.problems(), /fault of this host \(EMFILE/);
  t.match(
    resolver.events().find(({ event }) => event === 'prober-short'),
    { reason: /EMFILE/ },
  );
  const before = await one.metric('holdfast_probe_results_total{outcome="pass"}');
  await one.meanwhile('probes that have one pass', async () => {
    return (await one.metric('holdfast_probe_results_total{outcome="pass"}')) > before + MANY;
  });
});

t.test('R15: a crowd of TCP probes keeps no descriptors that other probes lack', async (t) => {
  const host = new Host();
  t.teardown(() => host.dispose());
  const server = createServer((_request, response) => setTimeout(() => response.end('ok'), 500));
  server.listen({ port: 0, host: '0.0.0.0', backlog: 4_096 });
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  host.port = await freePort();
  const times = 'interval: 1s, timeout: 1s, pinned: true';
  host.configure(
    [`services: { tcp: { check: { type: tcp, ${times} } }, http: { check: { type: http, ${times} } } }`],
    ['prober: { conntrackShare: 1, budget: 20000 }'],
  );
  const endpoints = (net: number, count: number): string =>
    Array.from({ length: count }, (_, i) => `{ address: 127.0.${net}.${i + 1}, port: ${port} }`).join(', ');
  const tcp = `tcp: { endpoints: [${endpoints(1, MANY)}] }`;
  writeFileSync(host.registry, `services: { ${tcp}, http: { endpoints: [${endpoints(2, 20)}] } }\n`);
  const resolver = await host.serve();
  // So few that a program can hardly start.
  const prober = host.probeWith('ulimit -n 64');
  await prober.said('resolver-connected');
  await until('short of descriptors', async () => {
    // After a pause that is none of the schedule's many are due at once.
    prober.kill('SIGSTOP');
    await new Promise((done) => setTimeout(done, 900));
    prober.kill('SIGCONT');
    await new Promise((done) => setTimeout(done, 1_500));
    return resolver.events().some(({ event }) => event === 'prober-short');
  });
  await until('short no more', () => resolver.events().some(({ event }) => event === 'prober-short-ended'), 60_000);
  t.pass('the others have them');
});

t.test('what should not happen in a probe ends no prober', async (t) => {
  const one = await scene(t, TCP);
  one.prober.kill('SIGTERM');
  await one.prober.ended;
  const fault = join(one.host.folder, 'fault.cjs');
  writeFileSync(fault, "process.on('SIGUSR2', () => { throw new Error('a fault'); });\n");
  const prober = one.host.probeWith(`export NODE_OPTIONS="--require ${fault}"`);
  await prober.said('resolver-connected');
  prober.kill('SIGUSR2');
  await prober.said('internal-error');
  const before = await one.passes();
  await one.meanwhile('probes that go on', async () => (await one.passes()) > before + 2 * ENDPOINTS);
  t.equal(prober.events().filter(({ event }) => event === 'resolver-connected').length, 1, 'the same process');
});

t.test('R36: something else speaks on the socket of the prober', async (t) => {
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  host.configure();
  host.list({});
  const resolver = await host.serve();
  const other = await until('its socket', () => handProber(join(host.folder, 'run', 'prober.sock')));
  other.say('garbage');
  await resolver.said('prober-not-understood');
  const { problems } = host.json<StatusDocument>('status');
  t.match(problems.join('\n'), /not understood, and dropped: a line that is no JSON object from the prober/);
  for (let i = 0; i < 1_000; i++) other.say('more of it');
  other.close();
  await resolver.said('prober-gone');
  t.equal(resolver.events().filter(({ event }) => event === 'prober-not-understood').length, 1, 'one line');
});

const noNetwork =
  spawnSync('unshare', ['-n', 'true']).status !== 0 && 'only root may cut a process off here (unshare -n)';
t.test('the prober is cut off from the network', { skip: noNetwork }, async (t) => {
  const one = await scene(t, TCP);
  const { prober } = one;
  prober.kill('SIGTERM');
  await prober.ended;
  // Sockets in the file system are reached from there, and nothing else.
  const cut = one.host.probeWith('exec unshare -n "$@"');
  await one.meanwhile('it in the log', () => one.count('prober-short') > 0);
  await one.meanwhile('it in the metric', async () => (await one.metric('holdfast_prober_short')) === 1);
  t.match(one.problems(), /fault of this host \(ENETUNREACH, no default route/);
  cut.kill('SIGTERM');
  await cut.ended;
  one.host.probe();
  await one.meanwhile('all is well again', async () => (await one.metric('holdfast_prober_short')) === 0);
  t.equal(one.count('prober-short'), 1, 'one line');
});

t.test('R13: the resolver is late itself: results that wait to be read meanwhile are not too old', async (t) => {
  const host = new Host();
  t.teardown(() => host.dispose());
  const server = createNetServer((socket) => socket.on('error', () => undefined));
  server.listen(0, '127.0.1.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  host.port = await freePort();
  host.configure([`services: { "*": { check: ${TCP} } }`], ['prober: { conntrackShare: 1 }']);
  const endpoints = ['127.0.1.1', '127.0.1.2'].map((address) => `{ address: ${address}, port: ${port} }`);
  writeFileSync(host.registry, `services: { orders: { endpoints: [${endpoints.join(', ')}] } }\n`);
  // Busy for twice as long as a word counts, and no gap of the clock.
  const busy = join(host.folder, 'busy.cjs');
  writeFileSync(
    busy,
    "process.on('SIGUSR2', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500));\n",
  );
  const resolver = await host.serveIn({ env: { NODE_OPTIONS: `--require ${busy}` } });
  host.probe();
  const answered = async (): Promise<number> => (await host.ask('orders')).answers.length;
  await until('the dead one is out', async () => (await answered()) === 1);
  for (let round = 0; round < 3; round++) {
    resolver.kill('SIGUSR2');
    const end = performance.now() + 2_500;
    while (performance.now() < end) {
      const count = await answered();
      if (count !== 1) return t.equal(count, 1, `round ${round + 1}`);
    }
  }
  t.pass('it stayed out');
});
