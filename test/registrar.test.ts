/** The registrar's parts under a fake clock, and its files. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as immediate } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { failure, local, type Outcome, PASS } from '../src/prober/probes/attempt.js';
import type { Entry } from '../src/registrar/entry.js';
import { isDead, ownMark } from '../src/registrar/file-mark.js';
import { FileSweep } from '../src/registrar/file-sweep.js';
import { FileTarget } from '../src/registrar/file-target.js';
import { Keeper, type KeeperState } from '../src/registrar/keeper.js';
import { LocalCheck } from '../src/registrar/local-check.js';
import { metricsText } from '../src/registrar/metrics-text.js';
import { ownAddress } from '../src/registrar/own-address.js';
import { isYounger, newOwner } from '../src/registrar/owner.js';
import { makePlan } from '../src/registrar/plan.js';
import type { Gone, Kept, Target } from '../src/registrar/target.js';
import { isProcessAlive, parseStat, startOf } from '../src/registrar/watched-process.js';
import type { Failure } from '../src/registry/adapter.js';
import { FileRegistry } from '../src/registry/file.js';
import type { After } from '../src/registry/timers.js';
import type { BootMs, Ms } from '../src/system/clock.js';

const SECOND = 1000;
const HOUR = 3_600_000;
const TTL = 30 * SECOND;
const PERIOD = 10 * SECOND;
const OWN = '1700000000000-00000001';

const WEB: Entry = {
  service: 'web',
  id: 'web-1',
  address: '10.0.0.1',
  port: 80,
  protocol: 'tcp',
  tags: [],
  state: 'passing',
};

/** Time that passes when it is told to. */
class FakeTime {
  now: BootMs = 0;
  #timers: { at: BootMs; run: () => void }[] = [];

  readonly after: After = (ms, run) => {
    const timer = { at: this.now + ms, run };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  async pass(ms: Ms): Promise<void> {
    const end = this.now + ms;
    await immediate();
    for (;;) {
      const next = this.#timers.reduce<{ at: BootMs; run: () => void } | undefined>(
        (first, other) => (other.at <= end && (first === undefined || other.at < first.at) ? other : first),
        undefined,
      );
      if (next === undefined) break;
      this.#timers = this.#timers.filter((other) => other !== next);
      this.now = Math.max(this.now, next.at);
      next.run();
      await immediate();
    }
    this.now = end;
  }
}

/** A registry that holds one entry, or nothing, and breaks. */
class FakeTarget implements Target {
  held: Entry | undefined;
  /** A younger registrar's. */
  other: string | undefined;
  fault: 'refuse' | 'mute' | 'deaf' | undefined;
  asked = 0;
  writes = 0;
  removed = 0;

  async keep(entry: Entry, signal: AbortSignal): Promise<Kept | Failure> {
    this.asked++;
    const fault = await this.#fault(signal);
    if (fault !== undefined) return fault;
    if (this.other !== undefined) return { kind: 'taken', by: this.other };
    const wrote = JSON.stringify(this.held) !== JSON.stringify(entry);
    if (wrote) this.writes++;
    this.held = entry;
    return { kind: 'kept', wrote };
  }

  async remove(signal: AbortSignal): Promise<Gone | Failure> {
    const fault = await this.#fault(signal);
    if (fault !== undefined) return fault;
    this.removed++;
    this.held = undefined;
    return { kind: 'gone' };
  }

  #fault(signal: AbortSignal): Promise<Failure | undefined> {
    if (this.fault === undefined) return Promise.resolve(undefined);
    const refused: Failure = { kind: 'unreachable', reason: 'connection refused' };
    if (this.fault === 'refuse') return Promise.resolve(refused);
    // Deaf: it does not even hear that nobody waits any more.
    if (this.fault === 'deaf') return new Promise(() => undefined);
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve({ kind: 'unreachable', reason: 'not waited for' }));
    });
  }
}

