/** A snapshot writer with a folder, and what it wrote. */
import { loadSnapshot } from '../src/catalog/snapshot.js';
import { SnapshotBody, type SnapshotLines } from '../src/catalog/snapshot-body.js';
import { snapshotPaths } from '../src/catalog/snapshot-format.js';
import { type SnapshotDelta, SnapshotWriter, type SnapshotWriterOptions } from '../src/catalog/snapshot-writer.js';

export const ZONE = 'svc.internal';

export const WALL = 1_900_000_000_000;

export const EXPECT = { machine: 'm1', registry: 'file:/r' };

export function delta(more: Partial<SnapshotDelta> = {}): SnapshotDelta {
  return { zone: ZONE, registry: 'file:/r', wall: WALL, number: 1, full: false, put: [], drop: [], ...more };
}

export function lines(all: readonly (readonly [string, string])[]): SnapshotLines {
  const body = new SnapshotBody();
  for (const [name, json] of all) body.put(name, json);
  return body.freeze();
}

export function writer(folder: string, more: Partial<SnapshotWriterOptions> = {}): SnapshotWriter {
  return new SnapshotWriter({ folder, machine: 'm1', onProblem: () => undefined, leastPause: 0, ...more });
}

/** With the services as a list. */
export function load(folder: string, nowWall = WALL + 1000) {
  const { snapshot, problems } = loadSnapshot(folder, ZONE, EXPECT, nowWall);
  if (snapshot === undefined) return { problems };
  const { meta, services } = snapshot.data;
  const all = [...services];
  snapshot.close();
  const { wall, age, registryMatches, generation } = snapshot;
  return { snapshot: { wall, age, registryMatches, generation, data: { meta, services: all } }, problems };
}

/** A folder with two generations: service a with value 1 in the older, 2 in the newer. */
export async function twoGenerations(folder: string): Promise<{ current: string; previous: string }> {
  const made = writer(folder);
  made.take(
    delta({
      full: true,
      meta: '{"v":1}',
      put: [
        ['a', '{"v":1}'],
        ['b', '[]'],
      ],
    }),
  );
  await made.flush(5000);
  made.take(delta({ wall: WALL + 1, meta: '{"v":2}', put: [['a', '{"v":2}']] }));
  await made.flush(5000);
  made.stop();
  return snapshotPaths(folder, ZONE);
}

export const CURRENT = {
  data: {
    meta: { v: 2 },
    services: [
      ['a', { v: 2 }],
      ['b', []],
    ],
  },
  wall: WALL + 1,
  age: 999,
  registryMatches: true,
  generation: 'current',
};
