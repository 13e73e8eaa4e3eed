/** A client of `holdfast/client` among backends and a name server. */
import { createServer, type Socket } from 'node:net';
import type { Test } from 'tap';
import { type ClientOptions, ServiceClient } from '../src/client/index.js';
import { HttpBackend, NameServer } from './client-fixture.js';

export interface Stage {
  readonly dns: NameServer;
  readonly client: ServiceClient;
  readonly backends: HttpBackend[];
}

/** A name server, `count` backends of `orders.test`, and a client of the zone. */
export async function stage(t: Test, count: number, options: ClientOptions = {}, ttl = 60): Promise<Stage> {
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
export async function ask(client: ServiceClient, init: RequestInit = {}, path = '/'): Promise<string> {
  return (await client.fetch(`http://orders${path}`, init)).text();
}

/** What a fetch failed with. */
export async function failure(work: Promise<unknown>): Promise<Error & { cause?: unknown }> {
  try {
    await work;
  } catch (error) {
    const { cause } = error as Error;
    return (error instanceof TypeError && cause instanceof Error ? cause : error) as Error;
  }
  throw new Error('it did not fail');
}

/** Something that takes connections and does with them as it is told. */
export async function rawServer(t: Test, serve: (socket: Socket) => void): Promise<number> {
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
export async function deadPort(): Promise<number> {
  const backend = await new HttpBackend('dead').open();
  await backend.kill();
  return backend.port;
}
