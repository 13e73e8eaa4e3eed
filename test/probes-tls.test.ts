import { createServer as createHttpServer } from 'node:http';
import { constants, createServer as createHttp2Server, createSecureServer } from 'node:http2';
import { createServer, type Server } from 'node:net';
import { createSecureContext, createServer as createTlsServer, type SecureContext } from 'node:tls';
import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import { judgeValidity } from '../src/prober/probes/certificate.js';
import { CERT, EXPIRED_CERT, KEY } from './certificate-of-nobody.js';
import { listeningHere, probe } from './probes-fixture.js';

t.test('TLS: name and validity of the certificate', async (t) => {
  const port = await listeningHere(
    createTlsServer({ key: KEY, cert: CERT }, (socket) => void socket.on('error', () => {})),
  );
  t.equal(await probe({ type: 'tls', port }), 'pass');
  t.equal(await probe({ type: 'tls', port, tlsName: 'probe.test', minValidity: 86_400_000 }), 'pass');
  t.equal(await probe({ type: 'tls', port, tlsName: 'x.test' }), 'wrong-identity: the certificate is not for x.test');
  t.match(
    await probe({ type: 'tls', port, minValidity: 100 * 366 * 86_400_000 }),
    /^bad-status: the certificate ends /,
  );
  const asked: string[] = [];
  const own = createSecureContext({ key: KEY, cert: CERT });
  const SNICallback = (name: string, tell: (error: null, context: SecureContext) => void): void => {
    asked.push(name);
    tell(null, own);
  };
  const named = await listeningHere(
    createTlsServer({ key: KEY, cert: CERT, SNICallback }, (socket) => void socket.on('error', () => {})),
  );
  for (const type of ['tls', 'https', 'grpc'] as const)
    for (const tlsName of ['probe.test.', '127.0.0.1']) await probe({ type, port: named, tlsName, timeout: 200 });
  t.same(asked, ['probe.test', 'probe.test', 'probe.test'], 'RFC 6066 s.3');
  const plain = await listeningHere(createServer((socket) => void socket.on('error', () => {}).end('hello')));
  t.match(await probe({ type: 'tls', port: plain }), /^bad-status: ERR_SSL_/);
  const old = createTlsServer({ key: KEY, cert: EXPIRED_CERT }, (socket) => void socket.on('error', () => {}));
  const expired = await listeningHere(old);
  const ended = 'bad-status: the certificate ends Jan  1 00:00:00 2021 GMT';
  t.equal(await probe({ type: 'tls', port: expired, tlsName: 'probe.test' }), ended);
  t.equal(
    await probe({ type: 'tls', port: expired, tlsName: 'x.test' }),
    'wrong-identity: the certificate is not for x.test',
    'who answers comes before whether he is well',
  );
  const ancient = createTlsServer(
    { key: KEY, cert: CERT, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    (socket) => void socket.on('error', () => {}).on('data', () => socket.end('HTTP/1.0 200 OK\r\n\r\n')),
  );
  const aged = await listeningHere(ancient);
  t.equal(await probe({ type: 'tls', port: aged }), 'pass', 'it lives, however old its TLS');
  t.equal(await probe({ type: 'https', port: aged }), 'pass');
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const own = { key: KEY, cert: CERT, ca: CERT, minVersion: version, maxVersion: version };
    const asking = createTlsServer({ ...own, requestCert: true, rejectUnauthorized: true }, (socket) => {
      socket.on('error', () => {});
    });
    const port = await listeningHere(asking);
    t.equal(await probe({ type: 'tls', port, tlsName: 'probe.test' }), 'pass', `${version}: it asks who we are`);
    t.match(await probe({ type: 'tls', port, tlsName: 'x.test' }), /^wrong-identity/);
    t.match(
      await probe({ type: 'https', port }),
      /^bad-status: (ERR_SSL_.*ALERT|EPROTO)/,
      'and tells nobody how it is',
    );
  }
  const half = Buffer.from([0x16, 3, 3, 0, 100, 2]);
  const stuck = await listeningHere(createServer((socket) => void socket.on('error', () => {}).write(half)));
  t.match(await probe({ type: 'tls', port: stuck, timeout: 100 }), /^timeout: /, 'half a handshake');
  const alert = Buffer.from([0x15, 3, 3, 0, 2, 2, 40]);
  const refusing = await listeningHere(createServer((socket) => void socket.on('error', () => {}).write(alert)));
  t.match(await probe({ type: 'tls', port: refusing }), /^bad-status: ERR_SSL_.*ALERT_HANDSHAKE_FAILURE/);
  const mute = await listeningHere(createServer((socket) => void socket.on('error', () => {}).end()));
  t.equal(await probe({ type: 'tls', port: mute }), 'bad-status: closed before the answer was complete');
  const dates = { valid_from: 'Jan  1 00:00:00 2026 GMT', valid_to: 'Jan  1 00:00:00 2027 GMT' } as never;
  t.equal(judgeValidity(dates, Date.UTC(2026, 5)), undefined);
  t.match(judgeValidity(dates, Date.UTC(2025, 5)), { detail: /begins/ });
  t.match(judgeValidity(dates, Date.UTC(2027, 0, 2)), { detail: /ends/ });
});

