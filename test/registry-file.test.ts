import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { LimitsConfig } from '../src/config/types.js';
import type { Observation } from '../src/registry/adapter.js';
import { FileRegistry } from '../src/registry/file.js';
import { isSettled, type Signature } from '../src/registry/settled-file.js';
import { brief, LIMITS, NEVER, ONE, replace, TWO } from './registry-fixture.js';

t.test('R34: a file is whole when it came by rename or stood still', async (t) => {
  const at = (inode: number, modified: number, changed: number): Signature => ({
    device: 1n,
    inode: BigInt(inode),
    size: 9,
    modified: BigInt(modified) * 1_000_000n,
    changed: BigInt(changed) * 1_000_000n,
  });
  const wall = 1_000_000;
  t.equal(isSettled(at(1, wall, wall), undefined, 0, wall), false, 'just written');
  t.equal(isSettled(at(1, wall, wall), undefined, 199, wall), false, 'still for 199 ms');
  t.equal(isSettled(at(1, wall, wall), undefined, 200, wall), true, 'still for 200 ms');
  t.equal(isSettled(at(2, wall - 10, wall), at(1, 0, 0), 0, wall), true, 'another inode, renamed after it was written');
  t.equal(isSettled(at(2, wall, wall), at(1, 0, 0), 0, wall), false, 'another inode, created in place');
  t.equal(isSettled(at(1, wall - 10, wall), at(1, 0, 0), 0, wall), false, 'the same inode, changed in place');
  t.equal(isSettled(at(1, 0, wall - 999), undefined, 0, wall), false, 'last changed less than a second ago');
  t.equal(isSettled(at(1, 0, wall - 1000), undefined, 0, wall), true, 'untouched for a second');
  t.equal(isSettled(at(1, wall + 5000, wall + 5000), undefined, 0, wall), false, 'from the future');
});

function open(path: string, limits: Partial<LimitsConfig> = {}): FileRegistry {
  return new FileRegistry(
    { type: 'file', path },
    { softTtl: 10_000, limits: { ...LIMITS, ...limits }, allowAddresses: [] },
  );
}

function poll(registry: FileRegistry, fresh = false): Promise<Observation> {
  return registry.poll({ signal: NEVER, fresh });
}

t.test('a large file is not kept in memory, and is read again when its contents are wanted', async (t) => {
  const dir = t.testdir({});
  const path = join(dir, 's.json');
  const services = Object.fromEntries(
    Array.from({ length: 210 }, (_, s) => [
      `s-${s}`,
      { endpoints: Array.from({ length: 100 }, (_, e) => ({ address: `10.0.${s}.${e}`, port: 80 })) },
    ]),
  );
  const text = JSON.stringify({ services });
  const registry = open(path, {
    maxServices: 300,
    maxEndpoints: 30_000,
    maxEndpointsPerService: 100,
    maxBody: 16 * 1024 * 1024,
  });
  const count = (report: Observation): string =>
    report.kind === 'list' ? `${[...report.services].flatMap(({ rows }) => rows).length}` : String(brief(report));
  replace(path, text);
  t.equal(count(await poll(registry, true)), '21000');
  t.equal(count(await poll(registry)), 'confirmed');
  t.equal(count(await poll(registry, true)), '21000', 'listed again on demand');
  utimesSync(path, new Date(), new Date());
  t.match(count(await poll(registry)), /^(confirmed|21000)$/, 'touched');
  rmSync(path);
  await sleep(250);
  t.match(count(await poll(registry)), /^unreachable/, 'gone');
  t.match(count(await poll(registry, true)), /^unreachable/, 'and wanted');
  replace(path, text);
  t.equal(count(await poll(registry)), '21000', 'as it was before: the list, and no empty one');
  replace(path, text.slice(0, -2));
  t.match(count(await poll(registry, true)), /^unbelievable/, 'broken');
  replace(path, text);
  t.equal(count(await poll(registry)), '21000');
  t.equal(count(await poll(registry)), 'confirmed');
});

t.test('the life of a registry file', async (t) => {
  const dir = t.testdir({});
  const path = join(dir, 's.yaml');
  const registry = open(path);
  t.equal(registry.identity, `file:${path}`);
  const gone = `unreachable: ${path}: no such file or directory (ENOENT)`;
  t.equal(brief(await poll(registry, true)), gone, 'not there yet');

  replace(path, ONE);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  t.equal(brief(await poll(registry)), 'confirmed');
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1'], 'listed again on demand');

  replace(path, TWO);
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2'], 'replaced by rename');

  const half = TWO.slice(0, 60);
  writeFileSync(path, half);
  const pending = poll(registry);
  await sleep(100);
  appendFileSync(path, TWO.slice(60).replace('10.0.0.2', '10.0.0.3'));
  t.same(brief(await pending), ['a=10.0.0.1,10.0.0.3'], 'written in two halves: only the whole is read');

  writeFileSync(path, half);
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:\d+: not YAML/, 'left half written');
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:\d+: not YAML/, 'and still');
  writeFileSync(path, '');
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:1: empty \(0 bytes\)/);
  rmSync(path);
  t.equal(brief(await poll(registry)), gone);
  rmSync(dir, { recursive: true });
  t.equal(brief(await poll(registry)), gone, 'its folder has gone too');

  mkdirSync(dir);
  replace(path, TWO);
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2'], 'back again');
  replace(path, TWO);
  utimesSync(path, 0, 0);
  t.equal(brief(await poll(registry)), 'confirmed', 'touched and replaced, but the same');
  replace(path, 'services: {}');
  t.same(brief(await poll(registry)), [], 'an empty list is a list');
});

