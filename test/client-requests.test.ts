/** `holdfast/client` over real sockets: its dispatcher, among backends and name servers that fail. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Agent, getGlobalDispatcher, request, setGlobalDispatcher, fetch as undiciFetch } from 'undici';
import { type ClientOptions, ServiceClient, UnreachableError } from '../src/client/index.js';
import { until } from './blackbox/program.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { HttpBackend, NameServer } from './client-fixture.js';

t.setTimeout(110_000);

interface Stage {
  readonly dns: NameServer;
  readonly client: ServiceClient;
  readonly backends: HttpBackend[];
}

/** A name server, `count` backends of `orders.test`, and a client of the zone. */
async function stage(t: Test, count: number, options: ClientOptions = {}, ttl = 60): Promise<Stage> {
  const dns = await new NameServer().open();
  const backends: HttpBackend[] = [];
  for (let i = 0; i < count; i++) backends.push(await new HttpBackend(`orders-${i}`).open());
  const ports = backends.map(({ port }) => port);
  dns.list('orders.test', ports, ttl);
  const client = new ServiceClient({ zone: 'test', nameserver: dns.address, reports: false, ...options });
  t.teardown(async () => {
    await client.close();
    for (const backend of backends) await backend.kill();
    await dns.close();
  });
  return { dns, client, backends };
}

/** By the fetch of this Node. */
async function ask(client: ServiceClient, init: RequestInit = {}, path = '/'): Promise<string> {
  return (await client.fetch(`http://orders${path}`, init)).text();
}

/** What a fetch failed with. */
async function failure(work: Promise<unknown>): Promise<Error & { cause?: unknown }> {
  try {
    await work;
  } catch (error) {
    const { cause } = error as Error;
    return (error instanceof TypeError && cause instanceof Error ? cause : error) as Error;
  }
  throw new Error('it did not fail');
}

/** Something that takes connections and does with them as it is told. */
async function rawServer(t: Test, serve: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    serve(socket);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as { port: number }).port;
}

/** A port where nobody listens. */
async function deadPort(): Promise<number> {
  const backend = await new HttpBackend('dead').open();
  await backend.kill();
  return backend.port;
}

t.test('requests are shared by weight, over connections that are kept', async (t) => {
  const { dns, client, backends } = await stage(t, 2);
  const [a, b] = backends as [HttpBackend, HttpBackend];
  const srv = [
    { port: a.port, target: 'local.test', weight: 3 },
    { port: b.port, target: 'local.test', weight: 1 },
  ];
  dns.records.set('orders.test', { ttl: 60, srv });
  for (let i = 0; i < 200; i++) await ask(client);
  t.ok(a.requests.length > 1.8 * b.requests.length, `${a.requests.length} and ${b.requests.length}`);
  t.equal(client.status().connections, 2);
  t.same([a.connections, b.connections], [1, 1]);
  t.equal(dns.count('orders.test SRV udp'), 1);
  t.match(client.status(), { requests: 200, tries: 200, hedges: 0, failed: 0, held: [] });
});

t.test('every form of a request comes through as it is', async (t) => {
  const { client, backends } = await stage(t, 1);
  const dispatcher = client.dispatcher;
  const last = () => backends[0]!.requests.at(-1);
  const response = await undiciFetch('http://orders.test/a?b=1', { dispatcher, method: 'PUT', body: 'text' });
  t.equal(response.headers.get('x-host'), 'orders.test', 'the host of the URL');
  t.equal(await response.text(), 'orders-0');
  t.equal(last(), 'PUT /a?b=1 text');
  t.equal(await ask(client, { method: 'POST', body: 'from fetch' }), 'orders-0');
  t.equal(last(), 'POST / from fetch');
  const { body } = await request('http://orders', { dispatcher, method: 'POST', body: Readable.from(['a', 'b', 'c']) });
  await body.text();
  t.equal(last(), 'POST / abc');
  const put = await request('http://orders', { dispatcher, method: 'PUT', body: Readable.from(['d', 'e']) });
  await put.body.text();
  t.equal(last(), 'PUT / de');
  const form = new FormData();
  form.set('field', 'value');
  await ask(client, { method: 'POST', body: form });
  t.match(last(), /name="field"\r\n\r\nvalue/);
  t.equal((await client.fetch('http://orders/', { method: 'HEAD' })).status, 200);
});

