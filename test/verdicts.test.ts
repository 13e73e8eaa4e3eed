import t from 'tap';
import { CatalogRow } from '../src/catalog/row.js';
import { floor, judge } from '../src/health/floor.js';
import { Reports } from '../src/health/reports.js';
import { VerdictStore } from '../src/health/verdicts.js';
import type { FailureKind } from '../src/prober/feed.js';
import type { Row } from '../src/registry/registry.js';

const INTERVAL = 5_000;
const SETTINGS = { rise: 2, fall: 3, longDead: 600_000 };

/** One key, probed each 5 s. */
class Probed {
  at = 0;

  constructor(
    readonly key = '10.0.0.1',
    readonly store = new VerdictStore({
      address: (key) => key,
      interval: () => INTERVAL,
      services: (key) => [key],
      disowned: () => false,
    }),
  ) {}

  say(times: number, failure?: FailureKind, fresh = false): void {
    for (let n = 0; n < times; n++) {
      this.at += INTERVAL;
      const result = { key: this.key, at: this.at, interval: INTERVAL, took: 1 };
      this.store.apply(failure === undefined ? result : { ...result, failure }, SETTINGS, () => fresh, this.at);
    }
  }

  /** How many passes in a row bring it back. */
  passesUntilBack(): number {
    for (let n = 1; ; n++) {
      this.say(1);
      if (this.column === 'passes') return n;
    }
  }

  get column(): string {
    return this.store.get(this.key).column;
  }
}

t.test('a gap of the clock takes no count away, before a word is there or after (R13)', async (t) => {
  for (const passes of [0, 1]) {
    const one = new Probed();
    one.say(passes);
    one.say(2, 'refused');
    one.at += 60_000;
    one.store.restartAges(one.at);
    one.say(1, 'refused');
    t.equal(one.column, 'fails', `after ${passes} passes`);
  }
});

t.test('flapping (R13): from the second fall within 120 intervals on it has to pass for longer', async (t) => {
  const one = new Probed();
  one.say(1);
  one.say(3, 'refused');
  t.equal(one.passesUntilBack(), 2, 'a first fall is none');
  one.say(3, 'refused');
  t.equal(one.passesUntilBack(), 13, '12 intervals');
  one.say(3, 'refused');
  t.equal(one.passesUntilBack(), 25);
  one.say(3, 'refused');
  t.equal(one.passesUntilBack(), 49);
  for (let n = 0; n < 5; n++) {
    one.say(3, 'refused');
    t.ok(one.passesUntilBack() <= 121, 'never more than 10 minutes');
  }
  one.say(3, 'refused');
  t.equal(one.passesUntilBack(), 121);
});

t.test('a second fall is a flap up to 120 intervals after the first', async (t) => {
  for (const [passes, expected] of [
    [117, 13],
    [118, 2],
  ] as const) {
    const one = new Probed();
    one.say(1);
    one.say(3, 'refused');
    one.say(passes);
    one.say(3, 'refused');
    t.equal(one.passesUntilBack(), expected, `${passes} passes between`);
  }
});

t.test('a pass ends what failed before it', async (t) => {
  const one = new Probed();
  one.say(1);
  one.say(3, 'wrong-identity');
  t.match(one.store.get(one.key), { column: 'fails', hard: true, wrongIdentity: true, failingSince: 10_000 });
  one.say(1);
  const half = one.store.get(one.key);
  t.match(half, { column: 'fails', wrongIdentity: false }, 'it is ours, and not back yet');
  t.equal(half.failingSince, undefined);
  one.say(1);
  const back = one.store.get(one.key);
  t.same([back.column, back.hard, back.lastFailure], ['passes', false, undefined]);
});

