/**
 * The file registry: a file of its own in the registry's directory, written beside and renamed. A file has no TTL, so
 * what a crash leaves stays until a registrar of this host finds that both its registrar and its service are gone.
 */
import { link, rename, unlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { FileRegistryConfig } from '../config/types.js';
import type { Failure } from '../registry/adapter.js';
import { look, systemReason } from '../registry/settled-file.js';
import { replaceFile } from '../system/atomic-file.js';
import type { Ms } from '../system/clock.js';
import { readRegularLater } from '../system/regular-file.js';
import type { Entry } from './entry.js';
import { type FileMark, isDead, ownMark, readMark } from './file-mark.js';
import { type FileSweep, MAX_BYTES, REGISTERED, sweepOf } from './file-sweep.js';
import { isYounger } from './owner.js';
import type { Gone, Kept, Target } from './target.js';
import type { WatchedProcess } from './watched-process.js';

const MODE = 0o644;
/** Says that there is a registry when nobody is registered: a directory without any file is not believed (R6). */
const BASE_FILE = 'registered.json';
const BASE_TEXT = '{"services": {}}\n';

export interface FileTargetOptions {
  readonly service: string;
  readonly id: string;
  readonly owner: string;
  readonly ttl: Ms;
  /** The process of the service, where one is watched. */
  readonly watched?: WatchedProcess;
}

export class FileTarget implements Target {
  readonly #folder: string;
  readonly #path: string;
  readonly #mark: FileMark;
  readonly #sweep: FileSweep;

  constructor(config: FileRegistryConfig, { service, id, owner, ttl, watched }: FileTargetOptions) {
    this.#folder = config.path;
    this.#path = join(config.path, `${REGISTERED}${service}.${id}.json`);
    this.#mark = ownMark(owner, watched);
    this.#sweep = sweepOf(config.path, ttl);
  }

  async keep(entry: Entry): Promise<Kept | Failure> {
    const folder = await look(this.#folder);
    if (folder.kind === 'file') return this.#failed('a file: a registrar needs a directory of them');
    if (folder.kind !== 'folder') return this.#failed(folder.reason);
    try {
      const text = write(entry, this.#mark);
      const found = await readOrNothing(this.#path);
      const mark = found === undefined ? undefined : readMark(found);
      const theirs = mark?.owner;
      if (mark !== undefined && isYounger(theirs, this.#mark.owner) && !isDead(mark)) {
        return { kind: 'taken', by: String(theirs) };
      }
      const base = join(this.#folder, BASE_FILE);
      if ((await readOrNothing(base)) === undefined) await put(base, BASE_TEXT);
      if (found !== text) await put(this.#path, text);
      await this.#sweep.run();
      return { kind: 'kept', wrote: found !== text };
    } catch (error) {
      return this.#failed(systemReason(error));
    }
  }

  async remove(): Promise<Gone | Failure> {
    try {
      const found = await readOrNothing(this.#path);
      if (found !== undefined && readMark(found)?.owner === this.#mark.owner) await this.#takeAway();
      return { kind: 'gone' };
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === 'ENOENT' ? { kind: 'gone' } : this.#failed(systemReason(error));
    }
  }

  /** A successor may have written since it was read: what is taken is looked at again, and put back if it is not ours. */
  async #takeAway(): Promise<void> {
    const taken = join(this.#folder, `.${basename(this.#path)}.${process.pid}`);
    await rename(this.#path, taken);
    const text = await readOrNothing(taken);
    if (text !== undefined && readMark(text)?.owner !== this.#mark.owner) {
      // Unless there is a newer one by now.
      await link(taken, this.#path).catch(() => undefined);
    }
    await unlink(taken);
  }

  #failed(reason: string): Failure {
    return { kind: 'unreachable', reason: `${this.#folder}: ${reason}` };
  }
}

function write({ service, ...fields }: Entry, mark: FileMark): string {
  const services = { [service]: { endpoints: [fields] } };
  return `${JSON.stringify({ services, 'x-holdfast': mark }, null, 2)}\n`;
}

function put(path: string, text: string): Promise<void> {
  return replaceFile(path, [Buffer.from(text)], { mode: MODE });
}

async function readOrNothing(path: string): Promise<string | undefined> {
  try {
    return (await readRegularLater(path, MAX_BYTES)).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
