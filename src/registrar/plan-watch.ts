/** Notices that the files behind a plan have changed and stand still again. It only looks; reading them is the plan's. */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { watchFolder } from '../registry/file-watch.js';
import { look, STILL_MS } from '../registry/settled-file.js';
import type { Ms } from '../system/clock.js';

const LOOK_MS: Ms = 2_000;

export class PlanWatch {
  readonly #changed: () => void;
  #file: string | undefined;
  #folder: string | undefined;
  #close: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #looking = false;
  /** What was there at the last plan, and at the last look. */
  #planned: string | undefined;
  #seen: string | undefined;
  #stopped = false;

  constructor(changed: () => void) {
    this.#changed = changed;
  }

  /** @param folder undefined: only the file counts */
  async follow(file: string, folder: string | undefined): Promise<void> {
    if (file !== this.#file || folder !== this.#folder) {
      this.#unwatch();
      this.#file = file;
      this.#folder = folder;
      const wake = (): void => this.#arm(STILL_MS);
      const failed = (): void => undefined;
      this.#close.push(watchFolder(dirname(file), new Set([basename(file)]), wake, failed));
      if (folder !== undefined) this.#close.push(watchFolder(folder, undefined, wake, failed));
    }
    this.#planned = this.#seen = await this.#fingerprint();
    this.#arm(LOOK_MS);
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
    this.#unwatch();
  }

  #unwatch(): void {
    for (const close of this.#close) close();
    this.#close = [];
  }

  #arm(wait: Ms): void {
    clearTimeout(this.#timer);
    if (!this.#stopped) this.#timer = setTimeout(() => void this.#look(), wait);
  }

  async #look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    const now = await this.#fingerprint();
    this.#looking = false;
    const still = now === this.#seen;
    this.#seen = now;
    if (this.#stopped) return;
    if (now === this.#planned) this.#arm(LOOK_MS);
    else if (!still) this.#arm(STILL_MS);
    else {
      this.#planned = now;
      this.#changed();
      this.#arm(LOOK_MS);
    }
  }

  async #fingerprint(): Promise<string> {
    const paths = [this.#file!];
    if (this.#folder !== undefined) {
      const names = await readdir(this.#folder).catch(() => undefined);
      if (names === undefined) paths.push(this.#folder);
      else for (const name of names.sort()) paths.push(join(this.#folder, name));
    }
    const looked = await Promise.all(paths.map(look));
    return looked.map((one, i) => `${paths[i]} ${describe(one)}`).join('\n');
  }
}

function describe(looked: Awaited<ReturnType<typeof look>>): string {
  if (looked.kind !== 'file') return looked.kind;
  const { device, inode, size, modified, changed } = looked.signature;
  return `${device} ${inode} ${size} ${modified} ${changed}`;
}
