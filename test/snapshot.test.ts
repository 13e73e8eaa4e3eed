/** Snapshots are written, and read back (R29). */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { isTrusted, loadSnapshot } from '../src/catalog/snapshot.js';
import { SnapshotBody, type SnapshotLines } from '../src/catalog/snapshot-body.js';
import { snapshotPaths } from '../src/catalog/snapshot-format.js';
import { SyncLink } from '../src/resolver/sync-link.js';
import { Unsaved } from '../src/resolver/unsaved.js';
import { CURRENT, delta, load, twoGenerations, WALL, writer, ZONE } from './snapshot-fixture.js';

t.test('what a zone has is written, and read back', async (t) => {
  const folder = join(t.testdir({}), 'deep', 'snapshots');
  t.same(load(folder), { problems: [] }, 'no snapshot is no problem');
  t.equal(statSync(folder).mode & 0o777, 0o700, 'the folder is made');
  const { current, previous } = await twoGenerations(folder);
  t.same(load(folder), { snapshot: CURRENT, problems: [] });
  t.same(readdirSync(folder).sort(), ['svc.internal.snapshot', 'svc.internal.snapshot.old']);
  t.equal(statSync(current).mode & 0o777, 0o600);
  t.equal(statSync(previous).mode & 0o777, 0o600);
  t.equal(readFileSync(current, 'utf8').split('\n').slice(1).join('\n'), '{"v":2}\n["a",{"v":2}]\n["b",[]]\n');
});

t.test('deltas add, replace and drop; nothing is written before a full one', async (t) => {
  const folder = join(t.testdir({}), 's');
  const written: unknown[] = [];
  const made = writer(folder, { onWritten: (_zone, { wall, number }) => written.push([wall, number]) });
  made.take(delta({ put: [['lost', '1']] }));
  t.equal(await made.flush(1000), true);
  t.same(written, []);
  made.take(
    delta({
      full: true,
      put: [
        ['a', '1'],
        ['b', '2'],
        ['__proto__', '3'],
      ],
    }),
  );
  made.take(delta({ wall: WALL + 5, number: 2, put: [['c', '4']], drop: ['a', 'unknown'] }));
  t.equal(await made.flush(1000), true);
  t.same(written, [[WALL + 5, 2]], 'both in one file');
  t.same(load(folder).snapshot?.data, {
    meta: null,
    services: [
      ['b', 2],
      ['__proto__', 3],
      ['c', 4],
    ],
  });
  made.take(delta({ wall: WALL + 60_000 }));
  await made.flush(1000);
  t.equal(load(folder).snapshot?.wall, WALL + 60_000, 'a delta without changes makes the wall time new');
  made.take(delta({ full: true, registry: 'file:/other', put: [['z', '5']] }));
  await made.flush(1000);
  t.match(load(folder).snapshot, { data: { services: [['z', 5]] }, registryMatches: false });
  made.forget(ZONE);
  made.take(delta({ put: [['y', '6']] }));
  await made.flush(1000);
  t.match(load(folder).snapshot, { data: { services: [['z', 5]] } }, 'a zone that was given up is not written');
  made.stop();
});

t.test('what comes while a file is being written is not half in it', async (t) => {
  const folder = join(t.testdir({}), 's');
  const made = writer(folder);
  made.take(delta({ full: true, meta: '{"revision":1}', put: [['a', '1']] }));
  const written = made.flush(1000);
  made.take(delta({ wall: WALL + 1, meta: '{"revision":2}', put: [['a', '2']], more: true }));
  await written;
  t.match(load(folder).snapshot, { wall: WALL, data: { meta: { revision: 1 }, services: [['a', 1]] } });
  made.stop();
});

