import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Blocks } from '../src/catalog/block-file.js';
import { isTrusted, loadSnapshot } from '../src/catalog/snapshot.js';
import { SnapshotBody, type SnapshotLines } from '../src/catalog/snapshot-body.js';
import { type DecodedSnapshot, decodeSnapshot, encodeSnapshot, snapshotPaths } from '../src/catalog/snapshot-format.js';
import { type SnapshotDelta, SnapshotWriter, type SnapshotWriterOptions } from '../src/catalog/snapshot-writer.js';
import { Resolver } from '../src/resolver/resolver.js';
import { Snapshots } from '../src/resolver/snapshots.js';
import { SyncLink } from '../src/resolver/sync-link.js';
import { Unsaved } from '../src/resolver/unsaved.js';
import { removeTemporaries, replaceFile } from '../src/system/atomic-file.js';
import { BootClock, type ClockReadings, ClockWatch } from '../src/system/boot-clock.js';
import { makeFolder, makeFolderAsync } from '../src/system/folder.js';
import { machineId } from '../src/system/machine.js';
import { read } from './config-fixture.js';

const ZONE = 'svc.internal';
const WALL = 1_900_000_000_000;
const EXPECT = { machine: 'm1', registry: 'file:/r' };

function delta(more: Partial<SnapshotDelta> = {}): SnapshotDelta {
  return { zone: ZONE, registry: 'file:/r', wall: WALL, full: false, put: [], drop: [], ...more };
}

function lines(all: readonly (readonly [string, string])[]): SnapshotLines {
  const body = new SnapshotBody();
  for (const [name, json] of all) body.put(name, json);
  return body.freeze();
}

function writer(folder: string, more: Partial<SnapshotWriterOptions> = {}): SnapshotWriter {
  return new SnapshotWriter({ folder, machine: 'm1', onProblem: () => undefined, leastPause: 0, ...more });
}

/** With the services as a list. */
function load(folder: string, nowWall = WALL + 1000) {
  const { snapshot, problems } = loadSnapshot(folder, ZONE, EXPECT, nowWall);
  if (snapshot === undefined) return { problems };
  const { meta, services } = snapshot.data;
  const all = [...services];
  snapshot.close();
  const { wall, age, registryMatches, generation } = snapshot;
  return { snapshot: { wall, age, registryMatches, generation, data: { meta, services: all } }, problems };
}

function inMemory(file: Buffer): Blocks {
  return { length: file.length, from: (at) => (at < file.length ? [file.subarray(at)] : []), close: () => undefined };
}

