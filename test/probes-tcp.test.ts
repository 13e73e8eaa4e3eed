/** TCP probes, whichever way they go. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setImmediate as tick } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { attempt, type Outcome, type Probe, type Tries } from '../src/prober/probes/attempt.js';
import { classify, defaultIn4, defaultIn6 } from '../src/prober/probes/classify.js';
import { metItself } from '../src/prober/probes/connection.js';
import { probeHttp } from '../src/prober/probes/http.js';
import { NativeTcp } from '../src/prober/probes/native-tcp.js';
import { PROBES } from '../src/prober/probes/probe.js';
import { probeTcp } from '../src/prober/probes/tcp.js';
import { closedPort, HERE, hanging, listening, never, type Tap, target, until } from './prober-fixture.js';
import { listeningHere, probe } from './probes-fixture.js';
import { NOT_NATIVE, openSockets, outcomeOf, stoppedBackend } from './probes-native-fixture.js';

const WAYS = ['native', 'over node:net'] as const;

function probeBy(t: Tap, way: (typeof WAYS)[number]): Probe {
  if (way === 'over node:net') return probeTcp;
  const native = new NativeTcp((reason) => {
    throw new Error(reason);
  });
  t.teardown(() => native.close());
  return (asked, signal, tries) => outcomeOf(native, asked, signal, tries);
}

/** Takes connections in a thread of its own, and resets them at once. Tells its port. */
const RESETTING = `
  const { createServer } = require('node:net');
  const server = createServer((socket) => void socket.on('error', () => {}).resetAndDestroy());
  server.listen(0, '${HERE}', () => require('node:worker_threads').parentPort.postMessage(server.address().port));
`;

/** As many tries as there are times for. */
const OFTEN: Tries = { more: () => true, unanswered: () => {}, waits: () => {} };

function counting(): { readonly tries: Tries; readonly told: { unanswered: number } } {
  const told = { unanswered: 0 };
  return { told, tries: { ...OFTEN, unanswered: () => told.unanswered++ } };
}

t.test('R12, R15: what an error means', async (t) => {
  const yes = () => true;
  const no = () => false;
  const cases: [string, Outcome][] = [
    ['ECONNREFUSED', { kind: 'failure', failure: 'refused', detail: 'ECONNREFUSED' }],
    ['ECONNRESET', { kind: 'failure', failure: 'reset', detail: 'ECONNRESET', ended: true }],
    ['EHOSTUNREACH', { kind: 'failure', failure: 'unroutable', detail: 'EHOSTUNREACH' }],
    ['ENETUNREACH', { kind: 'failure', failure: 'unroutable', detail: 'ENETUNREACH' }],
    ['ETIMEDOUT', { kind: 'failure', failure: 'timeout', detail: 'ETIMEDOUT' }],
    ['HPE_INVALID_CONSTANT', { kind: 'failure', failure: 'bad-status', detail: 'HPE_INVALID_CONSTANT' }],
    ['EMFILE', { kind: 'local', detail: 'EMFILE' }],
    ['ENFILE', { kind: 'local', detail: 'ENFILE' }],
    ['ENOBUFS', { kind: 'local', detail: 'ENOBUFS' }],
    ['ENOMEM', { kind: 'local', detail: 'ENOMEM' }],
    ['EADDRNOTAVAIL', { kind: 'local', detail: 'EADDRNOTAVAIL' }],
    ['EPERM', { kind: 'local', detail: 'EPERM' }],
    ['EACCES', { kind: 'local', detail: 'EACCES' }],
    ['EWHATEVER', { kind: 'local', detail: 'EWHATEVER' }],
  ];
  for (const [code, outcome] of cases) t.same(classify({ code, syscall: 'connect' }, '10.0.0.1', yes), outcome, code);
  t.equal(classify({ code: 'ENETUNREACH', syscall: 'connect' }, '10.0.0.1', no).kind, 'local', 'no default route');
  const families: number[] = [];
  classify({ code: 'ENETUNREACH' }, 'fd00::1', (family) => families.push(family) > 0);
  t.same(families, [6], 'the route of its own address family');

  const head = 'Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n';
  t.equal(defaultIn4(`${head}eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n`), true);
  t.equal(defaultIn4(`${head}eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n`), false);
  const zero = '0'.repeat(32);
  const gateway = 'fe800000000000000000000000000001';
  t.equal(defaultIn6(`${zero} 00 ${zero} 00 ${gateway} 00000400 00000001 00000000 00000003     eth0\n`), true);
  t.equal(defaultIn6(`${zero} 00 ${zero} 00 ${zero} ffffffff 00000001 00000000 00200200       lo\n`), false);

  const end = { localAddress: HERE, localPort: 40_000, remoteAddress: HERE };
  t.equal(metItself(end, 40_000), true, 'a connection to itself is nobody listening');
  t.equal(metItself(end, 40_001), false);
  t.equal(metItself({ ...end, remoteAddress: '127.0.0.2' }, 40_000), false);
});

