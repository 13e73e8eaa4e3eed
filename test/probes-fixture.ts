/** Asking a probe about a server of this host, and servers that live as long as the test file. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, isIPv6, type Server } from 'node:net';
import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import { PROBES } from '../src/prober/probes/probe.js';
import { HERE, never } from './prober-fixture.js';

/** What a probe of this host's `port` says: `pass`, or the kind of failure and its detail. */
export async function probe(over: Partial<Target> & Pick<Target, 'port' | 'type'>): Promise<string> {
  const target: Target = { key: 'k', address: HERE, interval: 5_000, timeout: 5_000, ...over };
  const outcome = await PROBES[target.type](target, never);
  if (outcome.kind === 'pass') return 'pass';
  return `${outcome.kind === 'local' ? 'local' : outcome.failure}: ${outcome.detail}`;
}

export async function listeningHere(server: Server, host = HERE): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  t.teardown(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** `reply`: what it answers with, at last; `send` is for what it says before. */
export async function udpServer(
  reply: (query: Buffer, send: (bytes: Buffer) => void) => Buffer | undefined,
  host = HERE,
): Promise<number> {
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  socket.on('message', (query, { port, address }) => {
    const send = (bytes: Buffer): void => socket.send(bytes, port, address);
    const bytes = reply(query, send);
    if (bytes !== undefined) send(bytes);
  });
  socket.bind(0, host);
  await once(socket, 'listening');
  t.teardown(() => socket.close());
  return socket.address().port;
}
