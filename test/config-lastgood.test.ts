import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { keepLastGood, loadQuickly, readLastGood, setLastGoodAside } from '../src/config/lastgood.js';
import { LEAST, PLACES } from './config-fixture.js';

t.test('what came into force is kept, and serves when the file is bad (R35)', async (t) => {
  const dir = t.testdir({ 'holdfast.yaml': `${LEAST}stateDir: state\nworkers: 3\n` });
  const file = join(dir, 'holdfast.yaml');
  const state = join(dir, 'state');
  t.equal(await readLastGood(file, PLACES), undefined, 'nothing is kept yet');
  const loaded = await loadQuickly(file, PLACES);
  await keepLastGood(loaded, PLACES);
  t.equal(statSync(state).mode & 0o777, 0o700);
  t.equal(statSync(join(state, 'config.last-good.yaml')).mode & 0o777, 0o600);
  t.equal(readFileSync(join(state, 'config.last-good.yaml'), 'utf8'), loaded.text);

  writeFileSync(file, 'stateDir: "state" # here\n\tthis is : no YAML [\n');
  const kept = await readLastGood(file, PLACES);
  t.same(kept?.config, loaded.config, 'the bad file still says where to look, and paths mean what they meant');
  writeFileSync(file, 'version: 9\n');
  t.equal(await readLastGood(file, PLACES), undefined, 'a file that says nothing of it leads to the default place');
  t.same(
    (await readLastGood(file, { ...PLACES, stateDir: state }))?.config,
    loaded.config,
    'where one may be kept as well',
  );
  const other = join(dir, 'other.yaml');
  writeFileSync(other, 'version: 9\n');
  t.equal(
    await readLastGood(other, { ...PLACES, stateDir: state }),
    undefined,
    'one kept for another file is not ours',
  );
  await t.rejects(loadQuickly(file, PLACES), { name: 'ConfigError' });
  await t.rejects(
    keepLastGood({ ...loaded, config: { ...loaded.config, stateDir: join(file, 'x') } }, PLACES),
    'a state folder that cannot be made is an error to be logged',
  );
});

t.test('one that is damaged is no good, and said to be so', async (t) => {
  const dir = t.testdir({ 'holdfast.yaml': `${LEAST}stateDir: state\n` });
  const file = join(dir, 'holdfast.yaml');
  const state = join(dir, 'state');
  const text = join(state, 'config.last-good.yaml');
  const checked = join(state, 'config.last-good.json');
  const faults: string[] = [];
  const read = () => readLastGood(file, PLACES, (folder, reason) => faults.push(`${folder}: ${reason}`));
  const keep = async () => {
    writeFileSync(file, `${LEAST}stateDir: state\n`);
    await keepLastGood(await loadQuickly(file, PLACES), PLACES);
    writeFileSync(file, 'stateDir: state\nversion: 9\n');
  };
  const damages: [string, () => void, RegExp][] = [
    ['cut notes', () => writeFileSync(checked, '{"program'), /JSON/],
    ['a text that makes no sense', () => writeFileSync(text, 'version: ['), /last-good|version|YAML|holdfast\.yaml/],
    ['a text that is missing', () => unlinkSync(text), /ENOENT/],
    ['notes that are missing', () => unlinkSync(checked), /ENOENT/],
    [
      'one that others may write',
      () => chmodSync(text, 0o666),
      /config\.last-good\.yaml is not this user's alone to write/,
    ],
    ['a named pipe', () => spawnSync('sh', ['-c', 'rm "$0" && mkfifo "$0"', text]), /named pipe/],
  ];
  t.same([await read(), faults], [undefined, []], 'none is kept');
  for (const [what, damage, reason] of damages) {
    await keep();
    t.ok(await read(), `${what}: good before`);
    damage();
    t.equal(await read(), undefined, what);
    t.equal(faults.length, 1, what);
    t.ok(faults[0]!.startsWith(`${state}: `), what);
    t.match(faults.pop(), reason, what);
    t.match(setLastGoodAside(state), /^set aside as .*\/state\/config\.last-good\.(?:yaml|json)\.bad/);
    t.same([await read(), faults], [undefined, []], 'and then none is kept');
  }
});

t.test('an unchanged file is not checked again, a changed one is', async (t) => {
  const json = { version: 1, stateDir: 'state', zones: [{ name: 'a.b', registry: { type: 'file', path: 's.json' } }] };
  const inJson = join(t.testdir({ 'holdfast.json': JSON.stringify(json, null, 2) }), 'holdfast.json');
  await keepLastGood(await loadQuickly(inJson, PLACES), PLACES);
  const kept = join(inJson, '..', 'state', 'config.last-good.json');
  writeFileSync(kept, readFileSync(kept, 'utf8').replace('"workers":1', '"workers":7'));
  t.equal((await loadQuickly(inJson, PLACES)).config.workers, 7, 'also one that is written as JSON');

  const dir = t.testdir({ 'holdfast.yaml': `${LEAST}stateDir: state\n` });
  const file = join(dir, 'holdfast.yaml');
  const checked = join(dir, 'state', 'config.last-good.json');
  await keepLastGood(await loadQuickly(file, PLACES), PLACES);
  // A value that is not in the file shows where it was taken from.
  writeFileSync(checked, readFileSync(checked, 'utf8').replace('"workers":1', '"workers":7'));
  t.equal((await loadQuickly(file, PLACES)).config.workers, 7);
  t.equal((await loadQuickly(file, { ...PLACES, runDir: '/elsewhere' })).config.workers, 1, 'other places');
  chmodSync(checked, 0o620);
  t.equal((await loadQuickly(file, PLACES)).config.workers, 1, 'not when others may write it');
  chmodSync(checked, 0o600);
  writeFileSync(file, `${LEAST}stateDir: state\nworkers: 2\n`);
  t.equal((await loadQuickly(file, PLACES)).config.workers, 2);
  writeFileSync(checked, 'broken');
  t.equal((await loadQuickly(file, PLACES)).config.workers, 2);
});
