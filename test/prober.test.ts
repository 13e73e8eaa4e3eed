import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { EventEmitter, once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, request } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import t from 'tap';
import { askControl } from '../src/ask/control.js';
import { hostBudget } from '../src/prober/budget.js';
import { type ProbeResult, SESSION_HEADER, type Target } from '../src/prober/feed.js';
import { LineSplitter } from '../src/prober/lines.js';
import { LoopWatch } from '../src/prober/loop-watch.js';
import { readFromProber, readToProber } from '../src/prober/messages.js';
import { Outbox } from '../src/prober/outbox.js';
import { runProber } from '../src/prober/prober.js';
import { attempt, type Outcome, type Probe } from '../src/prober/probes/attempt.js';
import { classify, defaultIn4, defaultIn6 } from '../src/prober/probes/classify.js';
import { metItself } from '../src/prober/probes/connection.js';
import { hostOf, probeHttp } from '../src/prober/probes/http.js';
import { PROBES } from '../src/prober/probes/probe.js';
import { probeTcp } from '../src/prober/probes/tcp.js';
import { ProbeRunner } from '../src/prober/runner.js';
import { gapAfter, Schedule } from '../src/prober/schedule.js';
import { shareOut } from '../src/prober/shares.js';
import { ProberLink, type ProberLinkOptions } from '../src/resolver/prober-link.js';
import { BootClock } from '../src/system/boot-clock.js';
import type { Clock } from '../src/system/clock.js';
import { listenUnix } from '../src/system/unix-socket.js';
import { CERT, KEY } from './certificate-of-nobody.js';

const HERE = '127.0.0.1';
const clock = new BootClock();
const never = new AbortController().signal;

function target(over: Partial<Target> = {}): Target {
  return { key: 'a', address: HERE, port: 80, type: 'tcp', interval: 5_000, timeout: 1_000, ...over };
}

function targets(count: number, over: Partial<Target> = {}): Target[] {
  return Array.from({ length: count }, (_, i) => target({ key: `tcp|10.0.${i >> 8}.${i & 255}|8080`, ...over }));
}

function socketPath(): string {
  return join(mkdtempSync(join(tmpdir(), 'hf-')), 'prober.sock');
}

async function listening(server: Server, host = HERE): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function closedPort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  server.close();
  await once(server, 'close');
  return port;
}

/** Waits for something that will be so. The test runner's own timeout bounds it. */
async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** Runs a schedule whose probes all take `took`, and returns the starts of each key. */
function play(schedule: Schedule, from: number, to: number, took = 0): Map<string, number[]> {
  const starts = new Map<string, number[]>();
  const ends: { at: number; key: string }[] = [];
  for (let now = from; now <= to; now++) {
    while (ends.length > 0 && ends[0]!.at <= now) schedule.done(ends.shift()!.key, now);
    for (const turn of schedule.take(now, 10_000)) {
      const list = starts.get(turn.target.key) ?? [];
      list.push(now);
      starts.set(turn.target.key, list);
      ends.push({ at: now + took, key: turn.target.key });
    }
  }
  return starts;
}

