import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { gzipSync } from 'node:zlib';
import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import { hostOf, probeHttp } from '../src/prober/probes/http.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { closedPort, HERE, hanging, never, raw, target, web } from './prober-fixture.js';
import { listeningHere, probe } from './probes-fixture.js';

t.test('HTTP probes', async (t) => {
  const http = (port: number, over: Partial<Target> = {}) =>
    probeHttp(target({ type: 'http', port, timeout: 5_000, ...over }), never);

  await t.test('the request is what the settings say, and the row’s own address otherwise', async (t) => {
    const seen: { method: string; url: string; headers: Record<string, unknown> }[] = [];
    const port = await web(t, (query, reply) => {
      seen.push({ method: query.method!, url: query.url!, headers: query.headers });
      reply.end('ok');
    });
    t.same(await http(port), { kind: 'pass' });
    t.same(
      await http(port, { method: 'HEAD', path: '/health?x=1', host: 'orders.internal', headers: { 'X-Probe': 'yes' } }),
      { kind: 'pass' },
    );
    await http(port, { headers: { host: 'from-headers' } });
    t.match(seen[0], { method: 'GET', url: '/', headers: { host: `${HERE}:${port}`, connection: 'close' } });
    t.match(seen[1], { method: 'HEAD', url: '/health?x=1', headers: { host: 'orders.internal', 'x-probe': 'yes' } });
    t.equal(seen[2]!.headers.host, 'from-headers');
    t.equal(hostOf({ type: 'http', address: 'fd00::1', port: 8080 }), '[fd00::1]:8080');
    t.equal(hostOf({ type: 'https', address: 'fd00::1', port: 443 }), '[fd00::1]');
  });

  await t.test('a status passes by its range, and no redirect is followed', async (t) => {
    let asked = 0;
    const port = await web(t, (query, reply) => {
      asked++;
      reply.writeHead(Number(query.url!.slice(1)), { location: '/200' }).end();
    });
    const bad = (status: number) => ({ kind: 'failure', failure: 'bad-status', detail: `HTTP ${status}` });
    t.same(await http(port, { path: '/204' }), { kind: 'pass' });
    t.same(await http(port, { path: '/503' }), bad(503));
    t.same(await http(port, { path: '/503', drainHeader: 'X-Drain' }), bad(503), 'without the header it is ill');
    t.same(await http(port, { path: '/302' }), bad(302));
    t.same(
      await http(port, {
        path: '/401',
        status: [
          [200, 299],
          [401, 401],
        ],
      }),
      { kind: 'pass' },
    );
    t.same(await http(port, { path: '/200', status: [[401, 401]] }), bad(200));
    t.equal(asked, 6);
  });

  await t.test(
    'a 503 with the drain header is a pass that says so, any other status with it is what it is',
    async (t) => {
      const port = await web(t, (query, reply) => {
        reply.writeHead(Number(query.url!.slice(1)), { 'x-drain': 'until 12:00' }).end();
      });
      const drainHeader = 'X-Drain';
      t.match(await http(port, { path: '/503', drainHeader }), { kind: 'pass', draining: true });
      t.match(await http(port, { path: '/503', drainHeader: 'X-Other' }), { failure: 'bad-status' });
      t.match(await http(port, { path: '/503' }), { failure: 'bad-status' });
      t.match(await http(port, { path: '/500', drainHeader }), { failure: 'bad-status', detail: 'HTTP 500' });
      t.same(await http(port, { path: '/200', drainHeader }), { kind: 'pass' });
      const other = { identityHeader: ['X-Service', 'orders'] as const, drainHeader };
      t.match(await http(port, { path: '/503', ...other }), { failure: 'wrong-identity' }, 'another’s word is none');
    },
  );

  await t.test('refused, reset, and closed in good order are told apart', async (t) => {
    t.match(await http(await closedPort()), { failure: 'refused', detail: 'ECONNREFUSED' });
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.resetAndDestroy()))), {
      failure: 'reset',
      detail: 'ECONNRESET',
    });
    const unfinished = { failure: 'bad-status', detail: 'closed before the answer was complete' };
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.end()))), unfinished);
    const cut = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort';
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.end(cut)))), unfinished);
  });

  await t.test('what is not HTTP is a bad status, and so are endless headers', async (t) => {
    t.match(await http(await raw(t, (socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'))), { failure: 'bad-status' });
    const long = `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(64 * 1024)}`;
    t.match(await http(await raw(t, (socket) => socket.write(long))), { detail: 'HPE_HEADER_OVERFLOW' });
    const hints = 'HTTP/1.1 103 Early Hints\r\n\r\n';
    const hinting = (count: number) => (socket: Socket) =>
      socket.once('data', () => socket.write(`${hints.repeat(count)}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`));
    t.same(await http(await raw(t, hinting(3))), { kind: 'pass' });
    t.match(await http(await raw(t, hinting(100))), { failure: 'bad-status', detail: 'hints without an end' });
  });

  await t.test('the deadline covers everything: silence, a dripping head, a dripping body', async (t) => {
    const timers: NodeJS.Timeout[] = [];
    t.teardown(() => timers.forEach(clearInterval));
    const drip = (first: string) => (socket: Socket) => {
      socket.write(first);
      timers.push(setInterval(() => socket.writable && socket.write('x'), 20));
    };
    const late = { kind: 'failure', failure: 'timeout', detail: 'no answer within 200 ms' };
    const timeout = 200;
    const ports = [
      await hanging(t),
      await raw(t, drip('HTTP/1.1 200 OK\r\nX-Slow: ')),
      await raw(t, drip('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n')),
    ];
    for (const port of ports) t.same(await http(port, { timeout }), late);
    t.same(await http(ports[0]!, { timeout, type: 'https' }), late, 'a TLS handshake too');
  });

  await t.test('a body is read to a limit only', async (t) => {
    const port = await raw(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      new Readable({
        read: function () {
          this.push('x'.repeat(16 * 1024));
        },
      }).pipe(socket);
    });
    t.same(await http(port), { kind: 'pass' });
  });

  await t.test('statuses on the way, old versions, codings and what no body belongs to', async (t) => {
    const say = (text: string, over: Partial<Target> = {}) =>
      raw(t, (socket) => socket.once('data', () => socket.end(text))).then((port) => http(port, over));
    const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello';
    const pass = { kind: 'pass' };
    t.same(await say(`HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${ok}`), pass);
    t.same(await say('HTTP/1.0 200 OK\r\n\r\nhello', { body: 'hello' }), pass);
    const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';
    t.same(await say(`${chunked}3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n`, { body: 'hello' }), pass);
    for (const more of ['more', '\r\n', ok])
      t.same(await say(`${ok}${more}`, { body: 'hello' }), pass, 'what comes behind it is no part of it');
    t.same(await say(`${chunked}5\r\nhello\r\n0\r\n\r\nmore`, { body: 'hello' }), pass);
    t.match(await say(`${ok}more`, { body: 'more' }), { failure: 'bad-status' });
    t.same(await say('HTTP/1.1 200 OK\nX-A: a\n b\nContent-Length: 5\n\nhello', { body: 'hello' }), pass);
    t.match(await say('HTTP/1.1 408 Request Timeout\r\n\r\n'), { detail: 'HTTP 408', ended: true });
    t.match(await say(`${chunked}zz\r\nhello`), { detail: 'HPE_INVALID_CHUNK_SIZE' });
    t.match(await say(`${chunked}3\r\nhe`), { detail: 'closed before the answer was complete' });
    t.same(await say(ok, { method: 'HEAD' }), pass, 'a body where none belongs');
    t.same(await say('HTTP/1.1 204 No Content\r\n\r\nhello'), pass);
    const upgrade = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n';
    t.match(await say(upgrade), { failure: 'bad-status', detail: 'HTTP 101' });
    t.same(await say(upgrade, { status: [[101, 101]] }), pass);
    const packed = gzipSync('hello').toString('latin1');
    const zipped = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${packed.length}\r\n\r\n`;
    const port = await raw(t, (socket) => socket.once('data', () => socket.end(zipped + packed, 'latin1')));
    t.same(await http(port), pass);
    t.match(await http(port, { body: 'hello' }), { failure: 'bad-status' }, 'bodies are compared as they come');
  });

  await t.test('a header that comes twice says both; names that objects have are headers like others', async (t) => {
    const twice = 'HTTP/1.1 200 OK\r\nX-Service: orders\r\nX-Service: orders\r\nServer: a\r\nServer: b\r\n\r\n';
    const port = await raw(t, (socket) => socket.once('data', () => socket.end(twice)));
    const identified = (name: string, value: string) => http(port, { identityHeader: [name, value] });
    t.same(await identified('X-Service', 'orders'), { kind: 'pass' });
    t.same(await identified('Server', 'b'), { kind: 'pass' });
    t.match(await identified('X-Service', 'billing'), {
      failure: 'wrong-identity',
      detail: 'X-Service: orders, orders',
    });
    t.match(await identified('constructor', 'x'), { detail: 'no header constructor' });
    const ill = await raw(t, (socket) => socket.once('data', () => socket.end('HTTP/1.1 503 No\r\n\r\n')));
    t.match(await http(ill, { drainHeader: 'constructor' }), { failure: 'bad-status', detail: 'HTTP 503' });
  });

  await t.test('settings that no request can carry are local', async (t) => {
    t.equal((await http(80, { path: '/with space' })).kind, 'local');
    t.equal((await http(80, { headers: { 'bad name': 'x' } })).kind, 'local');
    t.equal((await http(80, { host: 'a\r\nb' })).kind, 'local');
  });

  await t.test('HTTPS takes any certificate and names the host it asks for', async (t) => {
    let seen: unknown;
    const port = await web(
      t,
      (query, reply) => {
        seen = (query.socket as unknown as { servername: unknown }).servername;
        reply.end('ok');
      },
      { key: KEY, cert: CERT },
    );
    t.same(await http(port, { type: 'https', host: 'orders.internal:8443' }), { kind: 'pass' });
    t.equal(seen, 'orders.internal');
    t.same(await http(port, { type: 'https' }), { kind: 'pass' });
    t.equal(seen, false, 'no name for an address');
    t.match(await http(await closedPort(), { type: 'https' }), { failure: 'refused' });
    const plain = await web(t, (_query, reply) => reply.end('ok'));
    t.match(await http(plain, { type: 'https' }), { failure: 'bad-status' });
  });
});

t.test('HTTP: what the body must have, and who must answer (R19)', async (t) => {
  const serve: RequestListener = (request, response) => {
    response.setHeader('X-Service', 'orders');
    response.statusCode = request.url === '/503' ? 503 : 200;
    response.end('orders: all is well');
  };
  const port = await listeningHere(createHttpServer(serve));
  const http = (over: Partial<Target>) => probe({ type: 'http', port, path: '/', ...over });
  t.equal(await http({ body: 'well', identityBody: 'orders', identityHeader: ['x-service', 'orders'] }), 'pass');
  t.equal(await http({ body: 'ill' }), 'bad-status: the body has not the text that is expected');
  t.equal(await http({ identityBody: 'billing' }), 'wrong-identity: the body does not say who it should be');
  t.equal(await http({ identityHeader: ['X-Service', 'billing'] }), 'wrong-identity: X-Service: orders');
  t.equal(await http({ identityHeader: ['X-Other', 'x'], path: '/503' }), 'wrong-identity: no header X-Other');
  t.equal(await http({ identityHeader: ['X-Service', 'orders'], path: '/503' }), 'bad-status: HTTP 503');
  const drains = await listeningHere(
    createHttpServer((_query, response) => response.writeHead(503, { 'x-drain': 'yes' }).end('orders: see you')),
  );
  const leaving = (over: Partial<Target>) => http({ port: drains, drainHeader: 'X-Drain', ...over });
  t.equal(await leaving({ identityBody: 'orders', body: 'well' }), 'pass', 'it says who it is, and that it drains');
  t.equal(await leaving({ identityBody: 'billing' }), 'bad-status: HTTP 503', 'another’s word that it drains is none');
  t.equal(await leaving({ identityBody: 'orders', method: 'HEAD' }), 'bad-status: HTTP 503', 'nor is nobody’s');
  const secure = await listeningHere(createHttpsServer({ key: KEY, cert: CERT }, serve));
  t.equal(await probe({ type: 'https', port: secure, tlsName: 'probe.test' }), 'pass');
  t.equal(
    await probe({ type: 'https', port: secure, tlsName: 'other.test' }),
    'wrong-identity: the certificate is not for other.test',
  );
});
