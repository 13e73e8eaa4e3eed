/** Snapshots that are damaged, disks that are full, folders of others (R29). */
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
import { type DecodedSnapshot, decodeSnapshot, encodeSnapshot, snapshotPaths } from '../src/catalog/snapshot-format.js';
import { Resolver } from '../src/resolver/resolver.js';
import { Snapshots } from '../src/resolver/snapshots.js';
import { removeTemporaries, replaceFile } from '../src/system/atomic-file.js';
import { makeFolder, makeFolderAsync } from '../src/system/folder.js';
import { read } from './config-fixture.js';
import { CURRENT, delta, lines, load, twoGenerations, WALL, writer, ZONE } from './snapshot-fixture.js';

function inMemory(file: Buffer): Blocks {
  return { length: file.length, from: (at) => (at < file.length ? [file.subarray(at)] : []), close: () => undefined };
}

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

t.test('what is being written is nothing that was left over, whenever its zone goes and comes', async (t) => {
  const folder = t.testdir({});
  const { current } = snapshotPaths(folder, ZONE);
  const others = ['999999999-abcd.tmp', 'old.999999999.tmp', 'x.snapshot.999999999-abcd.tmp', 'note.tmp'];
  for (const name of others) writeFileSync(`${current}.${name}`, 'x');
  let looked = false;
  const chunks = function* (): Generator<Uint8Array> {
    void removeTemporaries(current).then(() => {
      looked = true;
    });
    while (!looked) yield Buffer.from('.');
  };
  await replaceFile(current, chunks(), { mode: 0o600 });
  t.same(
    readdirSync(folder).sort(),
    ['', '.note.tmp', '.x.snapshot.999999999-abcd.tmp'].map((end) => `svc.internal.snapshot${end}`),
    'of dead processes all went, of other zones and of others nothing',
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
