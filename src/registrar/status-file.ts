/** How registrars stand, as files: each writes one, and removes it at its end; `holdfast status` reads them. */
import { readdirSync, readFileSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../system/atomic-file.js';
import type { Ms } from '../system/clock.js';
import { metricsText } from './metrics-text.js';
import type { RegistrarStatus } from './status-document.js';
import { isProcessAlive, startOf, type WatchedProcess } from './watched-process.js';

/** Changes that come together are written together. */
const SETTLE_MS: Ms = 50;

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
        await unlinkBoth(join(this.#folder, name));
      }
    }
  }

  async remove(): Promise<void> {
    this.#removed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    await unlinkBoth(this.#path);
  }

  async #write(): Promise<void> {
    const status = this.#read();
    await put(this.#path, `${JSON.stringify(status)}\n`);
    await put(metricsPath(this.#path), metricsText(status));
  }
}

/** A full or frozen disk under it costs the news, nothing else. */
async function put(path: string, text: string): Promise<void> {
  await replaceFile(path, [Buffer.from(text)], { mode: 0o644 }).catch(() => undefined);
}

/** The same as metrics lies beside it. */
function metricsPath(path: string): string {
  return path.replace(/json$/, 'prom');
}

async function unlinkBoth(path: string): Promise<void> {
  for (const one of [path, metricsPath(path)]) await unlink(one).catch(() => undefined);
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
