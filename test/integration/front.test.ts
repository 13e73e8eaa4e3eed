/** holdfast behind Unbound and dnsmasq, by the very drop-ins of conf/. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Backend, freePort, Host, until, ZONE } from '../blackbox/program.js';
import { root } from '../root.js';
import { encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { askUdp, framed, TcpClient } from '../server-fixture.js';

t.jobs = 2;
t.setTimeout(110_000);

interface Front {
  readonly name: string;
  readonly command: string;
  /** Writes its configuration and returns its arguments. */
  configure(folder: string, dropIn: string, port: number): string[];
}

const FRONTS: readonly Front[] = [
  {
    name: 'unbound',
    command: 'unbound',
    configure: (folder, dropIn, port) => {
      const file = join(folder, 'unbound.conf');
      writeFileSync(
        file,
        `server:
    interface: 127.0.0.1@${port}
    username: ""
    chroot: ""
    directory: "${folder}"
    pidfile: ""
    use-syslog: no
    do-daemonize: no
    module-config: "validator iterator"
    # As hosts have it that do not want to be tricked into their own network.
    private-address: 127.0.0.0/8
    private-address: 10.0.0.0/8
remote-control:
    control-enable: no
${dropIn}`,
      );
      return ['-d', '-c', file];
    },
  },
  {
    name: 'dnsmasq',
    command: 'dnsmasq',
    configure: (folder, dropIn, port) => {
      const file = join(folder, 'dnsmasq.conf');
      writeFileSync(
        file,
        `port=${port}\nlisten-address=127.0.0.1\nbind-interfaces\nno-resolv\nno-hosts\nno-daemon\nstop-dns-rebind\nuser=\n${dropIn}`,
      );
      return ['--keep-in-foreground', `--conf-file=${file}`, '--pid-file'];
    },
  },
];

class Server {
  readonly #child: ChildProcess;
  readonly #at: { readonly address: string; readonly port: number };

  constructor(t: Test, { command, configure, name }: Front, folder: string, holdfast: number, port: number) {
    const shipped = readFileSync(join(root, 'conf', name, 'holdfast.conf'), 'utf8');
    const dropIn = shipped
      .replaceAll('svc.internal', ZONE)
      .replaceAll('"internal."', '"test."')
      .replaceAll('5300', String(holdfast));
    this.#child = spawn(command, configure(folder, dropIn, port), { stdio: 'ignore' });
    this.#at = { address: '127.0.0.1', port };
    t.teardown(async () => {
      if (this.#child.exitCode !== null) return;
      this.#child.kill('SIGKILL');
      await once(this.#child, 'exit');
    });
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

for (const front of FRONTS) {
  const missing = spawnSync(front.command, ['--version']).error ? `no ${front.command} here` : false;
  if (missing) console.error(`skipped: holdfast behind ${front.name} (${missing})`);
  t.test(`behind ${front.name}`, { skip: missing }, async (t) => {
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
    const server = new Server(t, front, one.folder, one.port, await freePort());
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
    await until('an answer after a restart', async () => (await server.ports('orders')).length === 2);
  });
}
