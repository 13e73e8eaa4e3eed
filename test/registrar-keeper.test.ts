/** What keeps a service registered, under a fake clock. */
import { setImmediate as immediate } from 'node:timers/promises';
import fc from 'fast-check';
import t from 'tap';
import { failure, local, type Outcome, PASS } from '../src/prober/probes/attempt.js';
import type { Entry } from '../src/registrar/entry.js';
import { Keeper, type KeeperState } from '../src/registrar/keeper.js';
import { LocalCheck } from '../src/registrar/local-check.js';
import type { Gone, Kept, Target } from '../src/registrar/target.js';
import type { Failure } from '../src/registry/adapter.js';
import type { After } from '../src/registry/timers.js';
import type { BootMs, Ms } from '../src/system/clock.js';
import { SECOND, TTL, WEB } from './registrar-fixture.js';

const HOUR = 3_600_000;

const PERIOD = 10 * SECOND;

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

t.test(
  'a stop while a call hangs: when that ends at last, nothing is written any more before it is removed',
  async (t) => {
    const calls: string[] = [];
    let release = (): void => undefined;
    const { time, keeper } = keep({
      keep: async () => {
        calls.push('keep');
        if (calls.length === 1) await new Promise<void>((resolve) => (release = resolve));
        return { kind: 'kept', wrote: true };
      },
      remove: async () => {
        calls.push('remove');
        return { kind: 'gone' };
      },
    });
    keeper.want(WEB);
    await time.pass(0);
    await time.pass(PERIOD);
    const stopped = keeper.stop(3 * SECOND);
    await time.pass(SECOND);
    t.same(calls, ['keep'], 'one call at a time, however long it takes');
    release();
    await time.pass(SECOND);
    t.equal(await stopped, true);
    t.same(calls, ['keep', 'remove']);
  },
);

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
