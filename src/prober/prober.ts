/**
 * The prober process: takes targets from the resolver, measures them, sends back facts (R13). It decides nothing,
 * and it lives as long as it is let: whatever goes wrong, it tries again.
 */
import { isIPv6 } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BootMs, Clock, Ms } from '../system/clock.js';
import { NativeTrial } from '../system/native-trial.js';
import { foreignFolder } from '../system/own-folder.js';
import { conntrack, HostBudget } from './budget.js';
import type { Target, ToProber } from './feed.js';
import { Outbox } from './outbox.js';
import type { Probe } from './probes/attempt.js';
import { NativeTcp } from './probes/native-tcp.js';
import { PROBES } from './probes/probe.js';
import { ProbeRunner } from './runner.js';
import { Schedule } from './schedule.js';
import { ResolverSession } from './session.js';
import { awaitVacancy } from './standby.js';

const ALIVE_MS = 1_000;
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 1_000;
/** A connection that lasted so long starts the back-off anew. */
const SETTLED_MS = 10_000;
/** A prober that was replaced and may not wait at the resolver leaves the newer one in peace for about so long. */
const REFUSED_MS = 30_000;
/** About a minute of results at the default budget. */
const KEPT_RESULTS = 20_000;

/** One line a state change. */
export type ProberLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  event: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

export interface ProberOptions {
  /** `prober.sock` in the resolver's runDir. */
  readonly socketPath: string;
  readonly log: ProberLog;
  /** Boot time, the same as the resolver's. */
  readonly clock: Clock;
  readonly version: string;
  /** Where it is remembered that native calls may have ended the process. Absent: nowhere. */
  readonly stateDir?: string;
  /** Ends the prober at once. */
  readonly signal: AbortSignal;
  /** Probes a second, at most. */
  readonly budget: number;
  /** Of the host's connection tracking table, at most (R17). Absent: the table sets no bound. */
  readonly conntrackShare?: number;
  /** The addresses that probes come from, one of each family at most. */
  readonly source?: readonly string[];
  /** Other probes than the usual ones, for tests. */
  readonly probes?: Readonly<Partial<Record<Target['type'], Probe>>>;
  /** 0 to 1, for back-off and for the host's place in the schedule. */
  readonly random?: () => number;
}

/** Runs until `signal` is aborted. Never rejects. */
export async function runProber(options: ProberOptions): Promise<void> {
  const trial =
    options.stateDir === undefined
      ? undefined
      : new NativeTrial(join(options.stateDir, 'native-probes.json'), 'native probes');
  const avoided = trial?.avoided;
  const native = new NativeTcp((reason) => {
    trial?.clear();
    options.log(avoided === undefined ? 'info' : 'warn', 'portable-tcp-probes', { reason });
  }, avoided);
  try {
    await serveSessions(options, { ...PROBES, ...options.probes }, native);
  } finally {
    native.close();
    trial?.clear();
  }
}

type Probes = Readonly<Record<Target['type'], Probe>>;

async function serveSessions(options: ProberOptions, probes: Probes, native: NativeTcp): Promise<void> {
  const { signal, log } = options;
  const random = options.random ?? Math.random;
  const seed = Math.floor(random() * 2 ** 32);
  let wait: Ms = RETRY_MIN_MS;
  let away = false;
  while (!signal.aborted) {
    let opened: BootMs | undefined;
    const foreign = await foreignFolder(dirname(options.socketPath));
    const session =
      foreign !== undefined
        ? { reason: foreign, replaced: false }
        : await serveSession(options, probes, native, seed, () => {
            away = false;
            opened = options.clock.now().boot;
            log('info', 'resolver-connected', { socket: options.socketPath });
          });
    if (signal.aborted) return;
    if (opened !== undefined && options.clock.now().boot - opened > SETTLED_MS) wait = RETRY_MIN_MS;
    let pause = wait;
    if (session.replaced) {
      log('warn', 'standing-by', { socket: options.socketPath, reason: 'a newer prober took its place' });
      const turn = await awaitVacancy(options.socketPath, signal);
      if (turn === 'vacant') continue;
      if (turn === 'refused') pause = REFUSED_MS;
    } else {
      if (!away) log('warn', 'resolver-away', { socket: options.socketPath, reason: session.reason });
      away = true;
    }
    await sleep(pause * (0.5 + random() / 2), undefined, { signal }).catch(() => undefined);
    wait = Math.min(RETRY_MAX_MS, wait * 2);
  }
}

