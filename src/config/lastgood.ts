/**
 * The last good configuration (R35): what came into force is kept, and `serve --last-good` falls back to it.
 *
 * Beside the text its checked form is kept, so that a restart with an unchanged file need not load the YAML parser and
 * the schema before the first answer.
 */
import { closeSync, constants, existsSync, fstatSync, openSync, readFileSync, renameSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeFolder } from '../system/folder.js';
import { unfit } from '../system/regular-file.js';
import { programVersion } from '../system/version.js';
import type { LoadedConfig } from './load.js';
import { defaultPlaces, type Places } from './places.js';
import { readSource } from './read.js';
import type { Config } from './types.js';

/** The checked form, and all that must still be the same for it to be of use. */
interface Checked {
  readonly program: string;
  readonly file: string;
  readonly places: Places;
  readonly text: string;
  readonly config: Config;
}

export function lastGoodFile(stateDir: string): string {
  return join(stateDir, 'config.last-good.yaml');
}

function checkedFile(stateDir: string): string {
  return join(stateDir, 'config.last-good.json');
}

/** Keeps what has come into force. Rejects when `stateDir` cannot be written: a warning, the configuration stands. */
export async function keepLastGood({ config, text }: LoadedConfig, places: Places = defaultPlaces()): Promise<void> {
  if (existsSync(lastGoodFile(config.stateDir)) && readChecked(config.file, text, places)) return;
  const { default: writeFileAtomic } = await import('write-file-atomic');
  makeFolder(config.stateDir, 0o700);
  await writeFileAtomic(lastGoodFile(config.stateDir), text, { mode: 0o600 });
  const checked: Checked = { program: fingerprint(), file: config.file, places, text, config };
  await writeFileAtomic(checkedFile(config.stateDir), JSON.stringify(checked), { mode: 0o600 });
}

/** Reads and checks a configuration; one that was in force before and has not changed is not checked again. Throws a ConfigError. */
export async function loadQuickly(file: string, places: Places = defaultPlaces()): Promise<LoadedConfig> {
  const text = readSource(file);
  const config = readChecked(file, text, places);
  if (config) return { config, text };
  const { parseConfig } = await import('./load.js');
  return { config: parseConfig(text, file, places), text };
}

/** The file that the one kept there came from: two instances may share the default place. */
function keptFor(stateDir: string): string {
  return (JSON.parse(readOwn(checkedFile(stateDir))) as Checked).file;
}

function readChecked(file: string, text: string, places: Places): Config | undefined {
  const stateDir = stateDirOf(file, text) ?? places.stateDir;
  try {
    const kept = JSON.parse(readOwn(checkedFile(stateDir))) as Checked;
    const same =
      kept.text === text &&
      kept.file === resolve(file) &&
      kept.config.stateDir === stateDir &&
      kept.places.stateDir === places.stateDir &&
      kept.places.runDir === places.runDir &&
      kept.program === fingerprint();
    return same ? kept.config : undefined;
  } catch {
    // None kept, or not to be trusted: the file itself is checked.
    return undefined;
  }
}

/** Throws when the file is another's, or others may write it. */
function readOwn(file: string): string {
  // Whoever has put a named pipe there does not hold up a start.
  const fd = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    const wrong = unfit(stats);
    if (wrong !== undefined) throw new Error(wrong);
    if (stats.uid !== process.geteuid?.() || (stats.mode & 0o022) !== 0)
      throw new Error(`${basename(file)} is not this user's alone to write`);
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Changes with every build of the code that checks configurations: all files are written anew then. */
function fingerprint(): string {
  const { size, mtimeMs } = statSync(fileURLToPath(import.meta.url));
  return `${programVersion()} ${size}.${mtimeMs}`;
}

/**
 * The configuration kept for `file`, relative paths as before. Where to look is told by the `stateDir` line of what
 * `file` has now, even when the rest makes no sense. Undefined when none is kept, or when it is bad too, which `damaged`
 * is told.
 */
export async function readLastGood(
  file: string,
  places: Places = defaultPlaces(),
  damaged: (stateDir: string, reason: string) => void = () => {},
): Promise<LoadedConfig | undefined> {
  const { parseConfig } = await import('./load.js');
  for (const stateDir of new Set([stateDirOf(file, readOrNothing(file)), places.stateDir])) {
    if (stateDir === undefined) continue;
    try {
      if (keptFor(stateDir) !== resolve(file)) continue;
      const text = readOwn(lastGoodFile(stateDir));
      const config = parseConfig(text, file, places);
      if (config.stateDir === stateDir) return { config, text };
    } catch (error) {
      // Not kept here, or no longer good: the next place.
      const either = [lastGoodFile(stateDir), checkedFile(stateDir)].some((path) => existsSync(path));
      if (either) damaged(stateDir, (error as Error).message);
    }
  }
  return undefined;
}

/** Takes a damaged one out of the way. Returns where it is now, in words for a person. */
export function setLastGoodAside(stateDir: string): string {
  try {
    const found = [lastGoodFile(stateDir), checkedFile(stateDir)].filter((path) => existsSync(path));
    for (const path of found) renameSync(path, `${path}.bad`);
    return `set aside as ${found.map((path) => `${path}.bad`).join(' and ')}`;
  } catch (error) {
    return `left where it is: ${(error as Error).message}`;
  }
}

function readOrNothing(file: string): string {
  try {
    return readSource(file);
  } catch {
    return '';
  }
}

function stateDirOf(file: string, text: string): string | undefined {
  const yaml = /^stateDir:[ \t]*["']?([^"'#\r\n]+?)["']?[ \t]*(?:#.*)?$/m.exec(text);
  const json = /"stateDir"\s*:\s*"([^"\\]+)"/.exec(text);
  const written = (yaml ?? json)?.[1];
  return written === undefined ? undefined : resolve(dirname(resolve(file)), written);
}
