/**
 * Making folders with their parents. Not by `recursive`: where the system goes on to answer ENOENT, as in /proc, Node 20
 * tries for ever.
 */
import { mkdirSync, statSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Parents that had to be made are open to all to read, as mkdir(1) makes them. */
const PARENT_MODE = 0o755;

/** Makes `path` unless it is there. Throws the system's error when it cannot be made or is no folder. */
export function makeFolder(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    const step = afterFailure(path, error, () => statSync(path).isDirectory());
    if (step === 'there') return;
    makeFolder(dirname(path), PARENT_MODE);
    mkdirSync(path, { mode });
  }
}

/** The same, for a thread that may not wait for a disk. */
export async function makeFolderAsync(path: string, mode: number): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const isFolder = (error as NodeJS.ErrnoException).code === 'EEXIST' && (await stat(path)).isDirectory();
    const step = afterFailure(path, error, () => isFolder);
    if (step === 'there') return;
    await makeFolderAsync(dirname(path), PARENT_MODE);
    await mkdir(path, { mode });
  }
}

function afterFailure(path: string, error: unknown, isFolder: () => boolean): 'there' | 'parent first' {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'EEXIST' && isFolder()) return 'there';
  if (code === 'ENOENT' && dirname(path) !== path) return 'parent first';
  throw error;
}