t.test('R17: the schedule', async (t) => {
  await t.test('every gap is 0.8 to 1.2 of the interval, whatever the phase and the dice', async (t) => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e9, noNaN: true }),
        fc.integer({ min: 100, max: 60_000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (from, interval, phase, random) => {
          const gap = gapAfter(from, interval, phase, random);
          return gap >= 0.8 * interval && gap <= 1.2 * interval;
        },
      ),
    );
    const starts = play(new Schedule(500, 7), 1_000, 61_000, 30);
    t.equal(starts.size, 0);
    const schedule = new Schedule(500, 7);
    schedule.set(targets(200), 1_000);
    let gaps = 0;
    for (const list of play(schedule, 1_000, 61_000, 30).values())
      for (let i = 1; i < list.length; i++) {
        const gap = list[i]! - list[i - 1]!;
        if (gap < 4_000 || gap > 6_000) t.fail(`a gap of ${gap} ms`);
        gaps++;
      }
    t.ok(gaps > 200 * 9, 'each target was probed at its interval');
  });

  await t.test('the phase is from the hash: after some rounds the load is even, however it began', async (t) => {
    const schedule = new Schedule(500, 3);
    schedule.set(targets(1_000), 0);
    const starts = [...play(schedule, 0, 60_000).values()].flat();
    const perSecond = Array.from(
      { length: 20 },
      (_, i) => starts.filter((at) => at >= 40_000 + i * 1_000 && at < 41_000 + i * 1_000).length,
    );
    t.ok(
      perSecond.every((n) => n > 120 && n < 280),
      `200 a second are the mean, seen were ${perSecond.join(' ')}`,
    );
  });

  await t.test('hosts with other seeds probe at other times', async (t) => {
    const first = [1, 2].map((seed) => {
      const schedule = new Schedule(500, seed);
      schedule.set([target()], 0);
      return play(schedule, 0, 30_000).get('a')!;
    });
    t.notSame(first[0], first[1]);
  });

  await t.test('a new target is probed within 1 s, beside as many others as the budget bears', async (t) => {
    const schedule = new Schedule(500, 9);
    schedule.set(targets(2_000), 0);
    play(schedule, 0, 30_000);
    schedule.change([target({ key: 'new' })], [], 30_000);
    const starts = play(schedule, 30_001, 31_100).get('new')!;
    t.equal(starts.length, 1);
  });

  await t.test('20,000 targets at 5 s stay inside 500 a second, and carry the interval that is kept', async (t) => {
    const schedule = new Schedule(500, 5);
    schedule.set(targets(20_000), 0);
    t.equal(Math.round(schedule.stretch * 100) / 100, 8.42);
    const starts = new Map<string, number>();
    let probes = 0;
    let worst = 0;
    for (let now = 0; now < 120_000; now += 5)
      for (const turn of schedule.take(now, 10_000)) {
        const last = starts.get(turn.target.key);
        if (last !== undefined) {
          const shortBy = (now - last) / 1.2 - turn.interval;
          if (shortBy > 0.001) t.fail(`an interval of ${turn.interval} was said, a gap of ${now - last} was kept`);
        }
        worst = Math.max(worst, turn.interval);
        starts.set(turn.target.key, now);
        schedule.done(turn.target.key, now);
        probes++;
      }
    t.equal(starts.size, 20_000, 'each had its turn');
    t.ok(probes <= 500 * 120 + 20, `${probes} probes in 120 s`);
    t.ok(worst >= 42_000, 'the stretched interval is what results carry');
  });

  await t.test('zones share the budget: one that asks for very much stretches itself alone', async (t) => {
    const schedule = new Schedule(500, 1);
    const of = (group: string, count: number) =>
      targets(count, { group }).map((one) => ({ ...one, key: `${group} ${one.key}` }));
    schedule.set([...of('large', 20_000), ...of('small', 500)], 0);
    const starts = play(schedule, 0, 60_000);
    const small = of('small', 500).map(({ key }) => starts.get(key) ?? []);
    t.ok(
      small.every((times) => times.length > 0 && times[0]! <= 2_500),
      'new ones of the small zone do not wait for those of the large one',
    );
    const late = small.flatMap((times) => times.slice(1).map((at, i) => at - times[i]!)).filter((gap) => gap > 6_000);
    t.same(late, [], 'and keep their interval');
    t.ok(schedule.stretch > 10, `the large one is stretched ${schedule.stretch} times`);
    schedule.change(
      [],
      of('large', 20_000).map(({ key }) => key),
      60_000,
    );
    t.equal(schedule.stretch, 1);
  });

  await t.test('what a zone does not need is the others’, and parts are equal when all need more', async (t) => {
    const given = (budget: number, ...asks: number[]) => {
      const shares = asks.map((asked) => ({ asked, settled: 0, given: 0 }));
      shareOut(shares, budget);
      return shares.map((share) => share.given);
    };
    t.same(given(100, 20, 30), [20, 30]);
    t.same(given(100, 500, 10), [90, 10]);
    t.same(given(90, 500, 60, 1_000), [30, 30, 30]);
    t.same(given(100, 10, 60, 1_000), [10, 45, 45]);
    t.same(given(100), []);
  });

  await t.test('what clients report is due at once, inside the budget, and never twice at a time', async (t) => {
    const schedule = new Schedule(500, 1);
    const all = targets(100);
    schedule.set(all, 0);
    play(schedule, 0, 2_000);
    const keys = all.map(({ key }) => key);
    schedule.hasten([...keys, 'unknown'], 2_001);
    const burst = schedule.take(2_001, 1_000).length;
    t.ok(burst >= 1 && burst <= 500 * 0.02 + 1, `${burst} at once`);
    schedule.hasten(keys, 2_001);
    const rest = play(schedule, 2_001, 2_400);
    t.equal(rest.size, 100 - burst, 'the others within the time that the budget needs');
    t.ok(
      [...rest.values()].every((starts) => starts.length === 1),
      'once each',
    );
  });

  await t.test('a standstill is not caught up', async (t) => {
    const schedule = new Schedule(500, 5);
    schedule.set(targets(1_000), 0);
    play(schedule, 0, 40_000);
    const nextWake = schedule.nextWake();
    schedule.pause(300_000);
    t.equal(schedule.nextWake(), nextWake + 300_000, 'all comes so much later');
    const first = [...play(schedule, 340_000, 341_000).values()].flat();
    t.ok(first.length < 300, `${first.length} probes in the first second, 200 are the mean`);
    const turn = schedule.take(341_001, 1)[0] ?? schedule.take(341_050, 1)[0]!;
    t.equal(turn.interval, 5_000, 'the pause is not part of the interval');
  });

  await t.test('a probe under way is not started again; a removed target is never', async (t) => {
    const schedule = new Schedule(500, 1);
    schedule.set([target(), target({ key: 'b' })], 0);
    t.equal(schedule.take(2_000, 10).length, 2);
    t.equal(schedule.take(60_000, 10).length, 0);
    schedule.change([], ['b'], 60_000);
    schedule.done('a', 60_000);
    schedule.done('b', 60_000);
    t.same(
      schedule.take(70_000, 10).map((turn) => turn.target.key),
      ['a'],
    );
    t.equal(schedule.size, 1);
  });

  await t.test('a shorter interval holds from now on, and targets that stay keep their time', async (t) => {
    const schedule = new Schedule(500, 1);
    schedule.set([target({ interval: 60_000 })], 0);
    play(schedule, 0, 2_000);
    schedule.set([target({ interval: 60_000 })], 2_000);
    t.ok(schedule.nextWake() > 49_000);
    schedule.set([target({ interval: 5_000 })], 3_000);
    t.ok(schedule.nextWake() <= 7_000, `next at ${schedule.nextWake()}`);
  });

  await t.test('due order holds for any additions and removals', async () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(30), fc.boolean(), fc.integer({ min: 1, max: 5_000 })), { maxLength: 120 }),
        (steps) => {
          const schedule = new Schedule(1e9, 1);
          const model = new Set<string>();
          let now = 0;
          for (const [name, add, interval] of steps) {
            now += 7;
            if (add) schedule.change([target({ key: `${name}`, interval })], [], now);
            else schedule.change([], [`${name}`], now);
            if (add) model.add(`${name}`);
            else model.delete(`${name}`);
          }
          const taken = schedule.take(now + 10_000, 1_000).map((turn) => turn.target.key);
          return schedule.size === model.size && taken.length === model.size && taken.every((key) => model.has(key));
        },
      ),
    );
  });

  await t.test('the budget is at most its share of the connection tracking table', async (t) => {
    t.equal(hostBudget(500, 0.05, 65_536), 131.072);
    t.equal(hostBudget(500, 0.05, 1_000_000), 500);
    t.equal(hostBudget(500, 0.05, 10), 1);
  });
});

t.test('R15: the loop watch tells a late loop and a pause from a slow endpoint', async (t) => {
  const watch = new LoopWatch(0);
  t.equal(watch.beat(100), 0);
  t.equal(watch.beat(230), 0, 'noise');
  t.equal(watch.longestSince(0, 300), 0);
  t.equal(watch.longestSince(0, 1_330), 1_000, 'before the beat that will notice it');
  t.equal(watch.beat(1_330), 1_000);
  t.equal(watch.longestSince(1_329, 1_400), 1_000, 'a probe that was under way');
  t.equal(watch.longestSince(1_330, 1_400), 0, 'a probe that began after it');
  t.equal(watch.worstLate(), 1_000);
  t.equal(watch.worstLate(), 0);
});