t.test('counters start from nothing when suspicion ends (R16)', async (t) => {
  const keys = ['10.0.0.1', '10.0.1.1', '10.0.2.1'];
  const all = keys.map((key) => new Probed(key));
  const store = all[0]!.store;
  const say = (key: string, at: number, failure?: FailureKind): void => {
    const result = { key, at, interval: INTERVAL, took: 1 };
    store.apply(failure === undefined ? result : { ...result, failure }, SETTINGS, () => false, at);
  };
  for (const key of keys) say(key, 1_000);
  // Two of the three that it takes.
  for (const at of [2_000, 3_000]) say(keys[0]!, at, 'refused');
  for (const key of keys.slice(1)) say(key, 4_000, 'timeout');
  t.equal(store.suspectedSince(4), undefined, 'two networks are not enough');
  say(keys[0]!, 4_500);
  for (const key of keys) say(key, 5_000, 'timeout');
  t.equal(store.suspectedSince(4), 5_000);
  t.same(
    keys.map((key) => store.get(key).failingSince),
    [undefined, undefined, undefined],
    'none of it was',
  );
  for (const at of [6_000, 7_000]) say(keys[0]!, at, 'refused');
  for (const key of keys.slice(1)) say(key, 8_000);
  t.equal(store.suspectedSince(4), undefined, 'it has ended');
  t.equal(store.get(keys[0]!).column, 'passes');
  for (const at of [9_000, 10_000]) say(keys[0]!, at, 'refused');
  t.equal(store.get(keys[0]!).column, 'passes', 'two refusals, and the two before count no more');
  t.equal(store.get(keys[0]!).failingSince, 9_000);
  say(keys[0]!, 11_000, 'refused');
  t.equal(store.get(keys[0]!).column, 'fails');
});

t.test('results are known by when they were measured (R13)', async (t) => {
  const one = new Probed();
  const say = (at: number, now: number, failure?: FailureKind): void => {
    const result = { key: one.key, at, interval: INTERVAL, took: 1 };
    one.store.apply(failure === undefined ? result : { ...result, failure }, SETTINGS, () => true, now);
  };
  say(11_001, 10_000, 'refused');
  t.equal(one.column, 'no-word', 'a time that is more than a second ahead is not of this clock');
  say(11_000, 10_000);
  t.equal(one.store.get(one.key).lastSuccess, 11_000);
  for (let n = 0; n < 3; n++) say(11_000, 12_000, 'refused');
  say(10_000, 12_000, 'refused');
  t.equal(one.store.get(one.key).lastFailure, undefined, 'what is not newer than the last result is old news');
  t.same([one.store.nextExpiry(), one.store.expire(26_000)], [26_001, []]);
  t.same(one.store.expire(26_001), [one.key], 'three intervals after it was measured, not after it came');
  t.equal(one.column, 'no-word');
  one.store.lag = 5_000;
  one.at = 30_000;
  one.say(1);
  t.equal(one.store.nextExpiry(), 55_001, 'a resolver that is late itself gives it as much longer');
});

t.test('a key that is probed less often from now on keeps its word for as long as that takes (R13, R17)', async (t) => {
  const one = new Probed();
  one.say(1);
  one.store.slow(one.key, 60_000, 10_000);
  t.equal(one.store.nextExpiry(), 190_001, 'three of the longer intervals, from now on');
  one.store.slow(one.key, INTERVAL, 20_000);
  t.equal(one.store.nextExpiry(), 190_001, 'one that is shorter counts when it was kept');
  one.at = 20_000;
  one.say(1);
  t.equal(one.store.nextExpiry(), 40_001);
});

t.test('a verdict that no row refers to waits for ten minutes, without ageing (R13)', async (t) => {
  const one = new Probed();
  one.say(3, 'refused');
  one.store.release(one.key, 20_000);
  t.equal(one.store.nextExpiry(), Number.POSITIVE_INFINITY);
  one.store.release(one.key, 400_000);
  one.store.slow(one.key, 60_000, 400_000);
  t.same(one.store.expire(620_000), []);
  one.store.retain(one.key, 620_000);
  t.equal(one.column, 'fails');
  t.equal(one.store.nextExpiry(), 635_001, 'its age begins anew');
  one.store.retain(one.key, 630_000);
  t.equal(one.store.nextExpiry(), 635_001, 'once, however many refer to it');
  one.store.release(one.key, 630_000);
  one.store.expire(1_230_001);
  one.store.retain(one.key, 1_230_001);
  t.same([one.column, one.store.results(one.key)], ['no-word', []]);
});

