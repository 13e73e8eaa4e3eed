import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttp2Server, createSecureServer } from 'node:http2';
import { createServer, type Server } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import { judgeValidity } from '../src/prober/probes/certificate.js';
import { CERT, KEY } from './certificate-of-nobody.js';
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
  const plain = await listeningHere(createServer((socket) => void socket.on('error', () => {}).end('hello')));
  t.match(await probe({ type: 'tls', port: plain }), /^bad-status: ERR_SSL_/);
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
      const service = Buffer.concat(chunks).subarray(7).toString();
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
  const web = await listeningHere(createHttpServer((_, response) => void response.end('hello')));
  t.match(await grpc({ port: web, timeout: 1_000 }), /^(bad-status|reset|timeout): /);
});
