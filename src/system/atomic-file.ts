/** Replacing a file as a whole: whoever reads it sees the old content or the new one, after a power cut too. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { link, open, readdir, rename, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** What is being written now, by this thread: nobody's leftovers. */
const underWay = new Set<string>();
/** What `replaceFile` leaves behind of a file when it is killed, after the file's name and a dot. */
const LEFTOVER = /^(?:old\.)?(\d+)(?:-[0-9a-f]+)?\.tmp$/;

export interface ReplaceOptions {
  readonly mode: number;
  /** Where the old content goes. */
  readonly keepAs?: string;
}

/**
 * Writes `chunks` beside `path`, syncs, and renames into its place. Rejects as the file system does (ENOSPC, EROFS,
 * EACCES); then `path` is as it was.
 */
export async function replaceFile(
  path: string,
  chunks: Iterable<Uint8Array>,
  { mode, keepAs }: ReplaceOptions,
): Promise<void> {
  const temporary = `${path}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
  underWay.add(temporary);
  try {
    const handle = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
    try {
      // The umask is for files whose mode nobody has chosen. Not every file system knows modes.
      await handle.chmod(mode).catch(() => undefined);
      for (const chunk of chunks) {
        for (let written = 0; written < chunk.length; ) {
          written += (await handle.write(chunk, written)).bytesWritten;
        }
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    if (keepAs !== undefined) await keep(path, keepAs);
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary).catch(() => undefined);
    throw error;
  } finally {
    underWay.delete(temporary);
  }
  await syncFolder(dirname(path));
}

/**
 * Removes what killed processes, and threads of this one, left behind of `replaceFile` on `path`, with a `keepAs` of
 * `path.old` or none. Never rejects.
 */
export async function removeTemporaries(path: string): Promise<void> {
  const folder = dirname(path);
  const start = `${basename(path)}.`;
  const names = await readdir(folder).catch(() => []);
  for (const name of names) {
    const pid = name.startsWith(start) ? LEFTOVER.exec(name.slice(start.length))?.[1] : undefined;
    if (pid === undefined || underWay.has(join(folder, name))) continue;
    if (Number(pid) === process.pid || !isAlive(Number(pid))) await unlink(join(folder, name)).catch(() => undefined);
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Makes a rename last. Some file systems cannot sync a folder; their renames are as lasting as they get. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, constants.O_RDONLY);
    await handle.sync().finally(() => handle.close());
  } catch {
    // The content itself is safe already.
  }
}

/** Gives the old content its second name before it loses the first: at every moment both names have a whole file. */
async function keep(path: string, keepAs: string): Promise<void> {
  const second = `${keepAs}.${process.pid}.tmp`;
  underWay.add(second);
  try {
    await unlink(second).catch(ignoreMissing);
    await link(path, second);
    await rename(second, keepAs);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    // A file system without hard links: for the moment between two renames only the old one is there, and it serves.
    await rename(path, keepAs);
  } finally {
    underWay.delete(second);
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error;
}
