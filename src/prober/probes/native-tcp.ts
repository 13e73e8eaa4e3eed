/**
 * TCP probes that only ask whether a connection is taken, over native sockets. What wants a greeting or a farewell, or
 * has an address with a scope, goes over node:net (tcp.ts), and so does everything where there are no native sockets.
 */
import type { Ms } from '../../system/clock.js';
import { errorName } from '../../system/libc.js';
import type { Target } from '../feed.js';
import { local, type Outcome, PASS, type Probe, STOPPED, timedOut } from './attempt.js';
import { classify } from './classify.js';
import { isGivenOut, MET_ITSELF } from './connection.js';
import { loadNativeCalls, type NativeCalls, NativeSockets, UNDER_WAY } from './native-sockets.js';
import { probeTcp } from './tcp.js';

/** So long a connection is young: it is looked at so often. Most are there at once, or on a LAN at the second look. */
const YOUNG_MS: Ms = 20;
const LOOK_MS: Ms = 1;
/** Older ones, and deadlines, are looked at so often. */
const SLOW_LOOK_MS: Ms = 10;
const MAX_ID = 0x7fffffff;

interface Attempt {
  readonly target: Target;
  readonly signal: AbortSignal;
  readonly resolve: (outcome: Outcome) => void;
  readonly connections: Connection[];
  readonly youngUntil: Ms;
  /** When a second connection is due, and once there is one, when it is too late. */
  due: Ms;
}

interface Connection {
  readonly fd: number;
  /** Never used again, as descriptors are. */
  readonly id: number;
  readonly attempt: Attempt;
}

export class NativeTcp {
  readonly #onFailure: (reason: string) => void;
  #sockets: NativeSockets | undefined;
  #lastId = 0;
  #young: Connection[] = [];
  /** A look in this turn of the event loop, at those begun in it. */
  #glance: NodeJS.Immediate | undefined;
  /** Those that are not young any more, by their id. */
  readonly #watched = new Map<number, Connection>();
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

  readonly probe: Probe = (target, signal) => {
    const sockets = this.#sockets;
    if (sockets === undefined || signal.aborted || !isPlain(target)) return probeTcp(target, signal);
    return new Promise((resolve) => {
      const now = performance.now();
      const half = target.timeout / 2;
      const youngUntil = now + Math.min(YOUNG_MS, half);
      const attempt = { target, signal, resolve, connections: [], youngUntil, due: now + half };
      const connection = this.#open(sockets, attempt);
      if (connection === undefined) return;
      this.#young.push(connection);
      this.#glance ??= setImmediate(() => this.#guarded(() => this.#look(sockets)));
    });
  };

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
    attempt.connections.push(connection);
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
    const wait = this.#young.length > 0 ? LOOK_MS : SLOW_LOOK_MS;
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
    const { fd, id, attempt } = connection;
    const { address, port, source } = attempt.target;
    if (state === UNDER_WAY) return;
    if (state !== 0) this.#settle(sockets, attempt, fault(state, address));
    else if (isGivenOut(port) && sockets.metItself(fd, address, port)) this.#settle(sockets, attempt, MET_ITSELF);
    else {
      if (!this.#watched.has(id)) {
        attempt.connections.pop();
        sockets.reset(fd, address, source);
      }
      this.#settle(sockets, attempt, PASS);
    }
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
      else if (attempt.connections.length > 1) this.#settle(sockets, attempt, timedOut(attempt.target.timeout));
      else {
        // One lost packet is not sent again within the usual timeout: a second connection makes up for it.
        attempt.due = now + attempt.target.timeout / 2;
        const second = this.#open(sockets, attempt);
        if (second !== undefined) this.#watch(sockets, second);
      }
    }
  }

  #settle(sockets: NativeSockets, attempt: Attempt, outcome: Outcome): void {
    for (const { fd, id } of attempt.connections.splice(0)) {
      sockets.close(fd);
      this.#watched.delete(id);
    }
    attempt.resolve(outcome);
  }

  #guarded(work: () => void): void {
    try {
      work();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#sockets !== undefined) this.#end(this.#sockets, local(reason));
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
  return classify({ code: errorName(errno), syscall: 'connect' }, address);
}
