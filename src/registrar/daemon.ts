/**
 * The registrar's process. It may be told of wrong files, a registry that is away, a full disk: it says so and goes on.
 * It ends when it is told to, or when the process that it watches is gone.
 */
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ProbeType } from '../prober/feed.js';
import type { Probe } from '../prober/probes/attempt.js';
import { type BootClock, watchClocks } from '../system/boot-clock.js';
import type { Ms } from '../system/clock.js';
import type { Log } from '../system/log.js';
import { askPlan } from './ask-plan.js';
import type { Registration } from './entry.js';
import { openTarget } from './open-target.js';
import { ownAddress } from './own-address.js';
import { newOwner } from './owner.js';
import type { Plan, PlanRequest } from './plan.js';
import { PlanWatch } from './plan-watch.js';
import { Registrar } from './registrar.js';
import type { RegistrarStatus } from './status-document.js';
import { StatusFile, self } from './status-file.js';
import { type WatchedProcess, watchProcess } from './watched-process.js';

export interface RegistrarDaemonOptions {
  readonly request: PlanRequest;
  /** What has been planned already. */
  readonly plan: Plan;
  readonly watched?: WatchedProcess;
  readonly log: Log;
  readonly setLevel: (level: Extract<Plan, { ok: true }>['level']) => void;
  readonly clock: BootClock;
  readonly version: string;
  /** Where it tells how it stands, if anywhere. */
  readonly folder?: string;
  /** Aborted: drain and stop. `cut`: drain no more. */
  readonly end: AbortSignal;
  readonly cut: AbortSignal;
  /** Called with what asks for the files to be read again. */
  readonly onReload?: (reload: () => void) => void;
}

const AGAIN_MS: Ms = 10_000;

/** Resolves when everything is removed, or left to its TTL. Never rejects for what is wrong outside. */
export async function runRegistrar(options: RegistrarDaemonOptions): Promise<void> {
  const { log, clock, watched, request } = options;
  const now = () => clock.now().boot;
  let problems: string[] = [];
  const status = options.folder === undefined ? undefined : new StatusFile(options.folder, readStatus);
  const registrar = new Registrar({
    log,
    now,
    address: (before) => ownAddress(before, networkInterfaces()),
    probeOf,
    onChange: () => status?.changed(),
    open: (registration) => {
      const owner = nextOwner(clock.now().wall);
      return openTarget(registration, { owner, ...(watched === undefined ? {} : { watched }) });
    },
  });

  function readStatus(): RegistrarStatus {
    const { boot, wall } = clock.now();
    const registrations = registrar.status().map(({ since, ...rest }) => {
      return { ...rest, since: new Date(wall - (boot - since)).toISOString() };
    });
    const process = watched === undefined ? {} : { process: watched };
    return { registrar: self(), version: options.version, ...process, problems, registrations };
  }

  /** The last good registration of each item. */
  let good = new Map<string, Registration>();
  const take = (plan: Plan): void => {
    const before = problems;
    if (!plan.ok) problems = [plan.reason];
    else {
      options.setLevel(plan.level);
      problems = plan.unread === undefined ? [] : [plan.unread];
      if (plan.unread === undefined) good = adopt(plan, good, problems);
      registrar.follow([...good.values()]);
    }
    for (const reason of problems) if (!before.includes(reason)) log('error', 'registration-refused', { reason });
    if (before.length > 0 && problems.length === 0) log('info', 'registrations-good');
    status?.changed();
  };

  const stopping = new AbortController();
  options.end.addEventListener('abort', () => stopping.abort(), { once: true });
  if (options.end.aborted) stopping.abort();
  const cut = new AbortController();
  options.cut.addEventListener('abort', () => cut.abort(), { once: true });
  const gone = (): void => {
    log('info', 'process-gone', { process: watched?.pid });
    // Nothing serves there any more: there is nothing to drain.
    cut.abort();
    stopping.abort();
  };
  const unwatch = watched === undefined ? () => undefined : watchProcess(watched, gone);
  const unclock = watchClocks(clock, (gap) => {
    log('info', 'clock-gap', { kind: gap.kind, by: Math.round(gap.by) });
    registrar.nudge();
  });

  let planning: Promise<void> | undefined;
  let again = false;
  const replan = (): void => {
    again = planning !== undefined;
    planning ??= plan().finally(() => {
      planning = undefined;
      if (again && !stopping.signal.aborted) replan();
    });
  };
  const watch = new PlanWatch(replan);
  const plan = async (): Promise<void> => {
    try {
      const made = await askPlan(request);
      if (stopping.signal.aborted) return;
      take(made);
      await watch.follow(request.config, folderOf(made, request));
    } catch (error) {
      log('warn', 'plan-failed', { reason: error instanceof Error ? error.message : String(error) });
      await sleep(AGAIN_MS, undefined, { signal: stopping.signal }).catch(() => undefined);
      again = true;
    }
  };
  options.onReload?.(replan);
  await status?.clean();
  if (!stopping.signal.aborted) {
    take(options.plan);
    await watch.follow(request.config, folderOf(options.plan, request));
    // What changed since the plan was made is found by one look at once.
    if (!options.plan.ok) replan();
    await until(stopping.signal);
  }

  watch.stop();
  unclock();
  log('info', 'stopping');
  for (const { entry, zone } of await registrar.stop(cut.signal)) {
    log('warn', 'left-to-ttl', { service: entry.service, id: entry.id, zone });
  }
  unwatch();
  await status?.remove();
}

/** What is good in a plan, and of what is bad in it the last good. */
function adopt(
  plan: Extract<Plan, { ok: true }>,
  before: ReadonlyMap<string, Registration>,
  problems: string[],
): Map<string, Registration> {
  const good = new Map<string, Registration>();
  for (const item of plan.items) {
    const registration = item.ok ? item.registration : before.get(item.name);
    if (!item.ok)
      problems.push(registration === undefined ? item.reason : `${item.reason}; its last good contents stand`);
    if (registration !== undefined) good.set(item.name, registration);
  }
  return good;
}

function folderOf(plan: Plan, request: PlanRequest): string | undefined {
  return plan.ok && request.options === undefined ? plan.folder : undefined;
}

let lastOwner = 0;

/** Of two registrations of one process the later one is the younger. */
function nextOwner(wall: number): string {
  lastOwner = Math.max(lastOwner + 1, wall);
  return newOwner(lastOwner);
}

async function probeOf(type: ProbeType): Promise<Probe> {
  const { PROBES } = await import('../prober/probes/probe.js');
  return PROBES[type];
}

function until(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
