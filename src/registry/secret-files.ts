/** Files with secrets and certificates. They are read again before each use, so that a rotated one counts at once. */
import { stat } from 'node:fs/promises';
import type { TlsConfig } from '../config/types.js';
import { readRegularLater } from '../system/regular-file.js';
import type { Failure } from './adapter.js';
import { systemReason } from './settled-file.js';

/** Of a password or token in bytes; certificates may be bundles. */
export const MAX_SECRET_BYTES = 64 * 1024;
export const MAX_PEM_BYTES = 4 * 1024 * 1024;

export interface TlsMaterial {
  readonly ca?: Buffer;
  readonly cert?: Buffer;
  readonly key?: Buffer;
}

/** The secret in a file, without the end of its line. A reason names the file and never what is in it. */
export async function readSecret(path: string): Promise<{ readonly secret: string } | Failure> {
  const bytes = await readSmall(path, MAX_SECRET_BYTES);
  if (!Buffer.isBuffer(bytes)) return bytes;
  const secret = bytes.toString('utf8').trim();
  if (secret === '') return unusable(path, 'it is empty');
  // What goes into a header must not begin another.
  if (/[^\x20-\x7e]/.test(secret)) return unusable(path, 'it is not one line of printable ASCII');
  return { secret };
}

export async function readTls(files: TlsConfig): Promise<TlsMaterial | Failure> {
  const material: Record<string, Buffer> = {};
  for (const [name, path] of [
    ['ca', files.caFile],
    ['cert', files.certFile],
    ['key', files.keyFile],
  ] as const) {
    if (path === undefined) continue;
    const bytes = await readSmall(path, MAX_PEM_BYTES);
    if (!Buffer.isBuffer(bytes)) return bytes;
    material[name] = bytes;
  }
  return material;
}

/** A file of bearable size. */
export async function readSmall(path: string, most: number): Promise<Buffer | Failure> {
  try {
    const stats = await stat(path);
    if (!stats.isFile()) return unusable(path, 'it is not a regular file');
    if (stats.size > most) return unusable(path, `it has ${stats.size} bytes, more than ${most}`);
    return await readRegularLater(path, most);
  } catch (error) {
    return unusable(path, systemReason(error));
  }
}

export function unusable(path: string, reason: string): Failure {
  return { kind: 'unreachable', reason: `${path} cannot be used: ${reason}` };
}