t.test('R12, R15: what an error means', async (t) => {
  const yes = () => true;
  const no = () => false;
  const cases: [string, Outcome][] = [
    ['ECONNREFUSED', { kind: 'failure', failure: 'refused', detail: 'ECONNREFUSED' }],
    ['ECONNRESET', { kind: 'failure', failure: 'reset', detail: 'ECONNRESET' }],
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

  const end = { localAddress: HERE, localPort: 40_000, remoteAddress: HERE, remotePort: 40_000 };
  t.equal(metItself(end), true, 'a connection to itself is nobody listening');
  t.equal(metItself({ ...end, localPort: 40_001 }), false);
});

t.test('TCP probes', async (t) => {
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
    t.same(await probeTcp(target({ port: await closedPort() }), never), {
      kind: 'failure',
      failure: 'refused',
      detail: 'ECONNREFUSED',
    });
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

  await t.test('it comes from the address that is set, and one that this host has not is a local error', async (t) => {
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
    t.match(await probeTcp(target({ port, source: '192.0.2.1' }), never), { kind: 'local', detail: 'EADDRNOTAVAIL' });
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
  });

  await t.test('a connection that hangs gets a second chance when half of the time is over', async (t) => {
    // A full backlog: the kernel drops what comes beyond it, as if the packet were lost.
    const asked: string[] = [];
    const server = createServer((socket) => {
      asked.push('taken');
      socket.on('error', () => {});
    });
    const port = await listening(server);
    t.teardown(() => server.close());
    let halfway = 0;
    const outcome = attempt(
      200,
      never,
      (settle) => {
        setTimeout(() => settle({ kind: 'pass' }), 150);
        return () => {};
      },
      () => halfway++,
    );
    t.same(await outcome, { kind: 'pass' });
    t.equal(halfway, 1);
    const late = attempt(
      40,
      never,
      () => () => {},
      () => halfway++,
    );
    t.match(await late, { failure: 'timeout' }, 'the deadline holds all the same');
    t.equal(halfway, 2);
    t.same(await probeTcp(target({ port, timeout: 5_000 }), never), { kind: 'pass' });
    await until(() => asked.length > 0);
    t.same(asked, ['taken'], 'no second one when the first is there');
  });

  await t.test('a stop ends it; impossible settings are local', async (t) => {
    const stopped = new AbortController();
    const outcome = probeHttp(target({ port: await hanging(t), type: 'http', timeout: 60_000 }), stopped.signal);
    stopped.abort();
    t.same(await outcome, { kind: 'local', detail: 'stopped' });
    t.equal((await probeTcp(target({ port: 99_999 }), never)).kind, 'local');
    t.equal((await probeTcp(target(), AbortSignal.abort())).kind, 'local');
  });
});

/** A server that takes connections and says nothing. */
async function hanging(t: Tap): Promise<number> {
  return raw(t, () => {});
}

type Tap = { teardown: (after: () => void) => void };

async function raw(t: Tap, serve: (socket: Socket) => void): Promise<number> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    serve(socket);
    socket.resume();
  });
  t.teardown(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return listening(server);
}

async function web(t: Tap, serve: RequestListener, tls?: { key: string; cert: string }): Promise<number> {
  const server = tls === undefined ? createHttpServer(serve) : createHttpsServer(tls, serve);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return listening(server);
}

t.test('HTTP probes', async (t) => {
  const http = (port: number, over: Partial<Target> = {}) =>
    probeHttp(target({ type: 'http', port, timeout: 5_000, ...over }), never);

  await t.test('the request is what the settings say, and the row’s own address otherwise', async (t) => {
    const seen: { method: string; url: string; headers: Record<string, unknown> }[] = [];
    const port = await web(t, (query, reply) => {
      seen.push({ method: query.method!, url: query.url!, headers: query.headers });
      reply.end('ok');
    });
    t.same(await http(port), { kind: 'pass' });
    t.same(
      await http(port, { method: 'HEAD', path: '/health?x=1', host: 'orders.internal', headers: { 'X-Probe': 'yes' } }),
      { kind: 'pass' },
    );
    await http(port, { headers: { host: 'from-headers' } });
    t.match(seen[0], { method: 'GET', url: '/', headers: { host: `${HERE}:${port}`, connection: 'close' } });
    t.match(seen[1], { method: 'HEAD', url: '/health?x=1', headers: { host: 'orders.internal', 'x-probe': 'yes' } });
    t.equal(seen[2]!.headers.host, 'from-headers');
    t.equal(hostOf({ type: 'http', address: 'fd00::1', port: 8080 }), '[fd00::1]:8080');
    t.equal(hostOf({ type: 'https', address: 'fd00::1', port: 443 }), '[fd00::1]');
  });

  await t.test('a status passes by its range, and no redirect is followed', async (t) => {
    let asked = 0;
    const port = await web(t, (query, reply) => {
      asked++;
      reply.writeHead(Number(query.url!.slice(1)), { location: '/200' }).end();
    });
    const bad = (status: number) => ({ kind: 'failure', failure: 'bad-status', detail: `HTTP ${status}` });
    t.same(await http(port, { path: '/204' }), { kind: 'pass' });
    t.same(await http(port, { path: '/503' }), bad(503));
    t.same(await http(port, { path: '/503', drainHeader: 'X-Drain' }), bad(503), 'without the header it is ill');
    t.same(await http(port, { path: '/302' }), bad(302));
    t.same(
      await http(port, {
        path: '/401',
        status: [
          [200, 299],
          [401, 401],
        ],
      }),
      { kind: 'pass' },
    );
    t.same(await http(port, { path: '/200', status: [[401, 401]] }), bad(200));
    t.equal(asked, 6);
  });

  await t.test(
    'a 503 with the drain header is a pass that says so, any other status with it is what it is',
    async (t) => {
      const port = await web(t, (query, reply) => {
        reply.writeHead(Number(query.url!.slice(1)), { 'x-drain': 'until 12:00' }).end();
      });
      const drainHeader = 'X-Drain';
      t.match(await http(port, { path: '/503', drainHeader }), { kind: 'pass', draining: true });
      t.match(await http(port, { path: '/503', drainHeader: 'X-Other' }), { failure: 'bad-status' });
      t.match(await http(port, { path: '/503' }), { failure: 'bad-status' });
      t.match(await http(port, { path: '/500', drainHeader }), { failure: 'bad-status', detail: 'HTTP 500' });
      t.same(await http(port, { path: '/200', drainHeader }), { kind: 'pass' });
      const other = { identityHeader: ['X-Service', 'orders'] as const, drainHeader };
      t.match(await http(port, { path: '/503', ...other }), { failure: 'wrong-identity' }, 'another’s word is none');
    },
  );

  await t.test('refused, reset, and closed in good order are told apart', async (t) => {
    t.match(await http(await closedPort()), { failure: 'refused', detail: 'ECONNREFUSED' });
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.resetAndDestroy()))), {
      failure: 'reset',
      detail: 'ECONNRESET',
    });
    const unfinished = { failure: 'bad-status', detail: 'closed before the answer was complete' };
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.end()))), unfinished);
    const cut = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort';
    t.match(await http(await raw(t, (socket) => socket.once('data', () => socket.end(cut)))), unfinished);
  });

  await t.test('what is not HTTP is a bad status, and so are endless headers', async (t) => {
    t.match(await http(await raw(t, (socket) => socket.write('SSH-2.0-OpenSSH_9.2\r\n'))), { failure: 'bad-status' });
    const long = `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(64 * 1024)}`;
    t.match(await http(await raw(t, (socket) => socket.write(long))), { detail: 'HPE_HEADER_OVERFLOW' });
  });

  await t.test('the deadline covers everything: silence, a dripping head, a dripping body', async (t) => {
    const timers: NodeJS.Timeout[] = [];
    t.teardown(() => timers.forEach(clearInterval));
    const drip = (first: string) => (socket: Socket) => {
      socket.write(first);
      timers.push(setInterval(() => socket.writable && socket.write('x'), 20));
    };
    const late = { kind: 'failure', failure: 'timeout', detail: 'no answer within 200 ms' };
    const timeout = 200;
    const ports = [
      await hanging(t),
      await raw(t, drip('HTTP/1.1 200 OK\r\nX-Slow: ')),
      await raw(t, drip('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n')),
    ];
    for (const port of ports) t.same(await http(port, { timeout }), late);
    t.same(await http(ports[0]!, { timeout, type: 'https' }), late, 'a TLS handshake too');
  });

  await t.test('a body is read to a limit only', async (t) => {
    const port = await raw(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      new Readable({
        read: function () {
          this.push('x'.repeat(16 * 1024));
        },
      }).pipe(socket);
    });
    t.same(await http(port), { kind: 'pass' });
  });

  await t.test('settings that no request can carry are local', async (t) => {
    t.equal((await http(80, { path: '/with space' })).kind, 'local');
    t.equal((await http(80, { headers: { 'bad name': 'x' } })).kind, 'local');
    t.equal((await http(80, { host: 'a\r\nb' })).kind, 'local');
  });

  await t.test('HTTPS takes any certificate and names the host it asks for', async (t) => {
    let seen: unknown;
    const port = await web(
      t,
      (query, reply) => {
        seen = (query.socket as unknown as { servername: unknown }).servername;
        reply.end('ok');
      },
      { key: KEY, cert: CERT },
    );
    t.same(await http(port, { type: 'https', host: 'orders.internal:8443' }), { kind: 'pass' });
    t.equal(seen, 'orders.internal');
    t.same(await http(port, { type: 'https' }), { kind: 'pass' });
    t.equal(seen, false, 'no name for an address');
    t.match(await http(await closedPort(), { type: 'https' }), { failure: 'refused' });
    const plain = await web(t, (_query, reply) => reply.end('ok'));
    t.match(await http(plain, { type: 'https' }), { failure: 'bad-status' });
  });
});

