/** `holdfast register`: keeps services of this host registered. */
import { fstatSync, ftruncateSync, openSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { defaultPlaces } from '../config/places.js';
import { askPlan } from '../registrar/ask-plan.js';
import { runRegistrar } from '../registrar/daemon.js';
import type { Plan, PlanRequest } from '../registrar/plan.js';
import { openRunFolder } from '../registrar/run-folder.js';
import { isProcessAlive, startOf, type WatchedProcess } from '../registrar/watched-process.js';
import { BootClock } from '../system/boot-clock.js';
import { openLog } from '../system/log.js';
import { ServiceNotice } from '../system/service-notice.js';
import { programVersion } from '../system/version.js';
import { complain, EXIT_OK, EXIT_USAGE } from './output.js';

export interface RegisterArguments {
  readonly config: string;
  /** A registration by options; absent: those of the configuration's directory. */
  readonly options?: Readonly<Record<string, unknown>>;
  readonly process?: WatchedProcess;
  /** A file for the log. */
  readonly log?: string;
  /** Started beside a command: nobody reads what is said, and keys pressed at a terminal are for the command. */
  readonly detached: boolean;
}

/** A log that nobody reads begins anew at this size in bytes. */
const MAX_LOG = 1024 * 1024;
const LOOK_MS = 60_000;

export async function register(args: RegisterArguments): Promise<number> {
  const { detached } = args;
  const watched = args.process === undefined ? undefined : withStart(args.process);
  if (watched !== undefined && !isProcessAlive(watched)) {
    if (!detached) complain(`there is no process ${watched.pid}`);
    return detached ? EXIT_OK : EXIT_USAGE;
  }
  const from = process.env.HOLDFAST_CWD ?? process.cwd();
  const request: PlanRequest = {
    config: resolve(from, args.config),
    ...(args.options === undefined ? {} : { options: args.options }),
  };
  const { end, cut, onReload } = takeSignals(detached);
  const plan = await firstPlan(request);
  const fault = faultOf(plan, request);
  if (fault !== undefined && !detached) {
    complain(fault);
    return EXIT_USAGE;
  }
  // Beside a command the manager is that command's.
  const isDaemon = args.options === undefined;
  const runDir = plan.ok ? plan.runDir : defaultPlaces().runDir;
  const folder = await openRunFolder(runDir);
  const clock = new BootClock();
  const file = args.log === undefined ? ownLog(detached, folder, args) : resolve(from, args.log);
  const { log, setLevel, start, close } = openLog({
    level: plan.ok ? plan.level : 'info',
    name: 'registrar',
    small: true,
    now: () => clock.now().boot,
    ...(file === undefined ? {} : { fd: openLogFile(file) }),
  });
  start();
  log('info', 'registrar-started', { config: request.config, process: watched?.pid, version: programVersion() });
  const notice = isDaemon
    ? new ServiceNotice({ alive: () => true, status: () => 'keeping services registered' })
    : undefined;
  notice?.ready();
  await runRegistrar({
    ...{ request, plan, log, setLevel, clock, end, cut, onReload, version: programVersion() },
    ...(watched === undefined ? {} : { watched }),
    ...(folder === undefined ? {} : { folder }),
  });
  notice?.stopping();
  close();
  // Options do not become better: another start would be the same again.
  return plan.ok && request.options !== undefined && fault !== undefined ? EXIT_USAGE : EXIT_OK;
}

/** What was given by number only is watched as what it is now. */
function withStart({ pid, start = startOf(pid) }: WatchedProcess): WatchedProcess {
  return start === undefined ? { pid } : { pid, start };
}

/** A host that is too busy to make one may be so for a while only. */
async function firstPlan(request: PlanRequest): Promise<Plan> {
  try {
    return await askPlan(request);
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

/** What is wrong from the start, where nothing could be registered. */
function faultOf(plan: Plan, { options }: PlanRequest): string | undefined {
  if (!plan.ok) return plan.reason;
  if (options === undefined) return plan.unread;
  const item = plan.items[0]!;
  return item.ok ? undefined : item.reason;
}

/**
 * SIGTERM and SIGINT drain and end, the second one without the drain; SIGHUP reads the files again. Beside a command
 * only SIGTERM counts: the others come from the terminal, and are the command's.
 */
function takeSignals(detached: boolean) {
  const end = new AbortController();
  const cut = new AbortController();
  let reload = (): void => undefined;
  const ask = (): void => {
    if (end.signal.aborted) cut.abort();
    end.abort();
  };
  process.on('SIGTERM', ask);
  process.on('SIGINT', detached ? () => undefined : ask);
  process.on('SIGHUP', detached ? () => undefined : () => reload());
  const onReload = (run: () => void): void => {
    reload = run;
  };
  return { end: end.signal, cut: cut.signal, onReload };
}

function ownLog(detached: boolean, folder: string | undefined, { options }: RegisterArguments): string | undefined {
  if (!detached) return undefined;
  const name = String(options?.name ?? 'registrar').replace(/[^A-Za-z0-9._-]/g, '_');
  return folder === undefined ? '/dev/null' : join(folder, `${name}.log`);
}

function openLogFile(path: string): number {
  let fd: number;
  try {
    fd = openSync(path, 'a', 0o644);
  } catch (error) {
    complain(`${path}: ${(error as Error).message}`);
    return openSync('/dev/null', 'w');
  }
  const bound = (): void => {
    try {
      if (fstatSync(fd).size > MAX_LOG) ftruncateSync(fd);
    } catch {
      // Not a file that has a size.
    }
  };
  bound();
  setInterval(bound, LOOK_MS).unref();
  return fd;
}
