/** The program as a service: what it tells its manager, sockets that are passed to it, restarts under load. */
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { StatusDocument } from '../../src/admin/documents.js';
import { encodeQuery, parseQuestion } from '../scenario-engine/client.js';
import { askUdp } from '../server-fixture.js';
import { freePort, Host, type Process, until, ZONE } from './program.js';
import { growReceiveBuffer, KeptSockets, Notices, noManager } from './service-manager.js';

t.setTimeout(240_000);

type Test = Pick<typeof t, 'teardown'>;

const ORDERS = encodeQuery(7, parseQuestion('orders', ZONE));

/** A host whose zone has no checks, so that no prober is missed. */
async function host(t: Test, top: readonly string[] = []): Promise<Host> {
  const one = new Host();
  t.teardown(() => one.dispose());
  one.port = await freePort();
  configure(one, [`127.0.0.1:${one.port}`], top);
  one.list({ orders: [4711] });
  return one;
}

function configure(one: Host, listen: readonly string[], top: readonly string[] = []): void {
  const zone = `{ name: ${ZONE}, registry: { type: file, path: services.yaml }, check: { type: none } }`;
  const lines = [`listen: ${JSON.stringify(listen)}`, 'stateDir: state', 'runDir: run', ...top, `zones: [${zone}]`];
  writeFileSync(one.config, `version: 1\n${lines.join('\n')}\n`);
}

/** Every program of this environment finds no koffi. */
function withoutKoffi(one: Host): { NODE_OPTIONS: string } {
  const file = join(one.folder, 'no-koffi.cjs');
  writeFileSync(
    file,
    "const m = require('node:module'); const load = m._load; m._load = (r, ...a) => { if (r === 'koffi') throw new Error('no koffi'); return load(r, ...a); };\n",
  );
  return { NODE_OPTIONS: `--require ${file}` };
}

const helper = spawnSync('systemd-notify', ['--version']).error === undefined;

t.test('what a service tells its manager', { skip: noManager }, async (t) => {
  for (const koffi of [true, false]) {
    const name = koffi ? 'by a native call' : 'by systemd-notify, without koffi';
    t.test(name, { skip: koffi || helper ? false : 'no systemd-notify here' }, async (t) => {
      const one = await host(t);
      const notices = new Notices(one.folder);
      t.teardown(() => notices.close());
      const env = { NOTIFY_SOCKET: notices.path, WATCHDOG_USEC: '900000', ...(koffi ? {} : withoutKoffi(one)) };
      const resolver = one.runIn({ env }, 'serve', '--config', one.config);
      await until('READY', () => notices.count('READY=1') === 1);
      const reply = await askUdp({ address: '127.0.0.1', port: one.port }, Buffer.from(ORDERS));
      t.ok(reply, 'a question asked at that moment is answered');
      t.match(notices.heard[0], /^READY=1\nSTATUS=/);
      await until('signs of life', () => notices.count('WATCHDOG=1') >= 3);
      await until('how it stands', () => notices.lines().includes('STATUS=1 zone, all is well'));
      resolver.kill('SIGHUP');
      await until('ready again', () => notices.count('READY=1') === 2);
      const reload = notices.heard.find((message) => message.startsWith('RELOADING=1'));
      t.match(reload, /^RELOADING=1\nMONOTONIC_USEC=\d{6,}$/);
      writeFileSync(one.config, 'nonsense: [');
      resolver.kill('SIGHUP');
      await until('the bad one told', () =>
        notices.lines().some((line) => line.startsWith('STATUS=degraded: the last reload was refused')),
      );
      resolver.kill('SIGTERM');
      t.equal(await resolver.ended, 0);
      await until('the end', () => notices.count('STOPPING=1') === 1);
    });
  }

  t.test('the prober, too', async (t) => {
    const one = await host(t);
    const notices = new Notices(one.folder);
    t.teardown(() => notices.close());
    const env = { NOTIFY_SOCKET: notices.path, WATCHDOG_USEC: '900000' };
    const prober = one.runIn({ env }, 'probe', '--config', one.config);
    await until('signs of life, without a resolver', () => notices.count('WATCHDOG=1') >= 2);
    t.equal(notices.count('READY=1'), 1);
    prober.kill('SIGTERM');
    t.equal(await prober.ended, 0);
    await until('the end', () => notices.count('STOPPING=1') === 1);
  });

  t.test('a manager that went away, or whose socket is odd, harms nothing', async (t) => {
    const one = await host(t);
    for (const NOTIFY_SOCKET of [join(one.folder, 'nobody'), '@nobody-here', 'relative', `/${'x'.repeat(300)}`, '']) {
      const env = { NOTIFY_SOCKET, WATCHDOG_USEC: 'soon' };
      const resolver = one.runIn({ env }, 'serve', '--config', one.config);
      await until('an answer', async () => (await one.ports('orders')).length === 1);
      resolver.kill('SIGTERM');
      t.equal(await resolver.ended, 0);
    }
  });
});

