/** What the prober believes of what it measured (R15). */
import t from 'tap';
import type { ProbeResult } from '../src/prober/feed.js';
import { LoopWatch } from '../src/prober/loop-watch.js';
import { type Outcome, type Probe, type Tries, TWICE } from '../src/prober/probes/attempt.js';
import { PROBES } from '../src/prober/probes/probe.js';
import { ProbeRunner } from '../src/prober/runner.js';
import { Schedule } from '../src/prober/schedule.js';
import type { Clock } from '../src/system/clock.js';
import { target, targets } from './prober-fixture.js';

const settled = () => new Promise((resolve) => setImmediate(resolve));

t.test('R15: the loop watch tells a late loop and a pause from a slow endpoint', async (t) => {
  const watch = new LoopWatch(0);
  t.equal(watch.beat(100), 0);
  t.equal(watch.beat(230), 0, 'noise');
  t.equal(watch.longestSince(0, 300), 0);
  t.equal(watch.longestSince(0, 1_330), 1_000, 'before the beat that will notice it');
  t.equal(watch.beat(1_330), 1_000);
  t.equal(watch.longestSince(1_329, 1_400), 1_000, 'a probe that was under way');
  t.equal(watch.longestSince(1_330, 1_400), 0, 'a probe that began after it');
  t.equal(watch.totalSince(1_329, 1_400), 1_000);
  t.equal(watch.beat(1_550), 120);
  t.equal(watch.totalSince(1_329, 1_850), 1_320, 'all of them, with the one that is not noticed yet');
  t.equal(watch.totalSince(1_330, 1_600), 120);
  t.equal(watch.worstLate(), 1_000);
  t.equal(watch.worstLate(), 0);
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
  const waiting: { key: string; tries: Tries; end: (outcome: Outcome) => void }[] = [];
  const probe: Probe = (asked, _, tries) => new Promise((end) => waiting.push({ key: asked.key, tries: tries!, end }));
  return { waiting, probes: { ...PROBES, tcp: probe, http: probe, https: probe } };
}

const TIMEOUT: Outcome = { kind: 'failure', failure: 'timeout', detail: 'no answer' };

const RESET = { kind: 'failure', failure: 'reset', detail: 'ECONNRESET', ended: true } as const;

const CLOSED = { kind: 'failure', failure: 'bad-status', detail: 'closed', ended: true } as const;

const REFUSED: Outcome = { kind: 'failure', failure: 'refused', detail: 'ECONNREFUSED' };

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

  await t.test('what a peer says of itself is cut before it is kept', async (t) => {
    const { results, runner, pass, waiting } = rig();
    runner.setTargets([target()]);
    pass(1_000);
    waiting[0]!.end({ ...REFUSED, detail: 'x'.repeat(16_000) });
    await settled();
    t.equal(results[0]!.detail!.length, 200);
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

  await t.test('what the other side ended may have waited for a late loop; otherwise it counts', async (t) => {
    const { clock, results, runner, pass, waiting } = rig();
    runner.setTargets([target()]);
    const after = async (late: number, outcome: Outcome): Promise<ProbeResult | undefined> => {
      results.length = 0;
      while (waiting.length === 0) pass(50);
      clock.boot += late;
      waiting.pop()!.end(outcome);
      await settled();
      return results[0];
    };
    for (const outcome of [RESET, CLOSED]) {
      t.match(await after(50, outcome), { failure: outcome.failure });
      t.equal(await after(200, outcome), undefined);
    }
    t.match(await after(400, { ...TIMEOUT, failure: 'bad-status' }), { failure: 'bad-status' }, 'it has answered');
    t.equal(runner.stats().localErrors, 2);
  });

  await t.test('a loop that is late again and again takes the time of a timeout, too', async (t) => {
    const { clock, results, runner, pass, waiting } = rig();
    runner.setTargets([target()]);
    const after = async (turns: number): Promise<number> => {
      while (waiting.length === 0) pass(50);
      for (let turn = 0; turn < turns; turn++) {
        clock.boot += 250;
        runner.wake();
      }
      waiting.pop()!.end(TIMEOUT);
      await settled();
      return results.length;
    };
    t.equal(await after(4), 0);
    t.match(runner.stats(), { localErrors: 1, lastLocalError: 'event loop late by 600 ms' });
    t.equal(await after(2), 1, 'now and then is no reason');
  });

  await t.test('what waits for its turn leaves its room to others, and its time begins with its turn', async (t) => {
    const { clock, results, runner, pass, waiting } = rig();
    const programs: { tries: Tries; end: (outcome: Outcome) => void }[] = [];
    const exec: Probe = (_target, _signal, tries) => {
      tries!.waits(true);
      return new Promise((end) => programs.push({ tries: tries!, end }));
    };
    const many = targets(5_000).map((one) => ({ ...one, type: 'exec' as const }));
    const schedule = new Schedule(1e5, 1);
    const other = new ProbeRunner({
      clock,
      schedule,
      probes: { ...PROBES, exec, tcp: () => new Promise((end) => waiting.push({ key: 'a', tries: TWICE, end })) },
      onResult: (result) => results.push(result),
    });
    t.teardown(() => other.stop());
    runner.stop();
    other.setTargets(many);
    while (programs.length < many.length) {
      clock.boot += 50;
      other.wake();
      await settled();
    }
    other.changeTargets([target()], []);
    pass(0);
    for (let i = 0; i < 40 && waiting.length === 0; i++) {
      clock.boot += 50;
      other.wake();
    }
    t.equal(waiting.length, 1, 'thousands that wait are in nobody’s way');
    t.ok(other.stats().late >= 1_000, 'it is told that they wait');
    clock.boot += 2_000;
    other.wake();
    const [first] = programs;
    first!.tries.waits(false);
    for (let i = 0; i < 20; i++) {
      clock.boot += 50;
      other.wake();
    }
    first!.end(TIMEOUT);
    await settled();
    t.match(results, [{ failure: 'timeout' }], 'what was late before its turn is no matter');
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

  await t.test('R17: what failed before is tried twice, anything else more often; silence is counted', async (t) => {
    const { runner, pass, waiting } = rig();
    runner.setTargets([target()]);
    /** How often the next probe may try, of five times that it asks. */
    const tried = async (outcome: Outcome): Promise<number> => {
      while (waiting.length === 0) pass(50);
      const { tries, end } = waiting.pop()!;
      let made = 1;
      for (let i = 0; i < 5; i++) if (tries.more(made)) made++;
      for (let i = 0; i < made; i++) tries.unanswered();
      end(outcome);
      await settled();
      return made;
    };
    t.equal(await tried(TIMEOUT), 6, 'new');
    t.equal(await tried(TIMEOUT), 2);
    t.equal(await tried({ kind: 'local', detail: 'EMFILE' }), 2, 'still');
    t.equal(await tried({ kind: 'pass' }), 2, 'still');
    t.equal(await tried(TIMEOUT), 6, 'it passed');
    t.match(runner.stats(), { ended: 5, unanswered: 18 });
  });

  await t.test('of many that are due, few are started in one turn of the event loop, and all soon', async (t) => {
    const clock = new HandClock();
    const hand = handProbes();
    const schedule = new Schedule(1e6, 1);
    const runner = new ProbeRunner({ clock, schedule, probes: hand.probes, onResult: () => {} });
    t.teardown(() => runner.stop());
    runner.setTargets(targets(400));
    clock.boot += 900;
    runner.wake();
    t.equal(hand.waiting.length, 64);
    while (schedule.nextWake() <= clock.boot) await settled();
    t.ok(hand.waiting.length > 300, `${hand.waiting.length} were due`);
  });

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
