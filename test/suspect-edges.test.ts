/** Suspect-self (R16) where it just begins, just ends, or just does not. */
import t from 'tap';
import { Suspicion, type Witness } from '../src/health/suspect.js';
import type { FailureKind } from '../src/prober/feed.js';

interface One extends Witness {
  readonly address: string;
}

/** Endpoints, each of a service and a network of its own. */
function scene(count: number, address = (n: number): string => `10.0.${n}.1`) {
  const all = Array.from({ length: count }, (_, n): One => ({ address: address(n), stance: undefined }));
  const suspicion = new Suspicion<One>((one) => [one]);
  const note = (ones: readonly One[], failure: FailureKind | undefined, at: number): string[] =>
    ones.flatMap((one) => suspicion.note(one, one.address, failure, at, 5_000)).map(said);
  note(all, undefined, 0);
  return { all, suspicion, note, fill: (share: number, at: number) => suspicion.conntrack(share, at).map(said) };
}

function said(event: { readonly kind: string; readonly family: number; readonly why: string }): string {
  return `${event.kind} ${event.family} ${event.why}`;
}

t.test('30 % is not over it, and 10 % is not under it', async (t) => {
  const { all, note } = scene(10);
  t.same(note(all.slice(0, 3), 'timeout', 5_000), []);
  t.same(note(all.slice(3, 4), 'timeout', 5_000), ['began 4 failures']);
  t.same(note(all.slice(0, 3), undefined, 6_000), [], 'one of ten');
  t.same(note(all.slice(3, 4), undefined, 6_000), ['ended 4 recovered']);
});

t.test('failures count together for the longest gap between two probes', async (t) => {
  for (const [at, events] of [
    [11_000, ['began 4 failures']],
    [11_001, []],
  ] as const) {
    const { all, note } = scene(10);
    note(all.slice(0, 3), 'timeout', 5_000);
    note(all.slice(9), undefined, 10_000);
    t.same(note(all.slice(3, 4), 'timeout', at), events);
  }
});

t.test('what passes ends it after two minutes, and not before', async (t) => {
  const { all, note } = scene(10);
  note(all.slice(0, 5), 'timeout', 5_000);
  t.same(note(all.slice(9), undefined, 124_999), []);
  t.same(note(all.slice(9), undefined, 125_000), ['ended 4 trusted']);
});

t.test(
  'a table that is full begins it over both families, once, and nothing ends it before there is room',
  async (t) => {
    const { all, suspicion, note, fill } = scene(4);
    note(all.slice(0, 1), 'timeout', 5_000);
    note(all.slice(3), undefined, 10_000);
    note(all.slice(1, 2), 'timeout', 11_000);
    note(all.slice(2, 3), 'refused', 11_000);
    t.same(fill(0.94, 12_000), []);
    const events = suspicion.conntrack(0.95, 12_000);
    t.same(
      events.map(({ family, ...event }) => [family, event.kind, 'keys' in event && event.keys]),
      [
        [4, 'began', [all[1]]],
        [6, 'began', []],
      ],
      'of those that fail the one that began to within the interval',
    );
    t.same(fill(0.99, 13_000), []);
    t.same(note(all, undefined, 14_000), []);
    t.same(note(all, undefined, 200_000), [], 'however long it lasts');
    t.same(fill(0.5, 201_000), ['ended 4 recovered', 'ended 6 recovered']);
    t.same([fill(0.4, 202_000), suspicion.some], [[], false]);
  },
);

t.test('a family alone is some, too', async (t) => {
  const { all, suspicion, note } = scene(2, (n) => `fd00:0:0:${n}::1`);
  t.same(note(all, 'timeout', 5_000), ['began 6 failures']);
  t.same([suspicion.some, suspicion.since(4), suspicion.since(6)], [true, undefined, 5_000]);
});

t.test('what is seeded is a witness, unless it is known or of this host', async (t) => {
  const { suspicion, note } = scene(0);
  const seeded = Array.from({ length: 3 }, (_, n): One => ({ address: `10.0.${n}.1`, stance: undefined }));
  const own: One = { address: '127.0.0.1', stance: undefined };
  for (const one of [own, ...seeded]) suspicion.seed(one, one.address);
  t.equal(own.stance, undefined);
  t.same(note(seeded.slice(0, 2), 'timeout', 5_000), []);
  suspicion.seed(seeded[0]!, seeded[0]!.address);
  t.same(note(seeded.slice(2), 'timeout', 5_000), ['began 4 failures'], 'it has failed since, and still does');
});

/** Endpoints of one network, so that nothing but that none of them passes is a sign. */
const near = (n: number): string => `10.0.0.${n + 1}`;

t.test('nothing passes any more when an interval and what a pass may take are over', async (t) => {
  const { all, note } = scene(3, near);
  t.same(note(all.slice(0, 2), 'timeout', 6_000), []);
  t.same(note(all.slice(0, 1), 'timeout', 7_250), []);
  t.same(note(all.slice(0, 1), 'timeout', 7_251), ['began 4 failures']);
  t.same(note(all.slice(2), undefined, 8_000), ['ended 4 recovered'], 'one that is cut off would have failed');
});

t.test('a failure that is no timeout ends that, and it begins again where nothing passes all the same', async (t) => {
  const { all, note } = scene(3, near);
  note(all.slice(0, 2), 'timeout', 6_000);
  t.same(note(all.slice(0, 1), 'timeout', 7_251), ['began 4 failures']);
  t.same(note(all.slice(2), 'bad-status', 8_000), ['ended 4 recovered'], 'it may prove the path');
  t.same(note(all.slice(0, 2), 'timeout', 12_000), []);
  t.same(note(all.slice(0, 1), 'timeout', 15_251), ['began 4 failures']);
});

t.test('what began with a few, and is seen to be all of them, ends when most pass again', async (t) => {
  const { all, note } = scene(10);
  note(all.slice(0, 2), 'timeout', 6_000);
  t.same(note(all.slice(0, 1), 'timeout', 7_251), ['began 4 failures']);
  t.same(note(all.slice(2, 9), 'timeout', 8_000), []);
  t.same(note(all.slice(9), 'bad-status', 9_000), []);
  t.same(note(all.slice(0, 8), undefined, 10_000), []);
  t.same(note(all.slice(8, 9), undefined, 10_000), ['ended 4 recovered']);
});

t.test('a full connection tracking table is a reason that no failure takes away', async (t) => {
  const { all, note, fill } = scene(3, near);
  note(all.slice(0, 2), 'timeout', 6_000);
  t.same(note(all.slice(0, 1), 'timeout', 7_251), ['began 4 failures']);
  t.same(fill(0.96, 7_700), ['began 6 conntrack']);
  t.same(note(all.slice(2), 'refused', 8_000), []);
});