t.test('what stands in the place of a file never blocks and takes nothing away', async (t) => {
  const dir = t.testdir({ folder: {}, 's.yaml': ONE });
  const path = join(dir, 's.yaml');
  const registry = open(path);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  rmSync(path);
  t.equal(spawnSync('mkfifo', [path]).status, 0);
  t.equal(brief(await poll(registry)), `unreachable: ${path}: neither a regular file nor a directory`, 'a FIFO');
  rmSync(path);
  symlinkSync('/dev/zero', path);
  t.equal(brief(await poll(registry)), `unreachable: ${path}: neither a regular file nor a directory`, 'a device');
  rmSync(path);
  symlinkSync(path, path);
  t.match(brief(await poll(registry)), /^unreachable: .*\(ELOOP\)$/, 'a link to itself');
  rmSync(path);
  replace(path, `${ONE}# ${'x'.repeat(2000)}`);
  const small = open(path, { maxBody: 1000 });
  t.match(brief(await poll(small)), /^unbelievable: .*: 20\d\d bytes, more than limits\.maxBody \(1000\)$/);
  t.same(brief(await poll(registry)), ['a=10.0.0.1'], 'the first one has what it had');
});

t.test('a directory of files is one list', async (t) => {
  const dir = t.testdir({
    'a.yaml': ONE,
    'b.json': '{"services":{"a":{"endpoints":[{"address":"10.0.0.9","port":80}]},"b":{"endpoints":[]}}}',
    '.hidden.yaml': 'services:',
    'notes.txt': 'not read',
  });
  const registry = open(dir);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1,10.0.0.9', 'b=']);
  t.equal(brief(await poll(registry)), 'confirmed');

  replace(join(dir, 'c.yaml'), 'services: { c: { endpoints: [{ address: 10.0.0.3, port: 80 }] } }');
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.9', 'b=', 'c=10.0.0.3'], 'a file more');
  rmSync(join(dir, 'b.json'));
  t.same(brief(await poll(registry)), ['a=10.0.0.1', 'c=10.0.0.3'], 'a file less');

  replace(join(dir, 'a.yaml'), 'services:');
  const partial = await poll(registry);
  t.same(brief(partial), ['additions only', 'a=10.0.0.1', 'c=10.0.0.3'], 'a broken file: its last good contents stand');
  t.match(partial, { rejected: [{ where: dir, reason: /a\.yaml:1: expected.*; its last good contents stand$/ }] });
  t.match(brief(await poll(registry)), /^unbelievable: .*a\.yaml:1: expected/, 'said again as long as it is so');
  replace(
    join(dir, 'c.yaml'),
    'services: { c: { endpoints: [{ address: 10.0.0.3, port: 81 }] }, d: { endpoints: [] } }',
  );
  t.same(brief(await poll(registry)), ['additions only', 'a=10.0.0.1', 'c=10.0.0.3', 'd='], 'good files go on');
  replace(join(dir, 'a.yaml'), ONE);
  t.same(brief(await poll(registry)), ['a=10.0.0.1', 'c=10.0.0.3', 'd='], 'mended');

  rmSync(join(dir, 'a.yaml'));
  const pending = poll(registry);
  await sleep(50);
  replace(join(dir, 'a.yaml'), ONE);
  t.equal(brief(await pending), 'confirmed', 'away for a moment, as editors do: it has not left');

  rmSync(join(dir, 'a.yaml'));
  rmSync(join(dir, 'c.yaml'));
  t.match(brief(await poll(registry)), /^unbelievable: .*no \*\.yaml, \*\.yml or \*\.json in this directory/);
  rmSync(dir, { recursive: true });
  t.equal(brief(await poll(registry)), `unreachable: ${dir}: no such file or directory (ENOENT)`);
});

/** Does it again until it is noticed: nobody knows when a watch has begun. */
async function repeat(noticed: Promise<void>, action: () => void): Promise<void> {
  let done = false;
  void noticed.then(() => {
    done = true;
  });
  while (!done) {
    action();
    await Promise.race([noticed, sleep(250)]);
  }
}

t.test('the folder of a mounted volume is swapped by a link', async (t) => {
  const dir = t.testdir({ v1: { 's.yaml': ONE }, v2: { 's.yaml': TWO } });
  symlinkSync('v1', join(dir, '..data'));
  symlinkSync('..data/s.yaml', join(dir, 's.yaml'));
  const registry = open(join(dir, 's.yaml'));
  t.teardown(() => registry.close());
  const woken = new Promise<void>((resolve) => registry.watch(resolve, (reason) => t.fail(reason)));
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  await repeat(woken, () => {
    symlinkSync('v2', join(dir, '..data_tmp'));
    renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
  });
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2']);
});

t.test('a change of the file asks for a poll before its time', async (t) => {
  const dir = t.testdir({ 's.yaml': ONE });
  const registry = open(join(dir, 's.yaml'));
  t.teardown(() => registry.close());
  let wakes = 0;
  let wake = (): void => undefined;
  registry.watch(
    () => {
      wakes++;
      wake();
    },
    (reason) => t.fail(reason),
  );
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  await poll(registry, true);
  for (const text of [TWO, ONE, TWO]) {
    await repeat(next(), () => replace(join(dir, 's.yaml'), text));
    t.match(brief(await poll(registry)), text === TWO ? ['a=10.0.0.1,10.0.0.2'] : ['a=10.0.0.1']);
  }
  await sleep(200);
  const before = wakes;
  writeFileSync(join(dir, 'other.txt'), 'x');
  await sleep(200);
  t.equal(wakes, before, 'other files of the folder do not matter');
});