for (const way of WAYS) {
  t.test(`TCP probes, ${way}`, { skip: way === 'native' && NOT_NATIVE }, async (t) => {
    const probeTcp = probeBy(t, way);
    await t.test('an open port passes and sees the connection reset, a closed one refuses', async (t) => {
      const ends: string[] = [];
      const server = createServer((socket) => {
        socket.on('error', (error: NodeJS.ErrnoException) => ends.push(error.code ?? ''));
        socket.on('end', () => ends.push('end'));
      });
      const port = await listening(server);
      t.teardown(() => server.close());
      t.same(await probeTcp(target({ port }), never), { kind: 'pass' });
      await until(() => ends.length > 0);
      t.same(ends, ['ECONNRESET']);
      for (let i = 0; i < 3; i++) {
        t.same(await probeTcp(target({ port }), never), { kind: 'pass' });
        await until(() => ends.length > 1 + i);
      }
      t.same(ends, Array(4).fill('ECONNRESET'), 'each is another one');
      t.same(await probeTcp(target({ port: await closedPort() }), never), {
        kind: 'failure',
        failure: 'refused',
        detail: 'ECONNREFUSED',
      });
    });

    await t.test('whoever takes a connection passes, however soon he resets it', async (t) => {
      const resetting = new Worker(RESETTING, { eval: true });
      t.teardown(() => void resetting.terminate());
      const [port] = (await once(resetting, 'message')) as [number];
      for (let i = 0; i < 3; i++) {
        const probed = probeTcp(target({ port }), never);
        // As on a machine that is busy: the reset is here before anybody looks.
        await tick();
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
        t.same(await probed, { kind: 'pass' });
      }
      t.match(await probeTcp(target({ port, expect: 'hello' }), never), { kind: 'failure' }, 'and says no word');
    });

    await t.test('R17: a late loop opens no second connection beside one that is there', async (t) => {
      let connections = 0;
      const server = createServer((socket) => {
        connections++;
        socket.on('error', () => {});
      });
      const port = await listening(server);
      t.teardown(() => server.close());
      const probed = probeTcp(target({ port, timeout: 400 }), never);
      const until300 = performance.now() + 300;
      while (performance.now() < until300);
      t.same(await probed, { kind: 'pass' });
      // What is there is taken in order: when the last one is, so are all before.
      for (let i = 0; i < 20; i++) t.same(await probeTcp(target({ port }), never), { kind: 'pass' });
      await until(() => connections >= 21);
      await new Promise((done) => setTimeout(done, 50));
      t.equal(connections, 21, 'one a probe');
    });

    await t.test('IPv6 addresses are given without brackets', async (t) => {
      const server = createServer((socket) => socket.on('error', () => {}));
      const port = await listening(server, '::1').catch(() => 0);
      if (port === 0) {
        t.comment('no IPv6 here');
        return;
      }
      t.teardown(() => server.close());
      t.same(await probeTcp(target({ address: '::1', port }), never), { kind: 'pass' });
    });

    await t.test(
      'it comes from the address that is set, and one that this host has not is a local error',
      async (t) => {
        const from: (string | undefined)[] = [];
        const server = createServer((socket) => {
          from.push(socket.remoteAddress);
          socket.on('error', () => {});
        });
        const port = await listening(server);
        t.teardown(() => server.close());
        t.same(await probeTcp(target({ port, source: '127.0.0.77' }), never), { kind: 'pass' });
        await until(() => from.length > 0);
        t.same(from, ['127.0.0.77']);
        t.match(await probeTcp(target({ port, source: '192.0.2.1' }), never), {
          kind: 'local',
          detail: 'EADDRNOTAVAIL',
        });
        const named = createSocket('udp4');
        named.bind(0, HERE);
        await once(named, 'listening');
        t.teardown(() => named.close());
        named.on('message', (_question, { address, port: back }) => {
          from.push(address);
          named.send('pong', back, address);
        });
        const asked = { type: 'udp', port: named.address().port, send: 'ping' } as const;
        t.same(await PROBES.udp(target({ ...asked, source: '127.0.0.78' }), never), { kind: 'pass' });
        t.same(from, ['127.0.0.77', '127.0.0.78']);
        t.match(await PROBES.udp(target({ ...asked, source: '192.0.2.1' }), never), { kind: 'local' });
      },
    );

    await t.test('a connection that hangs gets a second chance when half of the time is over', async (t) => {
      // A full backlog: the kernel drops what comes beyond it, as if the packet were lost.
      const asked: string[] = [];
      const server = createServer((socket) => {
        asked.push('taken');
        socket.on('error', () => {});
      });
      const port = await listening(server);
      t.teardown(() => server.close());
      let again = 0;
      const waiting = (timeout: number, tries?: Tries, after = 60_000) =>
        attempt(
          timeout,
          never,
          (settle) => {
            const timer = setTimeout(() => settle({ kind: 'pass' }), after);
            return { release: () => clearTimeout(timer), again: (may) => void (may() && again++) };
          },
          tries,
        );
      t.same(await waiting(200, undefined, 190), { kind: 'pass' });
      t.equal(again, 1);
      t.match(await waiting(40), { failure: 'timeout' }, 'the deadline holds all the same');
      t.equal(again, 2, 'once each');
      t.match(await waiting(80, OFTEN), { failure: 'timeout' });
      t.equal(again, 5, 'or three times, where that is allowed');
      t.same(await probeTcp(target({ port, timeout: 5_000 }), never), { kind: 'pass' });
      await until(() => asked.length > 0);
      t.same(asked, ['taken'], 'no second one when the first is there');
    });

    await t.test(
      'a lost packet is made up for by a second connection; without an answer it is a timeout',
      async (t) => {
        const backend = await stoppedBackend(t);
        const lost = probeTcp(target({ port: backend.port, timeout: 800 }), never);
        t.same(await probeTcp(target({ port: backend.port, timeout: 60 }), never), {
          kind: 'failure',
          failure: 'timeout',
          detail: 'no answer within 60 ms',
        });
        backend.wake();
        // The system itself sends a lost packet again after a second.
        t.same(await lost, { kind: 'pass' });
      },
    );

    await t.test('R17: it is tried as often as it may be, and what nobody answered is counted', async (t) => {
      const { port, wake } = await stoppedBackend(t);
      const before = openSockets();
      const { tries, told } = counting();
      const dead = probeTcp(target({ port, timeout: 2_000 }), never, tries);
      await until(() => openSockets() >= before + 4);
      t.match(await dead, { failure: 'timeout' });
      t.equal(openSockets(), before);
      t.equal(told.unanswered, 4);
      const late = probeTcp(target({ port, timeout: 3_000 }), never, tries);
      await until(() => openSockets() >= before + 2);
      wake();
      t.same(await late, { kind: 'pass' });
      t.ok(told.unanswered > 4, `the others are: ${told.unanswered}`);
      const so = told.unanswered;
      t.same(await probeTcp(target({ port }), never, tries), { kind: 'pass' });
      t.match(await probeTcp(target({ port: await closedPort() }), never, tries), { failure: 'refused' });
      t.equal(told.unanswered, so, 'these were answered');
    });

    await t.test('a stop ends it, and leaves no descriptor behind', async (t) => {
      const backend = await stoppedBackend(t);
      const before = openSockets();
      const stopped = new AbortController();
      const { port } = backend;
      const probed = Array.from({ length: 20 }, (_, i) =>
        probeTcp(target({ port, timeout: i < 10 ? 60_000 : 100 }), stopped.signal),
      );
      await until(() => openSockets() >= before + 30);
      stopped.abort();
      t.same(await Promise.all(probed), Array(20).fill({ kind: 'local', detail: 'stopped' }));
      await until(() => openSockets() <= before);
      t.equal((await probeTcp(target({ port }), stopped.signal)).kind, 'local');
    });

    await t.test('impossible settings are local', async (t) => {
      t.equal((await probeTcp(target({ port: 99_999 }), never)).kind, 'local');
      t.equal((await probeTcp(target({ address: '::1', source: HERE }), never)).kind, 'local');
      t.equal((await probeTcp(target(), AbortSignal.abort())).kind, 'local');
    });

    await t.test('a stop ends a probe that has its connection', async (t) => {
      const stopped = new AbortController();
      const outcome = probeHttp(target({ port: await hanging(t), type: 'http', timeout: 60_000 }), stopped.signal);
      stopped.abort();
      t.same(await outcome, { kind: 'local', detail: 'stopped' });
    });
  });
}