t.test('settings that change (R13, R18)', async (t) => {
  t.test('the verdict goes over to the new ones, the counters do not', async (t) => {
    const one = new Probed('old');
    one.say(1);
    one.say(2, 'refused');
    one.store.inherit('old', 'new', SETTINGS, 16_000);
    t.match(one.store.get('new'), { column: 'passes', lastSuccess: 5_000, failingSince: 10_000 });
    t.same([one.store.isProven('old'), one.store.isProven('new')], [true, false]);
    one.store.release('old', 16_000);
    t.equal(one.store.nextExpiry(), 31_001);
    const next = new Probed('new', one.store);
    next.at = 15_000;
    next.say(2, 'refused');
    t.equal(next.column, 'passes', 'two failures before, and two after');
    next.say(1, 'refused');
    t.equal(next.column, 'fails');
  });

  t.test('settings that come back find what is newer, and that they were proven', async (t) => {
    const one = new Probed('old');
    one.say(1);
    one.store.inherit('old', 'new', SETTINGS, 6_000);
    one.store.release('old', 6_000);
    const next = new Probed('new', one.store);
    next.at = 6_000;
    next.say(3, 'refused');
    one.store.inherit('new', 'old', SETTINGS, 22_000);
    t.match(one.store.get('old'), { column: 'fails', failingSince: 11_000 });
    t.equal(one.store.isProven('old'), true);
  });

  t.test('what others refer to, or know better, stays as it is', async (t) => {
    const one = new Probed('one');
    const two = new Probed('two', one.store);
    one.say(3, 'refused');
    two.say(1);
    one.store.inherit('one', 'two', SETTINGS, 16_000);
    t.equal(two.column, 'passes', 'it is in use');
    one.store.release('one', 16_000);
    two.at = 16_000;
    two.say(1);
    one.store.inherit('one', 'nobody', SETTINGS, 16_000);
    one.store.release('two', 22_000);
    one.store.inherit('one', 'two', SETTINGS, 22_000);
    t.equal(two.column, 'passes', 'its own word is newer');
  });
});

t.test('a verdict goes through a snapshot and back (R29)', async (t) => {
  const WALL = 1_700_000_000_000;
  const stories: Record<string, (one: Probed) => void> = {
    passing: (one) => one.say(2),
    failing: (one) => {
      one.say(1);
      one.say(3, 'refused');
    },
    'fallen twice': (one) => {
      one.say(1);
      one.say(3, 'refused');
      one.say(2);
      one.say(3, 'timeout');
    },
    "another's": (one) => {
      one.say(1);
      one.say(3, 'wrong-identity');
    },
    "another's, and silent": (one) => {
      one.say(3, 'wrong-identity');
      one.store.expire(one.at + 60_000);
    },
    'without a word': (one) => one.say(2, 'refused'),
    'dead for long': (one) => one.say(130, 'timeout'),
    'failing before a suspend and after it': (one) => {
      one.say(70, 'timeout');
      one.at += 600_000;
      one.store.restartAges(one.at);
      one.say(1, 'timeout');
      t.match(one.store.get(one.key), { failingSince: 5_000, longDead: false });
    },
  };
  for (const [story, live] of Object.entries(stories)) {
    const before = new Probed();
    live(before);
    const saved = before.store.export(before.key, { boot: before.at, wall: WALL })!;
    const after = new Probed();
    // The machine has started anew meanwhile: its boot clock is another one.
    const moved = { boot: 1_000_000, wall: WALL };
    after.store.restore(after.key, saved, SETTINGS, WALL, moved);
    t.same(after.store.export(after.key, moved), saved, story);
    t.same(after.store.standing(after.key), before.store.standing(before.key), story);
  }

  const once = new Probed();
  once.say(1);
  once.say(1, 'wrong-identity');
  const after = new Probed();
  const now = { boot: once.at, wall: WALL };
  after.store.restore(after.key, once.store.export(once.key, now)!, SETTINGS, WALL, now);
  t.match(
    after.store.get(after.key),
    { column: 'passes', wrongIdentity: false, failingSince: 10_000 },
    'no verdict yet',
  );
  t.equal(new Probed().store.export('10.0.0.1', { boot: 0, wall: WALL }), undefined, 'nothing is known of it');
});

