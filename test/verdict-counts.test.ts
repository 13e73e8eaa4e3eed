/** What counts, ages and is known of verdicts at their edges (R13, R16, R17, R29). */
import t from 'tap';
import { VerdictStore } from '../src/health/verdicts.js';
import type { FailureKind } from '../src/prober/feed.js';
import { INTERVAL, Probed, SETTINGS } from './verdict-fixture.js';

/** Keys that are addresses, in one store, each of a service of its own. */
function several(keys: readonly string[], asked: () => number | undefined = () => INTERVAL) {
  const store = new VerdictStore({
    address: (key) => key,
    interval: asked,
    services: (key) => [key],
    disowned: () => false,
  });
  const say = (who: string | readonly string[], at: number, failure?: FailureKind, interval = INTERVAL): void => {
    for (const key of [who].flat()) {
      const result = { key, at, interval, took: 1 };
      store.apply(failure === undefined ? result : { ...result, failure }, SETTINGS, () => false, at);
    }
  };
  const columns = (): string[] => keys.map((key) => store.get(key).column);
  return { store, say, columns };
}

const FIVE = ['10.0.0.1', '10.0.1.1', '10.0.2.1', '10.0.3.1', '10.0.4.1'];
const [DEAD, ...OTHERS] = FIVE as [string, ...string[]];

t.test('a result of before the interval became longer does not shorten the life of a word (R13, R17)', async (t) => {
  let asked = INTERVAL;
  const { store, say } = several([DEAD], () => asked);
  for (const at of [5_000, 10_000, 15_000]) say(DEAD, at, 'timeout');
  asked = 60_000;
  store.slow(DEAD, asked, 15_500);
  // It was under way, and says at which interval it was begun.
  say(DEAD, 16_000, 'timeout');
  t.same(store.expire(76_000), [], 'the next result comes after a minute');
  t.equal(store.get(DEAD).column, 'fails');
  t.equal(store.nextExpiry(), 16_000 + 3 * 60_000 + 1);
  asked = INTERVAL;
  say(DEAD, 77_000, 'timeout');
  t.equal(store.nextExpiry(), 77_000 + 3 * INTERVAL + 1);
});

t.test('failures that are taken back leave nothing, however many came within the window (R16)', async (t) => {
  const keys = FIVE.slice(0, 3);
  const [one, two, three] = keys as [string, string, string];
  const { store, say } = several(keys);
  say(keys, 1_000);
  for (const at of [5_000, 5_100, 5_200]) say(one, at, 'timeout');
  t.equal(store.get(one).column, 'fails');
  say([two, three], 5_400, 'timeout');
  t.equal(store.suspectedSince(4), 5_400);
  const { column, failingSince, lastFailure } = store.get(one);
  t.same([column, failingSince, lastFailure], ['passes', undefined, undefined]);
  t.equal(store.export(one, { boot: 5_400, wall: 0 })?.flaps, undefined, 'it never fell');
  for (const at of [6_000, 7_000]) say(two, at, 'refused');
  t.equal(store.get(two).column, 'passes', 'two, and the one before never was');
  say(two, 8_000, 'refused');
  t.equal(store.get(two).column, 'fails');
  t.same(store.expire(20_400), []);
  t.same(store.expire(20_401).sort(), [one, three], 'their words are as old as the beginning of it');
});

t.test('when suspicion ends, passes count from nothing, too (R16)', async (t) => {
  await t.test('those that it takes to be back', async (t) => {
    const { store, say } = several(FIVE);
    say(FIVE, 1_000);
    for (const at of [2_000, 3_000, 3_500]) say(DEAD, at, 'refused');
    say(DEAD, 3_900);
    say(OTHERS, 5_000, 'timeout');
    t.equal(store.suspectedSince(4), 5_000);
    say(OTHERS, 6_000);
    t.equal(store.suspectedSince(4), undefined);
    say(DEAD, 7_000);
    t.equal(store.get(DEAD).column, 'fails');
    say(DEAD, 8_000);
    t.equal(store.get(DEAD).column, 'passes');
  });

  await t.test('and the time that it has to stand after it flapped', async (t) => {
    const { store, say } = several(FIVE);
    say(FIVE, 100);
    for (const at of [200, 300, 400]) say(DEAD, at, 'refused');
    for (const at of [500, 600]) say(DEAD, at);
    for (const at of [700, 800, 900]) say(DEAD, at, 'refused');
    for (const at of [1_000, 11_000, 21_000, 29_000]) say(FIVE, at);
    say(OTHERS, 30_000, 'timeout');
    say(OTHERS, 31_000);
    t.equal(store.suspectedSince(4), undefined);
    for (let at = 36_000; at < 96_000; at += 10_000) {
      say(DEAD, at);
      t.equal(store.get(DEAD).column, 'fails', `after ${at} ms`);
    }
    say(DEAD, 96_000);
    t.equal(store.get(DEAD).column, 'passes');
  });
});

