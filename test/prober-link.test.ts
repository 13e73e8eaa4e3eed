import { once } from 'node:events';
import { existsSync, lstatSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { SESSION_HEADER, type Target } from '../src/prober/feed.js';
import { ProberCoverage } from '../src/resolver/prober-coverage.js';
import { ProberLink } from '../src/resolver/prober-link.js';
import {
  clock,
  closedPort,
  handProber,
  listening,
  openLink,
  socketPath,
  startProber,
  target,
  targets,
  until,
  web,
} from './prober-fixture.js';

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

  await t.test('how full the connection tracking table is holds as long as a prober says it (R16)', async (t) => {
    const { link, path } = await openLink(t);
    const told: number[] = [];
    link.onConntrack((fill) => told.push(fill));
    link.setTargets([target()]);
    const alive = { op: 'alive', targets: 1, late: 0, localErrors: 0 };
    const first = await handProber(path);
    first.say({ ...alive, at: clock.now().boot });
    first.say({ ...alive, at: clock.now().boot, conntrack: 0.97 });
    await until(() => told.length > 0);
    t.same(told, [0.97]);
    const second = await handProber(path);
    second.say({ ...alive, at: clock.now().boot, late: 1 });
    second.say({ ...alive, at: clock.now().boot, late: 2 });
    await until(() => link.status().lateMs === 2);
    t.same(told, [0.97, 0], 'this one cannot read it');
    second.say({ ...alive, at: clock.now().boot, conntrack: 0.96 });
    await until(() => told.length > 2);
    second.close();
    await until(() => link.status().state === 'stale');
    await until(() => told.length > 3);
    t.same(told, [0.97, 0, 0.96, 0], 'nor is there anybody any more');
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

  await t.test('what makes no sense is told in the status, and in one line at its beginning and its end', async (t) => {
    const { link, events, prober, pass } = await sixTargets(t);
    const [{ key }] = targets(6) as [Target];
    const told = () => ({ odd: link.status().odd, said: events().filter((event) => /understood/.test(event)) });
    const seconds = async (count: number, ...what: unknown[]) => {
      for (let i = 0; i < count; i++) {
        const at = pass();
        for (const one of what) prober.say(one);
        prober.say({ op: 'alive', at, targets: 6, late: 0, localErrors: 0 });
        await until(() => (link.status().lastHeardMs ?? 1e9) < 900);
      }
    };
    const gone = { key: 'gone', at: clock.now().boot, interval: 5_000, took: 1 };
    await seconds(2, { op: 'results', results: [gone] });
    t.same(told(), { odd: undefined, said: [] }, 'one that is not asked for any more makes sense');
    await seconds(20, 'garbage', { op: 'results', results: [{ ...gone, key, took: 'long' }] });
    t.same(told(), { odd: 'a result of another form', said: ['prober-not-understood'] });
    await seconds(1, 'x'.repeat(2 * 1024 * 1024));
    t.match(told().odd, /^a line of more than 1048576 bytes/);
    await seconds(30);
    t.match(told().odd, /^a line/, 'not forgotten at once');
    await seconds(35);
    await until(() => told().odd === undefined);
    t.same(told().said, ['prober-not-understood', 'prober-not-understood-ended']);
    await seconds(1, { op: 'news' });
    t.match(told(), { odd: 'a message "news" of another form', said: { length: 3 } });
  });

  await t.test('whoever connects and says nothing does not keep a prober out', async (t) => {
    const { link, path, results } = await openLink(t, { headMs: 200 });
    link.setTargets([target({ port: await closedPort(), interval: 100 })]);
    const idle = Array.from({ length: 16 }, () => connect(path).on('error', () => {}));
    await Promise.all(idle.map((socket) => once(socket, 'connect')));
    startProber(t, path);
    await until(() => results.length > 0);
    t.ok(idle.some(({ closed }) => closed));
    for (const socket of idle) socket.destroy();
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
  await t.test('a prober tells, once a connection, that it does not understand the resolver', async (t) => {
    const { link, path, results } = await openLink(t);
    const port = await closedPort();
    const odd = { ...target({ key: 'later', port }), type: 'carrier-pigeon' } as unknown as Target;
    link.setTargets([odd, target({ port, interval: 100 })]);
    const prober = startProber(t, path);
    await until(() => results.length > 0);
    link.changeTargets([{ ...odd, key: 'later still' }, target({ key: 'b', port, interval: 100 })], []);
    await until(() => results.some(({ key }) => key === 'b'));
    t.same(
      prober.logged.filter((event) => event !== 'resolver-connected'),
      ['not-understood'],
    );
  });

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

/** Six targets, and a prober by hand whose seconds pass as told: `pass` gives the time after one more. */
async function sixTargets(t: Test) {
  let passed = 0;
  const later = {
    now: () => {
      const { boot, wall } = clock.now();
      return { boot: boot + passed, wall };
    },
  };
  const { link, path, events } = await openLink(t, { clock: later });
  link.setTargets(targets(6));
  const prober = await handProber(path);
  t.teardown(() => prober.close());
  const pass = (): number => {
    passed += 1_000;
    return later.now().boot;
  };
  return { link, events, prober, pass };
}

t.test('R14: a prober that lives and does not probe all that it is told to', async (t) => {
  const { link, events, prober, pass } = await sixTargets(t);
  const keys = targets(6).map(({ key }) => key);
  /** Some seconds, in each of which it says that it lives, and what it has found. */
  const seconds = async (count: number, said: number, found: readonly string[]) => {
    for (let i = 0; i < count; i++) {
      const at = pass();
      const results = found.map((key) => ({ key, at, interval: 5_000, took: 1 }));
      if (results.length > 0) prober.say({ op: 'results', results });
      prober.say({ op: 'alive', at, targets: said, late: 0, localErrors: 0 });
      await until(() => (link.status().lastHeardMs ?? 1e9) < 900);
    }
  };
  const told = () => ({ unprobed: link.status().unprobed, said: events().filter((event) => /partial/.test(event)) });
  prober.say({ op: 'hello', pid: 1, version: 'other', wall: 1 });
  await seconds(40, 6, keys.slice(0, 1));
  t.same(told(), { unprobed: undefined, said: [] }, 'results come, if slowly');
  await seconds(25, 2, keys.slice(0, 2));
  t.same(told(), { unprobed: 4, said: ['prober-partial'] }, 'it has but two of them');
  await seconds(40, 6, keys);
  t.same(told(), { unprobed: undefined, said: ['prober-partial', 'prober-partial-ended'] });
  await seconds(25, 2, keys.slice(0, 2));
  for (let i = 0; i < 15; i++) {
    await seconds(1, 6, keys);
    t.not(told().unprobed, 0, 'none is no problem');
  }
  await seconds(25, 6, keys);
  t.match(told(), { unprobed: undefined, said: { length: 4 } });
  await seconds(40, 6, []);
  t.equal(told().unprobed, 6, 'it has all of them, and finds nothing out');
});

t.test('R14: what is probed more often from now on has not come yet', async (t) => {
  const coverage = new ProberCoverage(0);
  for (let at = 1_000; at <= 45_000; at += 1_000) {
    if (at === 35_000) coverage.heard(at);
    coverage.note(1, 1, () => (at < 29_000 ? 60_000 : 5_000), at);
    t.equal(coverage.unprobed, 0);
  }
  for (let at = 46_000; at <= 80_000; at += 1_000) coverage.note(1, 1, () => 5_000, at);
  t.equal(coverage.unprobed, 1, 'nor does it come');
});

t.test('R15: what ends for a reason of this host was probed', async (t) => {
  const { link, events, prober, pass } = await sixTargets(t);
  prober.say({ op: 'hello', pid: 1, version: 'this', wall: 1 });
  for (let second = 0; second < 60; second++) {
    const localErrors = 6 * Math.floor(second / 5);
    prober.say({ op: 'alive', at: pass(), targets: 6, late: 0, localErrors, reason: 'ENOENT' });
    await until(() => (link.status().lastHeardMs ?? 1e9) < 900);
  }
  t.notOk(events().some((event) => /partial/.test(event)));
  t.equal(link.status().unprobed, undefined);
});

t.test('R14: what is handed out and taken back all the time is not left out', async (t) => {
  const coverage = new ProberCoverage(0);
  for (let at = 0; at < 100_000; at += 1_000) {
    coverage.heard(at);
    const handed = 1_000 + (at % 7_000);
    // What it says is seconds old.
    coverage.note(handed, 1_000 + ((at + 4_000) % 7_000), () => 5_000, at);
    t.equal(coverage.unprobed, 0);
  }
  const growing = new ProberCoverage(0);
  for (let at = 0; at < 100_000; at += 1_000) {
    growing.heard(at);
    growing.note(at, Math.max(0, at - 3_000), () => 5_000, at);
    t.equal(growing.unprobed, 0);
  }
  const stopped = new ProberCoverage(0);
  for (const [from, to] of [
    [0, 30_000],
    [600_000, 610_000],
  ] as const) {
    for (let at = from; at < to; at += 1_000) {
      stopped.note(5, 5, () => 5_000, at);
      if (from === 0) stopped.heard(at);
      t.equal(stopped.unprobed, 0, 'it, or this machine, stood still');
    }
  }
});
