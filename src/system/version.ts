/** The version in package.json, wherever the program was built to. */
import { readFileSync } from 'node:fs';

export function programVersion(): string {
  for (let up = '../'; up.length <= 12; up += '../') {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(`${up}package.json`, import.meta.url), 'utf8')) as {
        name?: string;
        version?: string;
      };
      if (name === 'holdfast' && version !== undefined) return version;
    } catch {
      // Not there: one folder up.
    }
  }
  return 'unknown';
}