function keep(target: Target, random: () => number = () => 0.5) {
  const time = new FakeTime();
  const states: KeeperState[] = [];
  const keeper = new Keeper({
    target,
    ttl: TTL,
    period: PERIOD,
    onState: (state) => states.push(state),
    now: () => time.now,
    after: time.after,
    random,
  });
  return { time, keeper, states, kinds: () => states.map(({ kind }) => kind) };
}

t.test('what is wanted is written once, and looked at each period', async (t) => {
  const target = new FakeTarget();
  const { time, keeper, kinds } = keep(target);
  keeper.want(WEB);
  await time.pass(0);
  t.same(target.held, WEB);
  await time.pass(60 * SECOND);
  t.equal(target.writes, 1);
  t.ok(target.asked >= 6 && target.asked <= 8, `${target.asked} looks in a minute`);
  t.same(kinds(), ['trying', 'registered']);
});

t.test(
  'a registry that loses its memory is told again within a period, whatever was acknowledged before',
  async (t) => {
    const target = new FakeTarget();
    const { time, keeper, states } = keep(target);
    keeper.want(WEB);
    await time.pass(HOUR);
    target.held = undefined;
    await time.pass(PERIOD);
    t.same(target.held, WEB);
    target.held = { ...WEB, port: 81 };
    await time.pass(PERIOD);
    t.same(target.held, WEB, 'restored from an old copy');
    t.same(states.at(-1), { kind: 'registered', wrote: true });
  },
);

for (const fault of ['refuse', 'mute', 'deaf'] as const) {
  t.test(`${fault}: an outage of an hour is tried through, and ends within a period`, async (t) => {
    const target = new FakeTarget();
    const { time, keeper, kinds, states } = keep(target, Math.random);
    target.fault = fault;
    keeper.want(WEB);
    await time.pass(HOUR);
    t.same(kinds().at(-1), 'trying');
    t.match(states.at(-1), { reason: fault === 'refuse' ? 'connection refused' : /^(no answer|not waited)/ });
    t.ok(target.asked < 1_000, `${target.asked} tries in an hour`);
    if (fault === 'deaf') return t.equal(target.asked, 1, 'a call that never ends costs one call, not one a try');
    t.ok(target.asked > 200, `${target.asked} tries in an hour`);
    target.fault = undefined;
    await time.pass(PERIOD);
    t.same(target.held, WEB);
    t.same(kinds().at(-1), 'registered');
  });
}

t.test('an outage shorter than the TTL is told as such, a longer one as not registered', async (t) => {
  const target = new FakeTarget();
  const { time, keeper, kinds } = keep(target);
  keeper.want(WEB);
  await time.pass(PERIOD);
  target.fault = 'refuse';
  await time.pass(20 * SECOND);
  t.same(kinds(), ['trying', 'registered', 'unconfirmed']);
  await time.pass(TTL);
  t.same(kinds(), ['trying', 'registered', 'unconfirmed', 'trying']);
});

t.test('any series of faults ends registered, one period after the last', async () => {
  const steps = fc.array(
    fc.record({
      fault: fc.constantFrom('refuse', 'mute', undefined),
      wipe: fc.boolean(),
      ms: fc.integer({ min: 1, max: 120_000 }),
    }),
    { maxLength: 12 },
  );
  await fc.assert(
    fc.asyncProperty(steps, fc.double({ min: 0, max: 0.999, noNaN: true }), async (story, luck) => {
      const target = new FakeTarget();
      const { time, keeper } = keep(target, () => luck);
      keeper.want(WEB);
      for (const { fault, wipe, ms } of story) {
        target.fault = fault;
        if (wipe) target.held = undefined;
        await time.pass(ms);
      }
      target.fault = undefined;
      await time.pass(PERIOD);
      if (target.held === undefined || keeper.state.kind !== 'registered')
        throw new Error(JSON.stringify(keeper.state));
    }),
    { numRuns: 60 },
  );
});

