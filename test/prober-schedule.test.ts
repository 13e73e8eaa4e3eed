/** What is probed when (R17). */
import fc from 'fast-check';
import t from 'tap';
import { HostBudget } from '../src/prober/budget.js';
import { MoreTries } from '../src/prober/more-tries.js';
import { gapAfter, Schedule } from '../src/prober/schedule.js';
import { shareOut } from '../src/prober/shares.js';
import { target, targets } from './prober-fixture.js';

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
    t.equal(Math.round(new HostBudget(500, 0.05, 65_536).rate), 44);
    t.equal(new HostBudget(500, 0.05, 1_000_000).rate, 500);
    t.equal(new HostBudget(500, 1, 1_000).rate, 500, 'all of it: no bound');
    t.equal(new HostBudget(500, 0.05, 10).rate, 1);
  });
});

t.test('R17: the connection tracking table, when nothing answers for 10 minutes', async (t) => {
  const size = 262_144;
  const share = 0.05;
  const budget = new HostBudget(500, share, size);
  /** By second: how many entries the kernel collects then. An entry is collected a minute after its end at the latest. */
  const collected = new Map<number, number>();
  let entries = 0;
  let most = 0;
  let ended = 0;
  let unanswered = 0;
  for (let second = 0; second < 1_500; second++) {
    entries -= collected.get(second) ?? 0;
    const silent = second >= 300 && second < 900;
    const probes = budget.rate;
    const [added, until] = silent ? [2 * probes, second + 180] : [probes, second + 70];
    entries += added;
    collected.set(until, (collected.get(until) ?? 0) + added);
    most = Math.max(most, entries);
    ended += probes;
    if (silent) unanswered += 2 * probes;
    budget.note(ended, unanswered);
    if (second === 299) t.ok(entries > 0.9 * share * size, 'what there is is used');
    if (second === 899) t.ok(entries > 0.9 * share * size, 'in an outage, too');
  }
  t.ok(most <= share * size, `${Math.round(most)} entries at most, of ${share * size}`);
  t.equal(Math.round(budget.rate), 178, 'and afterwards all is as before');
});

t.test('R17: a whole table is never filled; one that others fill leaves the usual share', async (t) => {
  const size = 262_144;
  const usual = Math.round(new HostBudget(500, 0.05, size).rate);
  // An entry ends after 10 s, and the kernel looks for those each so many seconds.
  for (const [every, least] of [
    [1, 14_000],
    [9, 8_000],
    [20, 3_500],
    [60, 1_500],
  ] as const) {
    const budget = new HostBudget(100_000, 1, size);
    const rates: number[] = [];
    let used = 0;
    let kept = 0;
    let most = 0;
    let ended = 0;
    for (let second = 0; second < 900; second++) {
      const probes = Math.min(20_000, budget.rate);
      rates.push(probes);
      used += probes;
      for (; second % every === 0 && kept <= second - 10; kept++) used -= rates[kept]!;
      most = Math.max(most, used);
      ended += probes;
      budget.note(ended, 0, { size, used });
    }
    const late = rates.slice(600);
    const mean = late.reduce((sum, rate) => sum + rate, 0) / late.length;
    t.comment(`collected each ${every} s: ${Math.min(...late)} to ${Math.max(...late)} a second`);
    t.ok(most < 0.94 * size, `${Math.round(most)} entries of ${size}`);
    t.ok(mean > least, `${Math.round(mean)} a second: what there is is used`);
  }
  const crowded = new HostBudget(100_000, 1, size);
  crowded.note(0, 0, { size, used: size });
  t.equal(Math.round(crowded.rate), usual, 'others fill it');
  for (let second = 0; second < 900; second++) crowded.note(0, 0, { size, used: 0.5 * size });
  t.equal(crowded.rate, 100_000, 'and leave it');
  const late = new HostBudget(500, 0.05, Number.POSITIVE_INFINITY);
  t.equal(late.rate, 500, 'connections are not tracked');
  late.note(0, 0, { size, used: 10 });
  t.equal(Math.round(late.rate), usual, 'they are by now');
});

t.test('R17: tries beyond the second are few, however many fail at once', async (t) => {
  const more = new MoreTries(500);
  const given = (from: number, to: number, asked: number): number => {
    let count = 0;
    for (let now = from; now < to; now++) for (let i = 0; i < asked; i++) if (more.take(now)) count++;
    return count;
  };
  t.equal(given(1_000, 11_001, 10), 25 + 250, 'a twentieth of the budget, and what a second has left');
  t.equal(given(20_000, 20_001, 100), 25, 'after a quiet time, too');
  more.budget = 1;
  t.equal(given(41_000, 62_000, 1), 2, 'the least budget has one in 20 s');
});

t.test('R17: a budget that changes stretches intervals, and lets them be again', async (t) => {
  const schedule = new Schedule(100, 1);
  schedule.set(targets(50, { interval: 1_000 }), 0);
  play(schedule, 0, 5_000);
  t.equal(schedule.stretch, 1);
  schedule.budget = 10;
  t.ok(schedule.stretch > 5);
  play(schedule, 5_001, 15_000);
  const slow = [...play(schedule, 15_001, 25_000).values()].reduce((sum, { length }) => sum + length, 0);
  t.ok(slow <= 101, `${slow} probes in 10 s`);
  schedule.budget = 100;
  t.equal(schedule.stretch, 1);
});