t.test('sockets that were passed are used', { skip: noManager }, async (t) => {
  const ways: [string, boolean, string[]][] = [
    ['batched', true, []],
    ['batched, three threads', true, ['workers: 3']],
    ['portable', true, ['transport: portable']],
    ['portable, without koffi', false, []],
  ];
  for (const [name, koffi, top] of ways) {
    t.test(name, async (t) => {
      const one = await host(t, top);
      const kept = new KeptSockets().add('tcp', '127.0.0.1', one.port).add('udp', '127.0.0.1', one.port);
      t.teardown(() => kept.close());
      const env = koffi ? {} : withoutKoffi(one);
      for (const start of ['first', 'second']) {
        const resolver = one.runIn({ env, sockets: kept.fds }, 'serve', '--config', one.config);
        await until(`an answer, ${start} start`, async () => (await one.ports('orders')).length === 1);
        t.equal((await one.ask('orders A +tcp')).rcode, 'NOERROR', `TCP, ${start} start`);
        resolver.kill('SIGTERM');
        t.equal(await resolver.ended, 0);
      }
    });
  }

  t.test('a wildcard answers from the address that was asked', async (t) => {
    const one = await host(t);
    configure(one, [`[::]:${one.port}`]);
    const kept = new KeptSockets().add('udp', '::', one.port).add('tcp', '::', one.port);
    t.teardown(() => kept.close());
    const resolver = one.runIn({ sockets: kept.fds }, 'serve', '--config', one.config);
    await resolver.said('zone-synced');
    for (const address of ['127.0.0.1', '127.0.0.77', '::1'])
      t.equal((await askUdp({ address, port: one.port }, Buffer.from(ORDERS)))?.rcode, 0, address);
  });

  t.test('one that is not in listen is shown, and a listen address without one is bound', async (t) => {
    const one = await host(t);
    const other = await freePort();
    const kept = new KeptSockets().add('udp', '127.0.0.1', other);
    t.teardown(() => kept.close());
    const resolver = one.runIn({ sockets: kept.fds }, 'serve', '--config', one.config);
    await until('an answer', async () => (await one.ports('orders')).length === 1);
    const missing = `the socket udp 127.0.0.1:${other} was passed to this server, and is not in listen: nobody answers there`;
    t.ok(one.json<StatusDocument>('status').problems.includes(missing));
    const addresses = [`127.0.0.1:${one.port}`, `127.0.0.1:${other}`];
    const reload = async (listen: readonly string[]) => {
      configure(one, listen);
      resolver.kill('SIGHUP');
      await until(`${listen} in force`, () => one.json<StatusDocument>('status').listen.length === listen.length);
    };
    const answered = async () => (await askUdp({ address: '127.0.0.1', port: other }, Buffer.from(ORDERS)))?.rcode;
    await reload(addresses);
    t.notOk(one.json<StatusDocument>('status').problems.includes(missing));
    t.equal(await answered(), 0);
    await reload(addresses.slice(0, 1));
    t.ok(one.json<StatusDocument>('status').problems.includes(missing), 'shown again');
    await reload(addresses);
    t.equal(await answered(), 0, 'and used again');
  });

  t.test('meant for another process, they are left alone', async (t) => {
    const one = await host(t);
    const env = { LISTEN_FDS: '2', LISTEN_PID: '1', LISTEN_FDNAMES: 'a:b' };
    one.runIn({ env }, 'serve', '--config', one.config);
    await until('an answer', async () => (await one.ports('orders')).length === 1);
    for (const odd of ['x', '-1', '1e9', '']) {
      const again = one.runIn({ env: { LISTEN_FDS: odd, LISTEN_PID: 'x' } }, 'check', '--config', one.config);
      t.equal(await again.ended, 0);
    }
  });
});

