/** Cases from the field that concern probing, on the real program with a real prober and real endpoints. */
import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { Explanation, StatusDocument } from '../../src/admin/documents.js';
import { askControl } from '../../src/ask/control.js';
import { Backend, freePort, Host, type Process, until } from './program.js';

t.setTimeout(240_000);

type Test = Pick<typeof t, 'teardown'>;
const INTERVAL_MS = 250;

/** A resolver and a prober; `check` is that of the zone. */
async function scene(
  t: Test,
  check: string,
  services: Readonly<Record<string, readonly string[]>>,
  expected = Object.values(services).flat().length,
) {
  const host = new Host();
  host.port = await freePort();
  t.teardown(() => host.dispose());
  configure(host, check);
  list(host, services);
  const resolver = await host.serve();
  const prober = host.probe();
  await until('first verdicts', async () => (await passing(host, Object.keys(services))).length >= expected);
  return { host, resolver, prober };
}

function configure(host: Host, check: string, more: readonly string[] = []): void {
  host.configure([`services: { "*": { check: ${check} } }`, ...more]);
}

/** Endpoints as YAML has them. */
function list(host: Host, services: Readonly<Record<string, readonly string[]>>): void {
  const lines = Object.entries(services).map(
    ([name, endpoints]) => `  ${name}: { endpoints: [${endpoints.join(', ')}] }`,
  );
  writeFileSync(`${host.registry}.new`, `services:\n${lines.join('\n')}\n`);
  renameSync(`${host.registry}.new`, host.registry);
}

/** Without a command: the endpoints are in this process, which must not stand still. */
async function told<T>(host: Host, path: string): Promise<T> {
  const answer = await askControl(join(host.folder, 'run'), path);
  if (answer.kind !== 'answer') throw new Error(answer.error);
  return answer.body as T;
}

async function endpoints(host: Host, name: string): Promise<Explanation['endpoints']> {
  return (await told<Explanation>(host, `/v1/explain?name=${name}.svc.test&type=SRV`)).endpoints;
}

async function passing(host: Host, names: readonly string[]): Promise<string[]> {
  const all = await Promise.all(names.map((name) => endpoints(host, name)));
  return all.flat().flatMap(({ id, probe }) => (probe === 'passes' ? [id] : []));
}

async function backends(t: Test, count: number): Promise<Backend[]> {
  const all = await Promise.all(Array.from({ length: count }, () => new Backend().open()));
  t.teardown(() => Promise.all(all.map((one) => one.close())));
  return all;
}

const at = ({ port }: { port: number }, address = '127.0.0.1'): string => `{ address: "${address}", port: ${port} }`;
const pause = (ms: number) => new Promise((done) => setTimeout(done, ms));
const TCP = `{ type: tcp, interval: ${INTERVAL_MS}ms, timeout: 200ms, pinned: true }`;

/** An HTTP server that says what `say` says. */
async function web(
  t: Test,
  say: () => { status?: number; service?: string },
): Promise<{ server: Server; port: number }> {
  const server = createServer((_request, response) => {
    const { status = 200, service = 'orders' } = say();
    response.setHeader('X-Service', service);
    response.writeHead(status).end();
  });
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, port: (server.address() as AddressInfo).port };
}

t.test('A6: the address of a dead endpoint is another service’s by now, with the registry away', async (t) => {
  let service = 'orders';
  const reused = await web(t, () => ({ service }));
  const ours = await web(t, () => ({}));
  const check = `{ type: http, interval: ${INTERVAL_MS}ms, timeout: 200ms, pinned: true, identityHeader: "X-Service: orders" }`;
  const { host } = await scene(t, check, { orders: [at(reused), at(ours)] });
  t.equal((await host.ports('orders')).length, 2);
  renameSync(host.registry, `${host.registry}.away`);
  service = 'billing';
  await until('ours alone', async () => (await host.ports('orders')).join() === String(ours.port));
  const row = (await endpoints(host, 'orders')).find(({ port }) => port === reused.port);
  t.match(row, { probe: 'fails', answered: false, lastFailure: 'X-Service: billing' });
  ours.server.close();
  ours.server.closeAllConnections();
  await until('our dead one, rather than the other tenant', async () => {
    const ports = await host.ports('orders');
    if (ports.includes(reused.port)) throw new Error('the other tenant is answered');
    return (
      (await endpoints(host, 'orders')).every(({ probe }) => probe === 'fails') && ports.join() === String(ours.port)
    );
  });
});