t.test('a refused connection is no failed request, whatever the method', async (t) => {
  const { dns, client, backends } = await stage(t, 2);
  const dead = await Promise.all([deadPort(), deadPort(), deadPort()]);
  dns.list('orders.test', [...dead, ...backends.map(({ port }) => port)], 60);
  for (let i = 0; i < 30; i++) await ask(client, { method: 'POST', body: `number ${i}` });
  const all = backends.flatMap(({ requests }) => requests);
  t.equal(new Set(all).size, 30, 'each of them came through');
  t.equal(all.length, 30, 'once');
  const { failures, failed, held } = client.status();
  t.equal(failures.refused, held.length, 'what failed once is held back');
  t.equal(failed, 0);
});

t.test('a connection that was kept alive and reset: what may be repeated is', async (t) => {
  const { client, backends } = await stage(t, 1);
  const [backend] = backends as [HttpBackend];
  await ask(client);
  let hits = 0;
  backend.handle = (request, response) => {
    hits++;
    if (hits === 1) request.socket.resetAndDestroy();
    else response.end('the second time');
  };
  t.equal(await ask(client), 'the second time', 'by the same endpoint, which is well');
  t.same(client.status().held, [], 'and is not held back');
  hits = 0;
  const error = await failure(ask(client, { method: 'POST', body: 'pay' }));
  t.equal(hits, 1, 'a POST was sent once');
  t.ok(error instanceof UnreachableError);
  t.match(error, {
    code: 'HOLDFAST_UNREACHABLE',
    service: 'orders.test',
    message: /it was sent, and may not be sent again: 127\.0\.0\.1:\d+ reset/,
    attempts: [{ address: '127.0.0.1', port: backend.port, failure: 'reset' }],
  });
});

t.test('one that is new and reset: the endpoint is left, what may be repeated goes elsewhere', async (t) => {
  const { dns, client, backends } = await stage(t, 1, { maxReplay: 1_000 });
  let hits = 0;
  const port = await rawServer(t, (socket) => {
    socket.on('data', (data) => {
      if (!data.toString().includes('end of it')) return;
      hits++;
      socket.resetAndDestroy();
    });
  });
  const broken = { port, target: 'local.test', priority: 0 };
  const good = { port: backends[0]!.port, target: 'local.test', priority: 10 };
  const fresh = () => new ServiceClient({ zone: 'test', nameserver: dns.address, reports: false, maxReplay: 1_000 });
  dns.records.set('orders.test', { ttl: 60, srv: [broken, good] });
  t.equal(
    await ask(client, { method: 'PUT', body: 'this is the end of it' }),
    'orders-0',
    'the body of fetch is a stream',
  );
  t.equal(hits, 1);
  t.equal(backends[0]!.requests.at(-1), 'PUT / this is the end of it');
  t.match(client.status(), { held: [{ endpoint: `127.0.0.1:${port}` }] });
  t.equal(await ask(client, { method: 'POST', body: 'the end of it' }), 'orders-0', 'who is held back is not asked');
  t.equal(hits, 1);

  const other = fresh();
  const stream = await request('http://orders', {
    ...{ dispatcher: other.dispatcher, method: 'PUT' },
    body: Readable.from(['a stream ', 'and the end of it']),
  });
  t.equal(await stream.body.text(), 'orders-0', 'a stream that was kept');
  await other.close();

  const third = fresh();
  const chunks = ['x'.repeat(2_000), 'y'.repeat(2_000), 'end of it'];
  const long = Readable.from(chunks);
  const error = await failure(request('http://orders', { dispatcher: third.dispatcher, method: 'PUT', body: long }));
  t.match(error, { code: 'HOLDFAST_UNREACHABLE' }, 'one that was too long to keep');
  t.ok(long.destroyed, 'is not left open');
  t.equal(backends[0]!.requests.length, 3);
  await third.close();
});

