/**
 * The control thread's side of the transports: it starts the answer threads, tells them which addresses to
 * listen on and which table to read, restarts one that dies, and reports. It answers nothing itself, so a busy
 * control thread delays no answer.
 */
import type { SharedTable } from '../answers/shared.js';
import type { ListenAddress } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import { AnswerThread, type AnswerThreadEvents } from './answer-thread.js';
import { AnswerWorkers } from './answer-workers.js';
import { Backoff } from './backoff.js';
import { BoundSockets } from './bound-sockets.js';
import { ForeignQuestions } from './foreign-questions.js';
import { InheritedSockets } from './inherited-sockets.js';
import type { KeptAnswer } from './kept-answers.js';
import { ListenBoard, type ListenerStatus } from './listen-board.js';
import { hostPort, planSockets, type SocketPlan } from './listen-plan.js';
import { ListenRounds } from './listen-rounds.js';
import type { FromThread, ListenMessage, StartMessage, ToThread, TriedMessage } from './messages.js';
import { choosePorts } from './port-choice.js';
import {
  type AnswerServerOptions,
  type AnswerSettings,
  type ForwardSettings,
  ListenError,
  type ServerLog,
} from './settings.js';
import { type TcpLimits, tcpLimits } from './tcp-limits.js';
import { errorText } from './thread-reports.js';
import { TransportChoice } from './transport-choice.js';
import { TransportTotalizer, type TransportTotals } from './transport-totals.js';

export type { AnswerForeign, ForeignQuestion, ReplyForeign } from './handover-desk.js';
export type { AnswerServerOptions, AnswerSettings, ForwardSettings, ServerLog } from './settings.js';
export { ListenError } from './settings.js';
export type { TransportTotals } from './transport-totals.js';
export type { ListenerStatus, TcpLimits };

const MAX_UDP = 1_232;
const RETRY_FIRST_MS = 250;
const RETRY_LONGEST_MS = 10_000;
/** Deaths during the start after which it has failed. */
const START_DEATHS = 5;
/** Threads turn once a second at least. */
const SILENT_MS: Ms = 5_000;

