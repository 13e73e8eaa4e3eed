/**
 * The files with what a source is asked with: which of them are others than when it was read last. A request reads them
 * anew, but one that is under way, a connection that is open, and an index that moved on without telling what is seen
 * now are of the time before.
 */
import { createHash } from 'node:crypto';
import type { TlsConfig } from '../config/types.js';
import type { Credentials } from './adapter.js';
import { MAX_PEM_BYTES, readSmall } from './secret-files.js';

export class CredentialFiles implements Credentials {
  readonly #paths: readonly string[];
  readonly #renewed: (changed: readonly string[]) => void;
  /** By path, of what is in it: never told. */
  readonly #digests = new Map<string, string>();

  /**
   * @param secret the file with a token, a password or a key, where there is one
   * @param renewed is told which of the files are others, before the source is read with them
   */
  constructor(
    secret: string | undefined,
    { caFile, certFile, keyFile }: TlsConfig = {},
    renewed: (changed: readonly string[]) => void = () => undefined,
  ) {
    this.#paths = [secret, caFile, certFile, keyFile].filter((path) => path !== undefined);
    this.#renewed = renewed;
  }

  async take(): Promise<readonly string[]> {
    const changed: string[] = [];
    for (const [path, digest] of await this.#read()) {
      const known = this.#digests.get(path);
      this.#digests.set(path, digest);
      if (known !== undefined && known !== digest) changed.push(path);
    }
    if (changed.length > 0) this.#renewed(changed);
    return changed;
  }

  async replaced(): Promise<boolean> {
    return (await this.#read()).some(([path, digest]) => this.#digests.get(path) !== digest);
  }

  /** Those that can be read. Whoever needs one of the others says what is wrong with it; an empty one is being written. */
  async #read(): Promise<[path: string, digest: string][]> {
    const found: [string, string][] = [];
    for (const path of this.#paths) {
      const bytes = await readSmall(path, MAX_PEM_BYTES);
      const text = Buffer.isBuffer(bytes) ? bytes.toString('latin1').trim() : '';
      if (text !== '') found.push([path, createHash('sha256').update(text).digest('base64')]);
    }
    return found;
  }
}
