import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { request } from 'undici';
import { ServiceClient, UnreachableError } from '../src/client/index.js';
import { until } from './blackbox/program.js';
import { type HttpBackend, NameServer } from './client-fixture.js';
import { ask, deadPort, failure, rawServer, stage } from './client-stage.js';

t.setTimeout(110_000);

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
