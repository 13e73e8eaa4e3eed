/** The resolver's process: its threads, sockets, timers and signals around the deterministic core. */
import { join } from 'node:path';
import type { AdminServer } from '../admin/server.js';
import { showListen } from '../config/addresses.js';
import type { Config, ZoneConfig } from '../config/types.js';
import { type AnswerServer, ListenError } from '../server/answer-server.js';
import { explainBindFailure } from '../server/bind-error.js';
import type { EarlyThreads } from '../server/early-threads.js';
import { BootClock, ClockWatch } from '../system/boot-clock.js';
import type { BootMs, Instant, Ms } from '../system/clock.js';
import { HostAddresses } from '../system/host-addresses.js';
import { type OpenLog, openLog } from '../system/log.js';
import { machineId } from '../system/machine.js';
import { ServiceNotice } from '../system/service-notice.js';
import { DaemonCounters } from './daemon-counters.js';
import { adminSource, type DaemonParts, daemonStatus, statusLine } from './daemon-status.js';
import { ForwardLink } from './forward-link.js';
import { HandedOver } from './handed-over.js';
import { ProberLink } from './prober-link.js';
import { ReportQueue } from './report-queue.js';
import { Resolver } from './resolver.js';
import { Seeking } from './seeking.js';
import { awaitSignals } from './signals.js';
import { Snapshots, snapshotFolder } from './snapshots.js';
import { SyncLink } from './sync-link.js';
import { zoneKeys } from './zone-keys.js';

export interface DaemonOptions {
  readonly threads: EarlyThreads;
  readonly config: Config;
  /** It runs on the last good configuration, since the file is bad (R35). */
  readonly lastGood: boolean;
  /** What is wrong with the file, in one line. */
  readonly configError?: string;
  /** Reads and checks the configuration again. Rejects with a ConfigError. */
  reload(): Promise<Config>;
  /** Called with what has come into force (R35). Rejects when it cannot be kept. */
  inForce(config: Config): Promise<void>;
}

const OK = 0;
const FAILED = 1;
/** The clocks are compared, and the shortest ages are looked at, this often. */
const LOOK_MS: Ms = 1_000;
/** R16: so often it is looked which addresses are of this host. */
const OWN_MS: Ms = 5_000;
/** Verdicts come in bursts; the prober is told of new targets, and snapshots of changes, at most this often. */
const SNAPSHOT_MS: Ms = 1_000;
const LEAST_WAKE_MS: Ms = 5;
/** Target names put in one turn after the start. */
const DEFERRED_AT_ONCE = 500;
const BUGS_SHOWN = 5;
/** R3, R33: registries on demand are told so often what was asked last. */
const ORDER_MS: Ms = 60_000;
/** R3: registries are told so often what is asked most, so many names of a zone. */
const ASKED_MS: Ms = 2_000;
const MOST_ASKED = 64;
/** A clean stop writes what it can within this. */
const FLUSH_MS: Ms = 1_000;
/** And is over after this, whatever a disk does. */
const STOP_MS: Ms = 1_800;
const LAST_MS: Ms = 300;

/** Runs until a signal ends it. Resolves with the exit code. */
export async function runDaemon(options: DaemonOptions): Promise<number> {
  const clock = new BootClock();
  const log = openLog({ level: options.config.log.level, name: 'resolver', now: () => clock.now().boot });
  const daemon = new Daemon(options, clock, log);
  try {
    const code = await daemon.run();
    // Nothing that is still open keeps the process; a thread that waits for a hanging disk would keep even an exit.
    setTimeout(() => (daemon.stuck ? process.kill(process.pid, 'SIGKILL') : process.exit(code)), LAST_MS).unref();
    return code;
  } finally {
    log.close();
  }
}

