/** What machine this is, and how busy it is with other things. */
import { execFileSync, spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import { cpus, release, totalmem } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const launcher = join(root, 'bin', 'holdfast.js');

/** The server has the first core and the clients the second. */
export const SERVER_CORE = 0;
export const CLIENT_CORE = 1;

export function machineText() {
  const { model } = cpus()[0];
  const memory = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} cores of ${model.trim()}, ${memory} GiB, Linux ${release()}, Node ${process.version}`;
}

/** Processes that ran on average in the last minute. */
export function load() {
  return Number(readFileSync('/proc/loadavg', 'utf8').split(' ')[0]);
}

/** The path of a program, or undefined. Daemons are often outside a user's PATH. */
export function which(program) {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']) {
    const path = join(folder, program);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {}
  }
  return undefined;
}

/** The first version number that the program prints about itself. */
export function versionOf(program, ...args) {
  const { stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', timeout: 5000 });
  return /\d+\.\d+(\.\d+)?/.exec(`${stdout}${stderr}`.replace(/^.*\d\d:\d\d:\d\d/, ''))?.[0] ?? 'unknown';
}

/** Of what is built here. */
export function holdfastVersion() {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  try {
    const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { cwd: root, encoding: 'utf8' }).trim();
    return `${version} (${commit})`;
  } catch {
    return version;
  }
}