/** Questions at a steady rate through one connected socket, each asked once. */
class Load {
  sent = 0;
  readonly unanswered = new Map<number, number>();
  lastGap = 0;
  #lastReply = performance.now();
  readonly #socket = createSocket('udp4');
  #timer: NodeJS.Timeout | undefined;

  async start(port: number, rate: number): Promise<void> {
    this.#socket.on('error', () => {});
    this.#socket.on('message', (reply) => {
      const now = performance.now();
      this.lastGap = Math.max(this.lastGap, now - this.#lastReply);
      this.#lastReply = now;
      this.unanswered.delete(reply.readUInt16BE(0));
    });
    this.#socket.connect(port, '127.0.0.1');
    await once(this.#socket, 'connect');
    // Answers to what waited come in one burst, and a busy test must not be the one that loses them.
    const state = Object.getOwnPropertySymbols(this.#socket).find((symbol) => symbol.description === 'state symbol');
    const { handle } = (this.#socket as unknown as Record<symbol, { readonly handle: { readonly fd: number } }>)[
      state!
    ]!;
    if (noManager === false) growReceiveBuffer(handle.fd);
    const begun = performance.now();
    this.#timer = setInterval(() => {
      const due = ((performance.now() - begun) / 1000) * rate;
      // What could not be sent in time for want of a processor is not sent in one burst.
      for (let i = 0; this.sent < due && i < rate / 20; i++) this.#ask();
    }, 5);
  }

  #ask(): void {
    const id = ++this.sent & 0xffff;
    const query = Buffer.from(ORDERS);
    query.writeUInt16BE(id, 0);
    this.unanswered.set(id, this.sent);
    this.#socket.send(query, () => {});
  }

  /** How many stay without an answer for so long. */
  async stop(patience: number): Promise<number> {
    clearInterval(this.#timer);
    const end = Date.now() + patience;
    while (this.unanswered.size > 0 && Date.now() < end) await new Promise((done) => setTimeout(done, 50));
    this.#socket.close();
    return this.unanswered.size;
  }
}

async function restarts(one: Host, start: () => Process, times: number, patience: number, between = () => {}) {
  let resolver = start();
  await resolver.said('zone-synced');
  await one.saved('orders');
  const load = new Load();
  await load.start(one.port, 1_000);
  for (let i = 0; i < times; i++) {
    await new Promise((done) => setTimeout(done, 300));
    resolver.kill('SIGTERM');
    between();
    await resolver.ended;
    resolver = start();
    await resolver.said('answering');
  }
  await new Promise((done) => setTimeout(done, 300));
  const lost = await load.stop(patience);
  return { lost, sent: load.sent, gap: load.lastGap };
}

t.test('a restart at 1,000 questions a second through one socket', async (t) => {
  await t.test('loses none with sockets that are kept', { skip: noManager }, async (t) => {
    const one = await host(t);
    const kept = new KeptSockets().add('udp', '127.0.0.1', one.port).add('tcp', '127.0.0.1', one.port);
    t.teardown(() => kept.close());
    if (kept.buffer < 4 * 1024 * 1024) {
      t.pass('restarts', {
        skip: `the kernel grants ${kept.buffer} bytes for waiting datagrams, too few for this rate`,
      });
      return;
    }
    const connected: Promise<boolean>[] = [];
    const connectNow = (): void => {
      connected.push(
        new Promise((done) => {
          const socket = connect(one.port, '127.0.0.1');
          socket.on('error', () => done(false));
          socket.on('close', () => done(false));
          socket.on('data', () => {
            done(true);
            socket.destroy();
          });
          socket.write(Buffer.concat([Buffer.from([0, ORDERS.length]), ORDERS]));
        }),
      );
    };
    const start = () => one.runIn({ sockets: kept.fds }, 'serve', '--config', one.config);
    const between = (): void => {
      for (const ms of [0, 20, 80]) setTimeout(connectNow, ms);
    };
    const { lost, sent } = await restarts(one, start, 3, 5_000, between);
    t.equal(lost, 0, `of ${sent}`);
    t.ok(sent > 1_000);
    t.same(new Set(await Promise.all(connected)), new Set([true]), 'nor a connection that is made meanwhile');
  });

  await t.test("without, no more than the start time's worth", async (t) => {
    const one = await host(t);
    const { lost, sent, gap } = await restarts(one, () => one.run('serve', '--config', one.config), 1, 1_500);
    t.ok(lost > 0 && lost <= gap + 100, `${lost} of ${sent}, ${Math.round(gap)} ms without an answer`);
  });
});
