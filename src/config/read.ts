/** Reads the text of a configuration file, with an error of the usual form when that cannot be done. */
import { readRegular } from '../system/regular-file.js';
import { ConfigError } from './errors.js';

const MAX_BYTES = 4 * 1024 * 1024;

/** Reads a file whole. Throws a ConfigError that says what is wrong with it. */
export function readSource(file: string): string {
  try {
    return decode(file, readRegular(file, MAX_BYTES));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(file, reasonFor(error as NodeJS.ErrnoException));
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
    case undefined:
      return error.message.replace(/^it /, '');
    default:
      return `cannot be read: ${error.message}`;
  }
}