t.test('gRPC: health of a server, and of a service', async (t) => {
  const states: Record<string, number> = { '': 1, orders: 1, billing: 2, gone: 3 };
  const answer = (stream: import('node:http2').ServerHttp2Stream, path: unknown) => {
    stream.on('error', () => {});
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      const message = Buffer.concat(chunks).subarray(5);
      const service = message.subarray(message[1]! < 0x80 ? 2 : 3).toString();
      const state = states[service];
      const known = path === '/grpc.health.v1.Health/Check' && state !== undefined;
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': known ? '0' : '5' }));
      stream.end(known ? Buffer.from([0, 0, 0, 0, 2, 0x08, state]) : undefined);
    });
  };
  const plain = createHttp2Server();
  const secure = createSecureServer({ key: KEY, cert: CERT });
  for (const server of [plain, secure]) {
    server.on('stream', (stream, headers) => answer(stream, headers[':path']));
    server.on('sessionError', () => {});
  }
  const port = await listeningHere(plain as unknown as Server);
  const grpc = (over: Partial<Target>) => probe({ type: 'grpc', port, ...over });
  t.equal(await grpc({}), 'pass');
  t.equal(await grpc({ grpcService: 'orders' }), 'pass');
  t.equal(await grpc({ grpcService: 'billing' }), 'bad-status: not serving');
  t.equal(await grpc({ grpcService: 'gone' }), 'wrong-identity: no service gone');
  t.equal(await grpc({ grpcService: 'nobody' }), 'wrong-identity: no service nobody');
  const tlsPort = await listeningHere(secure as unknown as Server);
  t.equal(await grpc({ port: tlsPort, tlsName: 'probe.test', grpcService: 'orders' }), 'pass');
  t.equal(await grpc({ port: tlsPort, tlsName: 'x.test' }), 'wrong-identity: the certificate is not for x.test');
  const long = 'a'.repeat(300);
  states[long] = 1;
  t.equal(await grpc({ grpcService: long }), 'pass', 'a name whose length takes two bytes');
  const web = await listeningHere(createHttpServer((_, response) => void response.end('hello')));
  t.match(await grpc({ port: web, timeout: 1_000 }), /^(bad-status|reset|timeout): /);
});

t.test('gRPC: servers that break off, and what is no health', async (t) => {
  const asked = async (serve: (stream: import('node:http2').ServerHttp2Stream) => void) => {
    const server = createHttp2Server();
    server.on('sessionError', () => {});
    server.on('stream', (stream) => {
      stream.on('error', () => {});
      serve(stream);
    });
    return probe({ type: 'grpc', port: await listeningHere(server as unknown as Server), timeout: 2_000 });
  };
  const unfinished = 'bad-status: closed before the answer was complete';
  for (const code of [constants.NGHTTP2_NO_ERROR, constants.NGHTTP2_CANCEL])
    t.equal(await asked((stream) => stream.close(code)), unfinished);
  t.equal(await asked((stream) => stream.session?.destroy()), unfinished);
  t.equal(
    await asked((stream) => stream.close(constants.NGHTTP2_INTERNAL_ERROR)),
    'bad-status: ERR_HTTP2_STREAM_ERROR',
  );
  const trailersOnly = (headers: Record<string, string | number>) =>
    asked((stream) => stream.respond(headers, { endStream: true }));
  t.equal(await trailersOnly({ ':status': 200, 'grpc-status': '12' }), 'bad-status: grpc-status 12');
  t.equal(await trailersOnly({ ':status': 503 }), 'bad-status: HTTP 503');
  t.equal(await trailersOnly({ ':status': 200 }), 'bad-status: grpc-status missing');
  const saying = (...parts: Buffer[]) =>
    asked((stream) => {
      stream.respond({ ':status': 200 }, { waitForTrailers: true });
      stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
      for (const part of parts) stream.write(part);
      stream.end();
    });
  t.equal(await saying(Buffer.from([0, 0, 0, 0, 2, 8]), Buffer.from([1])), 'pass', 'a message in two parts');
  t.equal(await saying(), 'bad-status: unknown', 'no message at all');
  t.equal(await saying(Buffer.from([0, 0, 0, 0, 2, 8])), 'bad-status: unknown', 'half of one');
  const frames = async (bytes: Buffer) => {
    const server = createServer((socket) => void socket.on('error', () => {}).write(bytes));
    return probe({ type: 'grpc', port: await listeningHere(server), timeout: 300 });
  };
  t.equal(await frames(Buffer.alloc(100, 0xff)), 'bad-status: ERR_HTTP2_ERROR');
  const endless = await asked((stream) => {
    stream.respond({ ':status': 200 });
    const timer = setInterval(() => (stream.destroyed ? clearInterval(timer) : stream.write(Buffer.alloc(16_384))), 1);
  });
  t.equal(endless, 'bad-status: a longer reply than any state', 'a message without end');
});