t.test('reports (R20)', async (t) => {
  const HOLD = 20_000;
  t.test('an endpoint is probed because of them once a second', async (t) => {
    const reports = new Reports<string>();
    const report = (at: number): boolean => reports.report('a', 'refused', HOLD, at);
    t.same([report(0), report(999), report(1_000), report(1_500), report(2_000)], [true, false, true, false, true]);
  });

  t.test('attempts count for ten seconds after the last one', async (t) => {
    const reports = new Reports<string>();
    reports.report('a', 'refused', HOLD, 0);
    reports.report('a', 'refused', HOLD, 10_001);
    t.same(reports.expire(10_200), [], 'one attempt');
    reports.report('b', 'refused', HOLD, 0);
    reports.report('b', 'timeout', HOLD, 10_000);
    t.same(reports.expire(10_000), ['b'], 'two, and the probe of the first had its time');
    t.same(reports.ejection('b'), { count: 2, failure: 'timeout', until: 30_000 });
  });

  t.test('a probe that ended before the attempt neither acquits nor convicts', async (t) => {
    const reports = new Reports<string>();
    reports.report('a', 'refused', HOLD, 1_000);
    t.same([reports.outcome('a', false, 999), reports.outcome('a', true, 999)], [false, false]);
    t.equal(reports.outcome('b', true, 1_000), false, 'nobody has said anything of this one');
    t.equal(reports.outcome('a', true, 1_000), true);
    t.equal(reports.outcome('a', true, 1_100), false, 'it is out already');
    reports.report('a', 'refused', 5_000, 1_200);
    t.equal(reports.ejection('a')?.until, 21_000, 'and not for longer by what is said meanwhile');
    t.equal(reports.outcome('a', false, 1_199), false, 'a pass from before the latest attempt');
    t.equal(reports.outcome('a', false, 1_200), true);
    t.equal(reports.isEmpty, true);
  });

  t.test('a thousand endpoints are looked after at once, and no more', async (t) => {
    const reports = new Reports<number>();
    for (let n = 0; n < 1_000; n++) t.equal(reports.report(n, 'refused', HOLD, 0), true);
    t.equal(reports.report(1_000, 'refused', HOLD, 0), false);
    t.equal(reports.report(0, 'refused', HOLD, 1_000), true, 'those that are known go on');
    reports.expire(10_000);
    t.equal(reports.report(1_001, 'refused', HOLD, 10_000), true, 'what is old makes room');
    reports.expire(30_000);
    t.same([reports.isEmpty, reports.nextExpiry()], [true, Number.POSITIVE_INFINITY]);
  });
});

t.test('the cap (R12), reports (R20) and the floor (R11)', async (t) => {
  const made = (n: number, more: Partial<Row> = {}): CatalogRow => {
    const usual = { port: 80, protocol: 'tcp', priority: 0, weight: 1, state: 'passing' } as const;
    return new CatalogRow({ id: `${n}`, address: `10.0.0.${n}`, ...usual, ...more }, Number.NEGATIVE_INFINITY);
  };
  const ids = (rows: Iterable<CatalogRow>): string[] => [...rows].filter((row) => row.answerable).map((row) => row.id);
  const never = (): undefined => undefined;

  t.test('what reports alone took is answerable again when nothing else is left', async (t) => {
    const rows = [made(1), made(2)];
    for (const row of rows) row.ejected = true;
    judge(rows, 1, never);
    t.same(ids(rows), ['1', '2']);
    rows[0]!.ejected = false;
    judge(rows, 1, never);
    t.same(ids(rows), ['1']);
    rows[0]!.ejected = true;
    rows[0]!.column = 'fails';
    rows[0]!.hard = true;
    judge(rows, 1, never);
    t.same(ids(rows), ['2'], 'what fails besides is not');
  });

  t.test('reports do not take what the guard holds', async (t) => {
    const rows = [made(1), made(2)];
    rows[0]!.ejected = true;
    rows[0]!.listed = false;
    rows[0]!.hold = { scope: 'service', since: 0, wall: 0, deadSince: undefined };
    judge(rows, 1, never);
    t.same(ids(rows), ['1', '2']);
  });

  t.test(
    'what the registry calls critical or draining is not of the priority, and the cap keeps none of it',
    async (t) => {
      const rows = [made(1), made(2), made(3, { state: 'critical' }), made(4, { state: 'draining' })];
      for (const row of rows) row.column = 'fails';
      judge(rows, 0.5, (row) => Number(row.id));
      t.same(ids(rows), ['2']);
    },
  );

  t.test('among those that were never seen to pass, the first stay', async (t) => {
    const rows = [made(1), made(2), made(3), made(4)];
    for (const row of rows) row.column = 'fails';
    judge(rows, 0.5, (row) => (row.id === '3' ? 7 : undefined));
    t.same(ids(rows), ['1', '3']);
  });

  t.test('failed last is up to failOpenWindow before the newest success', async (t) => {
    const rows = [made(1), made(2), made(3)];
    for (const row of rows) {
      row.column = 'fails';
      row.hard = true;
    }
    judge(rows, 0.5, never);
    const success = new Map(rows.map((row, i) => [row, [100_000, 40_000, 39_999][i]!]));
    const left = floor(
      rows,
      60_000,
      () => 100_000,
      (row) => success.get(row),
    );
    t.same([left.rows.map(({ id }) => id), left.step], [['1', '2'], 'failed last']);
    t.same(floor([], 60_000, never, never), { rows: [] });
    const whole = floor(rows, 60_000, never, never);
    t.same([whole.rows.length, whole.step], [3, 'all']);
  });
});
