import t from 'tap';
import type { Report, Row } from '../src/registry/registry.js';
import { Resolver } from '../src/resolver/resolver.js';
import { Snapshots } from '../src/resolver/snapshots.js';
import { read } from './config-fixture.js';

const ZONE = 'svc.internal';
const ROW: Row = {
  id: 'a',
  address: '10.0.0.1',
  port: 80,
  protocol: 'tcp',
  priority: 0,
  weight: 1,
  tags: [],
  state: 'passing',
};

function config(...names: string[]) {
  const zones = names.map((name) => `  - { name: ${name}, registry: { type: file, path: /services.yaml } }`);
  return read(`version: 1\nzones:\n${zones.join('\n')}\n`);
}

function list(weight: number, services = 1): Report {
  const all = Array.from({ length: services }, (_, i) => ({ name: `s${i}`, rows: [{ ...ROW, weight }] }));
  return { kind: 'list', at: 0, epoch: 'e', services: all, releases: [], rejected: [], removalsBelievable: true };
}

function scene() {
  const at = (boot: number) => ({ boot, wall: 1.9e12 + boot });
  const nothing = (): void => undefined;
  const resolver = new Resolver(config(ZONE), { log: nothing, targets: nothing, probeNow: nothing }, at(0));
  const snapshots = new Snapshots(resolver, 'm1', nothing);
  /** Lines that go to the writer, and whether they are all there are. */
  const sent = (boot: number, last = false) =>
    snapshots.deltas(at(boot), last).map(({ full, put }) => [full ? 'full' : 'delta', put.length]);
  return { at, resolver, snapshots, sent };
}

t.test('what changes again before the file may be written again is sent once (R29)', async (t) => {
  const { at, resolver, snapshots, sent } = scene();
  resolver.report(ZONE, 0, list(1), at(0));
  t.same(sent(1_000), [['full', 1]]);
  snapshots.wrote(ZONE, 1_000, 3_000_000);
  resolver.report(ZONE, 0, list(2), at(1_500));
  t.same(sent(2_000), [], 'after three megabytes there are three seconds');
  resolver.report(ZONE, 0, list(3), at(2_500));
  t.same(sent(3_999), []);
  t.same(sent(4_000), [['delta', 1]]);
  t.same(sent(5_000), []);
  resolver.report(ZONE, 0, list(4), at(5_000));
  t.same(sent(5_001, true), [['delta', 1]], 'at the end there is no later');
  snapshots.wrote(ZONE, 5_000, 1_000);
  resolver.report(ZONE, 0, list(5), at(5_500));
  t.same(sent(6_000), [['delta', 1]], 'a small file may be written each second');
});

t.test('the parts of a large delta follow each other', async (t) => {
  const { at, resolver, snapshots, sent } = scene();
  resolver.report(ZONE, 0, list(1, 700), at(0));
  snapshots.wrote(ZONE, 0, 60_000_000);
  t.same(
    [...sent(1_000), ...sent(1_001), ...sent(1_002), ...sent(1_003)].map(([kind]) => kind),
    ['full', 'delta', 'delta'],
  );
});

t.test('a zone that went and came back is sent whole: the writer has forgotten it', async (t) => {
  const { at, resolver, snapshots, sent } = scene();
  resolver.report(ZONE, 0, list(1), at(0));
  t.same(sent(1_000), [['full', 1]]);
  for (const one of [config('other.internal'), config(ZONE)]) {
    resolver.reload(one, at(2_000));
    snapshots.load(t.testdir({}), one.zones, at(2_000));
  }
  resolver.report(ZONE, 0, list(2), at(3_000));
  t.same(sent(4_000), [['full', 1]]);
});

t.test('a command is answered when what it said is on disk, or with why it is not (R29)', async (t) => {
  const { at, resolver, snapshots, sent } = scene();
  resolver.report(ZONE, 0, list(1, 700), at(0));
  const wall = (boot: number) => at(boot).wall;
  let answer: string | undefined = 'none yet';
  const ask = async (within?: number): Promise<void> => {
    answer = 'none yet';
    answer = await snapshots.saved([ZONE], () => sent(1_000), within);
  };
  const settled = () => new Promise((done) => setImmediate(done));
  const first = ask();
  snapshots.wrote(ZONE, wall(1_000), 1);
  await settled();
  t.equal(answer, 'none yet', 'a part of it went to the writer so far');
  for (const boot of [1_001, 1_002]) sent(boot);
  snapshots.wrote(ZONE, wall(1_001), 1);
  await settled();
  t.equal(answer, 'none yet', 'what was written is from before');
  snapshots.wrote(ZONE, wall(1_002), 1);
  await first;
  t.equal(answer, undefined);

  await ask(1);
  t.equal(answer, 'not written within 0.001 s');
  const failing = ask();
  snapshots.problem(ZONE, 'ENOSPC');
  await failing;
  t.equal(answer, 'ENOSPC');
  await ask();
  t.equal(answer, 'ENOSPC', 'known before');
  snapshots.problem(ZONE, undefined);
  const gone = ask();
  const other = config('other.internal');
  resolver.reload(other, at(2_000));
  snapshots.load(t.testdir({}), other.zones, at(2_000));
  await gone;
  t.equal(answer, 'the zone is gone');
});

t.test(
  'what could not be written of a zone that is gone is no problem any more, and a new writer mends it',
  async (t) => {
    const { at, resolver, snapshots } = scene();
    resolver.report(ZONE, 0, list(1), at(0));
    snapshots.problem(ZONE, 'ENOSPC: no space left on device');
    t.same([...snapshots.problems.keys()], [ZONE]);
    snapshots.wrote(ZONE, 1_000, 100);
    t.same([...snapshots.problems.keys()], [], 'the writer that had failed has died, the next one has written');
    snapshots.problem(ZONE, 'ENOSPC: no space left on device');
    const other = config('other.internal');
    resolver.reload(other, at(2_000));
    snapshots.load(t.testdir({}), other.zones, at(2_000));
    t.same([...snapshots.problems.keys()], []);
    snapshots.problem(ZONE, 'EIO: i/o error');
    t.same([...snapshots.problems.keys()], [], 'nor by a write that was under way');
  },
);

t.test('a command that changes nothing is answered by a write, too (R29)', async (t) => {
  const { at, resolver, snapshots, sent } = scene();
  resolver.report(ZONE, 0, list(1), at(0));
  sent(1_000);
  snapshots.wrote(ZONE, at(1_000).wall, 1);
  const answer = snapshots.saved([ZONE], () => sent(3_000));
  snapshots.wrote(ZONE, at(3_000).wall, 1);
  t.equal(await answer, undefined);
});
