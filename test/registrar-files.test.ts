/** The file registry as registrars write it. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { isDead, ownMark } from '../src/registrar/file-mark.js';
import { FileSweep } from '../src/registrar/file-sweep.js';
import { FileTarget } from '../src/registrar/file-target.js';
import type { Target } from '../src/registrar/target.js';
import { FileRegistry } from '../src/registry/file.js';
import { OWN, TTL, WEB } from './registrar-fixture.js';

const NEVER = new AbortController().signal;

function inFolder(path: string, id = 'web-1', owner = OWN): Target {
  return new FileTarget({ type: 'file', path }, { service: 'web', id, owner, ttl: TTL });
}

t.test('the file registry: a file of its own, in a form that the resolver reads', async (t) => {
  const folder = t.testdir({});
  const first = inFolder(folder);
  const second = inFolder(folder, 'web-2');
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true });
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: false });
  await second.keep(
    { ...WEB, id: 'web-2', port: 81, portName: 'http', tags: ['blue'], priority: 3, state: 'draining' },
    NEVER,
  );
  t.same(readdirSync(folder).sort(), ['registered-web.web-1.json', 'registered-web.web-2.json', 'registered.json']);
  const limits = { maxServices: 10, maxEndpoints: 10, maxEndpointsPerService: 10, maxBody: 65536 };
  const registry = new FileRegistry({ type: 'file', path: folder }, { softTtl: TTL, limits, allowAddresses: [] });
  const list = async () => {
    const seen = await registry.poll({ signal: NEVER, fresh: true });
    if (seen.kind !== 'list') throw new Error(JSON.stringify(seen));
    return seen;
  };
  t.match(await list(), {
    removalsBelievable: true,
    rejected: [],
    services: [
      {
        name: 'web',
        rows: [
          { id: 'web-1', address: '10.0.0.1', port: 80, state: 'passing' },
          { id: 'web-2', port: 81, portName: 'http', tags: ['blue'], priority: 3, state: 'draining' },
        ],
      },
    ],
  });
  rmSync(join(folder, 'registered-web.web-1.json'));
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true }, 'wiped, and there again');
  writeFileSync(join(folder, 'registered-web.web-1.json'), '{"services": {');
  t.same(await first.keep(WEB, NEVER), { kind: 'kept', wrote: true }, 'spoiled, and good again');
  t.same(await first.remove(NEVER), { kind: 'gone' });
  t.same(await first.remove(NEVER), { kind: 'gone' });
  await second.remove(NEVER);
  const empty = await list();
  t.match(empty, { removalsBelievable: true, rejected: [] }, 'the last one leaves a registry that says so');
  t.equal(empty.services.length, 0);
  registry.close();
});

t.test('the file registry: a successor’s file is neither overwritten nor removed', async (t) => {
  const folder = t.testdir({});
  const older = inFolder(folder);
  const younger = inFolder(folder, 'web-1', '1700000000001-00000001');
  await older.keep(WEB, NEVER);
  t.same(await younger.keep({ ...WEB, port: 81 }, NEVER), { kind: 'kept', wrote: true });
  t.same(await older.keep(WEB, NEVER), { kind: 'taken', by: '1700000000001-00000001' });
  t.same(await older.remove(NEVER), { kind: 'gone' });
  t.match(readFileSync(join(folder, 'registered-web.web-1.json'), 'utf8'), /"port": 81/);
  await younger.remove(NEVER);
  t.same(await older.keep(WEB, NEVER), { kind: 'kept', wrote: true });
});

t.test('the file registry: whoever reads it may, whatever the umask of the one who registers', async (t) => {
  const folder = t.testdir({});
  const before = process.umask(0o077);
  t.teardown(() => process.umask(before));
  await inFolder(folder).keep(WEB, NEVER);
  for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o644, name);
});

t.test('the file registry: what is in the way is said, and nothing is made where nothing was', async (t) => {
  const folder = t.testdir({ file: '' });
  const at = (path: string) => inFolder(path).keep(WEB, NEVER);
  t.match(await at(join(folder, 'file')), { kind: 'unreachable', reason: /a registrar needs a directory/ });
  t.match(await at(join(folder, 'none')), { kind: 'unreachable', reason: /none: no such file or directory/ });
  t.match(await at('/proc/sys'), { kind: 'unreachable', reason: /\/proc\/sys: / });
  t.same(readdirSync(folder), ['file']);
});

t.test('what a dead registrar left goes a TTL after somebody saw that both are dead; nothing else does', async (t) => {
  const folder = t.testdir({});
  const mark = ownMark(OWN, undefined);
  const gone = { pid: process.pid, start: '1' };
  const alive = mark.registrar;
  const put = (name: string, change: object) =>
    writeFileSync(join(folder, name), JSON.stringify({ services: {}, 'x-holdfast': { ...mark, ...change } }));
  put('registered-dead.json', { registrar: gone, process: gone });
  put('registered-killed.json', { registrar: gone, process: alive });
  put('registered-daemon.json', { registrar: gone });
  put('registered-alive.json', { registrar: alive, process: gone });
  put('registered-rebooted.json', { boot: 'another' });
  put('registered-host.json', { registrar: gone, machine: 'another' });
  put('registered-name.json', { registrar: gone, host: 'another' });
  put('registered-pids.json', { registrar: gone, pids: 'pid:[1]' });
  writeFileSync(join(folder, 'registered-hand.json'), '{"services": {}}');
  writeFileSync(join(folder, 'registered-odd.json'), 'null');
  put('dead.json', { registrar: gone });
  mkdirSync(join(folder, 'registered-folder.json'));
  spawnSync('mkfifo', [join(folder, 'registered-pipe.json')]);
  let now = 0;
  const sweep = new FileSweep(folder, TTL, () => now);
  const before = readdirSync(folder);
  await sweep.run();
  t.same(readdirSync(folder), before, 'it may have been restarted this moment');
  now += TTL - 1;
  await sweep.run();
  t.same(readdirSync(folder), before);
  now += 1;
  await sweep.run();
  const left = new Set(readdirSync(folder));
  t.same(
    before.filter((name) => !left.has(name)),
    ['registered-daemon.json', 'registered-dead.json', 'registered-rebooted.json'],
  );
  t.equal(isDead({ ...mark, boot: 'another' }), true);
});
