/**
 * Runs the compiled tests, each file in a process of its own and several at once, prints what failed and why, and ends
 * with one line: `N passed, N failed` (and `, N skipped`). Exits non-zero when anything failed or nothing ran.
 *
 *   node test/run.mjs [FILE|FOLDER...]   paths below build/test; default: all of it but what needs real registries
 *   TEST_JOBS=N                          so many files at once; default: one more than there are cores, as many wait
 *
 * Files are run as they are, without the runner of tap: that loads hooks into every Node of a test, programs and their
 * threads among them, which take longer than the programs' own start.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { availableParallelism, setPriority } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Parser } from 'tap-parser';

const root = resolve(fileURLToPath(import.meta.url), '..', '..');
process.chdir(root);
const tests = join('build', 'test');
const integration = join(tests, 'integration');
const jobs = Number(process.env.TEST_JOBS) || availableParallelism() + 1;
/** Those that take the longest, the longest first: they begin first, so that none of them is left alone at the end. */
const LONGEST = [
  'integration/package',
  'integration/prober-network',
  'integration/registries-consul',
  'integration/drill',
  'integration/prober-host',
  'blackbox/prober-faults',
  'blackbox/outages',
  'integration/registries',
  'blackbox/activation',
  'integration/dns-clocks',
  'integration/dns',
  'integration/dns-masters',
  'integration/registries-etcd',
  'integration/registrar',
  'blackbox/health-cases',
  'blackbox/forwarding',
  'server',
  'server-faults',
  'blackbox/cases',
  'integration/front',
  'install-faults',
  'install',
  'integration/registry-network',
  'blackbox/on-demand',
  'protocol-stale',
  'blackbox/registry-hosts',
  'integration/clients',
  'forward-served',
].map((name) => join(tests, `${name}.test.js`));
/** Folders of tests that start real programs, which keep real time; those that compute leave the cores to them. */
const REAL_TIME = ['integration', 'blackbox'].map((name) => join(tests, name));
const PRIORITY_OF_OTHERS = 10;
/** A file has its own timeouts; this is for one that does not come to them. */
const STUCK_MS = 400_000;
/** What a test may take that says nothing of it, in seconds. */
const TEST_SECONDS = '120';

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
  const names = files.map((file) => relative(root, resolve(file))).sort();
  return [...LONGEST.filter((name) => names.includes(name)), ...names.filter((name) => !LONGEST.includes(name))];
}

/** Counts leaves: a test that has subtests is not counted itself, unless it failed by more than they did. */
function tally(file) {
  const counts = { passed: 0, failed: 0, skipped: 0, failures: [] };
  const failed = (path, diag) => {
    counts.failed++;
    counts.failures.push({ path, diag });
  };
  const follow = (parser, path) => {
    let child = null;
    parser.on('child', (sub) => {
      child = { failedBefore: counts.failed };
      follow(sub, [...path, sub.name]);
    });
    parser.on('assert', (result) => {
      const parent = child;
      child = null;
      if (parent && (result.ok || counts.failed > parent.failedBefore)) return;
      if (result.skip || result.todo) counts.skipped++;
      else if (result.ok) counts.passed++;
      else failed([...path, result.name], result.diag);
    });
    parser.on('bailout', (reason) => failed([...path, 'bail out'], { reason }));
  };
  const parser = new Parser();
  follow(parser, [file]);
  return { counts, parser };
}

/** Resolves with the counts of a file, whatever becomes of it. */
function run(file) {
  const start = performance.now();
  const { counts, parser } = tally(file);
  const child = spawn(process.execPath, ['--enable-source-maps', file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TAP: '1', TAP_TIMEOUT: process.env.TAP_TIMEOUT ?? TEST_SECONDS },
  });
  if (!REAL_TIME.some((folder) => file.startsWith(folder))) setPriority(child.pid, PRIORITY_OF_OTHERS);
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (chunk) => (said += chunk));
  const parsed = new Promise((done) => parser.on('complete', done));
  child.stdout.pipe(parser);
  const stuck = setTimeout(() => child.kill('SIGKILL'), STUCK_MS);
  return new Promise((done) => {
    child.on('exit', async (code, signal) => {
      clearTimeout(stuck);
      // Somebody whom it left behind may hold its end of the pipe.
      const abandoned = setTimeout(() => parser.end(), 10_000);
      const { ok, plan } = await parsed;
      clearTimeout(abandoned);
      // A file that leaves before its first test has said why.
      if (code === 0 && counts.passed + counts.failed + counts.skipped === 0) counts.skipped = 1;
      else if (counts.failed === 0 && (code !== 0 || !ok)) {
        counts.failed = 1;
        const reason = `it ended with ${code ?? signal}${plan ? '' : ', before its end'}`;
        counts.failures.push({ path: [file], diag: { message: reason } });
      }
      done({ ...counts, file, said, seconds: (performance.now() - start) / 1000 });
    });
  });
}

function printFailure({ path, diag }) {
  const { diff, stack, at, source, message, ...rest } = diag ?? {};
  const lines = [];
  if (message) lines.push(message);
  if (diff) lines.push(diff.trimEnd());
  else if (Object.keys(rest).length > 0) lines.push(JSON.stringify(rest, null, 2));
  if (at?.fileName) lines.push(`at ${at.fileName}:${at.lineNumber}:${at.columnNumber}`);
  else if (stack) lines.push(stack.trimEnd());
  console.log(`\nnot ok: ${path.filter(Boolean).join(' > ')}`);
  for (const line of lines.join('\n').split('\n')) console.log(`    ${line}`);
}

function print({ file, passed, failed, skipped, failures, said, seconds }) {
  const skips = skipped > 0 ? `, ${skipped} skipped` : '';
  console.log(`${seconds.toFixed(1).padStart(6)} s  ${file}: ${passed} passed, ${failed} failed${skips}`);
  for (const failure of failures) printFailure(failure);
  const lines = said.trimEnd().split('\n');
  if (failed === 0) for (const line of lines.filter((line) => line.startsWith('skipped:'))) console.log(`    ${line}`);
  else if (said !== '') console.log(`\nwhat ${file} said:\n${lines.join('\n').slice(-8_000)}\n`);
}

const queue =
  process.argv.length > 2
    ? testFiles(process.argv.slice(2))
    : testFiles([tests]).filter((file) => !file.startsWith(integration));
const sum = { passed: 0, failed: 0, skipped: 0 };
await Promise.all(
  Array.from({ length: jobs }, async () => {
    for (let file = queue.shift(); file !== undefined; file = queue.shift()) {
      const counts = await run(file);
      print(counts);
      for (const kind of Object.keys(sum)) sum[kind] += counts[kind];
    }
  }),
);
console.log(`${sum.passed} passed, ${sum.failed} failed${sum.skipped > 0 ? `, ${sum.skipped} skipped` : ''}`);
process.exit(sum.failed > 0 || sum.passed === 0 ? 1 : 0);
