/**
 * Remembers whether starts with native calls ended in a signal. Such calls can take the whole process down; two such
 * deaths within a minute of a start make the next starts do without.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import type { Ms, WallMs } from './clock.js';

const DEATHS_TO_AVOID = 2;
const FORGET_MS: Ms = 24 * 3_600_000;

interface Marker {
  /** A start is under way that has neither proved itself nor ended cleanly. */
  readonly open: boolean;
  readonly deaths: number;
  /** Of the start that is under way. */
  readonly pid?: number;
  readonly at: WallMs;
  /** Another kernel, Node or boot makes old deaths meaningless. */
  readonly platform: string;
}

export class CrashMarker {
  readonly #platform: string;
  readonly #pid: number;
  /** The mark is that of another process, which still runs: a second start beside it, by mistake or to take over. */
  #others = false;

  constructor(
    readonly file: string,
    bootId: string = readBootId(),
    pid: number = process.pid,
  ) {
    this.#pid = pid;
    this.#platform = `${process.version} ${release()} ${bootId}`;
  }

  /** Opens a start. False when native calls are to be avoided. A directory that cannot be written remembers nothing. */
  begin(now: WallMs): boolean {
    const last = this.#read(now);
    this.#others = last?.open === true && last.pid !== this.#pid && runs(last.pid);
    if (this.#others) return true;
    const deaths = (last?.deaths ?? 0) + (last?.open ? 1 : 0);
    if (deaths >= DEATHS_TO_AVOID) {
      this.#write({ open: false, deaths, at: last?.open ? now : last!.at, platform: this.#platform });
      return false;
    }
    this.#write({ open: true, deaths, pid: this.#pid, at: now, platform: this.#platform });
    return true;
  }

  /** The start proved itself, or the process ends as it should. */
  clear(): void {
    if (this.#others) return;
    try {
      rmSync(this.file, { force: true });
    } catch {
      // Nothing was remembered.
    }
  }

  #read(now: WallMs): Marker | undefined {
    try {
      const marker = JSON.parse(readFileSync(this.file, 'utf8')) as Marker;
      const usable =
        typeof marker.open === 'boolean' &&
        Number.isInteger(marker.deaths) &&
        marker.platform === this.#platform &&
        Math.abs(now - marker.at) < FORGET_MS;
      return usable ? marker : undefined;
    } catch {
      return undefined;
    }
  }

  #write(marker: Marker): void {
    try {
      writeFileSync(this.file, JSON.stringify(marker), { mode: 0o600 });
    } catch {
      // Not remembered: they are tried again.
    }
  }
}

function runs(pid: unknown): boolean {
  if (typeof pid !== 'number' || !Number.isInteger(pid) || pid < 1) return false;
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}
