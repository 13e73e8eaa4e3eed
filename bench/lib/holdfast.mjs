/** holdfast as it is benchmarked: the launcher, a configuration of one zone, nothing switched off. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ZONE } from './data.mjs';
import { launcher } from './system.mjs';

export const LARGE = { maxServices: 2_000_000, maxEndpoints: 2_000_000, maxBody: '1GiB' };

/** Writes a configuration into `folder`. `zone` adds to the zone's settings, `more` to the file's. @returns its path */
export function writeConfig(folder, port, registry, { zone = {}, more = {} } = {}) {
  const file = join(folder, 'holdfast.yaml');
  const config = {
    version: 1,
    listen: [`127.0.0.1:${port}`],
    stateDir: join(folder, 'state'),
    runDir: join(folder, 'run'),
    zones: [
      { name: ZONE, registry: { type: 'file', path: registry }, check: { type: 'none' }, limits: LARGE, ...zone },
    ],
    log: { level: 'warn' },
    ...more,
  };
  writeFileSync(file, JSON.stringify(config, null, 2));
  return file;
}

/** The command line, after `node`. */
export function serveArguments(config, transport = 'auto') {
  return [launcher, 'serve', '--config', config, '--transport', transport];
}
