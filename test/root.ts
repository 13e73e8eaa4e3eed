import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The project's folder, wherever the compiled tests lie: the first one up that has the scenarios, else the working one. */
export const root = find(dirname(fileURLToPath(import.meta.url)));

function find(dir: string): string {
  if (existsSync(join(dir, 'test', 'scenarios'))) return dir;
  return dirname(dir) === dir ? process.cwd() : find(dirname(dir));
}
