/** Who is answered of those that fail, or that clients report: the cap (R12), reports (R20), the floor (R11). */
import t from 'tap';
import { CatalogRow } from '../src/catalog/row.js';
import { floor, judge } from '../src/health/floor.js';
import { Reports } from '../src/health/reports.js';
import type { Row } from '../src/registry/registry.js';

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

  t.test('however much is said, a probe that passes acquits, and there is one a second', async (t) => {
    const reports = new Reports<string>();
    const ask = (at: number): boolean => reports.report('a', 'refused', HOLD, at);
    t.same([ask(0), ask(10), ask(20)], [true, false, false]);
    t.equal(reports.outcome('a', false, 15), false, 'it ended before the latest attempt, and after it was asked for');
    t.same([ask(30), reports.expire(200)], [false, []], 'no probe is waited for');
    t.same([reports.nextExpiry(), reports.due(999), reports.due(1_000)], [1_000, [], ['a']]);
    t.same(reports.nextExpiry(), 1_150, 'what was said after the pass counts, and a probe is waited for');
    t.same([reports.due(1_001), reports.outcome('a', false, 1_010), reports.isEmpty], [[], false, true]);
    t.same([ask(1_020), ask(1_030), reports.expire(1_900)], [false, false, []], 'not again within the second');
    t.equal(reports.outcome('a', true, 1_029), false, 'a failure from before the latest attempt');
    t.equal(reports.outcome('a', true, 1_040), true, 'of a probe that was due without anybody asking');
  });

  t.test('a pass brings back what clients go on to report', async (t) => {
    const reports = new Reports<string>();
    const ask = (at: number): boolean => reports.report('a', 'refused', HOLD, at);
    t.same([ask(0), reports.outcome('a', true, 10)], [true, true]);
    t.same([ask(20), reports.outcome('a', false, 15)], [false, false], 'nobody asked for this one since it is out');
    t.same([ask(1_000), ask(1_020), reports.outcome('a', false, 1_010)], [true, false, true]);
    t.equal(reports.ejection('a'), undefined);
    t.same([reports.due(2_000), reports.outcome('a', true, 2_005)], [['a'], true], 'or takes it out again');
  });

  t.test('each thing has its time', async (t) => {
    const reports = new Reports<string>();
    reports.report('a', 'refused', 5_000, 20_000);
    t.equal(reports.nextExpiry(), 30_000, 'one attempt waits to be forgotten');
    t.equal(reports.ejection('a'), undefined);
    reports.report('a', 'refused', HOLD, 20_100);
    t.equal(reports.nextExpiry(), 20_150, 'of two, the first waits for a probe');
    t.same([reports.expire(20_149), reports.expire(20_150)], [[], ['a']]);
    t.equal(reports.ejection('a')?.until, 40_150, 'for as long as was said last');
    reports.report('a', 'refused', HOLD, 20_200);
    t.equal(reports.outcome('a', true, 20_300), false);
    t.equal(reports.ejection('a')?.until, 40_150, 'a probe that fails while it is out does not keep it out for longer');
    reports.report('b', 'refused', HOLD, 25_000);
    t.equal(reports.nextExpiry(), 35_000);
    t.same([reports.expire(34_999), reports.nextExpiry()], [[], 35_000]);
    t.same([reports.expire(35_000), reports.nextExpiry()], [[], 40_150]);
    t.same([reports.expire(40_149), reports.expire(40_150), reports.isEmpty], [[], ['a'], true]);
    for (const at of [50_000, 60_001, 60_002]) reports.report('c', 'refused', HOLD, at);
    reports.expire(60_152);
    t.equal(reports.ejection('c')?.count, 2, 'the first one of them is forgotten');
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
