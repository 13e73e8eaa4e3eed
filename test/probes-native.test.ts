import { createServer } from 'node:net';
import t from 'tap';
import { type Outcome, TWICE } from '../src/prober/probes/attempt.js';
import { probeHttp } from '../src/prober/probes/http.js';
import { type NativeCalls, NativeSockets } from '../src/prober/probes/native-sockets.js';
import { NativeTcp } from '../src/prober/probes/native-tcp.js';
import { probeTcp } from '../src/prober/probes/tcp.js';
import { CERT, KEY } from './certificate-of-nobody.js';
import { closedPort, hanging, listening, never, raw, target, until, web } from './prober-fixture.js';
import { CALLS, NOT_NATIVE, openSockets, outcomeOf, stoppedBackend } from './probes-native-fixture.js';

t.test('native TCP probes', { skip: NOT_NATIVE }, async (t) => {
  const calls = CALLS as NativeCalls;

  await t.test('where they cannot be had, or stop working, node:net probes, and that is told once', async (t) => {
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listening(server);
    t.teardown(() => server.close());
    const faults: [string, NativeCalls | string, Outcome['kind']][] = [
      ['koffi does not load: gone', 'koffi does not load: gone', 'pass'],
      ['epoll_create1: EMFILE', { ...calls, epollCreate: () => -1, errno: () => 24 }, 'pass'],
      ['poll: EFAULT', { ...calls, poll: () => -1, errno: () => 14 }, 'local'],
    ];
    for (const [reason, broken, first] of faults) {
      const before = openSockets();
      const told: string[] = [];
      // Of a connect that is under way errno is asked, too.
      let connecting = false;
      const odd =
        typeof broken === 'string'
          ? broken
          : {
              ...broken,
              connect: (...args: Parameters<NativeCalls['connect']>) => {
                connecting = true;
                return calls.connect(...args);
              },
              errno: () => {
                const errno = connecting ? calls.errno() : broken.errno();
                connecting = false;
                return errno;
              },
            };
      const native = new NativeTcp((why) => told.push(why), odd);
      const outcomes = await Promise.all([1, 2, 3].map(() => outcomeOf(native, target({ port }))));
      t.same(
        outcomes.map(({ kind }) => kind),
        Array(3).fill(first),
        reason,
      );
      t.same(await outcomeOf(native, target({ port })), { kind: 'pass' });
      t.same(told, [reason]);
      await until(() => openSockets() <= before);
      native.close();
    }
  });

  await t.test('addresses are read as inet_pton reads them', async (t) => {
    let seen: number[] | undefined;
    const connect: NativeCalls['connect'] = (_fd, name) => {
      seen = [...name.slice(4, 8)];
      return -1;
    };
    const sockets = new NativeSockets({ ...calls, connect, errno: () => 111 });
    t.teardown(() => sockets.end());
    const address = new Uint8Array(4);
    const parts = ['0', '1', '10', '255', '127', '256', '01', '00', '1000', '', 'a', ' 1', '1 ', '-1', '1.2'];
    for (const part of parts) {
      for (const text of [`127.0.0.${part}`, `127.${part}.0.1`, `${part}.0.0.1`, `127.0.0.1.${part}`, part]) {
        const good = calls.inetPton(2, text, address) === 1;
        seen = undefined;
        t.equal(sockets.connect(text, 1), good ? -111 : -22, text);
        t.same(seen, good ? [...address] : undefined, text);
      }
    }
  });

  await t.test('a watch that fails ends those under way as local errors, and closes all', async (t) => {
    const { port } = await stoppedBackend(t);
    const before = openSockets();
    const told: string[] = [];
    let left = 3;
    const epollCtl: NativeCalls['epollCtl'] = (...args) => (left-- > 0 ? calls.epollCtl(...args) : -1);
    const errno = () => (left < 0 ? 28 : calls.errno());
    const native = new NativeTcp((why) => told.push(why), { ...calls, epollCtl, errno });
    const probed = [1, 2, 3, 4, 5].map(() => outcomeOf(native, target({ port, timeout: 60_000 })));
    t.same(await Promise.all(probed), Array(5).fill({ kind: 'local', detail: 'epoll_ctl: ENOSPC' }));
    t.same(told, ['epoll_ctl: ENOSPC']);
    t.equal(openSockets(), before);
  });

  await t.test('calls that a signal interrupts are made again', async (t) => {
    const backend = await stoppedBackend(t);
    let interrupted = 0;
    let now = false;
    const once = <A extends unknown[]>(call: (...args: A) => number) => {
      let first = true;
      return (...args: A): number => {
        now = first;
        first = false;
        if (!now) return call(...args);
        interrupted++;
        return -1;
      };
    };
    const native = new NativeTcp((why) => t.fail(why), {
      ...calls,
      poll: once(calls.poll),
      epollWait: once(calls.epollWait),
      connect: (...args) => {
        now = false;
        return calls.connect(...args);
      },
      errno: () => (now ? 4 : calls.errno()),
    });
    t.teardown(() => native.close());
    const probed = outcomeOf(native, target({ port: backend.port, timeout: 20_000 }));
    await until(() => interrupted === 2);
    backend.wake();
    t.same(await probed, { kind: 'pass' });
  });

  await t.test('a connection that met itself is nobody listening', async (t) => {
    const native = new NativeTcp((why) => t.fail(why), {
      ...calls,
      connect: (fd, name, length) => {
        t.equal(calls.bind(fd, name, length), 0);
        return calls.connect(fd, name, length);
      },
    });
    t.teardown(() => native.close());
    const refused = { kind: 'failure', failure: 'refused', detail: 'nobody listens' };
    t.same(await outcomeOf(native, target({ port: await closedPort() })), refused);
  });

  await t.test('closed, it ends what is under way', async (t) => {
    const { port } = await stoppedBackend(t);
    const before = openSockets();
    const native = new NativeTcp((why) => t.fail(why));
    const early = outcomeOf(native, target({ port, timeout: 60_000 }));
    await until(() => openSockets() > before);
    await new Promise((resolve) => setTimeout(resolve, 30));
    const late = outcomeOf(native, target({ port, timeout: 60_000 }));
    native.close();
    const stopped = { kind: 'local', detail: 'stopped' };
    t.same(await Promise.all([early, late]), [stopped, stopped]);
    t.equal(openSockets(), before);
    native.close();
  });

  await t.test('who fails over an outcome keeps no other one from its own', async (t) => {
    const native = new NativeTcp((why) => t.fail(why));
    t.teardown(() => native.close());
    const port = await closedPort();
    const told: number[] = [];
    const faults: string[] = [];
    process.setUncaughtExceptionCaptureCallback((error) => faults.push(error.message));
    t.teardown(() => process.setUncaughtExceptionCaptureCallback(null));
    for (const i of [1, 2, 3])
      native.begin(target({ port }), never, {
        ...TWICE,
        ended: () => {
          told.push(i);
          throw new Error(`of ${i}`);
        },
      });
    await until(() => faults.length === 3);
    t.same(told, [1, 2, 3]);
    t.same(faults, ['of 1', 'of 2', 'of 3']);
  });

  await t.test('what is kept for connections to come is given back to those who need descriptors', async (t) => {
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listening(server);
    t.teardown(() => server.close());
    const before = openSockets();
    const native = new NativeTcp((why) => t.fail(why));
    t.teardown(() => native.close());
    const many = () => Promise.all(Array.from({ length: 40 }, () => outcomeOf(native, target({ port }))));
    await many();
    await until(() => openSockets() <= before + 40);
    t.ok(openSockets() > before, 'some are kept');
    native.rest();
    await until(() => openSockets() <= before);
    t.same(await many(), Array(40).fill({ kind: 'pass' }));
  });

  await t.test('thousands at a time, here and not here: each has its own outcome', async (t) => {
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listening(server);
    t.teardown(() => server.close());
    const closed = await closedPort();
    const { port: hangs } = await stoppedBackend(t);
    const before = openSockets();
    const native = new NativeTcp((why) => t.fail(why));
    t.teardown(() => native.close());
    const ports = [port, closed, hangs];
    const outcomes = await Promise.all(
      Array.from({ length: 600 }, (_, i) => outcomeOf(native, target({ port: ports[i % 3]!, timeout: 300 }))),
    );
    t.same(
      outcomes.map((outcome) => (outcome.kind === 'failure' ? outcome.failure : outcome.kind)),
      Array.from({ length: 600 }, (_, i) => ['pass', 'refused', 'timeout'][i % 3]),
    );
    native.close();
    await until(() => openSockets() <= before);
  });
});