t.test('a response that has begun is never asked for again', async (t) => {
  const { dns, client, backends } = await stage(t, 1);
  const port = await rawServer(t, (socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf');
      setTimeout(() => socket.resetAndDestroy(), 20);
    });
  });
  const srv = [
    { port, target: 'local.test', priority: 0 },
    { port: backends[0]!.port, target: 'local.test', priority: 10 },
  ];
  dns.records.set('orders.test', { ttl: 60, srv });
  const response = await client.fetch('http://orders');
  t.equal(response.status, 200);
  await t.rejects(response.text(), /terminated/);
  t.same(backends[0]!.requests, [], 'nobody else was asked');
  t.match(client.status(), { failed: 1, held: [{ endpoint: `127.0.0.1:${port}` }] });
  t.equal(await ask(client), 'orders-0', 'the next request goes elsewhere');
});

t.test('whoever accepts and says nothing costs a moment, and is left', async (t) => {
  const { dns, client, backends } = await stage(t, 2, { hedgeAfter: 100, timeout: 1_500 });
  const taken = new Set<Socket>();
  let accepted = 0;
  const port = await rawServer(t, (socket) => {
    accepted++;
    taken.add(socket);
    socket.on('close', () => taken.delete(socket));
    socket.resume();
  });
  const srv = [
    { port, target: 'local.test', priority: 0 },
    ...backends.map(({ port }) => ({ port, target: 'local.test', priority: 10 })),
  ];
  dns.records.set('orders.test', { ttl: 60, srv });
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(client)));
  t.ok(
    answers.every((text) => text.startsWith('orders-')),
    'all are answered by others',
  );
  t.ok(client.status().hedges >= 20);
  t.equal(client.status().failed, 0);
  t.ok(
    client.status().held.some(({ endpoint }) => endpoint === `127.0.0.1:${port}`),
    'it is held back',
  );
  await sleep(50);
  t.equal(taken.size, 0, 'connections that were left are closed');
  const before = accepted;
  t.ok((await ask(client)).startsWith('orders-'));
  t.equal(accepted, before, 'it is not asked any more');

  const other = new ServiceClient({
    zone: 'test',
    nameserver: dns.address,
    reports: false,
    hedgeAfter: 100,
    timeout: 500,
  });
  const posts = await Promise.all([1, 2].map((i) => failure(ask(other, { method: 'POST', body: `pay ${i}` }))));
  for (const error of posts) {
    t.match(
      error,
      { message: /orders\.test: no answer within 500 ms: 127\.0\.0\.1:\d+ timeout/ },
      'a POST is not sent again',
    );
  }
  t.match(await ask(other, { method: 'POST', body: 'pay 3' }), /orders-/, 'but the next one goes elsewhere');
  await other.close();
});

t.test('one that alone is silent is left by all who wait for it, however many', async (t) => {
  const { dns, client, backends } = await stage(t, 1, { hedgeAfter: 300 });
  const port = await rawServer(t, (socket) => socket.resume());
  const srv = [
    { port, target: 'local.test', weight: 3 },
    { port: backends[0]!.port, target: 'local.test', weight: 1 },
  ];
  dns.records.set('orders.test', { ttl: 60, srv });
  const answers = await Promise.all(Array.from({ length: 300 }, () => ask(client)));
  t.ok(answers.every((text) => text === 'orders-0'));
  const { hedges, failed } = client.status();
  t.ok(hedges > 150, `${hedges} second copies`);
  t.equal(failed, 0);
});

