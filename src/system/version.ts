/** What package.json says, wherever the program was built to. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

interface Package {
  readonly folder: string;
  readonly version: string;
}

let known: Package | undefined;

export function programVersion(): string {
  return findPackage()?.version ?? 'unknown';
}

/** The folder of package.json, with `bin` in it. Undefined when the program was taken out of its package. */
export function packageFolder(): string | undefined {
  return findPackage()?.folder;
}

function findPackage(): Package | undefined {
  for (let up = '../'; known === undefined && up.length <= 12; up += '../') {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(`${up}package.json`, import.meta.url), 'utf8')) as {
        name?: string;
        version?: string;
      };
      if (name === 'holdfast' && version !== undefined) {
        known = { folder: fileURLToPath(new URL(up, import.meta.url)), version };
      }
    } catch {
      // Not there: one folder up.
    }
  }
  return known;
}
