/** `holdfast/client`: sockets, agents of node:http, reports, and the package as a program gets it. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer, get, request } from 'node:http';
import { get as getSecure } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import t, { type Test } from 'tap';
import { type ClientOptions, connect, ServiceClient, UnreachableError } from '../src/client/index.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { HttpBackend, NameServer } from './client-fixture.js';
import { root } from './root.js';

t.setTimeout(110_000);

async function nameServer(t: Test): Promise<NameServer> {
  const dns = await new NameServer().open();
  t.teardown(() => dns.close());
  return dns;
}

function clientOf(t: Test, dns: NameServer, options: ClientOptions = {}): ServiceClient {
  const client = new ServiceClient({ zone: 'test', nameserver: dns.address, reports: false, ...options });
  t.teardown(() => client.close());
  return client;
}

async function backendOf(t: Test, name: string, options: { tls?: object } = {}): Promise<HttpBackend> {
  const backend = await new HttpBackend(name, options).open();
  t.teardown(() => backend.kill());
  return backend;
}

async function deadPort(): Promise<number> {
  const backend = await new HttpBackend('dead').open();
  await backend.kill();
  return backend.port;
}

t.test('a connection goes to whoever takes it', async (t) => {
  const dns = await nameServer(t);
  const server = createServer((socket) => socket.on('error', () => {}).pipe(socket));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  dns.list('orders.test', [await deadPort(), await deadPort(), port], 60);
  const client = clientOf(t, dns, { attempts: 3 });
  for (let i = 0; i < 5; i++) {
    const socket = await client.connect('orders');
    socket.write('hello');
    t.equal(String((await once(socket, 'data'))[0]), 'hello');
    socket.destroy();
  }
  const { failures, held, tries } = client.status();
  t.equal(failures.refused, held.length);
  t.equal(tries, 5 + held.length, 'who refused is held back');
  await t.rejects(client.connect('nobody'), { code: 'HOLDFAST_NOT_FOUND' });
  await t.rejects(client.connect('orders', { port: 0 }), /port: expected 1 to 65535/);
  await t.rejects(
    client.connect(undefined as unknown as string),
    /name: expected a name such as orders, not undefined/,
  );
  await t.rejects(client.connect(''), /name: expected a name such as orders, not ""/);
  await t.rejects(client.connect('a..b'), {
    code: 'HOLDFAST_NOT_FOUND',
    message: 'a..b: there is no such service: not a name of DNS',
  });
  await t.rejects(client.connect('orders', { signal: AbortSignal.abort(new Error('no')) }), /^Error: no$|no/);
});

t.test('when nobody takes a connection the error lists every try', async (t) => {
  const dns = await nameServer(t);
  dns.list('orders.test', [await deadPort(), await deadPort()], 60);
  const client = clientOf(t, dns, { attempts: 4 });
  const error = await client.connect('orders').catch((error) => error);
  t.ok(error instanceof UnreachableError);
  t.equal((error as UnreachableError).attempts.length, 4);
  dns.records.set('far.test', { srv: [{ port: 1, target: 'far.test' }], addresses: ['192.0.2.1'] });
  dns.mood = 'silent';
  const hasty = clientOf(t, dns, { timeout: 100 });
  await t.rejects(hasty.connect('orders'), { message: 'orders: no connection within 100 ms' });
  const stop = new AbortController();
  const asked = clientOf(t, dns).connect('orders', { signal: stop.signal });
  setTimeout(() => stop.abort(new Error('enough')), 20);
  await t.rejects(asked, /enough/);
});

t.test('a connection that is reset later is a word on its endpoint', async (t) => {
  const dns = await nameServer(t);
  const server = createServer((socket) => socket.on('error', () => {}).once('data', () => socket.resetAndDestroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  dns.list('orders.test', [port], 60);
  const client = clientOf(t, dns);
  const socket = await client.connect('orders');
  socket.write('x');
  socket.on('error', () => {});
  await new Promise((done) => socket.once('close', done));
  t.match(client.status(), { held: [{ endpoint: `127.0.0.1:${port}` }] });
});

t.test('TLS: a handshake that never ends, or is not to be trusted, is one more that failed', async (t) => {
  const dns = await nameServer(t);
  const mute = createServer((socket) => socket.on('error', () => {}));
  const secure = createTlsServer({ key: KEY, cert: CERT }, (socket) => socket.on('error', () => {}).end('welcome'));
  for (const server of [mute, secure]) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.teardown(() => server.close());
  }
  const ports = [mute, secure].map((server) => (server.address() as { port: number }).port);
  const srv = ports.map((port, priority) => ({ port, priority, target: 'local.test' }));
  dns.list('local', []);
  dns.records.set('probe.test', { srv });
  dns.records.set('other.test', { srv: srv.slice(1) });
  const client = clientOf(t, dns, { connectTimeout: 150, tls: { ca: CERT }, attempts: 2 });
  const socket = await client.connect('probe', { tls: true });
  t.equal(String((await once(socket, 'data'))[0]), 'welcome');
  t.match(client.status().failures, { timeout: 1 });
  await t.rejects(client.connect('other', { tls: true }), /other \(ERR_TLS_CERT_ALTNAME_INVALID\)/);
  const named = await client.connect('other', { tls: { servername: 'probe.test' } });
  named.destroy();
  socket.destroy();
});

function read(agent: object, url: string, one: typeof get = get): Promise<string> {
  return new Promise((done, fail) => {
    const sent = one(url, { agent } as object, (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => done(text));
    });
    sent.on('error', fail);
  });
}

t.test('an agent of node:http', async (t) => {
  const dns = await nameServer(t);
  const [a, b] = [await backendOf(t, 'a'), await backendOf(t, 'b')];
  dns.list('orders.test', [await deadPort(), a.port, b.port], 0);
  const client = clientOf(t, dns);
  const agent = client.httpAgent;
  const texts = await Promise.all(Array.from({ length: 40 }, () => read(agent, 'http://orders/')));
  t.same([...new Set(texts)].sort(), ['a', 'b']);
  t.match(client.status(), { failed: 0 });
  const connections = a.connections + b.connections;
  await Promise.all(Array.from({ length: 10 }, () => read(agent, 'http://orders/')));
  t.ok(a.connections + b.connections <= connections, 'connections are kept');
  t.equal(await read(agent, `http://127.0.0.1:${a.port}/`), 'a', 'a host that is no service');
  t.equal(await read(agent, `http://local:${b.port}/`), 'b', 'a port in the URL');

  dns.list('orders.test', [a.port], 0);
  await sleep(600);
  await client.resolve('orders');
  await sleep(100);
  for (let i = 0; i < 10; i++) t.equal(await read(agent, 'http://orders/'), 'a');
  await t.rejects(read(agent, 'http://nobody/'), { code: 'HOLDFAST_NOT_FOUND' });

  a.handle = () => {};
  const slow = request('http://orders/', { agent, timeout: 50 });
  slow.on('error', () => {}).end();
  await once(slow, 'timeout');
  slow.destroy();
  const held = client.status().held.map(({ endpoint }) => endpoint);
  t.ok(held.includes(`127.0.0.1:${a.port}`), 'a time-out is a word on the endpoint');
  await a.kill();
  await sleep(20);
  await t.rejects(read(agent, 'http://orders/'), { code: 'HOLDFAST_UNREACHABLE' });
});

t.test('an agent of node:https', async (t) => {
  const dns = await nameServer(t);
  const secure = await backendOf(t, 'secure', { tls: { key: KEY, cert: CERT } });
  dns.list('probe.test', [await deadPort(), secure.port], 60);
  dns.list('orders.test', [secure.port], 60);
  const client = clientOf(t, dns, { tls: { ca: CERT }, attempts: 4 });
  const one = getSecure as unknown as typeof get;
  for (let i = 0; i < 3; i++) t.equal(await read(client.httpsAgent, 'https://probe/', one), 'secure');
  await t.rejects(read(client.httpsAgent, 'https://orders/', one), /ERR_TLS_CERT_ALTNAME_INVALID/);
  const plain = clientOf(t, dns, { attempts: 2 });
  await t.rejects(read(plain.httpsAgent, 'https://probe/', one), { code: 'HOLDFAST_UNREACHABLE' });
});

t.test('failures are reported to the resolver of the host, and nothing waits for that', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-client-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const bodies: { reports: object[] }[] = [];
  let code = 202;
  const server = createHttpServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    t.equal(`${request.method} ${request.url}`, 'POST /v1/reports');
    bodies.push(JSON.parse(text));
    response.writeHead(code).end('{}');
  });
  const reports = join(folder, 'public.sock');
  const dns = await nameServer(t);
  const dead = [await deadPort(), await deadPort()];
  const alive = await backendOf(t, 'alive');
  const srv = [...dead, alive.port].map((port, i) => ({ port, target: 'local.test', priority: i }));
  dns.list('local', []);
  dns.records.set('orders.test', { ttl: 60, srv });
  const lonely = clientOf(t, dns, { reports });
  t.equal(await (await lonely.fetch('http://orders/')).text(), 'alive', 'nobody is there');
  await sleep(100);

  server.listen(reports);
  await once(server, 'listening');
  t.teardown(() => server.close());
  const client = clientOf(t, dns, { reports, hold: 1 });
  const before = Date.now();
  for (let i = 0; i < 5; i++) await (await client.fetch('http://orders/')).text();
  for (let i = 0; i < 200 && bodies.length === 0; i++) await sleep(10);
  const sent = bodies.flatMap(({ reports }) => reports);
  t.match(
    sent,
    dead.map((port) => ({ service: 'orders.test', address: '127.0.0.1', port, protocol: 'tcp', failure: 'refused' })),
    'once each',
  );
  t.equal(sent.length, 2);
  for (const { at } of sent as { at: number }[]) t.ok(at >= before && at <= Date.now(), `${before} ${at}`);
  code = 429;
  const limited = clientOf(t, dns, { reports, hold: 1 });
  t.equal(await (await limited.fetch('http://orders/')).text(), 'alive');
});

/** Runs a program that has the package; resolves with its exit code and what it wrote. */
async function program(
  t: Test,
  source: string,
  env: NodeJS.ProcessEnv,
): Promise<{ code: number | null; output: string }> {
  const folder = mkdtempSync(join(root, 'build', 'program-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, 'program.mjs'), source);
  const child = spawn(process.execPath, ['--unhandled-rejections=strict', join(folder, 'program.mjs')], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), 15_000);
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const [code] = await once(child, 'close');
  clearTimeout(timer);
  return { code: code as number | null, output };
}

t.test('a program that has used every form ends by itself, without closing anything', async (t) => {
  const dns = await nameServer(t);
  const [alive, dead] = [await backendOf(t, 'alive'), await deadPort()];
  dns.list('orders.test', [dead, alive.port], 60);
  const { code, output } = await program(
    t,
    `
    import { get } from 'node:http';
    import { ServiceClient, connect } from 'holdfast/client';
    const client = new ServiceClient({ zone: 'test', nameserver: process.env.NAMESERVER });
    const { fetch } = client;
    for (let i = 0; i < 3; i++) console.log(await (await fetch('http://orders/')).text());
    await new Promise((done) => get('http://orders/', { agent: client.httpAgent }, (response) => response.resume().on('end', done)));
    (await client.connect('orders')).end();
    const lost = fetch('http://nobody/');
    await lost.catch(({ cause }) => console.log(cause.code));
    client.connect('orders', { signal: AbortSignal.timeout(1) }).then((socket) => socket.destroy(), () => {});
    console.log(typeof connect, JSON.stringify(client.status().failures.refused > 0));
    `,
    { NAMESERVER: dns.address },
  );
  t.equal(code, 0, output);
  t.match(output, /^(alive\n){3}HOLDFAST_NOT_FOUND\nfunction (true|false)\n$/);
  t.type(connect, 'function');
});

t.test('a program that was busy itself blames nobody', async (t) => {
  const dns = await nameServer(t);
  const port = await deadPort();
  const backend = spawn(process.execPath, [join(root, 'dist', 'backend.js'), 'orders', '127.0.0.1', String(port)]);
  t.teardown(() => backend.kill());
  dns.list('orders.test', [port], 60);
  const client = clientOf(t, dns, { hedgeAfter: 200, connectTimeout: 200 });
  for (let answered = false; !answered; await sleep(25)) {
    const asked = client.fetch('http://orders/').then(
      () => true,
      () => false,
    );
    answered = await asked;
  }
  const fresh = clientOf(t, dns, { hedgeAfter: 200, connectTimeout: 200 });
  await fresh.resolve('orders');
  const busy = async (): Promise<void> => {
    // The request is on its way, the answer comes while nobody looks.
    await new Promise((done) => setImmediate(done));
    for (const end = Date.now() + 500; Date.now() < end; );
  };
  for (let i = 0; i < 4; i++) {
    const [response] = await Promise.all([fresh.fetch('http://orders/'), busy()]);
    t.equal(await response.text(), 'this is orders\n');
  }
  t.match(fresh.status(), { tries: 4, hedges: 0, held: [], failures: { timeout: 0 } });
});

t.test('the example of the documents runs', async (t) => {
  const dns = await nameServer(t);
  const alive = await backendOf(t, 'alive');
  dns.list('orders.svc.internal', [await deadPort(), alive.port], 1);
  const child = spawn(process.execPath, [join(root, 'docs', 'examples', 'client.mjs'), dns.address, '1.5']);
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const [code] = await once(child, 'close');
  t.equal(code, 0, output);
  t.match(output, /^asked \d+, lost 0; the last second: \{ alive: \d+ \}/);
});

t.test('the package has the types of what it exports', async (t) => {
  const folder = mkdtempSync(join(root, 'build', 'types-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(folder, { recursive: true });
  t.ok(existsSync(join(root, 'dist', 'types', 'client', 'index.d.ts')));
  writeFileSync(
    join(folder, 'program.ts'),
    `
    import type { Socket } from 'node:net';
    import { request, setGlobalDispatcher } from 'undici';
    import { type ClientOptions, type Endpoint, ServiceClient, UnreachableError, connect } from 'holdfast/client';
    const options: ClientOptions = { zone: 'svc.internal', nameserver: ['127.0.0.1:5300'], tls: { ca: 'x' } };
    const client = new ServiceClient(options);
    export const socket: Promise<Socket> = connect('orders', { tls: true });
    export const endpoints: Promise<readonly Endpoint[]> = client.resolve('orders');
    setGlobalDispatcher(client.dispatcher);
    export const text = (await client.fetch('http://orders/')).text();
    export const { body } = await request('http://orders/', { dispatcher: client.dispatcher });
    export const tried = (error: unknown) => (error instanceof UnreachableError ? error.attempts[0]?.failure : undefined);
    // @ts-expect-error an option that is none
    new ServiceClient({ zon: 'x' });
    `,
  );
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const flags = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--skipLibCheck',
    '--types',
    'node',
  ];
  const run = spawnSync(process.execPath, [compiler, ...flags, join(folder, 'program.ts')], { encoding: 'utf8' });
  t.equal(run.stdout, '');
  t.equal(run.status, 0);
});