t.test('a younger registrar has the id; when it leaves, the older one is there again', async (t) => {
  const target = new FakeTarget();
  const { time, keeper, kinds } = keep(target);
  keeper.want(WEB);
  await time.pass(PERIOD);
  target.other = 'the younger one';
  await time.pass(HOUR);
  t.equal(target.writes, 1, 'they do not overwrite each other');
  t.same(kinds(), ['trying', 'registered', 'taken']);
  target.other = undefined;
  target.held = undefined;
  await time.pass(PERIOD);
  t.same(target.held, WEB);
});

t.test('what is not wanted any more is removed, as often as it takes', async (t) => {
  const target = new FakeTarget();
  const { time, keeper, kinds } = keep(target);
  keeper.want(WEB);
  await time.pass(PERIOD);
  target.fault = 'refuse';
  keeper.want(undefined);
  await time.pass(HOUR);
  t.same(target.held, WEB);
  target.fault = undefined;
  await time.pass(PERIOD);
  t.equal(target.held, undefined);
  t.same(kinds().at(-1), 'absent');
  const { asked } = target;
  await time.pass(HOUR);
  t.equal(target.asked, asked, 'then nothing is asked any more');
});

t.test('a change does not wait for a call that hangs', async (t) => {
  const target = new FakeTarget();
  const { time, keeper } = keep(target);
  target.fault = 'mute';
  keeper.want(WEB);
  await time.pass(1 * SECOND);
  target.fault = undefined;
  keeper.want({ ...WEB, state: 'draining' });
  await time.pass(0);
  t.equal(target.held?.state, 'draining');
});

t.test('a stop removes, or gives up within its bound', async (t) => {
  for (const fault of [undefined, 'refuse', 'mute', 'deaf'] as const) {
    const target = new FakeTarget();
    const { time, keeper } = keep(target);
    keeper.want(WEB);
    await time.pass(PERIOD);
    target.fault = fault;
    let removed: boolean | undefined;
    void keeper.stop(3 * SECOND).then((done) => {
      removed = done;
    });
    await time.pass(3 * SECOND);
    t.equal(removed, fault === undefined, String(fault));
    await time.pass(HOUR);
    t.same(target.held, fault === undefined ? undefined : WEB);
  }
});

t.test('a stop of what was never written asks nobody; one in the middle of a write removes it', async (t) => {
  const idle = new FakeTarget();
  const { keeper } = keep(idle);
  t.equal(await keeper.stop(SECOND), true);
  t.equal(idle.removed, 0);

  const slow = new FakeTarget();
  slow.fault = 'mute';
  const second = keep(slow);
  second.keeper.want(WEB);
  await second.time.pass(100);
  slow.fault = undefined;
  const stopped = second.keeper.stop(SECOND);
  await second.time.pass(SECOND);
  t.equal(await stopped, true);
  t.equal(slow.removed, 1);
});

t.test(
  'a local check: the first result counts, then rise and fall; faults of this side count for nothing',
  async (t) => {
    const time = new FakeTime();
    const outcomes: Outcome[] = [];
    const changes: boolean[] = [];
    const check = new LocalCheck({
      check: { interval: SECOND, rise: 2, fall: 3 },
      target: () => ({ key: '', address: '127.0.0.1', port: 1, type: 'tcp', interval: SECOND, timeout: SECOND }),
      probe: async () => outcomes.shift() ?? PASS,
      onChange: (healthy) => changes.push(healthy),
      after: time.after,
    });
    const bad = failure('refused', 'ECONNREFUSED');
    outcomes.push(local('EMFILE'), bad, PASS, bad, PASS, PASS, bad, bad, local('EMFILE'), PASS, bad, bad, bad);
    check.start();
    await time.pass(0);
    t.equal(check.healthy, undefined, 'a local fault tells nothing');
    await time.pass(SECOND);
    t.equal(check.healthy, false);
    await time.pass(3 * SECOND);
    t.equal(check.healthy, false, 'one pass, one failure, one pass');
    await time.pass(SECOND);
    t.equal(check.healthy, true);
    await time.pass(6 * SECOND);
    t.equal(check.healthy, true, 'three failures, but not in a row');
    await time.pass(SECOND);
    t.same(changes, [false, true, false]);
    check.stop();
  },
);

