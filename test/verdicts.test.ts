import t from 'tap';
import type { FailureKind } from '../src/prober/feed.js';
import { INTERVAL, Probed, SETTINGS } from './verdict-fixture.js';

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

t.test(
  'one failure that was passed over since it was written is no beginning of a later death (R14, R29)',
  async (t) => {
    const WALL = 1_700_000_000_000;
    const before = new Probed();
    before.say(1);
    before.say(1, 'timeout');
    const saved = before.store.export(before.key, { boot: before.at, wall: WALL })!;
    const after = new Probed();
    after.at = before.at + 500_000;
    const now = { boot: after.at, wall: WALL + 500_000 };
    after.store.restore(after.key, saved, SETTINGS, now.wall, now);
    after.say(100, 'timeout');
    t.match(after.store.standing(after.key), { column: 'fails', longDead: false }, 'it fails for 500 s');
    after.say(21, 'timeout');
    t.match(after.store.standing(after.key), { longDead: true });
  },
);

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
