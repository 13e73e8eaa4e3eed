/** The real prober while it is stopped, killed, starved, cut off and short of descriptors: no answer loses an endpoint. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createServer, get, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { StatusDocument } from '../../src/admin/documents.js';
import { freePort, Host, type Process, until } from './program.js';

t.setTimeout(240_000);

type Test = Pick<typeof t, 'teardown'>;

const ENDPOINTS = 60;
const MANY = 200;

/** Endpoints at addresses of loopback that answer HTTP after a while, and a resolver that has heard that all pass. */
async function scene(t: Test, check: string, answerMs = 0, endpointCount = ENDPOINTS) {
  const one = new Host();
  const server: Server = createServer((_request, response) => setTimeout(() => response.end('ok'), answerMs));
  server.on('clientError', (_error, socket) => socket.destroy());
  server.listen(0, '0.0.0.0');
  const admin = await freePort();
  t.teardown(async () => {
    await one.dispose();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  one.port = await freePort();
  one.configure([`services: { "*": { check: ${check} } }`], [`admin: "127.0.0.1:${admin}"`]);
  const endpoints = Array.from({ length: endpointCount }, (_, i) => `{ address: 127.0.1.${i + 1}, port: ${port} }`);
  writeFileSync(one.registry, `services:\n  orders:\n    endpoints: [${endpoints.join(', ')}]\n`);
  const resolver = await one.serve();
  const first = one.probe();
  await until(
    'first verdicts',
    async () => (await metric(admin, 'holdfast_probe_results_total{outcome="pass"}')) >= endpointCount,
  );
  return { host: one, resolver, prober: first, admin };
}

function metric(admin: number, name: string): Promise<number> {
  return new Promise((done, fail) => {
    get({ host: '127.0.0.1', port: admin, path: '/metrics' }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (data) => (text += data));
      response.on('end', () => {
        const line = text.split('\n').find((one) => one.startsWith(name));
        done(line === undefined ? Number.NaN : Number(line.split(' ').at(-1)));
      });
    }).on('error', fail);
  });
}

/** Waits for something, and sees to it that all endpoints are answered as long as that takes. */
async function meanwhile(
  one: Host,
  what: string,
  look: () => Promise<boolean> | boolean,
  endpointCount = ENDPOINTS,
): Promise<void> {
  await until(what, async () => {
    const { answers } = await one.ask('orders +tcp');
    if (answers.length !== endpointCount) throw new Error(`${answers.length} of ${endpointCount} are answered`);
    return look();
  });
  const { answers } = await one.ask('orders +tcp');
  if (answers.length !== endpointCount) throw new Error(`${answers.length} of ${endpointCount} are answered`);
}

function count(resolver: Process, event: string): number {
  return resolver.events().filter((line) => line.event === event).length;
}

const TCP = '{ type: tcp, interval: 250ms, timeout: 200ms, pinned: true }';

t.test('the prober is stopped, goes on, and is killed', async (t) => {
  const { host: one, resolver, prober, admin } = await scene(t, TCP);
  prober.kill('SIGSTOP');
  await meanwhile(one, 'silence in the metric', async () => (await metric(admin, 'holdfast_prober_stale')) === 1);
  t.match(one.json<StatusDocument>('status').problems.join(), /the prober is silent/);
  await resolver.said('prober-stale');
  prober.kill('SIGCONT');
  await meanwhile(one, 'its word again', async () => (await metric(admin, 'holdfast_prober_stale')) === 0);
  await resolver.said('prober-heard-again');
  t.equal(count(resolver, 'prober-stale'), 1, 'one line');
  t.equal(count(resolver, 'prober-heard-again'), 1);
  prober.kill('SIGKILL');
  await prober.ended;
  await meanwhile(one, 'silence again', async () => (await metric(admin, 'holdfast_prober_stale')) === 1);
  await resolver.said('prober-gone');
  t.equal(count(resolver, 'prober-gone'), 1, 'one line');
});

t.test('the prober gets next to no time', async (t) => {
  const { host: one, resolver, prober, admin } = await scene(t, TCP);
  let starving = true;
  const starve = (async () => {
    while (starving) {
      prober.kill('SIGSTOP');
      await new Promise((done) => setTimeout(done, 1_500));
      prober.kill('SIGCONT');
      await new Promise((done) => setTimeout(done, 100));
    }
  })();
  await meanwhile(one, 'lateness in the log', () => count(resolver, 'prober-late') > 0);
  t.ok((await metric(admin, 'holdfast_prober_late_seconds')) > 0.5, 'in the metric');
  t.match(one.json<StatusDocument>('status').problems.join(), /the prober is (late|silent)/);
  starving = false;
  await starve;
  await meanwhile(one, 'its end in the log', () => count(resolver, 'prober-late-ended') > 0);
  t.equal(count(resolver, 'prober-late'), 1, 'one line');
});

t.test('the prober has hardly any descriptors', async (t) => {
  const slow = '{ type: http, interval: 5s, timeout: 5s, pinned: true }';
  const { host: one, resolver, prober, admin } = await scene(t, slow, 2_000, MANY);
  prober.kill('SIGTERM');
  await prober.ended;
  one.probeWith('ulimit -n 120');
  await meanwhile(one, 'it in the log', () => count(resolver, 'prober-short') > 0, MANY);
  await meanwhile(one, 'it in the metric', async () => (await metric(admin, 'holdfast_prober_short')) === 1, MANY);
  t.match(one.json<StatusDocument>('status').problems.join(), /fault of this host \(EMFILE/);
  t.match(
    resolver.events().find(({ event }) => event === 'prober-short'),
    { reason: /EMFILE/ },
  );
  const before = await metric(admin, 'holdfast_probe_results_total{outcome="pass"}');
  await meanwhile(
    one,
    'probes that have one pass',
    async () => {
      return (await metric(admin, 'holdfast_probe_results_total{outcome="pass"}')) > before + MANY;
    },
    MANY,
  );
});

const noNetwork =
  spawnSync('unshare', ['-n', 'true']).status !== 0 && 'only root may cut a process off here (unshare -n)';
t.test('the prober is cut off from the network', { skip: noNetwork }, async (t) => {
  const { host: one, resolver, prober, admin } = await scene(t, TCP);
  prober.kill('SIGTERM');
  await prober.ended;
  // Sockets in the file system are reached from there, and nothing else.
  const cut = one.probeWith('exec unshare -n "$@"');
  await meanwhile(one, 'it in the log', () => count(resolver, 'prober-short') > 0);
  await meanwhile(one, 'it in the metric', async () => (await metric(admin, 'holdfast_prober_short')) === 1);
  t.match(one.json<StatusDocument>('status').problems.join(), /fault of this host \(ENETUNREACH, no default route/);
  cut.kill('SIGTERM');
  await cut.ended;
  one.probe();
  await meanwhile(one, 'all is well again', async () => (await metric(admin, 'holdfast_prober_short')) === 0);
  t.equal(count(resolver, 'prober-short'), 1, 'one line');
});
