/**
 * The control thread's side of the transports: it starts the answer threads, tells them which addresses to
 * listen on and which table to read, restarts one that dies, and reports. It answers nothing itself, so a busy
 * control thread delays no answer.
 */
import { closeSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import type { SharedTable } from '../answers/shared.js';
import type { AnswerTable } from '../answers/table.js';
import type { ListenAddress } from '../config/types.js';
import { AnswerThread, type CreateWorker } from './answer-thread.js';
import { Backoff } from './backoff.js';
import { CrashMarker, PROOF_MS } from './crash-marker.js';
import { ListenBoard, type ListenerStatus } from './listen-board.js';
import { planSockets, type SocketPlan } from './listen-plan.js';
import type { FromThread, ListenMessage, StartMessage, TransportCounter, TriedMessage } from './messages.js';
import { TRANSPORT_COUNTERS } from './messages.js';
import { choosePorts } from './port-choice.js';
import { DEFAULT_TCP_LIMITS, type TcpLimits } from './tcp-limits.js';
import type { UdpWorkerData } from './udp-worker.js';

export type { ListenerStatus, TcpLimits };

/** One line a state change, with a stable event name. */
export type ServerLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  event: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

export interface AnswerServerOptions {
  readonly log: ServerLog;
  /** The transport that `start` will ask for, when it is known already: saves loading the other. */
  readonly transport?: AnswerSettings['transport'];
  /** How a thread is started; a test may look on. */
  readonly createWorker?: CreateWorker;
}

export interface AnswerSettings {
  readonly listen: readonly ListenAddress[];
  /** UDP answer threads; the portable transport always has one. */
  readonly workers: number;
  readonly transport: 'auto' | 'batched' | 'portable';
  /** Each answer thread is a reader of it. */
  readonly table: Pick<AnswerTable, 'share' | 'addReader' | 'removeReader'>;
  /** Where `auto` remembers starts that ended in a signal. Absent: it remembers none. */
  readonly stateDir?: string;
  /** Largest UDP answer in bytes; 1232 when absent. */
  readonly maxUdp?: number;
  /** Largest TCP answer in bytes; 65535 when absent. */
  readonly tcpMax?: number;
  readonly tcp?: Partial<TcpLimits>;
}

/** No listen address could be bound (R35). The message says why for each, who holds it and what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

const RETRY_FIRST_MS = 250;
const RETRY_LONGEST_MS = 10_000;
const RESPAWN_FIRST_MS = 50;
const RESPAWN_LONGEST_MS = 5_000;
/** A thread that lived so long is started again at once. */
const RESPAWN_CALM_MS = 10_000;

/** Deaths during the start after which it has failed. */
const START_DEATHS = 5;

interface Wait {
  readonly sequence: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

interface Reader {
  readonly thread: AnswerThread;
  readonly kind: 'udp' | 'tcp';
  /** Among the threads of its kind. */
  readonly index: number;
  /** Slot in the table; -1 while it has none. */
  slot: number;
  /** The last listen message that it has answered. */
  acknowledged: number;
  startedAt: number;
  readonly backoff: Backoff;
}

export class AnswerServer {
  readonly #log: ServerLog;
  readonly #create: CreateWorker;
  /** Whether UDP threads load the native calls as they start. */
  #native: boolean;
  #udp: Reader[];
  readonly #tcp: Reader;
  readonly #board: ListenBoard;
  #settings: AnswerSettings | undefined;
  #listen: readonly ListenAddress[] = [];
  #plans: readonly SocketPlan[] = [];
  #sequence = 0;
  #transport: 'batched' | 'portable' | 'none' = 'none';
  #wanted: 'batched' | 'portable' = 'portable';
  /** Batched: bound sockets of a plan, one a UDP thread. They belong to this side and outlive the threads. */
  readonly #sockets = new Map<string, readonly number[]>();
  /** Sockets to close once no thread uses them any more. */
  #retired: { readonly fds: readonly number[]; readonly sequence: number }[] = [];
  #waiting: Wait[] = [];
  /** Changes to the listen addresses, one after the other. */
  #changes: Promise<void> = Promise.resolve();
  /** Counters of threads that are gone for good. */
  readonly #past: AnswerThread[] = [];
  readonly #totals = new Map<Uint32Array, { last: Uint32Array; total: number[] }>();
  #retry: NodeJS.Timeout | undefined;
  readonly #retryBackoff = new Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS);
  #proof: NodeJS.Timeout | undefined;
  #marker: CrashMarker | undefined;
  #restarts = 0;
  #stopped: Promise<void> | undefined;

  /** Starts the first threads at once, so that they load while the caller reads its configuration. They do not keep the process alive before `start`. */
  constructor(options: AnswerServerOptions) {
    this.#log = options.log;
    this.#create = options.createWorker ?? ((file, workerOptions) => new Worker(file, workerOptions));
    this.#native = process.platform === 'linux' && options.transport !== 'portable';
    this.#board = new ListenBoard(options.log);
    this.#udp = [this.#reader('udp', 0)];
    this.#tcp = this.#reader('tcp', 0);
    for (const { thread } of [this.#tcp, ...this.#udp]) thread.spawn();
    process.on('exit', this.#atExit);
  }

  /** What answers UDP at present. */
  get transport(): 'batched' | 'portable' | 'none' {
    return this.#transport;
  }

  /** Deaths of answer threads since the start. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Resolves when each address has been tried; those that could not be bound are retried. Throws ListenError when none could. Once. */
  async start(settings: AnswerSettings): Promise<void> {
    this.#settings = settings;
    this.#wanted = this.#chooseTransport(settings);
    this.#native = this.#wanted === 'batched';
    this.#listen = await choosePorts(settings.listen, this.#listen);
    this.#plans = planSockets(this.#listen);
    const tried = this.#nextSequence();
    if (this.#wanted === 'batched')
      for (let i = 1; i < settings.workers; i++) {
        const reader = this.#reader('udp', i);
        reader.thread.spawn();
        this.#udp.push(reader);
      }
    for (const reader of this.#readers()) this.#startReader(reader);
    await tried.catch(async (error: unknown) => {
      await this.stop();
      throw error;
    });
    if (this.#plans.some((plan) => this.#board.bound(plan.key))) return;
    const reasons = await this.#board.reasons();
    await this.stop();
    throw new ListenError(
      reasons.length === 1 ? `cannot listen: ${reasons[0]}` : `cannot listen:\n  ${reasons.join('\n  ')}`,
    );
  }

  /** The table moved or its zones changed: every thread takes the new handle. */
  update(handle: SharedTable): void {
    for (const { thread, slot } of this.#readers()) if (slot >= 0) thread.post({ type: 'table', handle });
  }

  /** After `start`. Resolves when each new address has been tried. Listeners of addresses that stay are not touched. */
  setListen(listen: readonly ListenAddress[]): Promise<void> {
    this.#changes = this.#changes.then(async () => {
      const chosen = await choosePorts(listen, this.#listen);
      const plans = planSockets(chosen);
      const kept = plans.filter((plan) => this.#plans.some((old) => old.key === plan.key));
      // What goes is closed first: a wildcard stands in the way of the concrete address that takes its place.
      if (kept.length < this.#plans.length) await this.#apply(kept);
      this.#listen = chosen;
      this.#retryBackoff.reset();
      await this.#apply(plans);
    });
    return this.#changes;
  }

  #apply(plans: readonly SocketPlan[]): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#plans = plans;
    const tried = this.#nextSequence();
    this.#sendListen();
    return tried;
  }

  /** Two entries a listen address, UDP and TCP. */
  listeners(): ListenerStatus[] {
    return this.#board.status(this.#listen, this.#plans);
  }

  /** One array a reader, past and present, to be read and summed by counters.ts. */
  counters(): readonly Uint32Array[] {
    return this.#threads().map((thread) => thread.counters);
  }

  /** Sums since the start. To be read once an hour at least: the words of a thread wrap. */
  transportCounters(): Record<TransportCounter, number> {
    const sums = TRANSPORT_COUNTERS.map(() => 0);
    for (const { transportCounters: words } of this.#threads()) {
      const known = this.#totals.get(words) ?? { last: new Uint32Array(words.length), total: sums.map(() => 0) };
      this.#totals.set(words, known);
      words.forEach((word, i) => {
        known.total[i]! += (word - known.last[i]!) >>> 0;
        known.last[i] = word;
        sums[i]! += known.total[i]!;
      });
    }
    return Object.fromEntries(TRANSPORT_COUNTERS.map((name, i) => [name, sums[i]!])) as Record<
      TransportCounter,
      number
    >;
  }

  /** Stops accepting, answers what is in flight for up to one second, closes. Safe to call at any time. */
  stop(): Promise<void> {
    this.#stopped ??= (async () => {
      clearTimeout(this.#retry);
      clearTimeout(this.#proof);
      await Promise.all([...this.#readers()].map(({ thread }) => thread.stop()));
      for (const reader of this.#readers()) this.#leaveTable(reader);
      this.#closeSockets();
      this.#transport = 'none';
      process.off('exit', this.#atExit);
      this.#marker?.clear();
      this.#settle();
    })();
    return this.#stopped;
  }

  readonly #atExit = (): void => {
    for (const { thread } of this.#readers()) thread.flagStop();
    this.#marker?.clear();
  };

  *#readers(): Generator<Reader> {
    yield* this.#udp;
    yield this.#tcp;
  }

  #threads(): AnswerThread[] {
    return [...this.#past, ...[...this.#readers()].map((reader) => reader.thread)];
  }

  #reader(kind: 'udp' | 'tcp', index: number): Reader {
    const file =
      kind === 'udp' ? new URL('./udp-worker.js', import.meta.url) : new URL('./tcp-worker.js', import.meta.url);
    const data: UdpWorkerData = { native: this.#native };
    const thread = new AnswerThread(kind === 'udp' ? `udp-${index}` : 'tcp', file, data, this.#create, {
      message: (message) => this.#heard(reader, message),
      died: (error) => this.#died(reader, error),
    });
    const reader: Reader = {
      thread,
      kind,
      index,
      slot: -1,
      acknowledged: 0,
      startedAt: performance.now(),
      backoff: new Backoff(RESPAWN_FIRST_MS, RESPAWN_LONGEST_MS),
    };
    return reader;
  }

  #chooseTransport(settings: AnswerSettings): 'batched' | 'portable' {
    if (settings.transport !== 'auto') return settings.transport;
    if (process.platform !== 'linux') return 'portable';
    if (settings.stateDir === undefined) return 'batched';
    const marker = new CrashMarker(settings.stateDir);
    if (!marker.begin(Date.now())) {
      this.#log('warn', 'transport-avoided', {
        message: `the last two starts with the batched transport were ended by a signal within a minute: using the portable one (remove ${marker.file} to try again)`,
      });
      return 'portable';
    }
    this.#marker = marker;
    this.#proof = setTimeout(() => marker.clear(), PROOF_MS);
    this.#proof.unref();
    return 'batched';
  }

  #startReader(reader: Reader): void {
    const settings = this.#settings!;
    reader.slot = settings.table.addReader();
    reader.startedAt = performance.now();
    const message: StartMessage = {
      type: 'start',
      handle: settings.table.share(),
      counters: reader.thread.counters,
      transportCounters: reader.thread.transportCounters,
      control: reader.thread.control,
      responder: {
        maxUdp: settings.maxUdp ?? 1232,
        tcpMax: settings.tcpMax ?? 65_535,
        reader: reader.slot,
        seed: (Math.random() * 2 ** 32) >>> 0,
      },
      transport: this.#wanted,
      tcp: { ...DEFAULT_TCP_LIMITS, ...settings.tcp },
      listen: this.#listenMessage(reader),
    };
    reader.thread.ref();
    reader.thread.post(message);
  }

  /** The first UDP thread binds for all: an address in use is then found before any other socket shares its port. */
  #listenMessage(reader: Reader): ListenMessage {
    const bound: Record<string, number> = {};
    if (reader.kind === 'udp')
      for (const [key, fds] of this.#sockets) if (fds[reader.index] !== undefined) bound[key] = fds[reader.index]!;
    const bind = reader.kind === 'udp' && reader.index === 0 ? this.#udp.length : 0;
    return { type: 'listen', sequence: this.#sequence, plans: this.#plans, bound, bind };
  }

  #sendListen(): void {
    for (const reader of this.#readers()) if (reader.slot >= 0) reader.thread.post(this.#listenMessage(reader));
  }

  /** Resolves when the threads have answered the listen message that comes next. */
  #nextSequence(): Promise<void> {
    const sequence = ++this.#sequence;
    return new Promise((resolve, reject) => this.#waiting.push({ sequence, resolve, reject }));
  }

  #heard(reader: Reader, message: FromThread): void {
    switch (message.type) {
      case 'tried':
        this.#tried(reader, message);
        break;
      case 'transport':
        this.#transport = message.transport;
        if (message.reason !== undefined) this.#fellBack(message.reason);
        break;
      case 'unusable':
        void this.#abandonBatched(message.reason);
        break;
      case 'log':
        this.#log(message.level, message.event, message.fields);
        break;
    }
  }

  #tried(reader: Reader, message: TriedMessage): void {
    reader.acknowledged = message.sequence;
    let news = false;
    for (const { key, failure, fds } of message.results) {
      if (fds) {
        this.#sockets.set(key, fds);
        news = true;
      }
      if (reader.index === 0) this.#board.set(key, reader.kind, failure);
    }
    this.#retireSockets();
    this.#board.report(this.#plans);
    if (news && this.#udp.length > 1) {
      this.#sequence++;
      this.#sendListen();
    }
    this.#settle();
    this.#scheduleRetry();
  }

  /** Closes sockets that every thread has let go, and ends the waits for it. */
  #settle(): void {
    // The threads that bind must have answered, others only while they live.
    const answered = [...this.#readers()].filter((reader) => reader.index === 0 || reader.slot >= 0);
    const sequence = this.#stopped ? Number.POSITIVE_INFINITY : Math.min(...answered.map((r) => r.acknowledged));
    this.#retired = this.#retired.filter((retired) => {
      if (retired.sequence > sequence) return true;
      retired.fds.forEach(closeQuietly);
      return false;
    });
    this.#waiting = this.#waiting.filter((wait) => {
      if (wait.sequence > sequence) return true;
      wait.resolve();
      return false;
    });
  }

  #retireSockets(): void {
    for (const [key, fds] of this.#sockets) {
      if (this.#plans.some((plan) => plan.key === key)) continue;
      this.#sockets.delete(key);
      this.#retired.push({ fds, sequence: this.#sequence });
    }
  }

  #closeSockets(): void {
    for (const fds of [...this.#sockets.values(), ...this.#retired.map((r) => r.fds)]) fds.forEach(closeQuietly);
    this.#sockets.clear();
    this.#retired = [];
  }

  #scheduleRetry(): void {
    if (this.#stopped || this.#retry) return;
    if (!this.#plans.some((plan) => this.#board.failed(plan.key))) {
      this.#retryBackoff.reset();
      return;
    }
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#sequence++;
      this.#sendListen();
    }, this.#retryBackoff.next());
  }

  #died(reader: Reader, error: unknown): void {
    this.#restarts++;
    this.#leaveTable(reader);
    const calm = performance.now() - reader.startedAt > RESPAWN_CALM_MS;
    if (calm) reader.backoff.reset();
    this.#log('error', 'answer-thread-died', {
      thread: reader.thread.name,
      error: error instanceof Error ? (error.stack ?? error.message) : String(error),
    });
    if (this.#restarts >= START_DEATHS && this.#transport === 'none')
      for (const wait of this.#waiting.splice(0)) wait.reject(new Error(`answer threads die as they start: ${error}`));
    this.#settle();
    const again = (): void => {
      if (this.#stopped) return;
      reader.thread.spawn();
      if (this.#settings) this.#startReader(reader);
    };
    const wait = reader.backoff.next();
    // The first death in a while is made good at once.
    if (wait === RESPAWN_FIRST_MS) again();
    else setTimeout(again, wait);
  }

  #leaveTable(reader: Reader): void {
    if (reader.slot >= 0) this.#settings?.table.removeReader(reader.slot);
    reader.slot = -1;
  }

  #fellBack(reason: string): void {
    this.#wanted = 'portable';
    this.#native = false;
    this.#log('warn', 'transport-portable', {
      message: `batched UDP is not to be had here, using node:dgram: ${reason}`,
    });
    void this.#dropUdp(this.#udp.splice(1));
  }

  /** A native call failed for good: the portable transport takes over the addresses. */
  async #abandonBatched(reason: string): Promise<void> {
    if (this.#wanted === 'portable') return;
    this.#wanted = 'portable';
    this.#native = false;
    this.#transport = 'none';
    this.#log('warn', 'transport-portable', { message: `batched UDP failed, using node:dgram: ${reason}` });
    const old = this.#udp;
    this.#udp = [this.#reader('udp', 0)];
    this.#udp[0]!.thread.spawn();
    await this.#dropUdp(old);
    this.#closeSockets();
    if (!this.#stopped) this.#startReader(this.#udp[0]!);
  }

  async #dropUdp(readers: readonly Reader[]): Promise<void> {
    await Promise.all(readers.map(({ thread }) => thread.stop()));
    for (const reader of readers) {
      this.#leaveTable(reader);
      this.#past.push(reader.thread);
    }
  }
}

function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // EBADF: it is closed, which was wanted.
  }
}
