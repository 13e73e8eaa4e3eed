/** The last good configuration (R35): what came into force is kept, and `serve --last-good` falls back to it. */
import { mkdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type LoadedConfig, parseConfig } from './load.js';
import type { Places } from './places.js';
import { defaultPlaces } from './places.js';

const NAME = 'config.last-good.yaml';

export function lastGoodFile(stateDir: string): string {
  return join(stateDir, NAME);
}

/** Keeps what has come into force. Rejects when `stateDir` cannot be written: a warning, the configuration stands. */
export async function keepLastGood(loaded: LoadedConfig): Promise<void> {
  const { default: writeFileAtomic } = await import('write-file-atomic');
  mkdirSync(loaded.config.stateDir, { recursive: true, mode: 0o700 });
  await writeFileAtomic(lastGoodFile(loaded.config.stateDir), loaded.text, { mode: 0o600 });
}

/**
 * The configuration kept for `file`, relative paths as before. `brokenText` is what `file` has now, if it can be read:
 * its `stateDir` line is where to look, even when the rest makes no sense. Undefined when none is kept, or it is bad too.
 */
export function readLastGood(
  file: string,
  brokenText: string | undefined,
  places: Places = defaultPlaces(),
): LoadedConfig | undefined {
  for (const stateDir of new Set([stateDirOf(file, brokenText), places.stateDir])) {
    if (stateDir === undefined) continue;
    try {
      const text = readFileSync(lastGoodFile(stateDir), 'utf8');
      const config = parseConfig(text, file, places);
      if (config.stateDir === stateDir) return { config, text };
    } catch {
      // Not kept here, or no longer good: the next place.
    }
  }
  return undefined;
}

function stateDirOf(file: string, text: string | undefined): string | undefined {
  const written = /^stateDir:[ \t]*["']?([^"'#\r\n]+?)["']?[ \t]*(?:#.*)?$/m.exec(text ?? '')?.[1];
  return written === undefined ? undefined : resolve(dirname(resolve(file)), written);
}
