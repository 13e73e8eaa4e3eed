/** Runs a script of inside/ that uses the program's own parts, bundled with them. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { run } from './process.mjs';
import { root } from './system.mjs';

const OUT = join(root, 'build', 'bench');

/** @returns what it printed, as JSON */
export async function runInside(script, args, options) {
  bundle();
  const text = await run(
    process.execPath,
    ['--max-old-space-size=16384', join(OUT, `${script}.js`), ...args.map(String)],
    options,
  );
  const json = text.split('\n').find((line) => line.startsWith('{'));
  if (json === undefined) throw new Error(`${script} said: ${text}`);
  return JSON.parse(json);
}

let bundled = false;
function bundle() {
  if (bundled) return;
  const scripts = ['change', 'torn', 'torn-worker'].map((name) => join(root, 'bench', 'inside', `${name}.mjs`));
  const flags = [
    '--bundle',
    '--format=esm',
    '--platform=node',
    '--packages=external',
    `--outdir=${OUT}`,
    '--log-level=warning',
  ];
  execFileSync(join(root, 'node_modules', '.bin', 'esbuild'), [...scripts, ...flags], { stdio: 'inherit' });
  bundled = true;
}