t.test('no probe leaves a descriptor behind, whatever its outcome', async (t) => {
  const open = () => readdirSync('/proc/self/fd').filter((fd) => isSocket(fd)).length;
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
  const before = open();
  for (let i = 0; i < 5; i++)
    await Promise.all(kinds.map((asked) => (asked.type === 'tcp' ? probeTcp : probeHttp)(asked, never)));
  await until(() => open() <= before);
  t.ok(open() <= before);
});

function isSocket(fd: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`).startsWith('socket:');
  } catch {
    return false;
  }
}

t.test('R36: what comes in is a message or a counted drop', async (t) => {
  const known = (key: string) => key === 'a';
  const good = { key: 'a', at: 900, interval: 5_000, took: 3 };
  const read = (value: unknown) => readFromProber(JSON.stringify(value), known, 1_000);
  t.same(read({ op: 'results', results: [good, { ...good, failure: 'refused', detail: 'ECONNREFUSED' }] }), {
    message: { op: 'results', results: [good, { ...good, failure: 'refused', detail: 'ECONNREFUSED' }] },
    dropped: 0,
  });
  const bad: unknown[] = [
    null,
    'text',
    { ...good, key: 'b' },
    { ...good, key: 1 },
    { ...good, at: 1e7 },
    { ...good, at: -1 },
    { ...good, at: null },
    { ...good, interval: 0 },
    { ...good, took: '3' },
    { ...good, failure: 'tired' },
    { ...good, detail: {} },
    { ...good, extra: 1 },
  ];
  t.same(read({ op: 'results', results: [...bad, good] }), {
    message: { op: 'results', results: [good] },
    dropped: bad.length,
  });
  t.same(readFromProber('{"op":"results","results":[{"key":"a","at":1e999,"interval":1,"took":1}]}', known, 1_000), {
    message: { op: 'results', results: [] },
    dropped: 1,
  });
  t.same(read({ op: 'results', results: [{ ...good, at: 1_500, detail: 'a\u001b[2Jb' }] }).message, {
    op: 'results',
    results: [{ ...good, at: 1_000, detail: 'a?[2Jb' }],
  });
  const hello = { op: 'hello', pid: 5, version: '1', wall: 1 };
  const alive = { op: 'alive', at: 5, targets: 1, late: 0, localErrors: 0 };
  for (const message of [hello, alive]) t.same(read(message), { message, dropped: 0 });
  const lines = [
    '',
    '{',
    'null',
    '[]',
    '7',
    '{"op":"stop"}',
    '{"op":"results","results":{}}',
    '{"op":"results","results":[],"more":1}',
    '{"op":"__proto__"}',
    JSON.stringify({ ...hello, pid: 1.5 }),
    JSON.stringify({ ...alive, late: Number.NaN }),
    JSON.stringify({ ...alive, extra: 1 }),
  ];
  for (const line of lines) t.same(readFromProber(line, known, 1_000), { dropped: 1 }, line);
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (line) => {
      const read = readFromProber(line, known, 1_000);
      return read.message !== undefined || read.dropped === 1;
    }),
  );

  const fit = target();
  const unfit = [
    { ...fit, address: 'example.org' },
    { ...fit, port: 0 },
    { ...fit, type: 'exec' },
    { ...fit, interval: 0 },
    { ...fit, timeout: 1e12 },
    { ...fit, headers: { a: 1 } },
    { ...fit, status: [[200]] },
    7,
  ];
  t.same(readToProber(JSON.stringify({ op: 'targets', targets: [...unfit, fit], newer: 1 })), {
    message: { op: 'targets', targets: [fit] },
    dropped: unfit.length,
  });
  t.same(readToProber(JSON.stringify({ op: 'change', add: [fit], remove: ['a', 1] })), {
    message: { op: 'change', add: [fit], remove: ['a'] },
    dropped: 1,
  });
  for (const line of ['', '{"op":"targets"}', '{"op":"change","add":[]}', 'nonsense'])
    t.same(readToProber(line), { dropped: 1 }, line);
});

t.test('lines are cut the same however the bytes come, and a long one is never stored', async (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme', maxLength: 12 }).map((text) => text.replaceAll('\n', ' '))),
      fc.integer({ min: 1, max: 9 }),
      (lines, size) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = new LineSplitter(1_000);
        const read: string[] = [];
        for (let i = 0; i < bytes.length; i += size) read.push(...splitter.push(bytes.subarray(i, i + size)));
        return JSON.stringify(read) === JSON.stringify(lines) && splitter.held === 0;
      },
    ),
  );
  const splitter = new LineSplitter(10);
  for (let i = 0; i < 1_000; i++) splitter.push(Buffer.alloc(1_000, 'x'));
  t.equal(splitter.held, 0);
  t.same(splitter.push(Buffer.from('x\nshort\n')), ['short']);
  t.equal(splitter.tooLong, 1);
});

t.test('results that nobody reads are dropped, the oldest first', async (t) => {
  const outbox = new Outbox(100);
  for (let i = 0; i < 1_000; i++) outbox.add({ key: `${i}`, at: i, interval: 1, took: 1 });
  t.ok(outbox.size <= 125);
  t.equal(outbox.size + outbox.dropped, 1_000);
  t.equal(outbox.wait(5), 0, 'the first goes at once');
  const sent = outbox.next(5);
  t.equal(sent.at(-1)!.key, '999');
  t.equal(outbox.wait(15), 40, 'and what follows waits for company');
  t.same(outbox.next(60), []);
});

/** A clock that the test moves. */
class HandClock implements Clock {
  boot = 1_000;
  now() {
    return { boot: this.boot, wall: this.boot + 1e12 };
  }
}

/** Probes that end when the test says so. */
function handProbes() {
  const waiting: { key: string; end: (outcome: Outcome) => void }[] = [];
  const probe: Probe = (asked) => new Promise((end) => waiting.push({ key: asked.key, end }));
  return { waiting, probes: { ...PROBES, tcp: probe, http: probe, https: probe } };
}

const TIMEOUT: Outcome = { kind: 'failure', failure: 'timeout', detail: 'no answer' };
const REFUSED: Outcome = { kind: 'failure', failure: 'refused', detail: 'ECONNREFUSED' };
const settled = () => new Promise((resolve) => setImmediate(resolve));

t.test('R15: what the runner believes', async (t) => {
  const rig = () => {
    const clock = new HandClock();
    const hand = handProbes();
    const results: ProbeResult[] = [];
    const runner = new ProbeRunner({
      clock,
      schedule: new Schedule(500, 1),
      probes: hand.probes,
      onResult: (result) => results.push(result),
    });
    t.teardown(() => runner.stop());
    /** Time goes on in steps that a running loop would see. */
    const pass = (ms: number): void => {
      for (const end = clock.boot + ms; clock.boot < end; ) {
        clock.boot += 50;
        runner.wake();
      }
    };
    return { clock, results, runner, pass, waiting: hand.waiting };
  };

  await t.test('a result is stamped at its end, with the interval and how long it took', async (t) => {
    const { clock, results, runner, pass, waiting } = rig();
    runner.setTargets([target()]);
    pass(1_000);
    t.equal(waiting.length, 1);
    const started = clock.boot;
    pass(500);
    waiting[0]!.end(TIMEOUT);
    await settled();
    t.equal(results.length, 1);
    t.match(results[0], { key: 'a', at: started + 500, interval: 5_000, failure: 'timeout', detail: 'no answer' });
    t.ok(results[0]!.took >= 500);
    t.equal(runner.stats().localErrors, 0);
  });

  await t.test('a timeout while the loop was late is a local error; a refusal then still counts', async (t) => {
    const { clock, results, runner, pass, waiting } = rig();
    runner.setTargets([target(), target({ key: 'b' })]);
    pass(1_100);
    t.equal(waiting.length, 2);
    clock.boot += 2_000;
    waiting[0]!.end(TIMEOUT);
    waiting[1]!.end(REFUSED);
    await settled();
    t.same(
      results.map((result) => [result.key, result.failure]),
      [[waiting[1]!.key, 'refused']],
    );
    t.match(runner.stats(), { localErrors: 1, lastLocalError: 'event loop late by 1900 ms' });
  });

  await t.test(
    'A21: after a pause of more than two intervals nothing under way counts, and nothing is caught up',
    async (t) => {
      const { clock, results, runner, pass, waiting } = rig();
      runner.setTargets(targets(40));
      pass(1_100);
      t.equal(waiting.length, 40);
      clock.boot += 300_000;
      // As after SIGCONT: a socket is looked at before any timer.
      for (const probe of waiting.splice(0)) probe.end(REFUSED);
      await settled();
      t.same(results, []);
      t.equal(runner.stats().discarded, 40);
      pass(1_000);
      t.ok(waiting.length < 20, `${waiting.length} probes in the first second after it`);
      pass(6_000);
      t.ok(waiting.length >= 40, 'all again within an interval');
      for (const probe of waiting.splice(0)) probe.end(REFUSED);
      await settled();
      t.ok(results.length >= 40);
      t.ok(results.every((result) => result.interval === 5_000));
    },
  );

  await t.test('without descriptors nothing fails, and less is tried at once', async (t) => {
    const { results, runner, pass, waiting } = rig();
    runner.setTargets(targets(200));
    pass(1_500);
    t.equal(waiting.length, 200);
    for (const probe of waiting.splice(40)) probe.end({ kind: 'local', detail: 'EMFILE' });
    await settled();
    t.same(results, []);
    t.match(runner.stats(), { localErrors: 160, lastLocalError: 'EMFILE', targets: 200 });
    for (const probe of waiting.splice(0)) probe.end({ kind: 'pass' });
    await settled();
    pass(10_000);
    t.ok(waiting.length >= 20 && waiting.length <= 40, `${waiting.length} at once, where 40 could be had`);
  });

  await t.test('a probe that throws is a local error, and a removed target’s result is not sent', async (t) => {
    const hand = handProbes();
    const results: ProbeResult[] = [];
    const clock = new HandClock();
    const runner = new ProbeRunner({
      clock,
      schedule: new Schedule(500, 1),
      probes: { ...hand.probes, http: () => Promise.reject(new Error('a bug')) },
      onResult: (result) => results.push(result),
    });
    t.teardown(() => runner.stop());
    runner.setTargets([target(), target({ key: 'b', type: 'http' })]);
    for (let i = 0; i < 25; i++) {
      clock.boot += 50;
      runner.wake();
    }
    await settled();
    t.match(runner.stats(), { localErrors: 1, lastLocalError: 'Error: a bug' });
    runner.changeTargets([], ['a']);
    hand.waiting[0]!.end(REFUSED);
    await settled();
    t.same(results, []);
  });
});

t.test('Unix sockets', async (t) => {
  await t.test('the mode is set, a stale file is replaced, a living one and a foreign file are not', async (t) => {
    const path = socketPath();
    const first = createServer((socket) => socket.on('error', () => {}).end('first'));
    const listener = await listenUnix(first, path, { mode: 0o660 });
    t.equal(lstatSync(path).mode & 0o777, 0o660);
    t.same(readdirSync(join(path, '..')), ['prober.sock']);
    await t.rejects(listenUnix(createServer(), path, { mode: 0o660 }), {
      message: `${path} is in use by process ${process.pid}: stop it, or set another runDir`,
    });
    t.match(String(await once(connect(path), 'data')), 'first', 'and it still answers');

    const dead = socketPath();
    const child = spawnSync(process.execPath, [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(dead)}, () => process.kill(process.pid, 'SIGKILL'))`,
    ]);
    t.equal(child.signal, 'SIGKILL');
    t.ok(existsSync(dead), 'a dead process left its file');
    const next = await listenUnix(createServer(), dead, { mode: 0o600 });
    await next.close();
    t.notOk(existsSync(dead), 'removed at the end');

    const file = socketPath();
    writeFileSync(file, 'precious');
    await t.rejects(listenUnix(createServer(), file, { mode: 0o600 }), /exists and is not a socket: move it away/);
    t.equal(readFileSync(file, 'utf8'), 'precious');
    await t.rejects(listenUnix(createServer(), `/tmp/${'x'.repeat(120)}`, { mode: 0o600 }), /at most 107 bytes/);
    await listener.close();
  });

  await t.test('a folder in a place that everybody may write to is one’s own, or is not used', async (t) => {
    const shared = mkdtempSync(join(tmpdir(), 'holdfast-'));
    chmodSync(shared, 0o1777);
    t.teardown(() => rmSync(shared, { recursive: true }));
    const folder = join(shared, 'run');
    const path = join(folder, 'control.sock');
    const answering = createHttpServer((_request, response) => response.end('{}'));
    const own = await listenUnix(answering, path, { mode: 0o660 });
    t.equal(lstatSync(folder).mode & 0o777, 0o700);
    t.same(await askControl(folder, '/v1/status'), { kind: 'answer', body: {}, from: 'control' });
    await own.close();

    const asked = new EventEmitter();
    const refused = async (message: string): Promise<void> => {
      const fault = { fault: 'foreign-folder', message };
      await t.rejects(listenUnix(createServer(), path, { mode: 0o660 }), fault);
      t.same(await askControl(folder, '/v1/status'), { kind: 'failed', error: message });
    };
    chmodSync(folder, 0o770);
    const advice = 'set runDir or XDG_RUNTIME_DIR';
    await refused(`${folder} may be written to by others than its owner: chmod 700 it, or ${advice}`);
    chmodSync(folder, 0o755);
    if (process.getuid?.() === 0) {
      chownSync(folder, 65_534, 65_534);
      await refused(`${folder} belongs to user 65534, not to this one: ${advice}`);
    }
    const away = once(asked, 'away');
    startProber(t, join(folder, 'prober.sock'), {
      log: (_level, event, { reason }) => event === 'resolver-away' && asked.emit('away', reason),
    });
    t.match((await away)[0], /belongs to user|may be written to/, 'the prober does not ask there either');
    rmSync(folder, { recursive: true });
    symlinkSync(tmpdir(), folder);
    await refused(`${folder} is not a folder: remove it, or ${advice}`);
    rmSync(folder);
    t.match(await askControl(folder, '/v1/status'), { kind: 'not-running' });
  });

  await t.test('at the end another’s file is left alone, and a missing directory is made', async (t) => {
    const path = join(socketPath(), 'deeper', 'x.sock');
    const ours = await listenUnix(createServer(), path, { mode: 0o660, directoryMode: 0o750 });
    t.equal(lstatSync(join(path, '..')).mode & 0o777, 0o750);
    renameSync(path, `${path}.old`);
    const theirs = createServer();
    theirs.listen(path);
    await once(theirs, 'listening');
    await ours.close();
    t.ok(existsSync(path));
    theirs.close();
  });
});

