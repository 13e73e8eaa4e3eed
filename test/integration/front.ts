/** holdfast behind the resolver that a host has, by the very drop-ins of conf/: what each of them has to stand. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { Backend, freePort, Host, until, ZONE } from '../blackbox/program.js';
import { root } from '../root.js';
import { encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { askUdp, framed, TcpClient } from '../server-fixture.js';

export interface Address {
  readonly address: string;
  readonly port: number;
}

/** A resolver in front of holdfast. */
export interface Front {
  readonly name: string;
  /** Starts it, with holdfast at this port of 127.0.0.1. Returns where it answers. */
  start(t: Test, folder: string, holdfast: number): Promise<Address>;
}

/** A file of conf/ for the zone of the tests, and holdfast at `port`. */
export function shipped(file: string, port: number): string {
  return readFileSync(join(root, 'conf', file), 'utf8')
    .replaceAll('svc.internal', ZONE)
    .replaceAll('"internal."', '"test."')
    .replaceAll('5300', String(port));
}

/** Until the end of the test. */
export function runServer(
  t: Test,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): ChildProcess {
  const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
  child.stderr!.resume();
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  return child;
}

class Asker {
  readonly #at: Address;

  constructor(at: Address) {
    this.#at = at;
  }

  async ask(text: string) {
    const query = Buffer.from(encodeQuery(Math.floor(Math.random() * 65_536), parseQuestion(text, ZONE)));
    query[2]! |= 1; // Recursion desired: resolvers answer nothing else.
    if (!text.endsWith('+tcp')) return askUdp(this.#at, query, 2_500);
    const client = new TcpClient(this.#at);
    client.socket.write(framed(query));
    const [reply] = await client.take(1);
    client.socket.destroy();
    return reply;
  }

  async ports(name: string): Promise<number[]> {
    return ((await this.ask(`${name} SRV`))?.answers ?? []).map(({ port }) => port!).sort((a, b) => a - b);
  }
}

/** Everything that a registry and endpoints may do behind it. */
export async function standsBehind(t: Test, front: Front): Promise<void> {
  const one = new Host();
  const backends = [await new Backend().open(), await new Backend().open()];
  t.teardown(async () => {
    await one.dispose();
    for (const backend of backends) await backend.close();
  });
  one.port = await freePort();
  one.configure();
  const ports = backends.map(({ port }) => port).sort((a, b) => a - b);
  one.list({ orders: ports });
  let resolver = await one.serve();
  one.probe();
  await resolver.said('zone-synced');
  const server = new Asker(await front.start(t, one.folder, one.port));
  await until('the first answer', async () => (await server.ask('orders A'))?.rcode === 0);

  t.same(await server.ports('orders'), ports, 'addresses and ports');
  t.same(
    new Set((await server.ask('orders A'))?.answers.map(({ address }) => address)),
    new Set(['127.0.0.1']),
    'private ones, too',
  );
  t.match(await server.ask('orders AAAA'), { rcode: 0, answers: [] });
  t.match(await server.ask('nope'), { rcode: 3, answers: [] });
  t.match(await server.ask('orders SRV +tcp'), { rcode: 0, answers: { length: 2 } });

  const [first] = backends;
  const rest = ports.filter((port) => port !== first!.port);
  await first!.close();
  await until('what is dead gone', async () => (await server.ports('orders')).join() === rest.join());
  rmSync(one.registry);
  await until('the registry missed', async () => (await one.ask('orders')).ede.some(({ code }) => code === 3));
  await first!.open();
  await until('what is back, without a registry', async () => (await server.ports('orders')).join() === ports.join());
  await new Promise((done) => setTimeout(done, 2_500));
  t.same(await server.ports('orders'), ports, 'after the TTL, while the registry is away');

  await one.saved('orders');
  resolver.kill('SIGTERM');
  await resolver.ended;
  for (let i = 0; i < 5; i++) await Promise.all([server.ask('orders'), server.ask(`gone-${i}`)]);
  resolver = await one.serve();
  // The resolver in front may have the services in its cache, or that they failed, and not what nobody has asked for.
  await until('an answer after a restart', async () => (await server.ask('new'))?.rcode === 3);
  await until('the services after it', async () => (await server.ports('orders')).join() === ports.join());
}
