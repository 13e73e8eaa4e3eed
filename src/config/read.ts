/** Reads the text of a configuration file, with an error of the usual form when that cannot be done. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { ConfigError } from './errors.js';

const MAX_BYTES = 4 * 1024 * 1024;

/** Reads a file whole. Throws a ConfigError that says what is wrong with it. */
export function readSource(file: string): string {
  try {
    return decode(file, readBytes(file));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(file, reasonFor(error as NodeJS.ErrnoException));
  }
}

function readBytes(file: string): Buffer {
  const fd = openSync(file, 'r');
  try {
    if (fstatSync(fd).isDirectory()) throw new ConfigError(file, 'is a directory, expected a file');
    const chunks: Buffer[] = [];
    let total = 0;
    for (;;) {
      const chunk = Buffer.allocUnsafe(64 * 1024);
      const count = readSync(fd, chunk);
      if (count === 0) return Buffer.concat(chunks);
      total += count;
      if (total > MAX_BYTES) throw new ConfigError(file, 'expected a file of at most 4MiB');
      chunks.push(chunk.subarray(0, count));
    }
  } finally {
    closeSync(fd);
  }
}

function decode(file: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ConfigError(file, 'is not text in UTF-8');
  }
}

function reasonFor(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'no such file (name another with --config FILE)';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EISDIR':
      return 'is a directory, expected a file';
    default:
      return `cannot be read: ${error.message}`;
  }
}