t.test('of two owners the younger one wins, and nothing else does', async (t) => {
  t.equal(isYounger('1700000000001-00000001', OWN), true);
  t.equal(isYounger('1700000000000-00000002', OWN), true, 'in the same millisecond one of both');
  t.equal(isYounger(OWN, '1700000000000-00000002'), false);
  t.equal(isYounger(OWN, OWN), false);
  for (const other of [undefined, null, 7, '', 'x', '9999999999999999999-1', {}]) t.equal(isYounger(other, OWN), false);
  t.match(newOwner(1_700_000_000_000.7), /^1700000000000-[0-9a-f]{8}$/);
});

t.test('a process is known by its number and its start', async (t) => {
  const line = '42 (a) b (c\n) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 2';
  t.same(parseStat(line), { state: 'S', threads: 3, start: '12345' });
  t.equal(parseStat(''), undefined);
  const stat =
    (state: string, threads: number, start = '5') =>
    () => ({ state, threads, start });
  const never = () => false;
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('S', 1), never), true);
  t.equal(isProcessAlive({ pid: 1, start: '4' }, stat('S', 1), never), false, 'the number is another one’s now');
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('Z', 1), never), false, 'dead, and not buried');
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('Z', 4), never), true, 'its first thread ended, others go on');
  t.equal(isProcessAlive({ pid: 1 }, stat('S', 1, '9'), never), true);
  t.equal(
    isProcessAlive(
      { pid: 1, start: '5' },
      () => undefined,
      () => true,
    ),
    true,
    'hidden is not dead',
  );
  t.equal(
    isProcessAlive({ pid: 1, start: '5' }, () => undefined, never),
    false,
  );
  t.match(startOf(process.pid), /^\d+$/);
});

t.test('the address of a host is kept as long as the host has it', async (t) => {
  const address = (text: string, internal = false) =>
    ({ address: text, internal, family: text.includes(':') ? 'IPv6' : 'IPv4' }) as never;
  const interfaces = {
    lo: [address('127.0.0.1', true)],
    eth0: [address('fe80::1'), address('fd00::7'), address('169.254.1.1'), address('10.0.0.7')],
    eth1: [address('10.0.1.7')],
  };
  t.equal(ownAddress(undefined, interfaces), '10.0.0.7');
  t.equal(ownAddress('10.0.1.7', interfaces), '10.0.1.7');
  t.equal(ownAddress('10.9.9.9', interfaces), '10.0.0.7');
  t.equal(ownAddress(undefined, { eth0: [address('fe80::1'), address('fd00::7')] }), 'fd00::7');
  t.equal(ownAddress(undefined, { lo: [address('127.0.0.1', true)] }), '127.0.0.1');
});

const NEVER = new AbortController().signal;

function inFolder(path: string, id = 'web-1', owner = OWN): Target {
  return new FileTarget({ type: 'file', path }, { service: 'web', id, owner, ttl: TTL });
}