t.test('a slow answer is taken when nobody is faster, and a slow endpoint is not a dead one', async (t) => {
  const { client, backends } = await stage(t, 2, { hedgeAfter: 50 });
  let asked = 0;
  let left = 0;
  for (const backend of backends) {
    backend.handle = (request, response) => {
      const first = asked++ === 0;
      request.socket.once('close', () => left++);
      setTimeout(() => response.end(backend.name), first ? 80 : 5_000).unref();
    };
  }
  t.match(await ask(client), /orders-/);
  t.equal(asked, 2, 'it was asked of two');
  t.match(client.status(), { hedges: 1, failed: 0 });
  await until('the other one is left', () => left === 1);
  t.equal(client.status().held.length, 0, 'and neither is held back: the loser had no time');
});

t.test('when all are dead the error says so, soon, and lists every try', async (t) => {
  const { client, backends } = await stage(t, 3, { attempts: 5 });
  for (const backend of backends) await backend.kill();
  const error = await failure(ask(client));
  t.ok(error instanceof UnreachableError);
  const { attempts, message } = error as UnreachableError;
  t.equal(attempts.length, 5);
  t.equal(new Set(attempts.map(({ port }) => port)).size, 3, 'each of them, and some again');
  t.match(message, /^orders\.test: every try failed: (127\.0\.0\.1:\d+ refused \(ECONNREFUSED\)(; )?){5}$/);
  await backends[1]!.open();
  t.equal(await ask(client), 'orders-1', 'one that is back is found, held back or not');
});

t.test('a single endpoint that starts again is waited for', async (t) => {
  const { client, backends } = await stage(t, 1);
  await ask(client);
  await backends[0]!.kill();
  await sleep(20);
  const asked = ask(client);
  await sleep(150);
  await backends[0]!.open();
  t.equal(await asked, 'orders-0');
});

t.test('no request is lost while two of six are killed under load', async (t) => {
  const { client, backends } = await stage(t, 6);
  let killed: Promise<unknown> | undefined;
  const work = async (worker: number): Promise<string[]> => {
    const seen: string[] = [];
    for (let i = 0; i < 20; i++) {
      if (worker === 0 && i === 5) killed = Promise.all([backends[0]!.kill(), backends[1]!.kill()]);
      seen.push(await ask(client));
    }
    return seen;
  };
  const seen = (await Promise.all(Array.from({ length: 20 }, (_, i) => work(i)))).flat();
  await killed;
  t.equal(seen.filter((text) => /^orders-\d$/.test(text)).length, 400);
  t.match(client.status(), { requests: 400, failed: 0 });
});

