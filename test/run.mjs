/**
 * Runs the compiled tests with tap, prints what failed and why, and ends with one line:
 * `N passed, N failed` (and `, N skipped`). Exits non-zero when anything failed or nothing ran.
 *
 *   node test/run.mjs [FILE|FOLDER...]   paths below build/test; default: all of it but what needs real registries
 */
import { spawnSync } from 'node:child_process';
import { createReadStream, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Parser } from 'tap-parser';

const root = resolve(fileURLToPath(import.meta.url), '..', '..');
process.chdir(root);
const tapBin = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'tap.cmd' : 'tap');
const output = join('.tap', 'results.tap');

/** tap ships built with its TypeScript plugin, which .taprc turns off: it has to be built once after each install. */
function buildTap() {
  const versions = spawnSync(tapBin, ['versions'], { encoding: 'utf8' });
  if (versions.status === 0 && !versions.stdout.includes('@tapjs/typescript')) return;
  const built = spawnSync(tapBin, ['build'], { encoding: 'utf8' });
  if (built.status !== 0) {
    process.stderr.write(`tap build failed:\n${built.stdout}${built.stderr}`);
    process.exit(1);
  }
}

function testFiles(paths) {
  const files = [];
  for (const path of paths) {
    if (!existsSync(path)) {
      process.stderr.write(`no such test: ${path} (are the tests compiled? npm test does it)\n`);
      process.exit(1);
    }
    if (!statSync(path).isDirectory()) files.push(path);
    else {
      for (const name of readdirSync(path, { recursive: true })) {
        if (name.endsWith('.test.js')) files.push(join(path, name));
      }
    }
  }
  return files.map((file) => relative(root, resolve(file))).sort();
}

/** Counts leaves: a test that has subtests is not counted itself, unless it failed by more than they did. */
function tally(file) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const failures = [];
  const follow = (parser, path) => {
    let child = null;
    parser.on('child', (sub) => {
      const before = counts.failed;
      child = { failedBefore: before };
      follow(sub, [...path, sub.name]);
    });
    parser.on('assert', (result) => {
      const parent = child;
      child = null;
      if (parent && (result.ok || counts.failed > parent.failedBefore)) return;
      if (result.skip || result.todo) counts.skipped++;
      else if (result.ok) counts.passed++;
      else {
        counts.failed++;
        failures.push({ path: [...path, result.name], diag: result.diag });
      }
    });
    parser.on('bailout', (reason) => {
      counts.failed++;
      failures.push({ path: [...path, 'bail out'], diag: { reason } });
    });
  };
  const parser = new Parser();
  follow(parser, []);
  return new Promise((done, fail) => {
    parser.on('complete', () => done({ ...counts, failures }));
    createReadStream(file).on('error', fail).pipe(parser);
  });
}

function printFailure({ path, diag = {} }) {
  // What tap says of a child process that ended badly repeats the command; its exit code is what matters.
  const { diff, stack, at, source, message, stdio, cwd, externalID, command, args, jobId, ...rest } = diag;
  const lines = [];
  if (message) lines.push(message);
  if (diff) lines.push(diff.trimEnd());
  else if (Object.keys(rest).length > 0) lines.push(JSON.stringify(rest, null, 2));
  if (at?.fileName) lines.push(`at ${at.fileName}:${at.lineNumber}:${at.columnNumber}`);
  else if (stack) lines.push(stack.trimEnd());
  console.log(`\nnot ok: ${path.filter(Boolean).join(' > ')}`);
  for (const line of lines.join('\n').split('\n')) console.log(`    ${line}`);
}

const integration = join('build', 'test', 'integration');
const files =
  process.argv.length > 2
    ? testFiles(process.argv.slice(2))
    : testFiles([join('build', 'test')]).filter((file) => !file.startsWith(integration));
buildTap();
mkdirSync('.tap', { recursive: true });
rmSync(output, { force: true });
if (files.length === 0) {
  console.log('no tests found\n0 passed, 0 failed');
  process.exit(1);
}
const run = spawnSync(tapBin, ['run', '--reporter=silent', '--disable-coverage', `--output-file=${output}`, ...files], {
  encoding: 'utf8',
  env: { ...process.env, FORCE_COLOR: '0' },
  maxBuffer: 64 * 1024 * 1024,
});
const result = existsSync(output) ? await tally(output) : { passed: 0, failed: 0, skipped: 0, failures: [] };
for (const failure of result.failures) printFailure(failure);
if (result.failed === 0 && run.status !== 0) {
  result.failed = 1;
  console.log(`\nnot ok: tap itself ended with ${run.status ?? run.signal}`);
}
// A file that died without a failed assertion said why on standard error only, which tap does not keep.
for (const { path } of result.failures) {
  if (path.length > 1 || !existsSync(path[0])) continue;
  const again = spawnSync(process.execPath, ['--enable-source-maps', path[0]], { encoding: 'utf8', timeout: 120_000 });
  console.log(`\n${path[0]} run alone ended with ${again.status ?? again.signal}:\n${again.stderr.slice(-8_000)}`);
}
console.log(
  `${result.passed} passed, ${result.failed} failed${result.skipped > 0 ? `, ${result.skipped} skipped` : ''}`,
);
process.exit(result.failed > 0 || result.passed === 0 ? 1 : 0);