t.test('the file registry: a file of its own, in a form that the resolver reads', async (t) => {
  const folder = t.testdir({});
  const first = inFolder(folder);
  const second = inFolder(folder, 'web-2');
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true });
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: false });
  await second.keep(
    { ...WEB, id: 'web-2', port: 81, portName: 'http', tags: ['blue'], priority: 3, state: 'draining' },
    NEVER,
  );
  t.same(readdirSync(folder).sort(), ['registered-web.web-1.json', 'registered-web.web-2.json', 'registered.json']);
  const limits = { maxServices: 10, maxEndpoints: 10, maxEndpointsPerService: 10, maxBody: 65536 };
  const registry = new FileRegistry({ type: 'file', path: folder }, { softTtl: TTL, limits, allowAddresses: [] });
  const list = async () => {
    const seen = await registry.poll({ signal: NEVER, fresh: true });
    if (seen.kind !== 'list') throw new Error(JSON.stringify(seen));
    return seen;
  };
  t.match(await list(), {
    removalsBelievable: true,
    rejected: [],
    services: [
      {
        name: 'web',
        rows: [
          { id: 'web-1', address: '10.0.0.1', port: 80, state: 'passing' },
          { id: 'web-2', port: 81, portName: 'http', tags: ['blue'], priority: 3, state: 'draining' },
        ],
      },
    ],
  });
  rmSync(join(folder, 'registered-web.web-1.json'));
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true }, 'wiped, and there again');
  writeFileSync(join(folder, 'registered-web.web-1.json'), '{"services": {');
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true }, 'spoiled, and good again');
  t.same(await first.remove(NEVER), { kind: 'gone' });
  t.same(await first.remove(NEVER), { kind: 'gone' });
  await second.remove(NEVER);
  const empty = await list();
  t.match(empty, { removalsBelievable: true, rejected: [] }, 'the last one leaves a registry that says so');
  t.equal(empty.services.length, 0);
  registry.close();
});

t.test('the file registry: a successor’s file is neither overwritten nor removed', async (t) => {
  const folder = t.testdir({});
  const older = inFolder(folder);
  const younger = inFolder(folder, 'web-1', '1700000000001-00000001');
  await older.keep(WEB, NEVER);
  t.same(await younger.keep({ ...WEB, port: 81 }, NEVER), { kind: 'kept', wrote: true });
  t.same(await older.keep(WEB, NEVER), { kind: 'taken', by: '1700000000001-00000001' });
  t.same(await older.remove(NEVER), { kind: 'gone' });
  t.match(readFileSync(join(folder, 'registered-web.web-1.json'), 'utf8'), /"port": 81/);
  await younger.remove(NEVER);
  t.same(await older.keep(WEB, NEVER), { kind: 'kept', wrote: true });
});

t.test('the file registry: whoever reads it may, whatever the umask of the one who registers', async (t) => {
  const folder = t.testdir({});
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  await inFolder(folder).keep(WEB, NEVER);
  for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o644, name);
});

t.test('the file registry: what is in the way is said, and nothing is made where nothing was', async (t) => {
  const folder = t.testdir({ file: '' });
  const at = (path: string) => inFolder(path).keep(WEB, NEVER);
  t.match(await at(join(folder, 'file')), { kind: 'unreachable', reason: /a registrar needs a directory/ });
  t.match(await at(join(folder, 'none')), { kind: 'unreachable', reason: /none: no such file or directory/ });
  t.match(await at('/proc/sys'), { kind: 'unreachable', reason: /\/proc\/sys: / });
  t.same(readdirSync(folder), ['file']);
});

t.test('what a dead registrar left goes a TTL after somebody saw that both are dead; nothing else does', async (t) => {
  const folder = t.testdir({});
  const mark = ownMark(OWN, undefined);
  const gone = { pid: process.pid, start: '1' };
  const alive = mark.registrar;
  const put = (name: string, change: object) =>
    writeFileSync(join(folder, name), JSON.stringify({ services: {}, 'x-holdfast': { ...mark, ...change } }));
  put('registered-dead.json', { registrar: gone, process: gone });
  put('registered-killed.json', { registrar: gone, process: alive });
  put('registered-daemon.json', { registrar: gone });
  put('registered-alive.json', { registrar: alive, process: gone });
  put('registered-rebooted.json', { boot: 'another' });
  put('registered-host.json', { registrar: gone, machine: 'another' });
  put('registered-name.json', { registrar: gone, host: 'another' });
  put('registered-pids.json', { registrar: gone, pids: 'pid:[1]' });
  writeFileSync(join(folder, 'registered-hand.json'), '{"services": {}}');
  writeFileSync(join(folder, 'registered-odd.json'), 'null');
  put('dead.json', { registrar: gone });
  mkdirSync(join(folder, 'registered-folder.json'));
  spawnSync('mkfifo', [join(folder, 'registered-pipe.json')]);
  let now = 0;
  const sweep = new FileSweep(folder, TTL, () => now);
  const before = readdirSync(folder);
  await sweep.run();
  t.same(readdirSync(folder), before, 'it may have been restarted this moment');
  now += TTL - 1;
  await sweep.run();
  t.same(readdirSync(folder), before);
  now += 1;
  await sweep.run();
  const left = new Set(readdirSync(folder));
  t.same(
    before.filter((name) => !left.has(name)),
    ['registered-daemon.json', 'registered-dead.json', 'registered-rebooted.json'],
  );
  t.equal(isDead({ ...mark, boot: 'another' }), true);
});