interface SessionEnd {
  readonly reason: string;
  readonly replaced: boolean;
}

/** Each target with the source address of its family. Loopback is reached from loopback. */
function fromSource(targets: readonly Target[], sources: readonly string[] = []): readonly Target[] {
  if (sources.length === 0) return targets;
  return targets.map((target) => {
    const source = sources.find((one) => isIPv6(one) === isIPv6(target.address));
    const isLocal = target.address === '::1' || target.address.startsWith('127.');
    return source === undefined || isLocal ? target : { ...target, source };
  });
}

/** From a connection to its end. Targets belong to a connection: without a resolver nothing is probed. */
function serveSession(
  options: ProberOptions,
  probes: Probes,
  native: NativeTcp,
  seed: number,
  onOpen: () => void,
): Promise<SessionEnd> {
  const { clock, log, signal } = options;
  const budget = new HostBudget(options.budget, options.conntrackShare ?? Number.POSITIVE_INFINITY);
  return new Promise((resolve) => {
    const outbox = new Outbox(KEPT_RESULTS);
    let flushing: NodeJS.Timeout | undefined;
    let alive: NodeJS.Timeout | undefined;
    let replaced = false;
    let stretched = false;
    // One line a connection.
    let odd = false;
    const runner = new ProbeRunner({
      clock,
      schedule: new Schedule(budget.rate, seed),
      probes,
      ...(options.probes?.tcp === undefined ? { beginTcp: native.begin } : {}),
      onResult: (result) => {
        outbox.add(result);
        flushing ??= setTimeout(flush, outbox.wait(clock.now().boot));
      },
      onShort: () => native.rest(),
    });

    const flush = (): void => {
      flushing = undefined;
      while (session.writable && outbox.size > 0) session.sendResults(outbox.next(clock.now().boot));
    };
    const sayAlive = (): void => {
      const { targets, late, localErrors, lastLocalError, stretch, ended, unanswered } = runner.stats();
      const table = conntrack();
      budget.note(ended, unanswered, table);
      runner.budget = budget.rate;
      session.send({
        op: 'alive',
        at: clock.now().boot,
        targets,
        late,
        localErrors,
        stretch,
        ...(lastLocalError === undefined ? {} : { reason: lastLocalError }),
        ...(table === undefined ? {} : { conntrack: table.used / table.size }),
        ...(native.unusedFor === undefined ? {} : { portable: native.unusedFor }),
      });
      if (stretch > 1 === stretched) return;
      stretched = stretch > 1;
      log(stretched ? 'warn' : 'info', stretched ? 'over-budget' : 'inside-budget', {
        targets,
        budget: budget.rate,
        stretch,
        localErrors,
        lastLocalError,
      });
    };
    const take = (message: ToProber): void => {
      if (message.op === 'targets') runner.setTargets(fromSource(message.targets, options.source));
      else if (message.op === 'change') runner.changeTargets(fromSource(message.add, options.source), message.remove);
      else if (message.op === 'now') runner.hasten(message.keys);
      else replaced = true;
    };
    const session = new ResolverSession(options.socketPath, {
      onOpen: () => {
        session.send({ op: 'hello', pid: process.pid, version: options.version, wall: clock.now().wall });
        sayAlive();
        alive = setInterval(sayAlive, ALIVE_MS);
        flush();
        onOpen();
      },
      onMessage: take,
      onOdd: (what) => {
        if (!odd) log('warn', 'not-understood', { what, meaning: 'the resolver may be of another version (R36)' });
        odd = true;
      },
      onWritable: flush,
      onEnd: (reason) => {
        clearTimeout(flushing);
        clearInterval(alive);
        signal.removeEventListener('abort', stop);
        runner.stop();
        // The next connection to the resolver must find descriptors.
        native.rest();
        resolve({ reason, replaced });
      },
    });
    const stop = (): void => session.close();
    signal.addEventListener('abort', stop);
  });
}
