/**
 * TCP probes that only ask whether a connection is taken, over native sockets. What wants a greeting or a farewell, or
 * has an address with a scope, goes over node:net (tcp.ts), and so does everything where there are no native sockets.
 */
import type { Ms } from '../../system/clock.js';
import { errorName } from '../../system/libc.js';
import type { Target } from '../feed.js';
import { type Asker, type Begin, local, type Outcome, PASS, RETRY_AT, STOPPED, timedOut } from './attempt.js';
import { classify } from './classify.js';
import { isGivenOut, MET_ITSELF } from './connection.js';
import { loadNativeCalls, type NativeCalls, NativeSockets, UNDER_WAY } from './native-sockets.js';
import { probeTcp, taken } from './tcp.js';

/**
 * So long a connection is young. Most are there at once, or on a LAN at the second look; of the others it is known when
 * they came as exactly as a look takes of their age.
 */
const YOUNG_MS: Ms = 20;
const LOOK_MS: Ms = 1;
const LOOK_SHARE = 1 / 3;
/** Older ones, and deadlines, are looked at so often. */
const SLOW_LOOK_MS: Ms = 10;
const MAX_ID = 0x7fffffff;

interface Attempt {
  readonly target: Target;
  readonly signal: AbortSignal;
  readonly asker: Asker;
  connections: readonly Connection[];
  /** Once it is settled. */
  outcome: Outcome | undefined;
  readonly begun: Ms;
  readonly youngUntil: Ms;
  /** How many of RETRY_AT are past, and when the next one is, or the deadline. */
  step: number;
  due: Ms;
}

const NO_CONNECTIONS: readonly Connection[] = [];

interface Connection {
  readonly fd: number;
  /** Never used again, as descriptors are. */
  readonly id: number;
  readonly attempt: Attempt;
}

export class NativeTcp {
  readonly #onFailure: (reason: string) => void;
  #sockets: NativeSockets | undefined;
  /** Why probes go over node:net, if they do. */
  unusedFor: string | undefined;
  #lastId = 0;
  #young: Connection[] = [];
  /** A look in this turn of the event loop, at those begun in it. */
  #glance: NodeJS.Immediate | undefined;
  /** Those that are not young any more, by their id. */
  readonly #watched = new Map<number, Connection>();
  /** Those whose outcome is not told yet. */
  #settled: Attempt[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sweepAt: Ms = 0;