t.test('a plan: files by their folder, faults with file, line and key', async (t) => {
  const folder = t.testdir({
    'holdfast.yaml': [
      'version: 1',
      'zones:',
      '  - { name: a.test, registry: { type: file, path: reg } }',
      '  - { name: b.test, registry: { type: etcd, layout: skydns } }',
      '  - { name: c.test, registry: { type: file, path: one.yaml } }',
      '  - { name: d.test, registry: { type: http, url: "http://127.0.0.1:1/" } }',
    ].join('\n'),
    'register.d': {
      'good.yaml': 'name: web\nport: 8080\nzone: a.test\nid: web-1\nx-note: mine\n',
      'same.json': '{"name": "web", "port": 8081, "zone": "a.test", "id": "web-1"}',
      'odd.yaml': 'name: web\nadress: 10.0.0.1\n',
      'port.yaml': 'name: web\nzone: a.test\nport: 80800\n',
      'zone.yaml': 'name: web\nport: 80\n',
      'nozone.yaml': 'name: web\nport: 80\nzone: x.test\n',
      'weight.yaml': 'name: web\nport: 80\nzone: b.test\nweight: 0\n',
      'label.yaml': 'name: web_1\nport: 80\nzone: b.test\n',
      'onefile.yaml': 'name: web\nport: 80\nzone: c.test\n',
      'http.yaml': 'name: web\nport: 80\nzone: d.test\n',
      'check.yaml': 'name: web\nport: 80\nzone: a.test\ncheck:\n  type: exec\n',
      'none.yaml': 'name: web\nport: 80\nzone: a.test\nwhenHealthy: true\ncheck: { type: none }\n',
      'udp.yaml': 'name: web\nport: 80\nzone: a.test\nprotocol: udp\nwhenHealthy: true\n',
      'cut.yaml': 'name: [',
      'name.yaml': 'name: ../../etc/passwd\nport: 80\nzone: a.test\n',
      '.hidden.yaml': 'x',
      'notes.txt': 'x',
    },
  });
  const plan = await makePlan({ config: join(folder, 'holdfast.yaml') });
  if (!plan.ok) throw new Error(plan.reason);
  t.equal(plan.folder, join(folder, 'register.d'));
  const said = Object.fromEntries(
    plan.items.map((item) => [
      item.name.slice(plan.folder.length + 1),
      item.ok ? '' : item.reason.slice(plan.folder.length + 1),
    ]),
  );
  t.match(said, {
    'good.yaml': /^$/,
    'same.json': /^same.json: id: web-1 of web is registered by .*good.yaml already/,
    'odd.yaml': /^odd.yaml:2: adress: unknown key, did you mean address\?/,
    'port.yaml': /^port.yaml:3: port: expected a whole number from 1 to 65535/,
    'zone.yaml': /^zone.yaml:1: zone: missing, expected one of a.test, b.test, c.test, d.test/,
    'nozone.yaml': /^nozone.yaml:3: zone: expected a zone of the configuration/,
    'weight.yaml': /^weight.yaml:4: weight: expected 1 or more/,
    'label.yaml': /^label.yaml:1: name: expected letters, digits and hyphens/,
    'onefile.yaml': /^onefile.yaml:3: zone: the registry of c.test is one file/,
    'http.yaml': /^http.yaml:3: zone: nothing can be registered in the registry of d.test \(http\)/,
    'check.yaml': /^check.yaml:\d: check.command: missing/,
    'none.yaml': /^none.yaml:5: check.type: expected a check with whenHealthy/,
    'udp.yaml': /^udp.yaml:\d: check.type: expected udp, dns, exec/,
    'cut.yaml': /^cut.yaml:1: /,
    'name.yaml': /^name.yaml:1: name: expected letters/,
  });
  t.equal(plan.items.length, 15);
  t.match(
    plan.items.find(({ ok }) => ok),
    {
      registration: {
        zone: 'a.test',
        registry: { type: 'file', path: join(folder, 'reg') },
        entry: { service: 'web', id: 'web-1', port: 8080, protocol: 'tcp', tags: [] },
        ttl: 30_000,
        whenHealthy: false,
        drain: 0,
      },
    },
  );
});

