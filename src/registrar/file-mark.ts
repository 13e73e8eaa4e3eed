/** Who wrote an entry of the file registry, so that another registrar of this host can tell whether it is dead. */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { machineId } from '../system/machine.js';
import { isProcessAlive, startOf, type WatchedProcess } from './watched-process.js';

export interface FileMark {
  /** See `owner.ts`. */
  readonly owner: string;
  readonly host: string;
  readonly machine?: string;
  /** Of the machine's current run. */
  readonly boot?: string;
  /** The namespace in which `registrar` and `process` are counted. */
  readonly pids?: string;
  readonly registrar: WatchedProcess;
  /** The service's. */
  readonly process?: WatchedProcess;
}

export function ownMark(owner: string, watched: WatchedProcess | undefined): FileMark {
  const registrar = withStart(process.pid);
  return { owner, ...here(), registrar, ...(watched === undefined ? {} : { process: watched }) };
}

/** Undefined for what no registrar wrote. */
export function readMark(text: string): FileMark | undefined {
  try {
    const mark = (JSON.parse(text) as { 'x-holdfast'?: FileMark } | null)?.['x-holdfast'];
    return typeof mark?.owner === 'string' && Number.isInteger(mark.registrar?.pid) ? mark : undefined;
  } catch {
    return undefined;
  }
}

/** Proven: its registrar and its service ran on this host, and do not any more. */
export function isDead({ host, machine, boot, pids, registrar, process: service }: FileMark, now = here()): boolean {
  if (machine === undefined || boot === undefined || machine !== now.machine || host !== now.host) return false;
  if (boot !== now.boot) return true;
  if (pids === undefined || pids !== now.pids) return false;
  return !isProcessAlive(registrar) && (service === undefined || !isProcessAlive(service));
}

type Here = Pick<FileMark, 'host' | 'machine' | 'boot' | 'pids'>;

let known: Here | undefined;

function here(): Here {
  const machine = machineId();
  const boot = readOr(() => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim());
  const pids = readOr(() => readlinkSync('/proc/self/ns/pid'));
  known ??= {
    host: hostname(),
    ...(machine === undefined ? {} : { machine }),
    ...(boot === undefined ? {} : { boot }),
    ...(pids === undefined ? {} : { pids }),
  };
  return known;
}

function withStart(pid: number): WatchedProcess {
  const start = startOf(pid);
  return start === undefined ? { pid } : { pid, start };
}

function readOr(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