interface Logged {
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

async function openLink(t: Tap, over: Partial<ProberLinkOptions> = {}) {
  const path = over.path ?? socketPath();
  const logged: Logged[] = [];
  const results: ProbeResult[] = [];
  const link = new ProberLink({ path, clock, log: (_level, event, fields) => logged.push({ event, fields }), ...over });
  link.onResults((batch) => results.push(...batch));
  await link.start();
  t.teardown(() => link.stop());
  return { path, link, logged, results, events: () => logged.map((line) => line.event) };
}

function startProber(t: Tap, path: string, over: Partial<Parameters<typeof runProber>[0]> = {}) {
  const end = new AbortController();
  const logged: string[] = [];
  const done = runProber({
    socketPath: path,
    log: (_level, event) => logged.push(event),
    clock,
    version: 'test',
    signal: end.signal,
    budget: 5_000,
    ...over,
  });
  const stop = async (): Promise<void> => {
    end.abort();
    await done;
  };
  t.teardown(stop);
  return { logged, stop };
}

/** A prober played by hand: the stream of targets as text, and the stream of verdicts to write to. */
async function handProber(path: string, id: string = randomUUID()) {
  const headers = { [SESSION_HEADER]: id };
  const asked = request({ socketPath: path, path: '/v1/targets', headers, agent: false });
  asked.on('error', () => {});
  asked.end();
  const [reply] = (await once(asked, 'response')) as [IncomingMessage];
  const state = { text: '', ended: false };
  reply.on('data', (chunk) => (state.text += chunk));
  reply.on('error', () => {});
  reply.on('close', () => (state.ended = true));
  const verdicts = request({ socketPath: path, path: '/v1/verdicts', method: 'POST', headers, agent: false });
  verdicts.on('error', () => {});
  verdicts.flushHeaders();
  const [accepted] = (await once(verdicts, 'response')) as [IncomingMessage];
  accepted.on('error', () => {});
  const say = (message: unknown) =>
    verdicts.write(typeof message === 'string' ? `${message}\n` : `${JSON.stringify(message)}\n`);
  const messages = () =>
    state.text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  return {
    state,
    reply,
    say,
    messages,
    status: accepted.statusCode,
    close: () => {
      asked.destroy();
      verdicts.destroy();
    },
  };
}

t.test('R36: the resolver’s end', async (t) => {
  await t.test('targets go out once, then changes only', async (t) => {
    const { link, path } = await openLink(t);
    t.equal(lstatSync(path).mode & 0o777, 0o660);
    link.setTargets([target()]);
    const prober = await handProber(path);
    await until(() => prober.messages().length > 0);
    link.setTargets([target()]);
    link.changeTargets([target()], ['unknown']);
    link.setTargets([target({ interval: 60_000 }), target({ key: 'b' })]);
    link.setTargets([target({ key: 'b' })]);
    await until(() => prober.messages().length > 2);
    t.same(prober.messages(), [
      { op: 'targets', targets: [target()] },
      { op: 'change', add: [target({ interval: 60_000 }), target({ key: 'b' })], remove: [] },
      { op: 'change', add: [], remove: ['a'] },
    ]);
    prober.close();
  });

  await t.test('the newest prober wins, and the older is told', async (t) => {
    const { link, path, events } = await openLink(t);
    link.setTargets([target()]);
    t.equal(link.status().state, 'never');
    const older = await handProber(path);
    older.say({ op: 'hello', pid: 11, version: '1', wall: 1 });
    await until(() => link.status().pid === 11);
    t.equal(link.status().state, 'ok');
    const newer = await handProber(path);
    await until(() => older.state.ended);
    t.same(older.messages().at(-1), { op: 'replaced' });
    newer.say({ op: 'hello', pid: 12, version: '1', wall: 1 });
    newer.say({ op: 'alive', at: clock.now().boot, targets: 1, late: 7, localErrors: 3 });
    await until(() => link.status().localErrors === 3);
    t.match(link.status(), { state: 'ok', pid: 12, targets: 1, lateMs: 7 });
    newer.close();
    await until(() => link.status().state === 'stale');
    t.same(events(), ['prober-connected', 'prober-replaced', 'prober-connected', 'prober-gone']);
    link.setTargets([]);
    t.equal(link.status().state, 'not-needed');
  });

  await t.test('the one who waits is called when the newest leaves or falls silent, one at a time', async (t) => {
    const { link, path, events } = await openLink(t);
    link.setTargets([target()]);
    const waiting = async () => {
      const asked = request({ socketPath: path, path: '/v1/vacancy', agent: false });
      const state: { status?: number } = {};
      asked.on('error', () => {});
      asked.on('response', (reply) => {
        state.status = reply.statusCode!;
        reply.resume();
      });
      asked.end();
      await once(asked, 'finish');
      // A request that is answered at once shows that this one was taken in before it.
      const next = request({ socketPath: path, agent: false });
      next.end();
      const [reply] = (await once(next, 'response')) as [IncomingMessage];
      reply.resume();
      return { state, asked };
    };
    t.equal((await waiting()).state.status, 204, 'nobody is there');
    const first = await handProber(path);
    const early = await waiting();
    const gone = await waiting();
    const late = await waiting();
    gone.asked.destroy();
    t.same([early.state, late.state], [{}, {}]);
    first.close();
    await until(() => late.state.status !== undefined);
    t.equal(late.state.status, 204);
    t.same(early.state, {}, 'the other one goes on waiting');
    const mute = await handProber(path);
    await until(() => early.state.status !== undefined);
    t.equal(early.state.status, 204, 'one that says nothing is as good as gone');
    t.notOk(mute.state.ended, 'but keeps its place until somebody takes it');
    await handProber(path);
    for (let count = 0; count < 8; count++) await waiting();
    t.equal((await waiting()).state.status, 503, 'not so many that a new one finds no room');
    await until(() => mute.state.ended);
    t.same(mute.messages().at(-1), { op: 'replaced' });
    t.equal(events().filter((event) => event === 'prober-replaced').length, 1);
  });

  await t.test('the socket is opened when it can be, and again when its file is taken away', async (t) => {
    const folder = join(socketPath(), '..', 'run');
    const path = join(folder, 'prober.sock');
    writeFileSync(folder, 'in the way');
    const { link, events } = await openLink(t, { path });
    link.setTargets([target()]);
    t.match(link.problems(), [/^prober\.sock cannot be opened: .*EEXIST.*: no prober can connect$/]);
    t.same(events(), ['prober-socket-unavailable']);
    rmSync(folder);
    await until(() => existsSync(path));
    await until(() => link.problems().length === 0);
    const prober = await handProber(path);

    rmSync(folder, { recursive: true });
    await until(() => existsSync(path));
    t.equal(lstatSync(path).mode & 0o777, 0o660);
    prober.say({ op: 'alive', at: clock.now().boot, targets: 1, late: 0, localErrors: 4 });
    await until(() => link.status().localErrors === 4);
    t.notOk(prober.state.ended, 'who is connected stays so');

    rmSync(path);
    const other = createServer((socket) => socket.on('error', () => {}).end('other')).listen(path);
    await until(() => link.problems().length > 0);
    t.match(link.problems(), [/is in use by process \d+: stop it/]);
    t.match(String(await once(connect(path), 'data')), 'other', 'another’s socket is left alone');
    other.close();
    await until(() => link.problems().length === 0);
    const newer = await handProber(path);
    await until(() => prober.state.ended);
    newer.close();
    await until(() => events().includes('prober-gone'));
    t.same(
      events().filter((event) => event !== 'prober-stale'),
      [
        'prober-socket-unavailable',
        'prober-socket-up',
        'prober-socket-remade',
        'prober-socket-unavailable',
        'prober-socket-up',
        'prober-replaced',
        'prober-gone',
      ],
    );
    rmSync(folder, { recursive: true });
    writeFileSync(folder, 'in the way again');
    await link.stop();
    t.equal(readFileSync(folder, 'utf8'), 'in the way again');
  });

  await t.test('a stop during the start leaves nothing open', async (t) => {
    const path = socketPath();
    const link = new ProberLink({ path, clock, log: () => {} });
    const started = link.start();
    await link.stop();
    await started;
    t.same(readdirSync(join(path, '..')), []);
    await link.start();
    t.same(readdirSync(join(path, '..')), [], 'nor does a start after it');
  });

  await t.test('garbage is dropped and counted, and what is good beside it arrives', async (t) => {
    const { link, path, results } = await openLink(t);
    link.setTargets([target()]);
    const prober = await handProber(path);
    const good = { key: 'a', at: clock.now().boot, interval: 5_000, took: 1, failure: 'refused' };
    prober.say('garbage');
    prober.say('\u0000\u00ff{"op":');
    prober.say('x'.repeat(2 * 1024 * 1024));
    prober.say({ op: 'results', results: [{ ...good, key: 'other' }, { ...good, at: good.at + 1e9 }, good] });
    await until(() => results.length > 0);
    t.same(results, [good]);
    t.same(link.drops(), { messages: 5, requests: 0 });
    prober.close();
  });

  await t.test('requests that no prober makes are refused and counted', async (t) => {
    const { link, path } = await openLink(t);
    const ask = async (method: string, url: string, headers = {}) => {
      const query = request({ socketPath: path, method, path: url, headers, agent: false });
      query.end();
      const [reply] = (await once(query, 'response')) as [IncomingMessage];
      reply.resume();
      return reply.statusCode;
    };
    t.equal(await ask('GET', '/'), 404);
    t.equal(await ask('GET', '/v1/targets'), 400);
    t.equal(await ask('GET', '/v1/targets', { [SESSION_HEADER]: 'bad id' }), 400);
    t.equal(await ask('POST', '/v1/verdicts', { [SESSION_HEADER]: 'stranger' }), 409);
    const socket = connect(path);
    socket.write('\u0016\u0003\u0001 not http\r\n\r\n');
    await once(socket.resume(), 'close');
    t.equal(link.drops().requests, 5);
  });

  await t.test('a prober that does not read is closed after a bound, and nothing piles up for it', async (t) => {
    const { link, path, events } = await openLink(t, { stalledMs: 50 });
    link.setTargets(targets(20_000, { path: '/'.repeat(100) }));
    const prober = await handProber(path);
    prober.reply.pause();
    await until(() => events().includes('prober-gone'));
    t.same(events(), ['prober-stalled', 'prober-gone']);
    prober.close();
  });

  await t.test('many targets come in many lines, the first of which replaces all', async (t) => {
    const { link, path } = await openLink(t);
    link.setTargets([...targets(5_000, { path: '/'.repeat(100) }), target({ key: 'last' })]);
    const prober = await handProber(path);
    await until(() => prober.state.text.includes('"last"') && prober.state.text.endsWith('\n'));
    const ops = prober.messages().map((message) => message.op);
    t.same(new Set(ops.slice(1)), new Set(['change']));
    t.equal(ops[0], 'targets');
    t.ok(ops.length > 10);
    t.equal(prober.messages().flatMap((message) => message.targets ?? message.add).length, 5_001);
    link.setTargets([]);
    await until(() => prober.messages().flatMap((message) => message.remove ?? []).length === 5_001);
    prober.close();
  });
});

t.test('link and prober together', async (t) => {
  await t.test('facts arrive for each kind of endpoint, and follow it when it changes', async (t) => {
    const { link, path, results } = await openLink(t);
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listening(server);
    const sick = await web(t, (_query, reply) => reply.writeHead(503).end());
    const fast = { interval: 100, timeout: 500 };
    link.setTargets([
      target({ key: 'up', port, ...fast }),
      target({ key: 'down', port: await closedPort(), ...fast }),
      target({ key: 'sick', port: sick, type: 'http', ...fast }),
    ]);
    startProber(t, path);
    const last = (key: string) => results.findLast((result) => result.key === key);
    await until(() => ['up', 'down', 'sick'].every((key) => last(key) !== undefined));
    t.match(last('up'), { interval: 100, failure: undefined });
    t.match(last('down'), { failure: 'refused', detail: 'ECONNREFUSED' });
    t.match(last('sick'), { failure: 'bad-status', detail: 'HTTP 503' });
    t.match(link.status(), { state: 'ok', pid: process.pid, targets: 3 });
    server.close();
    await until(() => last('up')?.failure === 'refused');
    link.changeTargets([], ['down', 'sick']);
    t.same(link.drops().requests, 0);
  });

  await t.test('the prober outlives the resolver, and takes its targets from the next one', async (t) => {
    const path = socketPath();
    const prober = startProber(t, path);
    await until(() => prober.logged.length > 0);
    const server = createServer((socket) => socket.on('error', () => {}));
    const port = await listening(server);
    t.teardown(() => server.close());
    for (const key of ['first', 'second']) {
      const { link, results } = await openLink(t, { path });
      link.setTargets([target({ key, port, interval: 100 })]);
      await until(() => results.length > 0);
      t.ok(results.every((result) => result.key === key && result.failure === undefined));
      await link.stop();
    }
    await until(() => prober.logged.length > 4);
    await prober.stop();
    t.same(prober.logged, [
      'resolver-away',
      'resolver-connected',
      'resolver-away',
      'resolver-connected',
      'resolver-away',
    ]);
  });

  await t.test('a prober that was replaced is back when the newer one has left', async (t) => {
    const { link, path, results, events } = await openLink(t);
    const port = await closedPort();
    link.setTargets([target({ port, interval: 100 })]);
    const older = startProber(t, path);
    await until(() => results.length > 0);
    const newer = startProber(t, path);
    await until(() => older.logged.includes('standing-by') && newer.logged.length > 0);
    const newest = startProber(t, path);
    await until(() => newer.logged.includes('standing-by') && newest.logged.length > 0);
    for (const leaving of [newest, newer]) {
      await leaving.stop();
      results.length = 0;
      await until(() => results.length > 0);
    }
    t.same(older.logged, ['resolver-connected', 'standing-by', 'resolver-connected']);
    t.same(newer.logged, ['resolver-connected', 'standing-by', 'resolver-connected']);
    t.same(newest.logged, ['resolver-connected']);
    t.equal(events().filter((event) => event === 'prober-replaced').length, 2, 'and none drove another out again');

    const last = startProber(t, path);
    await until(() => older.logged.length === 4 && last.logged.length > 0);
    t.equal(older.logged[3], 'standing-by');
    await link.stop();
    const next = await openLink(t, { path });
    next.link.setTargets([target({ port, interval: 100 })]);
    await until(() => next.results.length > 0);
    await last.stop();
    next.results.length = 0;
    await until(() => next.results.length > 0);
    t.equal(older.logged.at(-1), 'resolver-connected', 'one that waits finds the next resolver, too');
  });

  await t.test('2,000 living targets: no false failure, and no descriptor is left behind', async (t) => {
    const open = () => readdirSync('/proc/self/fd').length;
    const server = createServer((socket) => socket.on('error', () => {}));
    server.listen(0, '0.0.0.0', 4_096);
    await once(server, 'listening');
    const port = (server.address() as AddressInfo).port;
    t.teardown(() => server.close());
    const before = open();
    const { link, path, results } = await openLink(t);
    const { stop } = startProber(t, path);
    const all = Array.from({ length: 2_000 }, (_, i) =>
      target({ key: `k${i}`, address: `127.0.${i >> 8}.${i & 255 || 1}`, port, interval: 1_000, timeout: 5_000 }),
    );
    link.setTargets(all);
    await until(() => new Set(results.map((result) => result.key)).size === 2_000);
    t.same(
      results.filter((result) => result.failure !== undefined),
      [],
    );
    await stop();
    await link.stop();
    await until(() => open() <= before);
    t.ok(open() <= before);
  });
});
