import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Writes a configuration file. Returns its path. */
export function write(folder, name, text) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}
