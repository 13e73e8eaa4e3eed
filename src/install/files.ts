/** Files of the host as they are found, and their replacement as a whole. Symbolic links are files of their own here. */
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';

export type FileState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'link'; readonly target: string }
  | {
      readonly kind: 'file';
      readonly bytes: Buffer;
      readonly mode: number;
      readonly uid: number;
      readonly gid: number;
    };

/** A file or link that is to be there. */
export type FileWanted =
  | { readonly kind: 'link'; readonly target: string }
  | {
      readonly kind: 'file';
      readonly bytes: Buffer;
      readonly mode: number;
      readonly uid?: number;
      readonly gid?: number;
    };

export interface Change {
  /** Below the root. */
  readonly path: string;
  readonly wanted: FileWanted;
  readonly why: string;
}

/** What cannot be done, in a sentence for a person. */
export class InstallError extends Error {}

/** Throws an InstallError for what is neither file nor link. */
export function readState(path: string): FileState {
  try {
    const stats = lstatSync(path);
    if (stats.isSymbolicLink()) return { kind: 'link', target: readlinkSync(path) };
    if (!stats.isFile()) throw new InstallError(`${path} is neither a file nor a link`);
    const { mode, uid, gid } = stats;
    return { kind: 'file', bytes: readFileSync(path), mode: mode & 0o7777, uid, gid };
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return { kind: 'absent' };
    throw explained(error, path);
  }
}

export function sameState(a: FileState | FileWanted, b: FileState | FileWanted): boolean {
  if (a.kind === 'link' && b.kind === 'link') return a.target === b.target;
  if (a.kind === 'file' && b.kind === 'file') return a.mode === b.mode && a.bytes.equals(b.bytes);
  return a.kind === b.kind;
}

/** Puts it in place by rename; a file that something is mounted on is written as it stands. */
export function writeState(path: string, wanted: FileWanted): void {
  const temporary = `${path}.${randomBytes(4).toString('hex')}.holdfast`;
  try {
    mkdirSync(dirname(path), { recursive: true });
    if (wanted.kind === 'link') symlinkSync(wanted.target, temporary);
    else writeWhole(temporary, wanted);
    try {
      renameSync(temporary, path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EBUSY' || wanted.kind !== 'file') throw error;
      // As in a container, where the runtime has mounted the file: it cannot be replaced, only written.
      writeFileSync(path, wanted.bytes);
      chmodSync(path, wanted.mode);
    }
    syncFolder(dirname(path));
  } catch (error) {
    throw explained(error, path);
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** What `writeState` leaves beside a path when it is interrupted. */
export function sweepTemporaries(path: string): void {
  const start = `${basename(path)}.`;
  try {
    for (const name of readdirSync(dirname(path)))
      if (name.startsWith(start) && /^[0-9a-f]{8}\.holdfast$/.test(name.slice(start.length)))
        rmSync(join(dirname(path), name), { force: true });
  } catch {
    // There is no such folder, or it is not ours to change: what is done there next says so.
  }
}

export function removeFile(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch (error) {
    throw explained(error, path);
  }
}

function writeWhole(path: string, { bytes, mode, uid, gid }: Extract<FileWanted, { kind: 'file' }>): void {
  const fd = openSync(path, 'wx', mode);
  try {
    writeFileSync(fd, bytes);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  chmodSync(path, mode);
  if (uid !== undefined && gid !== undefined && process.geteuid?.() === 0) chownSync(path, uid, gid);
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch {
    // Some file systems have nothing to sync here.
  } finally {
    closeSync(fd);
  }
}

function explained(error: unknown, path: string): Error {
  if (error instanceof InstallError) return error;
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EPERM' && process.geteuid?.() === 0)
    return new InstallError(
      `${path} cannot be changed, not even by root: it may be immutable (lsattr ${path}; chattr -i ${path})`,
    );
  if (code === 'EACCES' || code === 'EPERM') return new InstallError(`${path}: permission denied; run this as root`);
  if (code === 'EROFS') return new InstallError(`${path} is on a read-only file system`);
  return new InstallError(`${path}: ${message}`);
}
