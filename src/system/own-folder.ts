/** Folders for sockets in places where everybody may make one, such as `/tmp` (R36). */
import { lstat, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const OTHERS_WRITE = 0o002;
const NOT_ONLY_MINE = 0o022;

/** Whether everybody may make a folder of this name. False when its parent is not there. */
export async function isInSharedPlace(folder: string): Promise<boolean> {
  const parent = await stat(dirname(folder)).catch(() => undefined);
  return parent !== undefined && (parent.mode & OTHERS_WRITE) !== 0;
}

/**
 * Why sockets in `folder` may be somebody else's: it lies in a shared place and is not a folder that `uid` alone may
 * write to. Undefined when nothing is wrong, or nothing is there.
 */
export async function foreignFolder(folder: string, uid = process.getuid?.() ?? 0): Promise<string | undefined> {
  if (!(await isInSharedPlace(folder))) return undefined;
  const there = await lstat(folder).catch(() => undefined);
  if (there === undefined) return undefined;
  const advice = 'set runDir or XDG_RUNTIME_DIR';
  if (there.uid !== uid) return `${folder} belongs to user ${there.uid}, not to this one: ${advice}`;
  if (!there.isDirectory()) return `${folder} is not a folder: remove it, or ${advice}`;
  if ((there.mode & NOT_ONLY_MINE) === 0) return undefined;
  return `${folder} may be written to by others than its owner: chmod 700 it, or ${advice}`;
}