t.test('A7: a prober that hangs keeps nobody out, and begins anew when it goes on', async (t) => {
  const all = await backends(t, 10);
  const { host, prober } = await scene(t, TCP, { orders: all.map((one) => at(one)) });
  await Promise.all(all.slice(0, 3).map((one) => one.close()));
  await until('7', async () => (await host.ports('orders')).length === 7);
  prober.kill('SIGSTOP');
  await until('10', async () => (await host.ports('orders')).length === 10);
  await until('an alarm', async () =>
    /the prober is silent/.test((await told<StatusDocument>(host, '/v1/status')).problems.join()),
  );
  prober.kill('SIGCONT');
  await until('7 again', async () => (await host.ports('orders')).length === 7);
  const [dead] = (await endpoints(host, 'orders')).filter(({ port }) => port === all[0]!.port);
  t.match(dead, { probe: 'fails', answered: false });
});

/** Connections in TIME_WAIT with one of these ports at either end. */
function timeWait(all: readonly Backend[]): string[] {
  const ports = new Set(all.map(({ port }) => port.toString(16).toUpperCase().padStart(4, '0')));
  return readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .flatMap((line) => {
      const [, local = '', remote = '', state] = line.trim().split(/\s+/);
      return state === '06' && (ports.has(local.slice(-4)) || ports.has(remote.slice(-4)))
        ? [`${local} ${remote}`]
        : [];
    });
}

t.test('A9: 200 reloads, and a thousand probes, leave no descriptor and no TIME_WAIT', async (t) => {
  const all = await backends(t, 20);
  // Of other servers that had one of these ports within the last minute.
  const earlier = timeWait(all);
  const fast = '{ type: tcp, interval: 100ms, timeout: 100ms, pinned: true }';
  const { host, resolver, prober } = await scene(t, fast, { orders: all.map((one) => at(one)) });
  const descriptors = ({ child }: Process) => readdirSync(`/proc/${child.pid}/fd`).length;
  const rounds = async (count: number) => {
    const probed = await endpoints(host, 'orders');
    return probed.every(({ results = [] }) => results.reduce((sum, run) => sum + run.count, 0) >= count);
  };
  await until('a few rounds', () => rounds(5));
  const before = [resolver, prober].map(descriptors);
  for (let i = 0; i < 200; i++) {
    resolver.kill('SIGHUP');
    if (i % 20 === 0) await pause(50);
  }
  configure(host, fast, ['answerTtl: 7s']);
  resolver.kill('SIGHUP');
  await until('the last reload', async () => (await host.ask('orders')).answers.every(({ ttl }) => ttl === 7));
  // Intervals are stretched where the machine is busy.
  await until('a thousand probes', () => rounds(50), 60_000);
  await until('no more than a probe under way has', () =>
    [resolver, prober].map(descriptors).every((now, i) => now <= before[i]! + 20),
  );
  const waiting = timeWait(all).filter((one) => !earlier.includes(one));
  t.same(waiting, [], 'no connection in TIME_WAIT, here or there');
  t.equal((await host.ports('orders')).length, 20);
});

t.test('A11: health is not forgotten when the list or the settings change', async (t) => {
  const all = await backends(t, 6);
  const rows = all.map((one) => at(one));
  const { host, resolver } = await scene(t, TCP, { orders: rows.slice(0, 5) });
  await all[0]!.close();
  const dead = all[0]!.port;
  await until('4', async () => (await host.ports('orders')).length === 4);
  let asking = true;
  let seen = 0;
  const watch = (async () => {
    while (asking) {
      if ((await host.ports('orders')).includes(dead)) seen++;
      await pause(5);
    }
  })();
  list(host, { orders: [...rows].reverse() });
  await until('a sixth', async () => (await host.ports('orders')).length === 5);
  list(host, { orders: rows.slice(1) });
  await until('its leaving', async () => !(await endpoints(host, 'orders')).some(({ port }) => port === dead));
  list(host, { orders: rows.map((row) => row.replace(' }', ', weight: 7 }')) });
  await until('its return', async () => (await endpoints(host, 'orders')).some(({ port }) => port === dead));
  for (const timeout of ['150ms', '200ms', '150ms']) {
    configure(host, TCP.replace('200ms', timeout));
    resolver.kill('SIGHUP');
    await pause(400);
  }
  asking = false;
  await watch;
  t.equal(seen, 0, 'the dead one was never answered');
  t.equal((await host.ports('orders')).length, 5);
});

