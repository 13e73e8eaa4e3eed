/** Whether a process is still the one that it was: its number may belong to another one by now. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Ms } from '../system/clock.js';

export interface WatchedProcess {
  readonly pid: number;
  /** When it started, as the system tells it; absent where that is not known. */
  readonly start?: string;
}

const LOOK_MS: Ms = 250;
/** Where only ps(1) tells the start, it is asked so often. */
const ASK_MS: Ms = 5_000;

interface Stat {
  readonly state: string;
  readonly threads: number;
  readonly start: string;
}

/** When a process started, in ticks since the boot (proc_pid_stat(5)). Undefined where there is no /proc. */
export function startOf(pid: number): string | undefined {
  return readStat(pid)?.start;
}

/** A zombie is dead, unless threads of it go on without their first. */
export function isProcessAlive({ pid, start }: WatchedProcess, read = readStat, exists = existsNow): boolean {
  const stat = read(pid);
  // Not to be seen is not dead yet: /proc may be missing, or hide the processes of others.
  if (stat === undefined) return exists(pid);
  if (start !== undefined && stat.start !== start) return false;
  return !/[ZXx]/.test(stat.state) || stat.threads > 1;
}

function readStat(pid: number): Stat | undefined {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return undefined;
  }
}

/** The second field is the name in parentheses, and may have anything in it. */
export function parseStat(text: string): Stat | undefined {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', threads, start] = [fields[0], Number(fields[17]), fields[19]];
  return start === undefined ? undefined : { state, threads, start };
}

function existsNow(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Calls `gone` once when the process is gone. Returns what ends the watch. */
export function watchProcess(watched: WatchedProcess, gone: () => void): () => void {
  let asked = performance.now();
  let ended = false;
  let started = watched.start;
  const end = (): void => {
    ended = true;
    clearInterval(timer);
  };
  const lost = (): void => {
    if (ended) return;
    end();
    gone();
  };
  const ask = (): void => {
    asked = performance.now();
    execFile('ps', ['-o', 'lstart=', '-p', String(watched.pid)], { timeout: ASK_MS }, (error, stdout) => {
      const start = stdout.trim();
      if (error !== null || start === '') return;
      started ??= start;
      if (start !== started) lost();
    });
  };
  const look = (): void => {
    if (!isProcessAlive(watched)) lost();
    else if (startOf(watched.pid) === undefined && watched.start === undefined && performance.now() - asked > ASK_MS)
      ask();
  };
  const timer = setInterval(look, LOOK_MS);
  look();
  return end;
}