t.test('writes are spaced in time and by size', async (t) => {
  const folder = join(t.testdir({}), 's');
  let writes = 0;
  const written: ((n: number) => void)[] = [];
  const made = writer(folder, {
    leastPause: 300,
    onWritten: () => {
      writes++;
      for (const tell of written.splice(0)) tell(writes);
    },
  });
  const next = (): Promise<number> => new Promise((resolve) => written.push(resolve));
  const first = next();
  made.take(delta({ full: true, put: [['a', '0']] }));
  t.equal(await first, 1, 'the first change is written without waiting');
  const second = next();
  for (let i = 1; i <= 20; i++) made.take(delta({ put: [['a', String(i)]] }));
  t.equal(await second, 2, 'twenty more at once');
  t.same(load(folder).snapshot?.data.services, [['a', 20]]);
  made.take(delta({ put: [['a', '21']] }));
  t.equal(await made.flush(2000), true, 'a flush does not wait');
  t.same(load(folder).snapshot?.data.services, [['a', 21]]);
  made.stop();
});

t.test('age, trust and the clock', async (t) => {
  const folder = join(t.testdir({}), 's');
  await twoGenerations(folder);
  const day = 86_400_000;
  const at = (nowWall: number) => load(folder, nowWall);
  t.equal(isTrusted(at(WALL + day).snapshot!, day), true, 'one ms less than a day old');
  t.equal(isTrusted(at(WALL + day + 1).snapshot!, day), false, 'a day old');
  const other = loadSnapshot(folder, ZONE, { machine: 'm1', registry: 'file:/other' }, WALL + 1000);
  t.match(other, { snapshot: { registryMatches: false }, problems: [] });
  t.equal(isTrusted(other.snapshot!, day), false, 'of another registry');
  const future = at(WALL - 3_600_000);
  t.match(future, { snapshot: { age: 0, wall: WALL + 1 }, problems: { length: 1 } });
  t.match(future.problems[0], /svc\.internal\.snapshot: 3601 s from the future by this machine's clock; taken as new$/);
});

t.test(
  'of thousands of services, replaced and dropped at random, each has its last line, and what is being written stays',
  (t) => {
    const body = new SnapshotBody();
    const known = new Map<string, string>();
    let seed = 7;
    const random = (below: number) => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below;
    const text = (all: SnapshotLines) => Buffer.concat([...all.chunks()]).toString();
    const expected = () => [...known].map(([name, json]) => `["${name}",${json}]`).sort();
    let frozen: { readonly lines: SnapshotLines; readonly expected: string[] } | undefined;
    for (let i = 0; i < 12_000; i++) {
      const name = `s${random(1500)}ü`;
      if (random(4) === 0) {
        known.delete(name);
        body.drop(name);
      } else {
        known.set(name, JSON.stringify({ i, pad: 'x'.repeat(random(60)) }));
        body.put(name, known.get(name)!);
      }
      if (i === 6000) frozen = { lines: body.freeze(), expected: expected() };
    }
    for (const one of [frozen!, { lines: body.freeze(), expected: expected() }]) {
      t.same(text(one.lines).trimEnd().split('\n').sort(), one.expected);
      t.equal(one.lines.bytes, Buffer.byteLength(text(one.lines)));
      t.equal(one.lines.count, one.expected.length);
    }
    body.clear();
    t.same(text(body.freeze()), '');
    t.end();
  },
);

t.test('what comes in parts is written when all of it is there', async (t) => {
  const folder = join(t.testdir({}), 's');
  const made = writer(folder);
  made.take(delta({ full: true, put: [['a', '1']], more: true }));
  t.equal(await made.flush(50), true);
  t.equal(load(folder).snapshot, undefined);
  made.take(delta({ meta: '9', put: [['b', '2']] }));
  await made.flush(5000);
  made.stop();
  t.same(load(folder).snapshot?.data, {
    meta: 9,
    services: [
      ['a', 1],
      ['b', 2],
    ],
  });
});

t.test('zone names are safe file names', async (t) => {
  const name = (zone: string): string => snapshotPaths('/s', zone).current.slice(3);
  t.equal(name('svc.internal'), 'svc.internal.snapshot');
  t.equal(name('../../etc/x'), '%2e.%2f..%2fetc%2fx.snapshot');
  t.equal(name('.'), '%2e.snapshot');
  t.equal(name('a b\0'), 'a%20b%00.snapshot');
  const long = `${'a'.repeat(63)}.`.repeat(4);
  t.equal(name(long).length, 160 + 1 + 16 + '.snapshot'.length);
  t.not(name(long), name(`${long}b`));
  t.equal(snapshotPaths('/s', 'x').previous, '/s/x.snapshot.old');
});

t.test('a hundred thousand endpoints are written and loaded', async (t) => {
  const folder = join(t.testdir({}), 's');
  const rows = Array.from({ length: 10 }, (_, i) => ({
    id: `host-${i}`,
    address: `10.0.0.${i}`,
    port: 8080,
    protocol: 'tcp',
    priority: 0,
    weight: 10,
    tags: ['blue'],
    state: 'passing',
  }));
  const json = JSON.stringify({ rows });
  const put = Array.from({ length: 10_000 }, (_, i) => [`service-${i}`, json] as const);
  const made = writer(folder);
  made.take(delta({ full: true, put }));
  t.equal(await made.flush(30_000), true);
  made.stop();
  const { snapshot, problems } = load(folder);
  t.same(problems, []);
  t.equal(snapshot?.data.services.length, 10_000);
  t.same(snapshot?.data.services[9999], ['service-9999', { rows }]);
});

t.test('a service of several megabytes is loaded, whatever blocks its line lies in', async (t) => {
  const folder = join(t.testdir({}), 's');
  const long = 'ü€'.repeat(600_000);
  const made = writer(folder);
  const put = ['a', 'b', 'c'].map((name) => [name, JSON.stringify({ long, name })] as const);
  made.take(delta({ full: true, meta: JSON.stringify({ long }), put }));
  t.equal(await made.flush(30_000), true);
  made.stop();
  const { snapshot } = load(folder);
  const expected = ['a', 'b', 'c'].map((name) => [name, { long, name }]);
  t.ok(JSON.stringify(snapshot?.data) === JSON.stringify({ meta: { long }, services: expected }));
});

t.test('a whole snapshot comes in parts, each service in one of them, and what changes meanwhile too', (t) => {
  const unsaved = new Unsaved();
  const take = (count: number): string[] => {
    const taken: string[] = [];
    for (const name of unsaved.take()) if (taken.push(name) >= count) break;
    return taken;
  };
  unsaved.add('b');
  unsaved.addAll(['a', 'c', 'd']);
  t.same(take(2), ['b', 'a']);
  unsaved.add('a');
  t.same(take(2), ['a', 'c']);
  t.equal(unsaved.some, true);
  t.same(take(9), ['d']);
  t.equal(unsaved.some, false);
  unsaved.addAll(['a']);
  unsaved.clear();
  t.same([unsaved.some, take(9)], [false, []]);
  t.end();
});

t.test('the sync worker writes snapshots and flushes them at the end', async (t) => {
  const dir = t.testdir({});
  const folder = join(dir, 'snapshots');
  const problems: unknown[] = [];
  const link = new SyncLink({
    snapshotFolder: folder,
    hostsFile: join(folder, 'registry-hosts.json'),
    machine: 'm1',
    log: (_level, event) => problems.push(event),
    onReport: () => undefined,
    onSnapshotProblem: (_zone, reason) => problems.push(reason),
    onSnapshotWanted: () => undefined,
  });
  link.start([]);
  link.snapshot(delta({ full: true, meta: '{"v":1}', put: [['a', '1']] }));
  link.snapshot(delta({ wall: WALL + 7, put: [['b', '2']] }));
  t.equal(await link.flush(10_000), true);
  t.match(load(folder), {
    snapshot: {
      wall: WALL + 7,
      data: {
        meta: { v: 1 },
        services: [
          ['a', 1],
          ['b', 2],
        ],
      },
    },
  });
  t.equal(await link.stop(), true);
  t.equal(await link.flush(100), false, 'nothing is flushed after the end');
  t.same(problems, []);
});