export class AnswerServer {
  readonly #log: ServerLog;
  readonly #workers: AnswerWorkers;
  #udp: AnswerThread[];
  /** From `start` on: until then it would only take time from what the first answer waits for. */
  #tcp: AnswerThread | undefined;
  readonly #board: ListenBoard;
  #settings: AnswerSettings | undefined;
  #listen: readonly ListenAddress[] = [];
  #plans: readonly SocketPlan[] = [];
  #tcpLimits = tcpLimits({}, Number.POSITIVE_INFINITY);
  readonly #rounds = new ListenRounds();
  #transport: 'batched' | 'portable' | 'none' = 'none';
  #wanted: 'batched' | 'portable' = 'portable';
  #portableReason: string | undefined;
  readonly #sockets = new BoundSockets();
  readonly #inherited: InheritedSockets;
  readonly #foreign = new ForeignQuestions({
    descriptor: (thread, key) => this.#sockets.of(thread.index, key),
    maxUdp: () => this.#settings?.maxUdp ?? MAX_UDP,
    threads: () => this.#threads().filter((thread) => thread.reader >= 0),
  });
  /** Changes to the listen addresses, one after the other. */
  #changes: Promise<void> = Promise.resolve();
  /** Counters of threads that are gone for good. */
  readonly #past: AnswerThread[] = [];
  readonly #totals = new TransportTotalizer();
  #retry: NodeJS.Timeout | undefined;
  readonly #retryBackoff = new Backoff(RETRY_FIRST_MS, RETRY_LONGEST_MS);
  #choice: TransportChoice | undefined;
  #restarts = 0;
  readonly #events: AnswerThreadEvents = {
    message: (thread, message) => this.#heard(thread, message),
    died: (thread, error, next) => this.#died(thread, error, next),
    again: (thread) => {
      if (this.#settings) this.#startThread(thread);
    },
  };
  #stopped: Promise<void> | undefined;

  /** Starts the first UDP thread at once, so that it loads while the caller reads its configuration. It does not keep the process alive before `start`. */
  constructor(options: AnswerServerOptions) {
    this.#log = options.log;
    const native = process.platform === 'linux' && options.transport !== 'portable';
    this.#workers = new AnswerWorkers(options, native);
    this.#board = new ListenBoard(options.log);
    this.#inherited = new InheritedSockets(options.inherited);
    this.#udp = [this.#thread('udp', 0)];
    process.on('exit', this.#atExit);
  }

  /** What answers UDP at present. */
  get transport(): 'batched' | 'portable' | 'none' {
    return this.#transport;
  }

  /** Why UDP is answered by the portable transport; undefined while it is not. */
  get portableReason(): string | undefined {
    return this.#transport === 'portable' ? this.#portableReason : undefined;
  }

  /** Deaths of answer threads since the start. */
  get restarts(): number {
    return this.#restarts;
  }

  /** Resolves when each address has been tried; those that could not be bound are retried. Throws ListenError when none could. Once. */
  async start(settings: AnswerSettings): Promise<void> {
    this.#settings = settings;
    this.#foreign.set(settings.forward);
    this.#choice = new TransportChoice(settings, this.#log);
    this.#wanted = this.#choice.wanted;
    this.#portableReason = this.#choice.reason;
    this.#workers.native = this.#wanted === 'batched';
    this.#tcpLimits = tcpLimits(settings.tcp ?? {});
    this.#listen = await choosePorts(settings.listen, this.#listen);
    this.#plans = planSockets(this.#listen);
    this.#rounds.next();
    if (this.#wanted === 'batched') for (let i = 1; i < settings.workers; i++) this.#udp.push(this.#thread('udp', i));
    for (const thread of this.#threads()) this.#startThread(thread);
    // To make a thread takes a while, in which UDP may answer already.
    this.#tcp = this.#thread('tcp', 0);
    this.#startThread(this.#tcp);
    await this.#rounds.answered().catch(async (error: unknown) => {
      await this.stop();
      throw error;
    });
    if (this.#plans.some((plan) => this.#board.bound(plan.key))) {
      this.#workers.keepSpare();
      return;
    }
    const reasons = await this.#board.reasons();
    await this.stop();
    throw new ListenError(
      reasons.length === 1 ? `cannot listen: ${reasons[0]}` : `cannot listen:\n  ${reasons.join('\n  ')}`,
    );
  }

  /** The table moved or its zones changed: every thread takes the new handle. */
  update(handle: SharedTable): void {
    for (const thread of this.#threads()) if (thread.reader >= 0) thread.post({ type: 'table', handle });
  }

  /** After `start`: who may ask for names that no zone owns, and who answers; undefined: they are REFUSED. */
  setForward(forward: ForwardSettings | undefined): void {
    this.#foreign.set(forward);
    const { allowed, outages } = this.#foreign;
    const message: ToThread = { type: 'forward', forward: allowed, outages };
    for (const thread of this.#threads()) if (thread.reader >= 0) thread.post(message);
  }

  /** Upstreams' answers that the threads may give again by themselves, in place of those that they have. */
  keep(answers: readonly KeptAnswer[]): void {
    this.#foreign.keep(answers);
  }

  /** After `start`. Resolves when each new address has been tried. Listeners of addresses that stay are not touched. */
  setListen(listen: readonly ListenAddress[]): Promise<void> {
    const done = this.#changes.then(async () => {
      const chosen = await choosePorts(listen, this.#listen);
      const plans = planSockets(chosen);
      const kept = plans.filter((plan) => this.#plans.some((old) => old.key === plan.key));
      // What goes is closed first: a wildcard stands in the way of the concrete address that takes its place.
      if (kept.length < this.#plans.length) await this.#apply(kept);
      this.#listen = chosen;
      this.#retryBackoff.reset();
      await this.#apply(plans);
    });
    // One that failed has told its caller; the next one is not held up.
    this.#changes = done.catch(() => undefined);
    return done;
  }

  #apply(plans: readonly SocketPlan[]): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    this.#plans = plans;
    this.#sendListen();
    return this.#rounds.answered();
  }

  /** Inherited sockets that no listen address has, as `udp 127.0.0.1:53`. */
  unused(): string[] {
    return this.#inherited
      .unused(this.#plans)
      .map(({ protocol, address, port }) => `${protocol} ${hostPort(address, port)}`);
  }

  /** Threads that have not turned for seconds. To be asked often: what nobody looked at has not been seen. */
  silent(now: Ms = performance.now()): string[] {
    return this.#threads()
      .filter((thread) => thread.stillFor(now) > SILENT_MS)
      .map((thread) => thread.name);
  }

  /** Two entries a listen address, UDP and TCP. */
  listeners(): ListenerStatus[] {
    return this.#board.status(this.#listen, this.#plans);
  }

  /** One array a reader, past and present, to be read and summed by counters.ts. */
  counters(): readonly Uint32Array[] {
    return [...[...this.#past, ...this.#threads()].map((thread) => thread.counters), this.#foreign.counters];
  }

  /** Sums since the start. To be read once an hour at least: the words of a thread wrap. */
  transportCounters(): TransportTotals {
    const totals = this.#totals.read([...this.#past, ...this.#threads()].map((thread) => thread.transportCounters));
    return { ...totals, sendErrors: totals.sendErrors + this.#foreign.sendErrors };
  }

  /** Stops accepting, answers what is in flight for up to one second, closes. Safe to call at any time. */
  stop(): Promise<void> {
    this.#stopped ??= (async () => {
      clearTimeout(this.#retry);
      await Promise.all([this.#workers, ...this.#threads()].map((stoppable) => stoppable.stop()));
      for (const thread of this.#threads()) this.#leaveTable(thread);
      this.#sockets.closeAll();
      this.#transport = 'none';
      process.off('exit', this.#atExit);
      this.#choice?.clear();
      this.#settle();
    })();
    return this.#stopped;
  }

  readonly #atExit = (): void => {
    for (const thread of this.#threads()) thread.flagStop();
    this.#choice?.clear();
  };

  #threads(): AnswerThread[] {
    return this.#tcp === undefined ? this.#udp : [...this.#udp, this.#tcp];
  }

  #thread(kind: 'udp' | 'tcp', index: number): AnswerThread {
    return new AnswerThread({ kind, index, workers: this.#workers, events: this.#events });
  }

  #startThread(thread: AnswerThread): void {
    const settings = this.#settings!;
    thread.reader = settings.table.addReader();
    const message: StartMessage = {
      type: 'start',
      handle: settings.table.share(),
      counters: thread.counters,
      transportCounters: thread.transportCounters,
      control: thread.control,
      handover: thread.handover,
      forward: this.#foreign.allowed,
      outages: this.#foreign.outages,
      responder: {
        maxUdp: settings.maxUdp ?? MAX_UDP,
        tcpMax: settings.tcpMax ?? 65_535,
        reader: thread.reader,
        seed: (Math.random() * 2 ** 32) >>> 0,
      },
      transport: this.#wanted,
      tcp: this.#tcpLimits,
      listen: this.#listenMessage(thread),
    };
    thread.ref();
    thread.post(message);
    // One that died may have handed over what it did not tell of.
    this.#foreign.wake(thread);
  }

  /** The first UDP thread binds for all: an address in use is then found before any other socket shares its port. */
  #listenMessage(thread: AnswerThread): ListenMessage {
    const udp = thread.kind === 'udp';
    return {
      type: 'listen',
      sequence: this.#rounds.current,
      plans: this.#plans,
      bound: udp ? this.#sockets.forThread(thread.index) : {},
      inherited: this.#inherited.forPlans(thread.kind, this.#plans),
      bind: udp && thread.index === 0 ? this.#udp.length : 0,
    };
  }

  #sendListen(): void {
    this.#rounds.next();
    for (const thread of this.#threads()) if (thread.reader >= 0) thread.post(this.#listenMessage(thread));
  }

  #heard(thread: AnswerThread, message: FromThread): void {
    // A thread that has been given up still says what it has to say.
    if (thread !== this.#tcp && !this.#udp.includes(thread)) return;
    switch (message.type) {
      case 'handed-over':
        this.#foreign.wake(thread);
        break;
      case 'tried':
        this.#tried(thread, message);
        break;
      case 'transport':
        if (thread.index > 0) break;
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

  #tried(thread: AnswerThread, message: TriedMessage): void {
    thread.acknowledged = message.sequence;
    let news = false;
    for (const { key, failure, fds } of message.results) {
      if (fds) {
        const inherited = this.#inherited.forPlans('udp', this.#plans)[key]?.fd;
        if (inherited !== undefined && inherited === fds[0]) this.#sockets.addInherited(key, inherited);
        else this.#sockets.add(key, fds);
        news = true;
      }
      if (thread.index === 0) this.#board.set(key, thread.kind, failure);
    }
    this.#sockets.retire(this.#plans, this.#rounds.current);
    this.#board.report(this.#plans);
    if (news && this.#udp.length > 1) this.#sendListen();
    this.#settle();
    this.#scheduleRetry();
  }

  /** Closes sockets that every thread has let go, and ends the waits for it. */
  #settle(): void {
    // The threads that bind must have answered, others only while they live.
    const answered = this.#threads().filter((thread) => thread.index === 0 || thread.reader >= 0);
    const round = this.#stopped ? Number.POSITIVE_INFINITY : Math.min(...answered.map((thread) => thread.acknowledged));
    this.#sockets.release(round);
    this.#rounds.settle(round);
  }

  #scheduleRetry(): void {
    if (this.#stopped || this.#retry) return;
    if (!this.#plans.some((plan) => this.#board.failed(plan.key))) {
      this.#retryBackoff.reset();
      return;
    }
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#sendListen();
    }, this.#retryBackoff.next());
  }

  #died(thread: AnswerThread, error: unknown, next: string): void {
    this.#restarts++;
    this.#leaveTable(thread);
    this.#log('error', 'answer-thread-died', { thread: thread.name, next, error: errorText(error) });
    if (this.#restarts >= START_DEATHS && this.#transport === 'none')
      this.#rounds.fail(new Error(`answer threads die as they start: ${error}`));
    this.#settle();
  }

  #leaveTable(thread: AnswerThread): void {
    if (thread.reader >= 0) this.#settings?.table.removeReader(thread.reader);
    thread.reader = -1;
  }

  #fellBack(reason: string): void {
    this.#wanted = 'portable';
    this.#portableReason = reason;
    this.#workers.native = false;
    this.#log('warn', 'transport-portable', {
      message: `batched UDP is not to be had here, using node:dgram: ${reason}`,
    });
    void this.#dropUdp(this.#udp.splice(1));
  }

  /** A native call failed for good: the portable transport takes over the addresses. */
  async #abandonBatched(reason: string): Promise<void> {
    if (this.#wanted === 'portable') return;
    this.#wanted = 'portable';
    this.#portableReason = `the batched one failed: ${reason}`;
    this.#workers.native = false;
    this.#transport = 'none';
    this.#log('warn', 'transport-portable', { message: `batched UDP failed, using node:dgram: ${reason}` });
    const old = this.#udp;
    const heir = this.#thread('udp', 0);
    this.#udp = [heir];
    await this.#dropUdp(old);
    this.#sockets.closeAll();
    if (!this.#stopped) this.#startThread(heir);
  }

  async #dropUdp(threads: readonly AnswerThread[]): Promise<void> {
    await Promise.all(threads.map((thread) => thread.stop()));
    for (const thread of threads) {
      this.#leaveTable(thread);
      this.#foreign.forget(thread);
      this.#past.push(thread);
    }
  }
}
