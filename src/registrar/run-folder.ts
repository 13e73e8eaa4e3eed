/** Where a registrar tells how it stands: a folder for all registrars of a host, or, without leave, of a user. */
import { accessSync, constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeFolder } from '../system/folder.js';
import { foreignFolder } from '../system/own-folder.js';

/** In order: the first that may be written to is taken. */
export function runFolders(runDir: string, uid = process.getuid?.() ?? 0): string[] {
  return [...new Set([join(runDir, 'register'), join(tmpdir(), `holdfast-${uid}`, 'register')])];
}

/** Undefined when there is none: then nothing is told, and all else goes on. */
export async function openRunFolder(runDir: string): Promise<string | undefined> {
  for (const folder of runFolders(runDir)) {
    try {
      const parent = join(folder, '..');
      // What others may write to could lead anywhere.
      if ((await foreignFolder(parent)) !== undefined) continue;
      makeFolder(parent, parent.startsWith(tmpdir()) ? 0o700 : 0o755);
      makeFolder(folder, 0o755);
      accessSync(folder, constants.W_OK | constants.X_OK);
      return folder;
    } catch {
      // The next one may do.
    }
  }
  return undefined;
}