t.test('R17: probes of all types over TCP try again beside a connection that is not there', async (t) => {
  const { port } = await stoppedBackend(t);
  const mute = await hanging(t);
  const before = openSockets();
  const { tries, told } = counting();
  const types = ['tcp', 'http', 'https', 'tls', 'grpc', 'dns'] as const;
  const ask = (type: (typeof types)[number], port: number, timeout: number) => {
    const more = type === 'tcp' ? { expect: '220' } : type === 'grpc' ? { tlsName: 'a.example' } : {};
    return PROBES[type](target({ type, port, timeout, ...more }), never, tries);
  };
  const dead = types.map((type) => ask(type, port, 2_000));
  await until(() => openSockets() >= before + 4 * types.length);
  for (const outcome of await Promise.all(dead)) t.match(outcome, { failure: 'timeout' });
  t.equal(told.unanswered, 4 * types.length);
  await until(() => openSockets() <= before);
  const taken = await Promise.all(types.map((type) => ask(type, mute, 1_000)));
  for (const outcome of taken) t.match(outcome, { failure: 'timeout' }, 'taken, and not answered');
  t.equal(told.unanswered, 4 * types.length, 'that is not silence');
});

t.test('TCP: a greeting to read and a farewell to send', async (t) => {
  let farewell: ((text: string) => void) | undefined;
  const said = new Promise<string>((resolve) => {
    farewell = resolve;
  });
  const greeter = createServer((socket: Socket) => {
    socket.on('error', () => {});
    socket.write('220 mail.');
    setImmediate(() => socket.write('example ready\r\n'));
    socket.on('data', (chunk) => {
      farewell?.(chunk.toString());
      socket.end();
    });
  });
  const port = await listeningHere(greeter);
  t.equal(await probe({ type: 'tcp', port, expect: 'example ready', farewell: 'QUIT\r\n' }), 'pass');
  t.equal(await said, 'QUIT\r\n');
  const closing = await listeningHere(createServer((socket) => void socket.on('error', () => {}).end('554 no')));
  t.equal(
    await probe({ type: 'tcp', port: closing, expect: '220 ' }),
    'bad-status: closed before the greeting that is expected',
  );
  const chatty = await listeningHere(
    createServer((socket) => void socket.on('error', () => {}).write('x'.repeat(9_000))),
  );
  t.equal(await probe({ type: 'tcp', port: chatty, expect: '220' }), 'bad-status: another greeting than expected');
  t.match(await probe({ type: 'tcp', port, timeout: 50, expect: 'never' }), /^timeout: /);
});
