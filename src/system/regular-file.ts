/**
 * Files that a person has named: a path may lead to a named pipe, whose opening would wait for ever, to a device, or to
 * something without an end. Only regular files are read.
 */
import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';

const CHUNK_BYTES = 64 * 1024;
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK;

/** Reads a file whole. Throws when it is no regular file, or has more than `most` bytes. */
export function readRegular(path: string, most: number): Buffer {
  const fd = openSync(path, FLAGS);
  try {
    const wrong = unfit(fstatSync(fd));
    if (wrong !== undefined) throw new Error(wrong);
    const chunks: Buffer[] = [];
    for (let total = 0; ; ) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      const count = readSync(fd, chunk);
      if (count === 0) return Buffer.concat(chunks);
      total += count;
      if (total > most) throw tooLong(most);
      chunks.push(chunk.subarray(0, count));
    }
  } finally {
    closeSync(fd);
  }
}

/** The same without waiting for a disk. Rejects likewise. */
export async function readRegularLater(path: string, most: number): Promise<Buffer> {
  const handle = await open(path, FLAGS);
  try {
    const wrong = unfit(await handle.stat());
    if (wrong !== undefined) throw new Error(wrong);
    const chunks: Buffer[] = [];
    for (let total = 0; ; ) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES);
      if (bytesRead === 0) return Buffer.concat(chunks);
      total += bytesRead;
      if (total > most) throw tooLong(most);
      chunks.push(buffer.subarray(0, bytesRead));
    }
  } finally {
    await handle.close();
  }
}

/** Why it is not read; undefined for a regular file. */
export function unfit(stats: Pick<Stats, 'isFile' | 'isDirectory' | 'isFIFO' | 'isSocket'>): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'it is a directory, expected a file';
  const what = stats.isFIFO() ? 'a named pipe' : stats.isSocket() ? 'a socket' : 'a device';
  return `it is ${what}, expected a regular file`;
}

function tooLong(most: number): Error {
  const kib = most / 1024;
  return new Error(`expected a file of at most ${kib >= 1024 ? `${kib / 1024}MiB` : `${kib}KiB`}`);
}