/** A folder with two generations: service a with value 1 in the older, 2 in the newer. */
async function twoGenerations(folder: string): Promise<{ current: string; previous: string }> {
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

const CURRENT = {
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
const PREVIOUS = {
  data: {
    meta: { v: 1 },
    services: [
      ['a', { v: 1 }],
      ['b', []],
    ],
  },
  wall: WALL,
  age: 1000,
  registryMatches: true,
  generation: 'previous',
};

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
  const written: number[] = [];
  const made = writer(folder, { onWritten: (_zone, wall) => written.push(wall) });
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
  made.take(delta({ wall: WALL + 5, put: [['c', '4']], drop: ['a', 'unknown'] }));
  t.equal(await made.flush(1000), true);
  t.same(written, [WALL + 5], 'both in one file');
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

t.test('a bad snapshot is set aside with one line, and the previous generation is used', async (t) => {
  const cases: [string, (path: string) => void, RegExp][] = [
    ['emptied', (path) => truncateSync(path, 0), /: empty; set aside as svc\.internal\.snapshot\.bad-\d+$/],
    ['cut in the header', (path) => truncateSync(path, 50), /: its header is damaged; /],
    [
      'cut in the body',
      (path) => truncateSync(path, statSync(path).size - 1),
      /: it has 30 bytes where 31 were written; /,
    ],
    ['something else', (path) => writeFileSync(path, 'hello\nworld\n'), /: its header is damaged; /],
    ['null', (path) => writeFileSync(path, 'null\n'), /: its header is damaged; /],
    [
      'a later format',
      (path) => writeFileSync(path, readFileSync(path, 'utf8').replace('"version":1', '"version":2')),
      /: it has format version 2, this program reads 1; /,
    ],
    ['writable by others', (path) => chmodSync(path, 0o620), /: others may write to it; /],
    [
      'of another machine',
      (path) =>
        writeFileSync(
          path,
          Buffer.concat([...encodeSnapshot({ machine: 'm2', zone: ZONE, registry: 'r', wall: 1 }, '1', lines([]))]),
        ),
      /: it is of another machine; /,
    ],
    [
      'of another zone',
      (path) =>
        writeFileSync(
          path,
          Buffer.concat([...encodeSnapshot({ machine: 'm1', zone: 'z', registry: 'r', wall: 1 }, '1', lines([]))]),
        ),
      /: it is of zone z; /,
    ],
    [
      'a link',
      (path) => {
        renameSync(path, `${path}.real`);
        symlinkSync(`${path}.real`, path);
      },
      /: ELOOP/,
    ],
    [
      'a FIFO',
      (path) => {
        rmSync(path);
        spawnSync('mkfifo', [path]);
      },
      /: not a regular file; /,
    ],
    [
      'a folder',
      (path) => {
        rmSync(path);
        mkdirSync(path);
      },
      /: not a regular file; /,
    ],
  ];
  if (process.geteuid?.() === 0) {
    cases.push([
      'of another user',
      (path) => chownSync(path, 12_345, 12_345),
      /: it belongs to user 12345, not to this one; /,
    ]);
  }
  const folder = join(t.testdir({}), 's');
  for (const [name, damage, problem] of cases) {
    rmSync(folder, { recursive: true, force: true });
    const { current } = await twoGenerations(folder);
    damage(current);
    const loaded = load(folder);
    t.same(loaded.snapshot, PREVIOUS, name);
    t.equal(loaded.problems.length, 1, name);
    t.match(loaded.problems[0], problem, name);
    t.equal(existsSync(current), false, `${name}: out of the way`);
  }
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

t.test('every flip of a byte and every cut is noticed', async (t) => {
  const services = lines([
    ['a', '{"v":1}'],
    ['ü', '[1,2]'],
  ]);
  const about = { machine: 'm1', zone: ZONE, registry: 'file:/r', wall: WALL };
  const file = Buffer.concat([...encodeSnapshot(about, '{"m":true}', services)]);
  const decoded = decodeSnapshot(inMemory(file)) as DecodedSnapshot;
  t.match(
    { ...decoded, services: [...decoded.services] },
    {
      header: { services: 2, wall: WALL },
      meta: { m: true },
      services: [
        ['a', { v: 1 }],
        ['ü', [1, 2]],
      ],
    },
  );
  const unnoticed: string[] = [];
  for (let at = 0; at < file.length; at++) {
    for (const bit of [0x01, 0x20, 0x80]) {
      const flipped = Buffer.from(file);
      flipped[at]! ^= bit;
      if (typeof decodeSnapshot(inMemory(flipped)) !== 'string') unnoticed.push(`byte ${at} bit ${bit}`);
    }
    if (typeof decodeSnapshot(inMemory(file.subarray(0, at))) !== 'string') unnoticed.push(`cut at ${at}`);
  }
  t.same(unnoticed, []);
  t.type(decodeSnapshot(inMemory(Buffer.concat([file, file]))), 'string', 'written twice');
});

t.test('both generations bad: no snapshot, two lines, and no more than three files are kept aside', async (t) => {
  const folder = join(t.testdir({}), 's');
  const { current, previous } = await twoGenerations(folder);
  writeFileSync(current, 'x');
  writeFileSync(previous, 'x');
  const loaded = load(folder);
  t.equal(loaded.snapshot, undefined);
  t.equal(loaded.problems.length, 2);
  for (let i = 0; i < 6; i++) {
    writeFileSync(current, 'x');
    load(folder, WALL + 2000 + i);
  }
  const aside = readdirSync(folder).filter((name) => name.startsWith('svc.internal.snapshot.bad-'));
  t.same(
    aside.sort(),
    [3, 4, 5].map((i) => `svc.internal.snapshot.bad-${WALL + 2000 + i}`),
  );
});

t.test('killed between the two renames, the older generation is there', async (t) => {
  const folder = join(t.testdir({}), 's');
  const { current, previous } = await twoGenerations(folder);
  renameSync(current, previous);
  writeFileSync(`${current}.999999999-abcd.tmp`, 'half a file');
  t.match(load(folder), { snapshot: { wall: WALL + 1, generation: 'previous' }, problems: [] });
  const made = writer(folder);
  made.take(delta({ full: true, wall: WALL + 2, put: [['a', '3']] }));
  await made.flush(1000);
  made.stop();
  t.match(load(folder), { snapshot: { wall: WALL + 2, generation: 'current' }, problems: [] });
  await removeTemporaries(current);
  t.same(
    readdirSync(folder).sort(),
    ['svc.internal.snapshot', 'svc.internal.snapshot.old'],
    'what was left over is gone',
  );
});

t.test("a folder that others can reach is closed; one that is another's is not used", async (t) => {
  const folder = join(t.testdir({}), 's');
  await twoGenerations(folder);
  chmodSync(folder, 0o777);
  const loaded = load(folder);
  t.match(loaded, { snapshot: { generation: 'current' }, problems: [/was open to others; its mode is 0700 now$/] });
  t.equal(statSync(folder).mode & 0o777, 0o700);
  t.same(load(folder).problems, []);
  const file = join(t.testdir({ x: 'x' }), 'x');
  t.match(load(file), { snapshot: undefined, problems: [/no snapshot is used$/] });
  t.match(load(join(file, 'below')), { snapshot: undefined, problems: [/no snapshot is used$/] });
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

t.test('a folder that cannot be written is said once, tried again, and harms nothing', async (t) => {
  const dir = t.testdir({});
  const folder = join(dir, 's');
  writeFileSync(folder, 'in the way');
  const problems: (string | undefined)[] = [];
  let mended = (): void => undefined;
  const done = new Promise<void>((resolve) => {
    mended = resolve;
  });
  const made = writer(folder, {
    leastPause: 5,
    onProblem: (zone, reason) => {
      t.equal(zone, ZONE);
      problems.push(reason);
      if (reason === undefined) mended();
    },
  });
  made.take(delta({ full: true, put: [['a', '1']] }));
  t.equal(await made.flush(1000), false);
  t.equal(await made.flush(1000), false);
  rmSync(folder);
  await done;
  t.match(problems, [/EEXIST|ENOTDIR/, undefined]);
  t.match(load(folder), { snapshot: { data: { services: [['a', 1]] } } });
  made.stop();
});

t.test('a full disk leaves the good generations alone', async (t) => {
  // No fixture: one that is still mounted after a kill would be in the way of every later run.
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-full-disk-'));
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=0700', 'tmpfs', folder]).status !== 0) {
    rmdirSync(folder);
    t.pass('a small file system is full', { skip: 'mounting it needs root' });
    return;
  }
  try {
    await twoGenerations(folder);
    const problems: (string | undefined)[] = [];
    const made = writer(folder, { onProblem: (_zone, reason) => problems.push(reason) });
    made.take(delta({ full: true, wall: WALL + 2, put: [['a', JSON.stringify('x'.repeat(200_000))]] }));
    t.equal(await made.flush(1000), false);
    t.match(problems, [/ENOSPC/]);
    t.same(load(folder), { snapshot: CURRENT, problems: [] });
    t.same(
      readdirSync(folder).sort(),
      ['svc.internal.snapshot', 'svc.internal.snapshot.old'],
      'nothing is left lying about',
    );
    made.take(delta({ wall: WALL + 3, put: [['a', '4']] }));
    t.equal(await made.flush(1000), true);
    t.match(problems, [/ENOSPC/, undefined]);
    t.match(load(folder), { snapshot: { data: { services: [['a', 4]] }, wall: WALL + 3 } });
    made.stop();
  } finally {
    spawnSync('umount', [folder]);
    rmdirSync(folder);
  }
});

t.test('a file is replaced whole or not at all', async (t) => {
  const dir = t.testdir({ f: 'old' });
  const path = join(dir, 'f');
  const chunks = function* (): Generator<Uint8Array> {
    yield Buffer.from('new');
    throw new Error('no more');
  };
  await t.rejects(replaceFile(path, chunks(), { mode: 0o600 }), { message: 'no more' });
  t.same([readFileSync(path, 'utf8'), readdirSync(dir)], ['old', ['f']]);
  await replaceFile(path, [Buffer.from('n'), Buffer.from('ew')], { mode: 0o640, keepAs: join(dir, 'g') });
  t.same([readFileSync(path, 'utf8'), readFileSync(join(dir, 'g'), 'utf8')], ['new', 'old']);
  t.equal(statSync(path).mode & 0o777, 0o640);
  await t.rejects(replaceFile(join(dir, 'none', 'f'), [], { mode: 0o600 }), { code: 'ENOENT' });
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

t.test('of a snapshot that cannot be read to its end nothing is used, and a line says so', async (t) => {
  const dir = t.testdir({});
  const config = read(`version: 1
zones:
  - { name: ${ZONE}, registry: { type: file, path: /services.yaml } }
`);
  const made = writer(join(dir, 'snapshots'));
  const row = { id: 'a', address: '10.0.0.1', port: 80, protocol: 'tcp', priority: 0, weight: 1, state: 'passing' };
  const put = Array.from(
    { length: 20_000 },
    (_, i) => [`s${i}`, JSON.stringify({ name: `s${i}`, rows: [row] })] as const,
  );
  made.take(
    delta({ full: true, registry: 'file:/other', meta: '{"heard":0,"releases":[],"serial":1,"kept":[]}', put }),
  );
  t.equal(await made.flush(30_000), true);
  made.stop();
  const said: unknown[] = [];
  const log = (_level: string, event: string, fields: unknown): void => void said.push([event, fields]);
  const now = { boot: 1e6, wall: WALL + 1000 };
  const resolver = new Resolver(config, { log, targets: () => undefined, probeNow: () => undefined }, now);
  const snapshots = new Snapshots(resolver, 'm1', log);
  t.same(snapshots.load(dir, config.zones, now), [], 'of another registry: it waits for the first sync');
  truncateSync(snapshotPaths(join(dir, 'snapshots'), ZONE).current, 1_100_000);
  snapshots.firstSyncFailed(ZONE, now);
  t.equal(resolver.zone(ZONE)?.source, 'none');
  t.equal(resolver.services().length, 0);
  t.match(said, [['snapshot-problem', { zone: ZONE, problem: /cut short while it was read; it is not used$/ }]]);
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

t.test('the id of a machine', async (t) => {
  const dir = t.testdir({ id: '0123456789abcdef0123456789abcdef\n', new: 'uninitialized\n', empty: '' });
  const id = machineId([join(dir, 'none'), join(dir, 'new'), join(dir, 'id')]);
  t.equal(id, 'd471e4b1ca01dc033e27e9c6206f80c1', 'derived, not the id itself');
  t.equal(machineId([join(dir, 'none'), join(dir, 'new'), join(dir, 'empty')]), undefined);
});

t.test('boot time goes on through a suspend and never steps back', async (t) => {
  const at = { mono: 10_000, uptime: 10_008, wall: WALL };
  const clock = new BootClock({ mono: () => at.mono, uptime: () => at.uptime, wall: () => at.wall });
  t.same(clock.now(), { boot: 10_000, wall: WALL }, 'never suspended: the monotonic clock itself');
  at.mono += 2000;
  at.uptime += 2000 - 9;
  at.wall -= 86_400_000;
  t.same(
    clock.now(),
    { boot: 12_000, wall: WALL - 86_400_000 },
    'the coarse uptime does not matter, nor does the wall clock',
  );
  at.mono += 1000;
  at.uptime += 1000 + 3_600_000;
  t.equal(clock.now().boot, 3_613_000 - 1, 'an hour of suspend');
  at.mono += 500;
  t.equal(clock.now().boot, 3_613_500 - 1);
  at.mono += 1000;
  at.uptime = 0;
  t.equal(clock.now().boot, 3_614_500 - 1, 'an uptime that goes back is not believed');
  const real = new BootClock();
  const before = real.now().boot;
  t.ok(before > 0);
  t.ok(real.now().boot >= before);
});

t.test('R30: the clocks part', async (t) => {
  const start: ClockReadings = { mono: 1_000_000, boot: 2_000_000, wall: WALL };
  const after = (mono: number, boot = mono, wall = boot): unknown => {
    const watch = new ClockWatch(1000);
    t.equal(watch.observe(start), undefined, 'the first readings have nothing to part from');
    const gap = watch.observe({ mono: start.mono + mono, boot: start.boot + boot, wall: start.wall + wall });
    t.equal(
      watch.observe({ mono: start.mono + mono + 1000, boot: start.boot + boot + 1000, wall: start.wall + wall + 1000 }),
      undefined,
      'a gap is told once',
    );
    return gap;
  };
  t.equal(after(1000), undefined);
  t.equal(after(6000), undefined, 'five seconds late is not more than five');
  t.same(after(6001), { kind: 'late', by: 5001 });
  t.same(after(1000, 7000), { kind: 'suspend', by: 6000 });
  t.equal(after(1000, 1000, 6000), undefined);
  t.same(after(1000, 1000, 6001), { kind: 'step', by: 5001 });
  t.same(after(1000, 1000, -86_400_000), { kind: 'step', by: -86_401_000 });
  const drifting = new ClockWatch(1000);
  let gap: unknown;
  for (let s = 0; s < 100_000; s++) gap ??= drifting.observe({ mono: s * 1000, boot: s * 1000, wall: s * 1000.5 });
  t.equal(gap, undefined, 'a clock that is slewed for a day is no gap');
});

t.test('a folder that the system will not have made is an error, not a wait for ever', async (t) => {
  const dir = t.testdir();
  makeFolder(join(dir, 'a', 'b', 'c'), 0o700);
  t.equal(statSync(join(dir, 'a', 'b', 'c')).mode & 0o777, 0o700);
  makeFolder(join(dir, 'a', 'b', 'c'), 0o700);
  writeFileSync(join(dir, 'file'), '');
  for (const bad of [join(dir, 'file'), join(dir, 'file', 'x'), '/proc/holdfast-test/x']) {
    t.throws(() => makeFolder(bad, 0o700), bad);
    await t.rejects(makeFolderAsync(bad, 0o700), bad);
  }
});