t.test('no probe leaves a descriptor behind, whatever its outcome', async (t) => {
  const kinds = await Promise.all([
    web(t, (_query, reply) => reply.end('ok')).then((port) => target({ type: 'http', port })),
    web(t, (_query, reply) => reply.writeHead(503).end('no')).then((port) => target({ type: 'http', port })),
    web(t, (_query, reply) => reply.end('ok'), { key: KEY, cert: CERT }).then((port) =>
      target({ type: 'https', port }),
    ),
    web(t, (_query, reply) => reply.end('ok')).then((port) => target({ type: 'https', port })),
    raw(t, (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n')).then((port) => target({ type: 'http', port })),
    raw(t, (socket) => socket.end('nonsense')).then((port) => target({ type: 'http', port })),
    raw(t, (socket) => socket.resetAndDestroy()).then((port) => target({ type: 'http', port })),
    hanging(t).then((port) => target({ type: 'http', port, timeout: 20 })),
    hanging(t).then((port) => target({ type: 'https', port, timeout: 20 })),
    hanging(t).then((port) => target({ port })),
    closedPort().then((port) => target({ type: 'https', port })),
  ]);
  const before = openSockets();
  for (let i = 0; i < 5; i++)
    await Promise.all(kinds.map((asked) => (asked.type === 'tcp' ? probeTcp : probeHttp)(asked, never)));
  await until(() => openSockets() <= before);
  t.ok(openSockets() <= before);
});
