/**
 * Builds the Consul that the tests run, at the version that `consul/go.mod` pins, into a cache folder outside the
 * tree: once, some minutes. Does nothing where there is a Consul already, and says why where there can be none.
 *
 *   node build/test/integration/consul-build.js
 */
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../root.js';

const MODULE = join(root, 'test', 'integration', 'consul');
const PROGRESS_MS = 15_000;

/** The Consul to run: one on the PATH, or the one that was built. Undefined where there is neither. */
export function findConsul(): string | undefined {
  if (spawnSync('consul', ['version'], { stdio: 'ignore' }).status === 0) return 'consul';
  const built = builtConsul();
  return existsSync(built) ? built : undefined;
}

/** Where it is built to. Other modules are another place. */
function builtConsul(): string {
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache');
  const sums = createHash('sha256').update(readFileSync(join(MODULE, 'go.sum')));
  return join(cache, 'holdfast', `consul-${sums.digest('hex').slice(0, 16)}`, 'consul');
}

/** Returns why there is none; undefined when there is one now. */
async function build(): Promise<string | undefined> {
  const to = builtConsul();
  const part = `${to}.${process.pid}`;
  mkdirSync(dirname(to), { recursive: true });
  const args = ['build', '-trimpath', '-ldflags', '-s -w', '-o', part, 'github.com/hashicorp/consul'];
  const env = { ...process.env, CGO_ENABLED: '0' };
  const start = performance.now();
  const seconds = (): string => `${Math.round((performance.now() - start) / 1000)} s`;
  console.error(`building Consul for the tests, once, into ${to}`);
  const timer = setInterval(() => console.error(`building Consul: ${seconds()}`), PROGRESS_MS);
  const fault = await new Promise<string | undefined>((resolve) => {
    const go = spawn('go', args, { cwd: MODULE, env, stdio: ['ignore', 'inherit', 'inherit'] });
    go.once('error', ({ message }) => resolve(`no consul on the PATH and no go to build it: ${message}`));
    go.once('exit', (code, signal) => resolve(code === 0 ? undefined : `go build ended with ${code ?? signal}`));
  });
  clearInterval(timer);
  if (fault === undefined) {
    renameSync(part, to);
    console.error(`built Consul in ${seconds()}`);
  } else rmSync(part, { force: true });
  return fault;
}

const [, script] = process.argv;
if (script !== undefined && realpathSync(script) === fileURLToPath(import.meta.url) && findConsul() === undefined) {
  const fault = await build();
  if (fault !== undefined) console.error(`skipped: the tests against a real Consul (${fault})`);
}