t.test('what is wrong with the request itself, or its body, is told as it is, and blames nobody', async (t) => {
  const { client, backends } = await stage(t, 2);
  const { dispatcher } = client;
  const wrong = { 'content-length': '3' };
  await t.rejects(request('http://orders', { dispatcher, method: 'PUT', body: 'longer', headers: wrong }), {
    code: 'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  });
  await t.rejects(request('http://orders', { dispatcher, headers: { 'x-bad': 'a\r\nb' } }), {
    code: 'UND_ERR_INVALID_ARG',
  });
  const broken = Readable.from(
    (async function* () {
      yield 'a part';
      throw new Error('the disk is gone');
    })(),
  );
  await t.rejects(request('http://orders', { dispatcher, method: 'PUT', body: broken }), /the disk is gone/);
  for (const backend of backends) backend.handle = (_, response) => response.socket!.end('no HTTP at all\r\n\r\n');
  await t.rejects(request('http://orders', { dispatcher }), { name: 'HTTPParserError' });
  t.match(client.status(), { held: [], failures: { other: 0, reset: 0 } });
  t.same(
    backends.map(({ requests }) => requests.length),
    [0, 0],
  );
});

t.test('a program that gives up is obeyed at once, at every stage', async (t) => {
  const { dns, client, backends } = await stage(t, 1, { hedgeAfter: 0 });
  const gone = { name: 'AbortError' };
  const after = (ms: number) => ({ signal: AbortSignal.any([AbortSignal.timeout(10_000), abortAfter(ms)]) });
  await t.rejects(ask(client, { signal: AbortSignal.abort() }), gone, 'before');
  dns.mood = 'silent';
  await t.rejects(ask(client, after(30)), gone, 'while the name is looked up');
  dns.mood = 'well';
  t.equal(await ask(client), 'orders-0');
  backends[0]!.handle = () => {};
  await t.rejects(ask(client, after(30)), gone, 'while there is no answer');
  backends[0]!.handle = (_, response) => response.write('half');
  const response = await client.fetch('http://orders', after(50));
  await t.rejects(response.text(), gone, 'in the middle of the answer');
  const stop = new AbortController();
  const asked = request('http://orders', {
    dispatcher: client.dispatcher,
    signal: stop.signal,
    method: 'POST',
    body: 'x',
  });
  await sleep(20);
  stop.abort(new Error('enough'));
  await t.rejects(
    asked.then(({ body }) => body.text()),
    /enough/,
    'with its own reason',
  );
  await sleep(20);
  t.match(client.status(), { failed: 0, connections: 0 }, 'that is no failure, and leaves nothing open');
});

function abortAfter(ms: number): AbortSignal {
  const stop = new AbortController();
  setTimeout(() => stop.abort(), ms);
  return stop.signal;
}

t.test('a long answer is read at the pace of the program', async (t) => {
  const { client, backends } = await stage(t, 1);
  const size = 8 * 1024 * 1024;
  let sent = 0;
  backends[0]!.handle = async (_, response) => {
    while (sent < size && !response.destroyed) {
      if (!response.write(Buffer.alloc(65_536))) await once(response, 'drain').catch(() => {});
      sent += 65_536;
    }
    response.end();
  };
  for (const one of [client.fetch as typeof undiciFetch, undiciFetch]) {
    sent = 0;
    const response = await one('http://orders', { dispatcher: client.dispatcher });
    const reader = response.body!.getReader();
    let got = (await reader.read()).value!.length;
    await sleep(100);
    t.ok(sent < size, 'it is not read before it is wanted');
    for (let part = await reader.read(); !part.done; part = await reader.read()) got += part.value.length;
    t.equal(got, size);
  }
});

t.test('an upgrade gets its socket', async (t) => {
  const { dns, client } = await stage(t, 1);
  const port = await rawServer(t, (socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n');
      socket.pipe(socket);
    });
  });
  dns.list('orders.test', [await deadPort(), port]);
  const { socket } = await client.dispatcher.upgrade({
    ...{ origin: 'http://orders', path: '/', protocol: 'echo' },
  } as never);
  socket.write('hello');
  t.equal(String((await once(socket, 'data'))[0]), 'hello');
  socket.destroy();
});

t.test('TLS is by the name of the service', async (t) => {
  const dns = await new NameServer().open();
  const backend = await new HttpBackend('secure', { tls: { key: KEY, cert: CERT } }).open();
  t.teardown(async () => {
    await backend.kill();
    await dns.close();
  });
  dns.list('probe.test', [backend.port], 60);
  dns.list('orders.test', [backend.port], 60);
  const client = new ServiceClient({
    zone: 'test',
    nameserver: dns.address,
    reports: false,
    tls: { ca: CERT },
    attempts: 2,
  });
  const dispatcher = client.dispatcher as never;
  for (let i = 0; i < 3; i++) t.equal(await (await fetch('https://probe/', { dispatcher })).text(), 'secure');
  t.equal(await (await fetch('https://probe.test/', { dispatcher })).text(), 'secure');
  const error = await failure(fetch('https://orders/', { dispatcher }));
  t.match(error, { code: 'HOLDFAST_UNREACHABLE', message: /other \(ERR_TLS_CERT_ALTNAME_INVALID\)/ });
  await client.close();
  const distrustful = new ServiceClient({ zone: 'test', nameserver: dns.address, reports: false, attempts: 1 });
  t.match(await failure(distrustful.fetch('https://probe/')), {
    message: /DEPTH_ZERO_SELF_SIGNED_CERT/,
  });
  await distrustful.close();
});

