/** Takes away what dead registrars of this host left in a directory of the file registry, after a TTL. */
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Ms } from '../system/clock.js';
import { readRegularLater } from '../system/regular-file.js';
import { isDead, readMark } from './file-mark.js';

/** Of a registration; what is longer is not ours. */
export const MAX_BYTES = 1024 * 1024;
/** How the files of registrars begin. */
export const REGISTERED = 'registered-';

const sweeps = new Map<string, FileSweep>();

/** One of a directory does for all registrations of a process. */
export function sweepOf(folder: string, ttl: Ms): FileSweep {
  let sweep = sweeps.get(folder);
  if (sweep === undefined) sweeps.set(folder, (sweep = new FileSweep(folder, ttl)));
  return sweep;
}

export class FileSweep {
  readonly #folder: string;
  readonly #ttl: Ms;
  readonly #now: () => Ms;
  /** Dead files by name and owner, and since when. */
  #dead = new Map<string, Ms>();
  #last = Number.NEGATIVE_INFINITY;

  constructor(folder: string, ttl: Ms, now: () => Ms = () => performance.now()) {
    this.#folder = folder;
    this.#ttl = ttl;
    this.#now = now;
  }

  /** Looks at most once a TTL. What cannot be read or removed is left for the next time. */
  async run(): Promise<void> {
    const now = this.#now();
    if (now - this.#last < this.#ttl) return;
    this.#last = now;
    const dead = new Map<string, Ms>();
    for (const name of await readdir(this.#folder)) {
      const path = join(this.#folder, name);
      if (!name.startsWith(REGISTERED) || !name.endsWith('.json')) continue;
      const mark = readMark(await readRegularLater(path, MAX_BYTES).then(String, () => ''));
      if (mark === undefined || !isDead(mark)) continue;
      const key = `${name} ${mark.owner}`;
      const since = this.#dead.get(key) ?? now;
      if (now - since >= this.#ttl) await unlink(path).catch(() => undefined);
      else dead.set(key, since);
    }
    this.#dead = dead;
  }
}
