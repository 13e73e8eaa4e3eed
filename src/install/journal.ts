/**
 * What was there before an install, kept on disk before anything is changed: whatever interrupts it, an uninstall finds
 * the way back.
 */
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, rmdirSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type FileState, type FileWanted, InstallError, readState, sweepTemporaries, writeState } from './files.js';

/** Below the root. Not in stateDir, which may be lost without harm. */
const FOLDER = '/var/lib/holdfast-install';
const NOTES = 'journal.json';
const VERSION = 1;

export type Before =
  | {
      readonly kind: 'absent' /** Folders that were made for it, the innermost first. */;
      readonly folders: readonly string[];
    }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'file'; readonly copy: string; readonly mode: number; readonly uid: number; readonly gid: number };

export interface Entry {
  /** Below the root. */
  readonly path: string;
  readonly before: Before;
  /** What an install put there. */
  readonly after: string;
}

export interface Journal {
  readonly version: typeof VERSION;
  readonly entries: readonly Entry[];
  /** Folders that were made for these notes, the innermost first. */
  readonly folders: readonly string[];
  /** Units that were not enabled before. */
  readonly enabled: readonly string[];
}

const EMPTY: Journal = { version: VERSION, entries: [], folders: [], enabled: [] };

/** Undefined when nothing is installed; without entries when nothing has been changed yet, or any more. Throws an InstallError when it cannot be read. */
export function readJournal(root: string): Journal | undefined {
  const path = join(root, FOLDER, NOTES);
  const state = readState(path);
  if (state.kind === 'absent') return undefined;
  try {
    if (state.kind !== 'file') throw new Error('it is no file');
    const journal = JSON.parse(state.bytes.toString('utf8')) as Journal;
    if (journal?.version !== VERSION || !Array.isArray(journal.entries)) throw new Error(`expected version ${VERSION}`);
    return journal;
  } catch (error) {
    throw new InstallError(`${path} tells what was there before, and cannot be read: ${(error as Error).message}`);
  }
}

export function isInstalled(journal: Journal | undefined): journal is Journal {
  return journal !== undefined && journal.entries.length > 0;
}

/** Adds what is at `changes` now; what an earlier install noted of a path stays. */
export function keepBefore(
  root: string,
  changes: readonly { readonly path: string; readonly wanted: FileWanted }[],
  enabled: readonly string[],
): Journal {
  const folder = join(root, FOLDER);
  const noted = readJournal(root);
  const old = noted ?? { ...EMPTY, folders: missingFolders(root, `${FOLDER}/${NOTES}`) };
  mkdirSync(dirname(folder), { recursive: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // Before the copies: from here on an uninstall knows that they are ours.
  if (noted === undefined) writeJournal(root, old);
  const entries = new Map(old.entries.map((entry) => [entry.path, entry]));
  for (const { path, wanted } of changes) {
    const known = entries.get(path);
    const after = fingerprint(wanted);
    entries.set(path, known ? { ...known, after } : { path, before: keepOne(root, folder, path), after });
  }
  const journal: Journal = {
    version: VERSION,
    entries: [...entries.values()],
    folders: old.folders,
    enabled: [...new Set([...old.enabled, ...enabled])],
  };
  writeJournal(root, journal);
  return journal;
}

function writeJournal(root: string, journal: Journal): void {
  const bytes = Buffer.from(`${JSON.stringify(journal, null, 2)}\n`);
  writeState(join(root, FOLDER, NOTES), { kind: 'file', bytes, mode: 0o600 });
}

function keepOne(root: string, folder: string, path: string): Before {
  const state = readState(join(root, path));
  if (state.kind === 'absent') return { kind: 'absent', folders: missingFolders(root, path) };
  if (state.kind === 'link') return state;
  const copy = path.slice(1).replaceAll('/', '_');
  writeState(join(folder, copy), { kind: 'file', bytes: state.bytes, mode: 0o600 });
  const { mode, uid, gid } = state;
  return { kind: 'file', copy, mode, uid, gid };
}

/** What was there, as it is to be there again. */
export function stateBefore(root: string, { before }: Entry): FileState {
  if (before.kind !== 'file') return before.kind === 'link' ? before : { kind: 'absent' };
  const path = join(root, FOLDER, before.copy);
  const kept = readState(path);
  if (kept.kind !== 'file') throw new InstallError(`${path}, a copy of what was there before, is missing`);
  const { mode, uid, gid } = before;
  return { kind: 'file', bytes: kept.bytes, mode, uid, gid };
}

/** Whether what is at its path is what an install put there. */
export function isOurs(entry: Entry, state: FileState): boolean {
  return state.kind !== 'absent' && fingerprint(state) === entry.after;
}

/** All is as it was: the notes go, last of all those that say whose the rest is. */
export function removeJournal(root: string, journal: Journal): void {
  const folder = join(root, FOLDER);
  // Without their copies entries could not be taken back once more.
  if (journal.entries.length > 0) writeJournal(root, { ...EMPTY, folders: journal.folders });
  for (const name of readdirSync(folder))
    if (name !== NOTES) rmSync(join(folder, name), { recursive: true, force: true });
  rmSync(join(folder, NOTES), { force: true });
  removeEmptyFolders(root, [FOLDER, ...journal.folders.filter((one) => one !== FOLDER)]);
}

/** What an install or uninstall that was interrupted has left where nothing is installed. */
export function removeRemains(root: string): void {
  const journal = readJournal(root);
  if (journal !== undefined) removeJournal(root, journal);
  else {
    sweepTemporaries(join(root, FOLDER, NOTES));
    removeEmptyFolders(root, [FOLDER]);
  }
}

export function removeEmptyFolders(root: string, folders: readonly string[]): void {
  for (const folder of folders) {
    const path = join(root, folder);
    try {
      if (readdirSync(path).length > 0) return;
      rmdirSync(path);
    } catch {
      return;
    }
  }
}

function missingFolders(root: string, path: string): string[] {
  const missing: string[] = [];
  for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) {
    if (readsAsFolder(join(root, folder))) break;
    missing.push(folder);
  }
  return missing;
}

function readsAsFolder(path: string): boolean {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
}

function fingerprint(state: FileWanted | FileState): string {
  if (state.kind === 'absent') return 'absent';
  if (state.kind === 'link') return `link ${state.target}`;
  return `file ${createHash('sha256').update(state.bytes).digest('hex')}`;
}
