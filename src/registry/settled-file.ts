/** Reading a file only when it is whole: it came by rename, or stood still for 200 ms (R34). */
import { type BigIntStats, constants } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import type { Ms, WallMs } from '../system/clock.js';

/** What tells one content of a path from the next. */
export interface Signature {
  readonly device: bigint;
  readonly inode: bigint;
  readonly size: number;
  readonly modified: bigint;
  readonly changed: bigint;
}

export type Looked =
  | { readonly kind: 'file'; readonly signature: Signature }
  | { readonly kind: 'folder'; readonly identity: string }
  | { readonly kind: 'missing' | 'unreadable'; readonly reason: string };

export const STILL_MS: Ms = 200;
/** A file whose last change lies so far back by the wall clock has stood still, clocks of file servers allowed for. */
const OLD_MS: Ms = 1000;
/** One read of the system takes so much at most: a kernel may let no other thread in before it has copied all of it. */
const BLOCK_BYTES = 256 * 1024;

/** What is at a path, links followed. Never rejects, and opens nothing: a FIFO or a device is only looked at. */
export async function look(path: string): Promise<Looked> {
  try {
    const stats = await stat(path, { bigint: true });
    if (stats.isDirectory()) return { kind: 'folder', identity: `${stats.dev}:${stats.ino}` };
    if (!stats.isFile()) return { kind: 'unreadable', reason: 'neither a regular file nor a directory' };
    return { kind: 'file', signature: signatureOf(stats) };
  } catch (error) {
    const missing = ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
    return { kind: missing ? 'missing' : 'unreadable', reason: systemReason(error) };
  }
}

export function sameSignature(a: Signature | undefined, b: Signature | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return (
    a.inode === b.inode &&
    a.size === b.size &&
    a.modified === b.modified &&
    a.changed === b.changed &&
    a.device === b.device
  );
}

/**
 * R34. `before` is what the path had at its last reading, `stillFor` for how long it has been seen as it is.
 * A rename changes the inode, and the change time but not the modification time; a writer sets both.
 */
export function isSettled(now: Signature, before: Signature | undefined, stillFor: Ms, wall: WallMs): boolean {
  if (stillFor >= STILL_MS) return true;
  if (before !== undefined && before.inode !== now.inode && now.changed > now.modified) return true;
  return wall - Number(now.changed / 1_000_000n) >= OLD_MS;
}

export type FileBytes =
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  /** It is not, or no longer, what `expected` says: look again. */
  | { readonly kind: 'moved' }
  | { readonly kind: 'unreadable'; readonly reason: string };

/** Reads a regular file that still has the signature `expected`, before and after. Never rejects. */
export async function readExactly(path: string, expected: Signature): Promise<FileBytes> {
  try {
    // Without O_NONBLOCK an open would wait for ever where a FIFO has taken the file's place.
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const unmoved = async (): Promise<boolean> => {
        const stats = await handle.stat({ bigint: true });
        return stats.isFile() && sameSignature(signatureOf(stats), expected);
      };
      if (!(await unmoved())) return { kind: 'moved' };
      const bytes = new Uint8Array(expected.size);
      for (let length = 0; length < bytes.length; ) {
        const { bytesRead } = await handle.read(bytes, length, Math.min(BLOCK_BYTES, bytes.length - length), length);
        if (bytesRead === 0) return { kind: 'moved' };
        length += bytesRead;
      }
      return (await unmoved()) ? { kind: 'bytes', bytes } : { kind: 'moved' };
    } finally {
      await handle.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'moved' };
    return { kind: 'unreadable', reason: systemReason(error) };
  }
}

/** A failed system call as people read it: `permission denied (EACCES)`. */
export function systemReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  const text = /^[A-Z0-9]+: ([^,]+)/.exec(message)?.[1];
  return code === undefined || text === undefined ? message : `${text} (${code})`;
}

function signatureOf(stats: BigIntStats): Signature {
  return {
    device: stats.dev,
    inode: stats.ino,
    size: Number(stats.size),
    modified: stats.mtimeNs,
    changed: stats.ctimeNs,
  };
}