t.test('a plan by options says what is wrong in the words of the command line', async (t) => {
  const folder = t.testdir({
    'holdfast.yaml': 'version: 1\nzones:\n  - { name: a.test, registry: { type: etcd, layout: plain } }\n',
  });
  const told = async (options: Record<string, unknown>) => {
    const plan = await makePlan({ config: join(folder, 'holdfast.yaml'), options });
    const item = plan.ok ? plan.items[0]! : undefined;
    return item?.ok === false ? item.reason : item?.registration;
  };
  t.equal(await told({ name: 'web' }), '--port: missing, expected a whole number from 1 to 65535');
  t.match(await told({ name: 'web', port: 'x' }), /^--port: expected a whole number/);
  t.match(await told({ name: 'web', port: 80, tags: ['a b'] }), /^--tag: expected letters/);
  t.match(await told({ name: 'web', port: 80, portName: '-' }), /^--port-name: expected one label/);
  t.match(await told({ name: 'web', port: 80, check: { type: 'icmp' } }), /^--check \(type\): expected tcp,/);
  t.match(await told({ name: 'web', port: 80, whenHealthy: true }), {
    check: { type: 'tcp', interval: 5000, rise: 2, fall: 3 },
    entry: { id: /^web-.+-80$/ },
  });
  t.match(await makePlan({ config: join(folder, 'none.yaml') }), { ok: false, reason: /none.yaml: no such file/ });
});

t.test('how a registrar stands, as Prometheus reads it', async (t) => {
  const registration = {
    service: 'web',
    id: 'we"b\\1',
    zone: 'svc.test',
    registry: 'etcd http://127.0.0.1:2379',
    port: 80,
    state: 'trying',
    since: '2026-01-01T00:00:01.500Z',
    draining: false,
  } as const;
  const status = { registrar: { pid: 7 }, version: '1', problems: ['a.yaml:1: port'], registrations: [registration] };
  const labels = 'zone="svc.test",service="web",id="we\\"b\\\\1",registry="etcd http://127.0.0.1:2379"';
  t.same(metricsText(status).split('\n'), [
    '# HELP holdfast_registration_state Always 1; the state of the registration is in the label.',
    '# TYPE holdfast_registration_state gauge',
    `holdfast_registration_state{${labels},state="trying"} 1`,
    '# HELP holdfast_registration_state_since_seconds When the registration came to its state, in seconds since 1970.',
    '# TYPE holdfast_registration_state_since_seconds gauge',
    `holdfast_registration_state_since_seconds{${labels}} 1767225601.5`,
    '# HELP holdfast_registrar_problems What is wrong with the files of a registrar; `holdfast status` says what.',
    '# TYPE holdfast_registrar_problems gauge',
    'holdfast_registrar_problems{pid="7"} 1',
    '',
  ]);
  t.notMatch(metricsText({ ...status, registrations: [] }), /registration_state/);
});