t.test('IPv6, aliases, targets without addresses in the answer, and services without SRV', async (t) => {
  const { dns, client, backends } = await stage(t, 1);
  const [four] = backends as [HttpBackend];
  const six = await new HttpBackend('six', { address: '::1' }).open();
  t.teardown(() => six.kill());
  dns.records.set('local6.test', { addresses: ['::1'] });
  dns.records.set('six.test', { srv: [{ port: six.port, target: 'local6.test' }] });
  const text = async (url: string) => (await client.fetch(url)).text();
  t.equal(await text('http://six/'), 'six');
  dns.records.set('alias.test', { alias: 'six.test' });
  t.equal(await text('http://alias/'), 'six');
  dns.additional = false;
  dns.records.set('bare.test', {
    srv: [
      { port: six.port, target: 'local6.test' },
      { port: 1, target: 'nowhere.test' },
    ],
  });
  t.equal(await text('http://bare/'), 'six', 'a target without an address is left out');
  t.equal(await text(`http://local:${four.port}/`), 'orders-0', 'a port in the URL: addresses alone');
  t.equal(dns.count('local.test SRV udp'), 0);
  dns.records.set('plain.test', { addresses: ['127.0.0.1'], srv: [] });
  t.same(await client.resolve('plain', four.port), [{ address: '127.0.0.1', port: four.port, priority: 0, weight: 1 }]);
  await t.rejects(client.resolve('plain'), /plain has addresses but no SRV record: give a port/);
  dns.records.set('closed.test', { srv: [{ port: 0, target: '' }], addresses: ['127.0.0.1'] });
  t.match(await failure(text('http://closed/')), { code: 'HOLDFAST_NOT_FOUND', message: /decidedly not there/ });
  const named = new ServiceClient({ zone: 'test', nameserver: dns.address, portName: 'http', reports: false });
  dns.list('_http._tcp.billing.test', [four.port]);
  dns.records.set('billing.test', { addresses: ['127.0.0.1'] });
  dns.additional = true;
  t.match(await named.resolve('billing'), [{ port: four.port }]);
  t.match(await client.resolve('_http._tcp.billing.test'), [{ port: four.port }]);
  await named.close();
});

t.test('a thousand endpoints', async (t) => {
  const { dns, client, backends } = await stage(t, 1);
  const port = backends[0]!.port;
  const srv = Array.from({ length: 1_000 }, (_, i) => ({ port, target: `t${i}.test` }));
  for (let i = 0; i < 1_000; i++) dns.records.set(`t${i}.test`, { addresses: [`127.0.${i >> 8}.${i & 255}`] });
  dns.records.set('orders.test', { ttl: 60, srv });
  t.equal((await client.resolve('orders')).length, 1_000);
  t.same(dns.asked, ['orders.test SRV udp', 'orders.test SRV tcp']);
});

t.test('name servers that fail', async (t) => {
  const { dns, client } = await stage(t, 1, {}, 1);
  const second = await new NameServer().open();
  t.teardown(() => second.close());
  const fresh = (...nameserver: string[]) => new ServiceClient({ zone: 'test', nameserver, reports: false });
  for (const mood of ['servfail', 'refused', 'nxdomain', 'silent', 'garbage'] as const) {
    dns.mood = 'well';
    t.equal(await ask(client), 'orders-0');
    dns.mood = mood;
    await sleep(mood === 'servfail' ? 1_100 : 10);
    t.equal(await ask(client), 'orders-0', `${mood}: what was known is used`);
  }
  const patient = fresh(dns.address);
  dns.mood = 'servfail';
  const asked = ask(patient);
  await sleep(300);
  dns.mood = 'well';
  t.equal(await asked, 'orders-0', 'a name server that comes back soon is waited for');
  second.records.set('local.test', dns.records.get('local.test')!);
  second.records.set('orders.test', dns.records.get('orders.test')!);
  for (const mood of ['servfail', 'refused', 'silent'] as const) {
    dns.mood = mood;
    t.equal(await ask(fresh(dns.address, second.address)), 'orders-0', `${mood}: the second one is asked`);
  }
  dns.mood = 'nxdomain';
  t.match(await failure(ask(fresh(dns.address, second.address))), {
    code: 'HOLDFAST_NOT_FOUND',
    message: 'orders: there is no such service: orders.test SRV: NXDOMAIN',
  });
  dns.mood = 'well';
  dns.records.set('empty.test', { srv: [] });
  const client2 = fresh(dns.address);
  t.match(await failure(client2.fetch('http://empty')), {
    message: 'empty: there is no such service: empty.test SRV: no record',
  });
  await dns.close();
  const started = Date.now();
  const error = await failure(ask(fresh(dns.address)));
  t.match(error, {
    code: 'HOLDFAST_NO_ANSWER',
    message: /orders: no name server answers: 127.0.0.1:\d+: nobody listens/,
  });
  t.ok(Date.now() - started < 20_000);
  t.equal(await ask(client), 'orders-0', 'who had known it goes on without any name server');
});

