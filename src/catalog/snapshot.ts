/** Loading a zone's snapshot before the first query (R29). Synchronous: nothing else runs yet. */
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  renameSync,
  type Stats,
  unlinkSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Ms, WallMs } from '../system/clock.js';
import { makeFolder } from '../system/folder.js';
import { BlockFile } from './block-file.js';
import { type DecodedSnapshot, decodeSnapshot, type SavedServices, snapshotPaths } from './snapshot-format.js';

/** Of the snapshots that were set aside, so many are kept a zone. */
const KEPT_ASIDE = 3;

/** What a snapshot should be of. */
export interface SnapshotExpectation {
  /** See `machine.ts`; undefined when the machine has no id, then any machine's will do. */
  readonly machine: string | undefined;
  /** See `zoneIdentity`. */
  readonly registry: string;
}

export interface LoadedSnapshot {
  /** Services are read from the file as they are walked over, which throws when they cannot be. */
  readonly data: { readonly meta: unknown; readonly services: SavedServices };
  /** Closes the file: to be called when the services are not needed any more. */
  readonly close: () => void;
  /** When it was last in force. */
  readonly wall: WallMs;
  /** By the wall clock; 0 for one from the future. */
  readonly age: Ms;
  readonly registryMatches: boolean;
  readonly generation: 'current' | 'previous';
}

export interface SnapshotLoad {
  readonly snapshot?: LoadedSnapshot;
  /** One line each, for the log; empty when all is well, also when there is no snapshot. */
  readonly problems: readonly string[];
}

/**
 * Loads the newest good generation of a zone's snapshot. One that is damaged, of another machine, of another owner,
 * or writable by others is renamed to `*.bad-TIME` and named in `problems`. Never throws.
 */
export function loadSnapshot(folder: string, zone: string, expect: SnapshotExpectation, nowWall: WallMs): SnapshotLoad {
  const problems: string[] = [];
  if (!ownFolder(folder, problems)) return { problems };
  const paths = snapshotPaths(folder, zone);
  for (const generation of ['current', 'previous'] as const) {
    const path = paths[generation];
    const result = readSnapshot(path, zone, expect);
    if (result === undefined) continue;
    if (typeof result === 'string') {
      problems.push(`snapshot ${path}: ${result}; ${setAside(path, nowWall)}`);
      continue;
    }
    const { header, meta, services, close } = result;
    if (header.wall > nowWall) {
      const ahead = Math.ceil((header.wall - nowWall) / 1000);
      problems.push(`snapshot ${path}: ${ahead} s from the future by this machine's clock; taken as new`);
    }
    const snapshot: LoadedSnapshot = {
      data: { meta, services },
      close,
      wall: header.wall,
      age: Math.max(0, nowWall - header.wall),
      registryMatches: header.registry === expect.registry,
      generation,
    };
    return { snapshot, problems };
  }
  return { problems };
}

/** R29: to be used at once, and replaced under the guard. Others serve only until the first believable list. */
export function isTrusted(
  { registryMatches, age }: Pick<LoadedSnapshot, 'registryMatches' | 'age'>,
  snapshotTrust: Ms,
): boolean {
  return registryMatches && age < snapshotTrust;
}

/** Makes the folder, for this user alone. False when there is no using it. */
function ownFolder(folder: string, problems: string[]): boolean {
  try {
    makeFolder(folder, 0o700);
    const stats = lstatSync(folder);
    if (!stats.isDirectory()) throw new Error('not a directory');
    if (!isOurs(stats)) throw new Error(`it belongs to user ${stats.uid}, not to this one`);
    if ((stats.mode & 0o077) !== 0) close(folder, stats, problems);
    return true;
  } catch (error) {
    problems.push(`snapshots ${folder}: ${(error as Error).message}; no snapshot is used`);
    return false;
  }
}

function close(folder: string, stats: Stats, problems: string[]): void {
  try {
    chmodSync(folder, 0o700);
    problems.push(`snapshots ${folder}: was open to others; its mode is 0700 now`);
  } catch (error) {
    if ((stats.mode & 0o022) !== 0) throw error;
    problems.push(`snapshots ${folder}: open to others (${(error as Error).message})`);
  }
}

interface OpenSnapshot extends DecodedSnapshot {
  readonly close: () => void;
}

/** The snapshot at `path`, undefined when there is none, or what is wrong with it. */
function readSnapshot(path: string, zone: string, expect: SnapshotExpectation): OpenSnapshot | string | undefined {
  let file: BlockFile | string | undefined;
  let result: DecodedSnapshot | string | undefined;
  try {
    file = openOwnFile(path);
    result = typeof file === 'object' ? decodeExpected(file, zone, expect) : file;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    result = code === 'ENOENT' ? undefined : message;
  }
  if (typeof file !== 'object') return result as string | undefined;
  if (typeof result === 'object') return { ...result, close: () => file.close() };
  file.close();
  return result;
}

function decodeExpected(file: BlockFile, zone: string, expect: SnapshotExpectation): DecodedSnapshot | string {
  const decoded = decodeSnapshot(file);
  if (typeof decoded === 'string') return decoded;
  const { header } = decoded;
  if (header.zone !== zone) return `it is of zone ${header.zone}`;
  if (expect.machine !== undefined && header.machine !== expect.machine) return 'it is of another machine';
  return decoded;
}

/** What is wrong with it, or the file, which the caller closes. Throws when it cannot be opened. */
function openOwnFile(path: string): BlockFile | string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  const stats = fstatSync(descriptor);
  const fault = faultOf(stats);
  if (fault === undefined) return new BlockFile(descriptor, stats.size);
  closeSync(descriptor);
  return fault;
}

function faultOf(stats: Stats): string | undefined {
  if (!stats.isFile()) return 'not a regular file';
  if (!isOurs(stats)) return `it belongs to user ${stats.uid}, not to this one`;
  return (stats.mode & 0o022) === 0 ? undefined : 'others may write to it';
}

function isOurs(stats: Stats): boolean {
  return process.geteuid === undefined || stats.uid === process.geteuid();
}

/** Takes a bad file out of the way, and says where it went. */
function setAside(path: string, nowWall: WallMs): string {
  try {
    const aside = `${path}.bad-${Math.floor(nowWall)}`;
    renameSync(path, aside);
    const start = `${basename(path)}.bad-`;
    const older = readdirSync(dirname(path)).filter((name) => name.startsWith(start));
    older.sort();
    for (const name of older.slice(0, -KEPT_ASIDE)) unlinkSync(join(dirname(path), name));
    return `set aside as ${basename(aside)}`;
  } catch (error) {
    return `left where it is (${(error as Error).message})`;
  }
}
