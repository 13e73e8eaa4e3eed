/** How registrars stand, as files: each writes one, and removes it at its end; `holdfast status` reads them. */
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../system/atomic-file.js';
import type { Ms } from '../system/clock.js';
import type { RegistrationStatus } from './registrar.js';
import { isProcessAlive, startOf, type WatchedProcess } from './watched-process.js';

/** Changes that come together are written together. */
const SETTLE_MS: Ms = 50;

export interface RegistrarStatus {
  readonly registrar: WatchedProcess;
  readonly version: string;
  /** The service's process, where one is watched. */
  readonly process?: WatchedProcess;
  /** What is wrong with the configuration, in words. */
  readonly problems: readonly string[];
  readonly registrations: readonly (Omit<RegistrationStatus, 'since'> & {
    /** Wall time, ISO. */
    readonly since: string;
  })[];
}

export class StatusFile {
  readonly #folder: string;
  readonly #path: string;
  readonly #read: () => RegistrarStatus;
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #removed = false;

  constructor(folder: string, read: () => RegistrarStatus) {
    this.#folder = folder;
    this.#path = join(folder, `${process.pid}.json`);
    this.#read = read;
  }

  changed(): void {
    if (this.#removed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#writing = this.#writing.then(() => this.#write());
    }, SETTLE_MS);
  }

  /** Removes what registrars that died have left. Never rejects. */
  async clean(): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const status = name.endsWith('.json') ? readStatus(join(this.#folder, name)) : undefined;
      if (status !== undefined && !isProcessAlive(status.registrar)) {
        await unlink(join(this.#folder, name)).catch(() => undefined);
      }
    }
  }

  async remove(): Promise<void> {
    this.#removed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    await unlink(this.#path).catch(() => undefined);
  }

  async #write(): Promise<void> {
    const text = `${JSON.stringify(this.#read())}\n`;
    // A full or frozen disk under it costs the news, nothing else.
    await replaceFile(this.#path, [Buffer.from(text)], { mode: 0o644 }).catch(() => undefined);
  }
}

export function self(): WatchedProcess {
  const start = startOf(process.pid);
  return start === undefined ? { pid: process.pid } : { pid: process.pid, start };
}

/** Those of all registrars in `folders` that are alive. */
export function readStatuses(folders: readonly string[]): RegistrarStatus[] {
  return folders.flatMap((folder) => {
    try {
      return readdirSync(folder)
        .filter((name) => /^\d+\.json$/.test(name))
        .flatMap((name) => readStatus(join(folder, name)) ?? [])
        .filter(({ registrar }) => isProcessAlive(registrar));
    } catch {
      return [];
    }
  });
}

function readStatus(path: string): RegistrarStatus | undefined {
  try {
    const status = JSON.parse(readFileSync(path, 'utf8')) as RegistrarStatus | null;
    const good = Number.isInteger(status?.registrar?.pid) && Array.isArray(status?.registrations);
    return good ? status! : undefined;
  } catch {
    return undefined;
  }
}