t.test('A23: two ports of one address are two endpoints and one address', async (t) => {
  const [first, second] = await backends(t, 2);
  const { host } = await scene(t, TCP, { orders: [at(first!), at(second!)] });
  const both = await host.ask('orders');
  t.same([both.answers.length, both.additionals.length, (await host.ask('orders A')).answers.length], [2, 1, 1]);
  await second!.close();
  await until('one', async () => (await host.ports('orders')).join() === String(first!.port));
  t.equal((await host.ask('orders A')).answers.length, 1);
});

t.test('A25: however an IPv6 address is written, it is one endpoint, probed and answered as AAAA', async (t) => {
  const server = createServer((_request, response) => void response.end('ok'));
  const listening = await new Promise<boolean>((done) => {
    server.once('error', () => done(false));
    server.listen(0, '::1', () => done(true));
  });
  if (!listening) {
    t.comment('no IPv6 here');
    return;
  }
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const mapped = await web(t, () => ({}));
  const http = `{ type: http, interval: ${INTERVAL_MS}ms, timeout: 200ms, pinned: true }`;
  const forms = ['::1', '0:0:0:0:0:0:0:1', '0::1'].map((address) => at({ port }, address));
  const { host } = await scene(t, http, { orders: forms, mapped: [at({ port: mapped.port }, '::ffff:127.0.0.1')] }, 2);
  t.equal((await passing(host, ['orders'])).length, 1);
  const { answers, additionals } = await host.ask('orders');
  t.same([answers.length, additionals.map(({ type }) => type)], [1, [28]]);
  t.same([(await host.ask('orders AAAA')).answers.length, (await host.ask('orders A')).answers.length], [1, 0]);
  t.equal((await host.ask('mapped A')).answers.length, 1, 'an IPv4 address in IPv6 clothes is an IPv4 address');
});

t.test('A28: a wave of new endpoints brings no dead one back', async (t) => {
  const all = await backends(t, 25);
  const rows = all.map((one) => at(one));
  const { host, prober } = await scene(t, TCP, { orders: rows.slice(0, 5) });
  await all[0]!.close();
  await until('4', async () => (await host.ports('orders')).length === 4);
  list(host, { orders: rows });
  prober.kill('SIGSTOP');
  await until('24', async () => (await host.ports('orders')).length >= 24);
  t.notOk((await host.ports('orders')).includes(all[0]!.port));
  t.same((await told<StatusDocument>(host, '/v1/status')).zones[0]?.floor, []);
  prober.kill('SIGCONT');
  await until('verdicts on all', async () => (await passing(host, ['orders'])).length === 24);
  t.equal((await host.ports('orders')).length, 24);
});

t.test('A30: an endpoint that fails each third probe is never out', async (t) => {
  let asked = 0;
  const third = await web(t, () => ({ status: ++asked % 3 === 0 ? 500 : 200 }));
  const steady = await web(t, () => ({}));
  const http = `{ type: http, interval: 100ms, timeout: 100ms, pinned: true }`;
  const { host } = await scene(t, http, { orders: [at(third), at(steady)] });
  await until('forty probes', async () => {
    if ((await host.ports('orders')).length !== 2) throw new Error('one is out');
    return asked > 40;
  });
  t.equal((await host.ports('orders')).length, 2);
  t.ok(
    (await endpoints(host, 'orders')).some(({ results }) => (results?.length ?? 0) > 10),
    'explain tells of each',
  );
});
