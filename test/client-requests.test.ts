/** `holdfast/client` over real sockets: requests of every form. */
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { Agent, getGlobalDispatcher, request, setGlobalDispatcher, fetch as undiciFetch } from 'undici';
import { ServiceClient } from '../src/client/index.js';
import { until } from './blackbox/program.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { HttpBackend, NameServer } from './client-fixture.js';
import { ask, deadPort, failure, rawServer, stage } from './client-stage.js';

t.setTimeout(110_000);

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
