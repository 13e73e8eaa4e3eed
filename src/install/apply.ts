/** Makes a plan true, and takes it back. Both may be interrupted and begun again. */
import { join } from 'node:path';
import type { ListenAddress } from '../config/types.js';
import {
  type Change,
  type FileState,
  InstallError,
  readState,
  removeFile,
  sameState,
  sweepTemporaries,
  writeState,
} from './files.js';
import {
  type Entry,
  isOurs,
  type Journal,
  keepBefore,
  removeEmptyFolders,
  removeJournal,
  stateBefore,
} from './journal.js';
import type { Plan } from './plan.js';
import { namesUs, RESOLV_CONF } from './resolv-conf.js';
import { enabledUnits, reloadUnits, restartResolved, runsSystemd, startUnits, stopUnits } from './service-control.js';
import { UNITS } from './units.js';

/** Changes that are not true yet. */
export function pending(root: string, { changes }: Plan): Change[] {
  return changes.filter(({ path, wanted }) => !sameState(readState(join(root, path)), wanted));
}

export interface ApplyOptions {
  readonly root: string;
  /** Rejects when this server does not answer: then the host is not handed over to it. */
  answers(): Promise<void>;
  tell(line: string): void;
}

/** Throws an InstallError; what was done until then stays, and can be taken back. */
export async function applyPlan(plan: Plan, { root, answers, tell }: ApplyOptions): Promise<void> {
  const systemd = runsSystemd(root);
  const before = systemd ? enabledUnits() : [];
  keepBefore(root, plan.changes, systemd ? UNITS.filter((unit) => !before.includes(unit)) : []);
  const last = plan.changes.at(-1)!;
  for (const change of plan.changes.filter((one) => one !== last)) put(root, change, tell);
  if (systemd) {
    startUnits();
    tell('started holdfast.socket, holdfast.service and holdfast-prober.service');
  }
  if (root === '/') await answers();
  put(root, last, tell);
  if (systemd && plan.mode === 'resolved') restartResolved();
}

function put(root: string, { path, wanted }: Change, tell: (line: string) => void): void {
  const full = join(root, path);
  sweepTemporaries(full);
  if (sameState(readState(full), wanted)) return;
  writeState(full, wanted);
  tell(`wrote ${path}`);
}

export interface WayBack {
  readonly entry: Entry;
  /** `theirs`: it has another owner by now; `leave`: it stands in the way. */
  readonly todo: 'restore' | 'remove' | 'nothing' | 'theirs' | 'leave';
  /** Why it is left alone. */
  readonly reason?: string;
}

/** What an uninstall does with each file, in this order. `listen` is empty when it is not known. */
export function waysBack(root: string, journal: Journal, listen: readonly ListenAddress[], force: boolean): WayBack[] {
  const ways = journal.entries.toReversed().map((entry): WayBack => {
    const now = readState(join(root, entry.path));
    const before = stateBefore(root, entry);
    if (sameState(now, before)) return { entry, todo: 'nothing' };
    const todo = before.kind === 'absent' ? 'remove' : 'restore';
    if (isOurs(entry, now)) return { entry, todo };
    if (entry.path === RESOLV_CONF && !stillUs(now, listen))
      return { entry, todo: 'theirs', reason: 'somebody else has written it since, and it does not name this server' };
    if (force || now.kind === 'absent') return { entry, todo };
    return { entry, todo: 'leave', reason: 'it was changed since; --force takes it back all the same' };
  });
  if (!asksUsStill(ways)) return ways;
  const reason = `${RESOLV_CONF} names this server still, and the host would have none`;
  return ways.map((way) => (way.entry.path === RESOLV_CONF ? way : { entry: way.entry, todo: 'leave', reason }));
}

/** Then nothing is taken back, and the units go on. */
function asksUsStill(ways: readonly WayBack[]): boolean {
  return ways.some(({ entry, todo }) => entry.path === RESOLV_CONF && todo === 'leave');
}

function stillUs(now: FileState, listen: readonly ListenAddress[]): boolean {
  return now.kind === 'absent' || (now.kind === 'file' && namesUs(now.bytes.toString('utf8'), listen));
}

/** True when all is as it was; otherwise what is left alone is told, and the notes stay. */
export function takeBack(
  root: string,
  ways: readonly WayBack[],
  journal: Journal,
  tell: (line: string) => void,
): boolean {
  const systemd = runsSystemd(root);
  // The host has its old servers again before ours ends.
  const handover = ways.filter(({ entry }) => !isUnit(entry));
  for (const way of handover) undo(root, way, tell);
  if (systemd && !asksUsStill(ways)) {
    restartResolved();
    stopUnits(journal.enabled);
    tell('stopped the units');
  }
  for (const way of ways.filter(({ entry }) => isUnit(entry))) undo(root, way, tell);
  if (systemd) reloadUnits();
  const whole = ways.every(({ todo }) => todo !== 'leave');
  if (whole) removeJournal(root, journal);
  return whole;
}

function isUnit({ path }: Entry): boolean {
  return path.startsWith('/etc/systemd/system/');
}

function undo(root: string, { entry, todo, reason }: WayBack, tell: (line: string) => void): void {
  const full = join(root, entry.path);
  sweepTemporaries(full);
  if (todo === 'leave' || todo === 'theirs') tell(`left ${entry.path} alone: ${reason}`);
  if (todo === 'restore') {
    const before = stateBefore(root, entry);
    if (before.kind === 'absent') throw new InstallError(`${entry.path}: nothing to put back`);
    writeState(full, before);
    tell(`put back ${entry.path}`);
  }
  if (todo === 'remove') {
    removeFile(full);
    tell(`removed ${entry.path}`);
  }
  if (entry.before.kind === 'absent' && todo !== 'leave' && todo !== 'theirs')
    removeEmptyFolders(root, entry.before.folders);
}