  /** @param onFailure is told, once, why probes go over node:net from now on, if they do */
  constructor(onFailure: (reason: string) => void, calls: NativeCalls | string = loadNativeCalls()) {
    this.#onFailure = onFailure;
    this.#guarded(() => {
      if (typeof calls === 'string') throw new Error(calls);
      this.#sockets = new NativeSockets(calls);
    });
  }

  readonly begin: Begin = (target, signal, asker) => {
    const sockets = this.#sockets;
    if (sockets === undefined || signal.aborted || !isPlain(target)) {
      void probeTcp(target, signal, asker).then((outcome) => asker.ended(outcome));
      return;
    }
    const begun = performance.now();
    const first = target.timeout * RETRY_AT[0]!;
    const attempt: Attempt = {
      target,
      signal,
      asker,
      connections: NO_CONNECTIONS,
      outcome: undefined,
      begun,
      youngUntil: begun + Math.min(YOUNG_MS, first),
      step: 0,
      due: begun + first,
    };
    const connection = this.#open(sockets, attempt);
    if (connection === undefined) return;
    this.#young.push(connection);
    this.#glance ??= setImmediate(() => this.#guarded(() => this.#look(sockets)));
  };

  /** Others need the descriptors that are kept for connections to come. */
  rest(): void {
    this.#sockets?.rest();
  }

  /** Ends what is under way. Later probes go over node:net. */
  close(): void {
    const sockets = this.#sockets;
    if (sockets !== undefined) this.#end(sockets, STOPPED);
  }

  /** Undefined when that has settled the attempt. */
  #open(sockets: NativeSockets, attempt: Attempt): Connection | undefined {
    const { address, port, source } = attempt.target;
    const fd = sockets.connect(address, port, source);
    if (fd < 0) {
      this.#settle(sockets, attempt, fault(-fd, address));
      return undefined;
    }
    this.#lastId = (this.#lastId + 1) & MAX_ID;
    const connection = { fd, id: this.#lastId, attempt };
    const { connections } = attempt;
    attempt.connections = connections.length === 0 ? [connection] : [...connections, connection];
    return connection;
  }

  /** Deadlines are judged last: an answer that is already here wins, however late this looks. */
  #look(sockets: NativeSockets): void {
    clearImmediate(this.#glance);
    clearTimeout(this.#timer);
    this.#glance = undefined;
    this.#lookAtYoung(sockets);
    if (this.#watched.size > 0) {
      sockets.news((id, bits) => {
        const connection = this.#watched.get(id);
        if (connection !== undefined) this.#judge(sockets, connection, sockets.stateOf(connection.fd, bits));
      });
      this.#sweep(sockets, performance.now());
    }
    if (this.#young.length + this.#watched.size === 0) return;
    const youngest = this.#young.at(-1);
    const age = youngest === undefined ? Number.POSITIVE_INFINITY : performance.now() - youngest.attempt.begun;
    const wait = Math.min(SLOW_LOOK_MS, Math.max(LOOK_MS, age * LOOK_SHARE));
    this.#timer = setTimeout(() => this.#guarded(() => this.#look(sockets)), wait);
  }

  #lookAtYoung(sockets: NativeSockets): void {
    const young = this.#young;
    if (young.length === 0) return;
    const now = performance.now();
    const left: Connection[] = [];
    const fds = young.map(({ fd }) => fd);
    sockets.look(fds, (place, state) => {
      const connection = young[place]!;
      if (state !== UNDER_WAY) this.#judge(sockets, connection, state);
      else if (now < connection.attempt.youngUntil) left.push(connection);
      else this.#watch(sockets, connection);
    });
    this.#young = left;
  }

  #judge(sockets: NativeSockets, connection: Connection, state: number): void {
    const { fd, attempt } = connection;
    const { address, port } = attempt.target;
    if (state === UNDER_WAY) return;
    if (state !== 0) this.#settle(sockets, attempt, fault(state, address), connection);
    else if (isGivenOut(port) && sockets.metItself(fd, address, port))
      this.#settle(sockets, attempt, MET_ITSELF, connection);
    else this.#settle(sockets, attempt, PASS, connection);
  }

  #watch(sockets: NativeSockets, connection: Connection): void {
    sockets.watch(connection.fd, connection.id);
    this.#watched.set(connection.id, connection);
  }

  #sweep(sockets: NativeSockets, now: Ms): void {
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + SLOW_LOOK_MS;
    for (const { attempt } of this.#watched.values()) {
      if (attempt.signal.aborted) this.#settle(sockets, attempt, STOPPED);
      else if (now < attempt.due) continue;
      else if (attempt.step === RETRY_AT.length) this.#settle(sockets, attempt, timedOut(attempt.target.timeout));
      else this.#tryAgain(sockets, attempt, now);
    }
  }

  #tryAgain(sockets: NativeSockets, attempt: Attempt, now: Ms): void {
    const { timeout } = attempt.target;
    const at = RETRY_AT[attempt.step++]!;
    const next = RETRY_AT[attempt.step] ?? 1;
    // What begins late has some time all the same.
    attempt.due = Math.max(attempt.begun + timeout * next, now + (timeout * (next - at)) / 2);
    if (!attempt.asker.more(attempt.connections.length)) return;
    const another = this.#open(sockets, attempt);
    if (another !== undefined) this.#watch(sockets, another);
  }

  /** @param done the connection that has told it; nobody answered the others */
  #settle(sockets: NativeSockets, attempt: Attempt, outcome: Outcome, done?: Connection): void {
    if (attempt.outcome !== undefined) return;
    attempt.outcome = outcome;
    const { address, source } = attempt.target;
    const { connections } = attempt;
    attempt.connections = NO_CONNECTIONS;
    for (const connection of connections) {
      const wasWatched = this.#watched.size > 0 && this.#watched.delete(connection.id);
      if (connection !== done) attempt.asker.unanswered();
      if (outcome === PASS && connection === done && !wasWatched) sockets.reset(connection.fd, address, source);
      else sockets.close(connection.fd);
    }
    this.#tellSoon(attempt);
  }

  /** Not while connections are looked at: whoever hears it may begin others. */
  #tell(): void {
    const settled = this.#settled;
    this.#settled = [];
    let told = 0;
    try {
      while (told < settled.length) {
        const { asker, outcome } = settled[told++]!;
        asker.ended(outcome!);
      }
    } finally {
      // A fault in who hears one is no fault of the others.
      for (; told < settled.length; told++) this.#tellSoon(settled[told]!);
    }
  }

  #tellSoon(attempt: Attempt): void {
    if (this.#settled.push(attempt) === 1) queueMicrotask(() => this.#tell());
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#sockets !== undefined) this.#end(this.#sockets, local(reason));
      this.unusedFor = reason;
      this.#onFailure(reason);
    }
  }

  #end(sockets: NativeSockets, outcome: Outcome): void {
    this.#sockets = undefined;
    clearImmediate(this.#glance);
    clearTimeout(this.#timer);
    for (const { attempt } of [...this.#young, ...this.#watched.values()]) this.#settle(sockets, attempt, outcome);
    this.#young = [];
    sockets.end();
  }
}

function isPlain({ address, port, source, expect, farewell }: Target): boolean {
  const hasScope = address.includes('%') || source?.includes('%') === true;
  return expect === undefined && farewell === undefined && !hasScope && port > 0 && port <= 65_535;
}

function fault(errno: number, address: string): Outcome {
  return taken(classify({ code: errorName(errno), syscall: 'connect' }, address));
}