t.test('connections to endpoints that left are closed, and busy ones are let finish', async (t) => {
  const { dns, client, backends } = await stage(t, 2, {}, 0);
  const [a, b] = backends as [HttpBackend, HttpBackend];
  while (a.connections === 0 || b.connections === 0) await ask(client);
  let finish: () => void = () => {};
  const slow = new Promise<void>((done) => (finish = done));
  for (const one of backends) {
    one.handle = async (request, response) => {
      if (request.url === '/slow') await slow;
      response.end(one.name);
    };
  }
  dns.list('orders.test', [a.port], 0);
  const asked: Promise<string>[] = [];
  for (let i = 0; i < 10; i++) asked.push(ask(client, {}, '/slow'));
  await until('the client knows', async () => {
    await ask(client);
    return client.status().services.every(({ endpoints }) => endpoints.length === 1);
  });
  t.equal(await ask(client), 'orders-0');
  finish();
  const slowOnes = await Promise.all(asked);
  t.equal(slowOnes.length, 10);
  await until('the other one is left', () => b.connections === 0);
  t.ok(a.connections > 0);
});

t.test('hosts that are no services go where they always went', async (t) => {
  const { client, backends } = await stage(t, 1);
  const [backend] = backends as [HttpBackend];
  const text = async (url: string) => (await fetch(url)).text();
  const before = getGlobalDispatcher();
  setGlobalDispatcher(client.dispatcher);
  t.teardown(() => setGlobalDispatcher(before));
  t.equal(await text('http://orders/'), 'orders-0', 'as the dispatcher of the process');
  t.equal(await text(`http://127.0.0.1:${backend.port}/`), 'orders-0');
  t.equal(await text(`http://localhost:${backend.port}/`), 'orders-0');
  t.equal(client.status().requests, 1);
  setGlobalDispatcher(before);
  const agent = new Agent({ connect: { lookup: (_, __, done) => done(null, [{ address: '127.0.0.1', family: 4 }]) } });
  const other = new ServiceClient({ zone: 'test', nameserver: '127.0.0.1:1', fallback: agent });
  const dispatcher = other.dispatcher as never;
  t.equal(await (await fetch(`http://example.org:${backend.port}/`, { dispatcher })).text(), 'orders-0');
  await other.close();
  t.notOk(agent.closed, 'who gave it closes it');
  await agent.close();
});

t.test('closing waits for what is under way, destroying does not', async (t) => {
  const { client, backends } = await stage(t, 1);
  backends[0]!.handle = (_, response) => setTimeout(() => response.end('late'), 50);
  const asked = ask(client);
  await sleep(20);
  await client.close();
  t.equal(await asked, 'late');
  t.match(await failure(ask(client)), { code: 'HOLDFAST_CLOSED' });
  await t.rejects(client.connect('orders'), { code: 'HOLDFAST_CLOSED' });
  await client.close();
  await sleep(20);
  t.equal(backends[0]!.connections, 0);

  const { client: second, backends: more } = await stage(t, 1);
  more[0]!.handle = () => {};
  const hanging = failure(ask(second));
  await sleep(20);
  await second.dispatcher.destroy(new Error('that is it'));
  t.match(await hanging, /that is it/);
});