t.test('suspicion of one family leaves the counts of the other (R16)', async (t) => {
  const six = ['fd00:0:0:1::1', 'fd00:0:0:2::1', 'fd00:0:0:3::1'];
  const { store, say } = several([...FIVE, ...six]);
  say([...FIVE, ...six], 1_000);
  for (const at of [2_000, 3_000]) say(DEAD, at, 'refused');
  say(six, 4_000, 'timeout');
  t.same([store.suspectedSince(4), store.suspectedSince(6)], [undefined, 4_000]);
  say(six, 5_000);
  t.equal(store.suspectedSince(6), undefined);
  say(DEAD, 6_000, 'refused');
  t.equal(store.get(DEAD).column, 'fails');
});

t.test('what comes back is a witness again if its last result passed (R16)', async (t) => {
  for (const failure of [undefined, 'refused'] as const) {
    const { store, say } = several(FIVE);
    say(FIVE, 1_000);
    if (failure !== undefined) say(FIVE, 2_000, failure);
    for (const key of FIVE) store.release(key, 3_000);
    for (const key of FIVE) store.retain(key, 4_000);
    say(FIVE, 5_000, 'timeout');
    t.equal(store.suspectedSince(4), failure === undefined ? 5_000 : undefined);
  }
});

t.test('a restored word lasts as long as the longer of its intervals, then and now (R13, R29)', async (t) => {
  for (const [then, now] of [
    [5_000, 60_000],
    [60_000, 5_000],
  ] as const) {
    const { store } = several([DEAD], () => now);
    const seed = { column: 'fails', interval: then, lastResult: 0, failingSince: 0 } as const;
    store.restore(DEAD, seed, SETTINGS, 0, { boot: 1_000, wall: 0 });
    t.equal(store.nextExpiry(), 1_000 + 180_000 + 1);
  }
});

t.test('a word that is aimed at again as it was goes on ageing, and ends after three whole intervals', async (t) => {
  const one = new Probed();
  one.say(1);
  one.store.slow(one.key, INTERVAL, 10_000);
  t.equal(one.store.nextExpiry(), 20_001);
  one.say(2, 'refused');
  one.at = 25_000;
  one.say(1, 'refused');
  t.equal(one.column, 'fails', 'the third failure, just in time');
  const other = new Probed();
  other.say(1);
  other.say(2, 'refused');
  other.at = 25_001;
  other.say(1, 'refused');
  t.equal(other.column, 'no-word', 'and one that came a little too late is the first');
});

t.test('with rise 1 the first pass brings back', async (t) => {
  const one = new Probed();
  for (const [at, failure] of [
    [5_000, undefined],
    [10_000, 'refused'],
    [15_000, undefined],
  ] as const) {
    const result = { key: one.key, at, interval: INTERVAL, took: 1 };
    const settings = { ...SETTINGS, rise: 1, fall: 1 };
    one.store.apply(failure === undefined ? result : { ...result, failure }, settings, () => false, at);
    t.equal(one.column, failure === undefined ? 'passes' : 'fails');
  }
});

t.test('a verdict tells the words of its failure, or its kind', async (t) => {
  const one = new Probed();
  one.say(1, 'refused');
  t.equal(one.store.get(one.key).lastFailure, 'refused');
  const result = { key: one.key, at: 20_000, interval: INTERVAL, took: 1, detail: 'HTTP 500' };
  one.store.apply({ ...result, failure: 'bad-status' }, SETTINGS, () => false, 20_000);
  t.equal(one.store.get(one.key).lastFailure, 'HTTP 500');
});
