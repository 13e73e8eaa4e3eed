/**
 * `all-types.mjs KEY CERT SERVICES EACH PORTS...`: a server for each type of check: http (tcp, too), https (tls, too) and
 * grpc at every address of this machine, dns and udp at 127.1.S.I of so many services of so many, at one port each. Says
 * `ready`.
 */
import { createSocket } from 'node:dgram';
import { readFileSync } from 'node:fs';
import { createServer as createHttp } from 'node:http';
import { createServer as createHttp2 } from 'node:http2';
import { createServer as createHttps } from 'node:https';

const [keyFile, certFile, ...numbers] = process.argv.slice(2);
const [services, each, http, https, grpc, dns, udp] = numbers.map(Number);
const [key, cert] = [readFileSync(keyFile), readFileSync(certFile)];
/** A message of grpc.health.v1: SERVING. */
const SERVING = Buffer.from([0, 0, 0, 0, 2, 8, 1]);

const listening = [];
const listen = (server, port) =>
  listening.push(new Promise((resolve) => server.on('error', () => undefined).listen(port, '0.0.0.0', 4096, resolve)));
listen(
  createHttp((_request, response) => response.end('ok')),
  http,
);
listen(
  createHttps({ key, cert }, (_request, response) => response.end('ok')),
  https,
);
const health = createHttp2();
health.on('stream', (stream) => {
  stream.on('error', () => undefined);
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true });
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }));
  stream.end(SERVING);
});
health.on('sessionError', () => undefined);
listen(health, grpc);
/** A reply has to come from the address that was asked: a socket each. */
const datagrams = (port, reply) => {
  for (let s = 0; s < services; s++) {
    for (let i = 1; i <= each; i++) {
      const socket = createSocket('udp4');
      socket.on('message', (query, from) => socket.send(reply(query), from.port, from.address));
      listening.push(new Promise((resolve) => socket.bind(port, `127.1.${s}.${i}`, resolve)));
    }
  }
};
datagrams(dns, (query) => {
  query[2] |= 0x80;
  return query;
});
datagrams(udp, () => Buffer.from('pong'));
await Promise.all(listening);
process.stdout.write('ready\n');
