/** R29, R32: what a snapshot had of several registries, when they stand in another order, are others, or have spoken. */
import t from 'tap';
import type { Report, Row } from '../src/registry/registry.js';
import { Resolver } from '../src/resolver/resolver.js';
import { Snapshots } from '../src/resolver/snapshots.js';
import { read } from './config-fixture.js';
import { writer } from './snapshot-fixture.js';

const ZONE = 'svc.internal';
const WALL = 1.9e12;

function config(...files: string[]) {
  const registries = files.map((file) => `{ type: file, path: /${file}.yaml }`).join(', ');
  return read(`version: 1\nzones:\n  - { name: ${ZONE}, registries: [${registries}] }\n`);
}

function list(...services: string[]): Report {
  const row: Row = {
    id: 'a',
    address: '10.0.0.1',
    port: 80,
    protocol: 'tcp',
    priority: 0,
    weight: 1,
    tags: [],
    state: 'passing',
  };
  const listings = services.map((name) => ({ name, rows: [row] }));
  const about = { at: 0, epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
  return { kind: 'list', services: listings, ...about };
}

const AWAY: Report = { kind: 'unreachable', at: 0, reason: 'ECONNREFUSED' };

/** A resolver with the snapshots of a folder. `save` writes what it has by now. */
function start(folder: string, boot: number, ...files: string[]) {
  const at = (ms: number) => ({ boot: ms, wall: WALL + ms });
  const nothing = (): void => undefined;
  const resolver = new Resolver(config(...files), { log: nothing, targets: nothing, probeNow: nothing }, at(boot));
  const snapshots = new Snapshots(resolver, 'm1', nothing);
  snapshots.load(folder, config(...files).zones, at(boot));
  const made = writer(`${folder}/snapshots`);
  return {
    at,
    resolver,
    snapshots,
    reload(ms: number, ...others: string[]) {
      resolver.reload(config(...others), at(ms));
      snapshots.load(folder, config(...others).zones, at(ms));
    },
    async save(ms: number) {
      for (const delta of snapshots.deltas(at(ms))) made.take(delta);
      await made.flush(5_000);
    },
    outcome: (service: string, ms: number) => resolver.explain(`${service}.${ZONE}`, 'A', at(ms)).outcome,
  };
}

t.test('registries that stand in another order after a restart have what each of them had', async (t) => {
  const folder = t.testdir({});
  const before = start(folder, 0, 'main', 'floor');
  before.resolver.report(ZONE, 0, list('orders', 'billing'), before.at(0));
  before.resolver.report(ZONE, 0, list('orders'), before.at(1));
  before.resolver.accept('*', undefined, before.at(2));
  before.resolver.report(ZONE, 1, list('static'), before.at(3));
  t.equal(before.outcome('billing', 4), 'nxdomain');
  await before.save(1_000);

  const { resolver, snapshots, outcome, at } = start(folder, 10_000, 'floor', 'main');
  resolver.report(ZONE, 0, list('static'), at(10_001));
  resolver.report(ZONE, 1, AWAY, at(10_002));
  snapshots.firstSyncFailed(ZONE, at(10_002));
  t.equal(outcome('orders', 10_003), 'answer', 'the one that is away had it');
  t.equal(outcome('static', 10_003), 'answer');
  resolver.report(ZONE, 0, list('static', 'billing'), at(10_004));
  t.equal(outcome('billing', 10_005), 'answer', 'the one that has it now never dropped it');
});

t.test(
  'a registry that took the place of another one, while the order changed, begins with what that one had',
  async (t) => {
    const folder = t.testdir({});
    const before = start(folder, 0, 'main', 'floor');
    before.resolver.report(ZONE, 0, list('orders'), before.at(0));
    before.resolver.report(ZONE, 1, list('static'), before.at(0));
    await before.save(1_000);

    const { resolver, snapshots, outcome, at } = start(folder, 10_000, 'floor', 'moved');
    resolver.report(ZONE, 1, AWAY, at(10_001));
    snapshots.firstSyncFailed(ZONE, at(10_001));
    t.equal(outcome('orders', 10_002), 'answer');
    t.equal(outcome('static', 10_002), 'answer');
    resolver.report(ZONE, 0, list('static', 'orders'), at(10_003));
    resolver.report(ZONE, 1, list('billing'), at(10_004));
    t.equal(outcome('billing', 10_005), 'answer');
  },
);

t.test('what one registry once had says nothing of another one in its place', async (t) => {
  const folder = t.testdir({});
  const before = start(folder, 0, 'main', 'floor');
  before.resolver.report(ZONE, 0, list('orders', 'billing'), before.at(0));
  before.resolver.report(ZONE, 1, list('static'), before.at(0));
  before.resolver.report(ZONE, 0, list('orders'), before.at(1));
  before.resolver.accept('*', undefined, before.at(2));
  await before.save(1_000);

  const { resolver, snapshots, outcome, at } = start(folder, 10_000, 'new', 'floor');
  resolver.report(ZONE, 0, AWAY, at(10_001));
  snapshots.firstSyncFailed(ZONE, at(10_001));
  t.equal(outcome('orders', 10_002), 'answer', 'what is there of the place is better than nothing');
  resolver.report(ZONE, 1, list('static', 'billing'), at(10_003));
  t.equal(outcome('billing', 10_004), 'answer');
});

t.test('a snapshot that waits to be used is not overwritten by what another registry said', async (t) => {
  const folder = t.testdir({});
  const before = start(folder, 0, 'main');
  before.resolver.report(ZONE, 0, list('orders'), before.at(0));
  await before.save(1_000);

  const first = start(folder, 10_000, 'main', 'floor');
  first.resolver.report(ZONE, 1, list('static'), first.at(10_001));
  await first.save(11_000);
  const second = start(folder, 11_500, 'main', 'floor');
  second.resolver.report(ZONE, 1, list('static'), second.at(11_501));
  await second.save(12_500);
  second.resolver.report(ZONE, 0, AWAY, second.at(12_600));
  second.snapshots.firstSyncFailed(ZONE, second.at(12_600));
  t.equal(second.outcome('orders', 12_601), 'answer');
  await second.save(13_500);
  await second.save(74_000);

  const third = start(folder, 80_000, 'main', 'floor');
  t.equal(third.outcome('orders', 80_001), 'answer');
  t.equal(third.outcome('static', 80_001), 'answer');
});

t.test('a registry that a reload took away is in no snapshot of those that came after it', async (t) => {
  const folder = t.testdir({});
  const before = start(folder, 0, 'main', 'floor');
  before.resolver.report(ZONE, 0, list('orders'), before.at(0));
  before.resolver.report(ZONE, 1, list('static'), before.at(0));
  await before.save(1_000);
  before.reload(2_000, 'main');
  await before.save(3_000);
  before.reload(4_000, 'main', 'other');
  before.resolver.report(ZONE, 1, list('billing'), before.at(5_000));
  await before.save(6_000);

  const { outcome } = start(folder, 10_000, 'main', 'other');
  t.equal(outcome('orders', 10_001), 'answer');
  t.equal(outcome('billing', 10_001), 'answer');
  t.equal(outcome('static', 10_001), 'nxdomain');
});
