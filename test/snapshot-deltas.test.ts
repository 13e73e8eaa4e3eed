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
  /** The writer tells that a file has all up to this delta; the first is number 1. */
  const wrote = (number: number, bytes = 1, wall = 0): void => snapshots.wrote(ZONE, { wall, number, bytes });
  return { at, resolver, snapshots, sent, wrote };
}

t.test('what changes again before the file may be written again is sent once (R29)', async (t) => {
  const { at, resolver, sent, wrote } = scene();
  resolver.report(ZONE, 0, list(1), at(0));
  t.same(sent(1_000), [['full', 1]]);
  wrote(1, 3_000_000);
  resolver.report(ZONE, 0, list(2), at(1_500));
  t.same(sent(2_000), [], 'after three megabytes there are three seconds');
  resolver.report(ZONE, 0, list(3), at(2_500));
  t.same(sent(3_999), []);
  t.same(sent(4_000), [['delta', 1]]);
  t.same(sent(5_000), []);
  resolver.report(ZONE, 0, list(4), at(5_000));
  t.same(sent(5_001, true), [['delta', 1]], 'at the end there is no later');
  wrote(3, 1_000);
  resolver.report(ZONE, 0, list(5), at(5_500));
  t.same(sent(6_000), [['delta', 1]], 'a small file may be written each second');
});

t.test('the parts of a large delta follow each other', async (t) => {
  const { at, resolver, sent, wrote } = scene();
  resolver.report(ZONE, 0, list(1, 700), at(0));
  wrote(1, 60_000_000);
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
  const { at, resolver, snapshots, sent, wrote } = scene();
  resolver.report(ZONE, 0, list(1, 700), at(0));
  let answer: string | undefined = 'none yet';
  const ask = async (within?: number): Promise<void> => {
    answer = 'none yet';
    answer = await snapshots.saved([ZONE], () => sent(1_000), within);
  };
  const settled = () => new Promise((done) => setImmediate(done));
  const first = ask();
  wrote(1);
  await settled();
  t.equal(answer, 'none yet', 'a part of it went to the writer so far');
  for (const boot of [1_001, 1_002]) sent(boot);
  wrote(2);
  await settled();
  t.equal(answer, 'none yet', 'what was written is from before');
  wrote(3);
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
    const { at, resolver, snapshots, wrote } = scene();
    resolver.report(ZONE, 0, list(1), at(0));
    snapshots.problem(ZONE, 'ENOSPC: no space left on device');
    t.same([...snapshots.problems.keys()], [ZONE]);
    wrote(1, 100);
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
  const { at, resolver, snapshots, sent, wrote } = scene();
  resolver.report(ZONE, 0, list(1), at(0));
  sent(1_000);
  wrote(1);
  const answer = snapshots.saved([ZONE], () => sent(3_000));
  wrote(2);
  t.equal(await answer, undefined);
});

t.test(
  'whatever is done to the clock, a command is answered when what it said is on disk, and not before',
  async (t) => {
    const { at, resolver, snapshots, wrote } = scene();
    const save = (boot: number, setBack: number) => snapshots.deltas({ boot, wall: at(boot).wall - setBack });
    resolver.report(ZONE, 0, list(1), at(0));
    save(1_000, 0);
    let answered = false;
    const early = snapshots.saved([ZONE], () => save(3_000, 3_600_000)).then(() => (answered = true));
    wrote(1, 1, at(1_000).wall);
    await new Promise((done) => setImmediate(done));
    t.equal(answered, false, 'what was under way is from before');
    wrote(2, 1, at(3_000).wall - 3_600_000);
    await early;

    const late = snapshots.saved([ZONE], () => save(5_000, 0));
    resolver.report(ZONE, 0, list(2), at(6_000));
    save(7_000, 3_600_000);
    wrote(4, 1, at(7_000).wall - 3_600_000);
    t.equal(await late, undefined, 'it is in the file, among what was said later');
  },
);

t.test('of a zone that has nothing there is nothing to be written, and nobody waits for it (R29)', async (t) => {
  const { snapshots, sent } = scene();
  let answer: string | undefined = 'none yet';
  void snapshots.saved([ZONE], () => sent(1_000)).then((problem) => (answer = problem));
  await new Promise((done) => setImmediate(done));
  t.equal(answer, undefined);
});