class Daemon {
  readonly #options: DaemonOptions;
  readonly #clock: BootClock;
  readonly #log: OpenLog;
  readonly #started: Instant;
  readonly #server: AnswerServer;
  readonly #resolver: Resolver;
  readonly #snapshots: Snapshots;
  readonly #reports: ReportQueue;
  readonly #sync: SyncLink;
  readonly #seeking = new Seeking({
    asked: () => this.#resolver.askedJustNow(),
    tell: (zone, services) => this.#sync.justAsked(zone, services),
  });
  readonly #prober: ProberLink;
  readonly #forward: ForwardLink;
  readonly #handedOver: HandedOver;
  readonly #watch = new ClockWatch(LOOK_MS);
  readonly #addresses = new HostAddresses();
  readonly #counters = new DaemonCounters();
  readonly #notice = new ServiceNotice({
    alive: () => this.#server.silent().length === 0,
    status: () => statusLine(this.#parts()),
  });
  readonly #ends: (() => unknown)[] = [];
  /** Sockets that are being opened. */
  readonly #opening: Promise<unknown>[] = [];
  /** Until one address is bound: why others are not. When none is, the error on standard error says so, once. */
  #unbound: Readonly<Record<string, unknown>>[] | undefined = [];
  /** A thread could not be ended. */
  stuck = false;
  #config: Config;
  #configError: string | undefined;
  #lastGood: boolean;
  readonly #bugs: string[] = [];
  #reloads = { done: 0, refused: 0 };
  #admin: AdminServer | undefined;
  #wake: NodeJS.Timeout | undefined;
  /** When that is due. */
  #wakeAt: BootMs = Number.POSITIVE_INFINITY;
  #tableMoved = false;
  #stopping: Promise<number> | undefined;

  constructor(options: DaemonOptions, clock: BootClock, log: OpenLog) {
    this.#options = options;
    this.#config = options.config;
    this.#configError = options.configError;
    this.#lastGood = options.lastGood;
    this.#clock = clock;
    this.#log = log;
    this.#started = clock.now();
    this.#server = options.threads.server;
    options.threads.logTo((level, event, fields) => {
      if (event === 'listen-retrying' && this.#unbound !== undefined) this.#unbound.push(fields);
      else log.log(level, event, fields);
    });
    const seed = crypto.getRandomValues(new Uint32Array(1))[0]!;
    this.#resolver = new Resolver(
      this.#config,
      {
        log: log.log,
        targets: (add, remove) => this.#prober?.changeTargets(add, remove),
        probeNow: (keys) => this.#prober.hasten(keys),
        resolve: (hosts) => this.#forward.lookUp(hosts),
        lookUp: (zone, service) => this.#sync.lookUp(zone, service),
        know: (zone, add, drop) => this.#sync?.know(zone, add, drop),
      },
      this.#started,
      { seed },
    );
    this.#learnOwn();
    const machine = machineId();
    this.#snapshots = new Snapshots(this.#resolver, machine, log.log);
    this.#prober = new ProberLink({ path: join(this.#config.runDir, 'prober.sock'), log: log.log, clock });
    this.#forward = new ForwardLink(this.#config, log.log, clock, {
      forget: () => this.#server.setForward(this.#handedOver.settings()),
      keep: (answer) => this.#server.keep([answer]),
    });
    this.#handedOver = new HandedOver(this.#resolver, this.#forward, {
      enter: () => this.#enter(),
      leave: (now) => this.#leave(now),
    });
    this.#forward.found = (host, result) => {
      const now = this.#enter();
      this.#resolver.resolved(host, result, now);
      this.#leave(now);
    };
    this.#reports = new ReportQueue({
      resolver: this.#resolver,
      at: (task) => {
        const now = this.#enter();
        task(now);
        this.#leave(now);
      },
      firstFailed: (zone, now) => this.#snapshots.firstSyncFailed(zone, now),
    });
    this.#sync = new SyncLink({
      snapshotFolder: snapshotFolder(this.#config.stateDir),
      machine,
      hostsFile: join(this.#config.stateDir, 'registry-hosts.json'),
      hostOf: (host) => this.#forward.hostOf(host),
      log: log.log,
      onReport: (zone, registry, report) => this.#reports.add(zone, registry, report),
      onLookedUp: (zone, service, found) => {
        // A list that is being taken in does not have it yet.
        this.#reports.flush(zone);
        const now = this.#enter();
        this.#resolver.lookedUp(zone, service, found, now);
        this.#leave(now);
      },
      onSeeks: ({ zone, loop }, seeking) => this.#seeking.set(loop, seeking ? zone : undefined),
      known: () => this.#resolver.knownServices(),
      seen: () => this.#resolver.seenRevisions(),
      onSnapshotProblem: (zone, reason) => this.#snapshots.problem(zone, reason),
      onSnapshotWritten: (zone, written) => this.#snapshots.wrote(zone, written),
      onSnapshotWanted: () => this.#snapshots.wantFull(),
    });
  }

  async run(): Promise<number> {
    const stop = (signal: NodeJS.Signals): Promise<number> => (this.#stopping = this.#stop(signal));
    const stopped = awaitSignals(stop, () =>
      this.#notice.during(() => this.#reload()).catch((error: unknown) => this.#bug(error)),
    );
    // A signal may come while the sockets are still being bound: then the start may never be over.
    return (await Promise.race([this.#start(), stopped])) ?? stopped;
  }

  /** Resolves with an exit code when it cannot start. */
  async #start(): Promise<number | undefined> {
    const config = this.#config;
    const restored = this.#snapshots.load(config.stateDir, config.zones, this.#started);
    this.#resolver.table.onChange = () => this.#moveTable();
    try {
      await this.#server.start({
        listen: config.listen,
        workers: config.workers,
        transport: config.transport,
        table: this.#resolver.table,
        stateDir: config.stateDir,
        forward: this.#handedOver.settings(),
        tcp: config.tcp,
      });
    } catch (error) {
      if (!(error instanceof ListenError)) throw error;
      // The sentence for a person goes to standard error, which the journal has too.
      this.#log.log('error', 'cannot-listen', { listen: config.listen.map(showListen) });
      process.stderr.write(`holdfast: ${error.message}\n`);
      await this.#server.stop();
      return FAILED;
    }
    for (const fields of this.#unbound ?? []) this.#log.log('warn', 'listen-retrying', fields);
    this.#unbound = undefined;
    if (this.#stopping !== undefined) return undefined;
    this.#log.log('info', 'answering', {
      listen: config.listen.map(({ address, port }) => `${address} port ${port}`),
      zones: config.zones.map((zone) => zone.name),
      transport: this.#server.transport,
      afterMs: Math.round(performance.now()),
    });
    if (this.#configError !== undefined) {
      this.#log.log('error', 'last-good-configuration', { reason: this.#configError });
    }
    this.#begin(restored);
    this.#notice.ready();
    return undefined;
  }

  /** What the first answer does not need. */
  #begin(restored: readonly string[]): void {
    this.#log.start();
    this.#sync.start(this.#syncZones(), restored);
    this.#prober.onResults((results) => {
      const now = this.#enter();
      this.#resolver.results(results, now);
      this.#leave(now);
    });
    this.#prober.onConntrack((fill) => {
      const now = this.#enter();
      this.#resolver.conntrack(fill, now);
      this.#leave(now);
    });
    this.#prober.setTargets(this.#resolver.targets());
    this.#opening.push(this.#prober.start());
    this.#forward.start();
    this.#ends.push(() => this.#forward.stop());
    this.#watch.observe(this.#clock.read());
    this.#putDeferred();
    this.#every(LOOK_MS, () => this.#look());
    this.#every(OWN_MS, () => this.#learnOwn());
    this.#every(SNAPSHOT_MS, () => this.#save());
    this.#every(ORDER_MS, () => {
      for (const [zone, services] of Object.entries(this.#resolver.knownServices())) this.#sync.order(zone, services);
    });
    this.#every(ASKED_MS, () => this.#tellAsked());
    this.#ends.push(() => this.#seeking.stop());
    this.#opening.push(this.#openControl().catch((error: Error) => this.#bug(error)));
    void this.#keepConfig();
    process.on('uncaughtException', (error) => this.#bug(error));
    this.#leave(this.#clock.now());
  }

  /** What should not happen must not end the answers: it is logged, counted and shown, and they go on. */
  #bug(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#bugs.push(reason);
    if (this.#bugs.length > BUGS_SHOWN) this.#bugs.shift();
    this.#log.log('error', 'internal-error', { reason, stack: error instanceof Error ? error.stack : undefined });
  }

  /** In pieces, so that nothing waits for it. */
  #putDeferred(): void {
    if (this.#resolver.putDeferred(DEFERRED_AT_ONCE, this.#clock.now())) setImmediate(() => this.#putDeferred());
  }

  async #openControl(): Promise<void> {
    const { AdminServer } = await import('../admin/server.js');
    const { Metrics } = await import('../admin/metrics.js');
    const config = this.#config;
    const parts = this.#parts();
    const metrics = new Metrics({ status: () => daemonStatus(parts), counters: () => this.#counters.read(parts) });
    this.#admin = new AdminServer({
      source: adminSource(parts, () => metrics.text()),
      runDir: config.runDir,
      ...(config.admin === undefined ? {} : { admin: config.admin }),
      log: this.#log.log,
      notBound: (address, code, message) => explainBindFailure(address, 'tcp', { code, message }, 'admin'),
    });
    if (this.#stopping === undefined) await this.#admin.start();
  }

  #parts(): DaemonParts {
    return {
      resolver: this.#resolver,
      server: this.#server,
      prober: this.#prober,
      snapshots: this.#snapshots,
      forward: this.#forward,
      clock: this.#clock,
      started: this.#started,
      facts: () => ({
        config: this.#config,
        lastGood: this.#lastGood,
        configError: this.#configError,
        reloads: this.#reloads,
      }),
      problems: () => [
        ...this.#prober.problems(),
        ...(this.#admin?.problems() ?? []),
        ...this.#bugs.map((reason) => `internal error, please report it: ${reason}`),
      ],
      changed: () => this.#leave(this.#clock.now()),
      saved: (zones) =>
        this.#snapshots.saved(
          zones.map(({ key }) => key),
          () => this.#save(),
        ),
    };
  }

  /** Views of one name are zones of their own, so the worker knows zones by key. */
  #syncZones(): ZoneConfig[] {
    return [...zoneKeys(this.#config.zones)].map(([key, zone]) => ({ ...zone, name: key }));
  }

  /** Every way into the core: a gap of the clocks is known before anything is judged by them (R30). */
  #enter(): Instant {
    const readings = this.#clock.read();
    const gap = this.#watch.observe(readings);
    const now = { boot: readings.boot, wall: readings.wall };
    if (gap !== undefined) {
      this.#log.log('warn', 'clock-gap', { kind: gap.kind, byMs: Math.round(gap.by) });
      this.#resolver.clockGap(now);
      // Answer threads forget what they keep of upstreams: their clock may have stood still.
      this.#server.setForward(this.#handedOver.settings());
      this.#sync.relist();
    }
    return now;
  }

  /** After anything that may have changed what is due. */
  #leave(now: Instant): void {
    clearTimeout(this.#wake);
    this.#wakeAt = Number.POSITIVE_INFINITY;
    if (this.#stopping !== undefined) return;
    const next = Math.min(this.#resolver.nextWake(now), this.#snapshots.nextWake());
    if (next === Number.POSITIVE_INFINITY) return;
    const delay = Math.min(Math.max(next - now.boot, LEAST_WAKE_MS), 2 ** 31 - 1);
    this.#wakeAt = now.boot + delay;
    this.#wake = setTimeout(() => this.#tick(), delay);
  }

  #tick(): void {
    const now = this.#enter();
    this.#lateBy(now.boot - this.#wakeAt);
    this.#snapshots.tick(now);
    this.#resolver.tick(now);
    this.#leave(now);
  }

  /** R13: what came meanwhile has not been read yet when timers run; it is before an immediate does. */
  #lateBy(ms: Ms): void {
    if (ms <= LEAST_WAKE_MS) return;
    this.#resolver.lag = Math.max(this.#resolver.lag, ms + LEAST_WAKE_MS);
    setImmediate(() => {
      this.#resolver.lag = 0;
    });
  }

  #learnOwn(): void {
    this.#resolver.verdicts.own = this.#addresses.look();
  }

  #look(): void {
    this.#tick();
    // The words of the threads' counters wrap, so they are read now and then.
    this.#counters.sum(this.#server);
  }

  /** In pieces, as the others. */
  #save(): void {
    if (this.#saveSome() && this.#stopping === undefined) setImmediate(() => this.#save());
  }

  /** Returns whether there is more. */
  #saveSome(last = false): boolean {
    const deltas = this.#snapshots.deltas(this.#clock.now(), last);
    for (const delta of deltas) this.#sync.snapshot(delta);
    return deltas.some(({ more }) => more);
  }

  #tellAsked(): void {
    for (const [zone, names] of this.#resolver.mostAsked(MOST_ASKED, this.#clock.now())) {
      this.#sync.mostAsked(zone, names);
    }
  }

  /** Readers take a new handle once a turn, however often the table moved in it. */
  #moveTable(): void {
    if (this.#tableMoved) return;
    this.#tableMoved = true;
    setImmediate(() => {
      this.#tableMoved = false;
      this.#server.update(this.#resolver.table.share());
    });
  }

  #every(ms: Ms, task: () => void): void {
    const timer = setInterval(task, ms);
    this.#ends.push(() => clearInterval(timer));
  }

  async #keepConfig(): Promise<void> {
    if (this.#lastGood) return;
    await this.#options
      .inForce(this.#config)
      .catch((error: Error) => this.#log.log('warn', 'configuration-not-kept', { reason: error.message }));
  }

  async #reload(): Promise<void> {
    if (this.#stopping !== undefined) return;
    let config: Config;
    try {
      config = await this.#options.reload();
    } catch (error) {
      this.#reloads.refused++;
      this.#configError = (error as Error).message;
      this.#log.log('error', 'reload-refused', {
        reason: this.#configError,
        running: 'the configuration in force stays',
      });
      return;
    }
    const fixed = ['stateDir', 'runDir', 'workers', 'transport', 'tcp'] as const;
    const needRestart = fixed.filter((key) => JSON.stringify(config[key]) !== JSON.stringify(this.#config[key]));
    if (needRestart.length > 0) this.#log.log('warn', 'reload-needs-restart', { keys: needRestart });
    this.#config = { ...config, ...Object.fromEntries(fixed.map((key) => [key, this.#config[key]])) };
    this.#configError = undefined;
    this.#lastGood = false;
    this.#log.setLevel(config.log.level);
    this.#forward.reload(this.#config);
    this.#server.setForward(this.#handedOver.settings());
    await this.#server.setListen(config.listen);
    await this.#admin?.setAdmin(config.admin);
    if (this.#stopping !== undefined) return;
    // Sockets take their time; what is judged from here on is judged by the clock as it is then.
    this.#reports.flush();
    const now = this.#enter();
    this.#resolver.reload(this.#config, now);
    this.#server.setForward(this.#handedOver.settings());
    this.#snapshots.load(this.#config.stateDir, this.#config.zones, now);
    this.#putDeferred();
    this.#sync.reload(this.#syncZones());
    this.#prober.setTargets(this.#resolver.targets());
    this.#reloads.done++;
    this.#log.log('info', 'reloaded', { zones: config.zones.map((zone) => zone.name) });
    this.#leave(now);
    await this.#keepConfig();
  }

  async #stop(signal: NodeJS.Signals): Promise<number> {
    this.#log.log('info', 'stopping', { signal });
    this.#notice.stopping();
    // A disk or a thread that hangs may not keep the process: what is left then is nothing that was not saved before.
    const last = setTimeout(() => process.kill(process.pid, 'SIGKILL'), STOP_MS);
    last.unref();
    clearTimeout(this.#wake);
    for (const end of this.#ends.splice(0)) void end();
    const served = this.#server.stop();
    while (this.#saveSome(true));
    const written = await this.#sync.flush(FLUSH_MS);
    if (!written) this.#log.log('warn', 'snapshot-incomplete', {});
    // What is still being opened would stay open behind us.
    await Promise.allSettled(this.#opening);
    await Promise.all([served, this.#prober.stop(), this.#admin?.stop()]);
    this.stuck = !(await this.#sync.stop());
    clearTimeout(last);
    this.#log.log('info', 'stopped', {});
    return OK;
  }
}
