/**
 * The resolver's end of `prober.sock` (R36): hands targets out and takes facts in. One prober at a time, the newest
 * wins. Whatever arrives is a checked message or a counted drop, and nothing is kept for a prober that does not read:
 * what it has to be told is a map with one entry a target.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { ProberStatus } from '../admin/documents.js';
import {
  type FromProber,
  MAX_LINE_BYTES,
  type ProbeResult,
  SESSION_HEADER,
  type Target,
  type ToProber,
  VACANCY_PATH,
} from '../prober/feed.js';
import { fitLine, LineSplitter } from '../prober/lines.js';
import { readFromProber } from '../prober/messages.js';
import { BootClock } from '../system/boot-clock.js';
import type { BootMs, Clock, Ms } from '../system/clock.js';
import { KeptUnixSocket, type SocketChange } from '../system/unix-socket.js';
import { ProberCondition } from './prober-condition.js';
import { ProberCoverage } from './prober-coverage.js';
import type { Log } from './resolver.js';
import { UntoldTargets } from './untold-targets.js';
import { WaitingProbers } from './waiting-probers.js';

const SOCKET_MODE = 0o660;
/** `alive` comes once a second: three missed in a row are silence. */
const SILENT_MS = 3_500;
const LOOK_MS = 1_000;
/** A prober that reads nothing for so long while there is something to read is closed. */
const STALLED_MS = 30_000;
/** The head of a request may take so long. */
const HEAD_MS = 10_000;
const LINE_BYTES = 64 * 1024;
const MAX_CONNECTIONS = 16;
const SESSION_ID = /^[A-Za-z0-9-]{1,64}$/;

export interface ProberLinkOptions {
  readonly path: string;
  readonly log: Log;
  readonly clock?: Clock;
  readonly stalledMs?: Ms;
  readonly headMs?: Ms;
}

/** What was dropped since the start. */
export interface ProberDrops {
  /** Lines that were too long or no message, and results that were not fit to be judged. */
  readonly messages: number;
  /** Requests that no prober makes, and streams without a session. */
  readonly requests: number;
}

interface Session {
  readonly id: string;
  /** The stream of targets. */
  readonly out: ServerResponse;
  /** The stream of verdicts, once it is there. */
  in?: IncomingMessage;
  readonly untold: UntoldTargets;
  /** Set while the prober does not read. */
  stalled?: NodeJS.Timeout;
  /** The last word of this one, or its coming. */
  heard: BootMs;
  readonly coverage: ProberCoverage;
  readonly self: Self;
}

/** What a prober says of itself. */
interface Self {
  pid?: number;
  late?: Ms;
  localErrors?: number;
  portable?: string | undefined;
}

export class ProberLink {
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #stalledMs: Ms;
  readonly #server: Server;
  readonly #targets = new Map<string, Target>();
  readonly #socket: KeptUnixSocket;
  readonly #waiting = new WaitingProbers();
  #socketProblem: string | undefined;
  #stopped = false;
  #look: NodeJS.Timeout | undefined;
  #session: Session | undefined;
  #onResults: (results: readonly ProbeResult[]) => void = () => {};
  #onConntrack: (fill: number) => void = () => {};
  readonly condition: ProberCondition;
  #heard: BootMs | undefined;
  #silent = false;
  /** What the latest prober said of itself, kept when it is gone. */
  #latest: Self = {};
  #messages = 0;
  #requests = 0;

  constructor(options: ProberLinkOptions) {
    this.#log = options.log;
    this.condition = new ProberCondition(options.log);
    this.#clock = options.clock ?? new BootClock();
    this.#stalledMs = options.stalledMs ?? STALLED_MS;
    // Streams last for ever, so no limit on a request's length applies; its head is here at once. Whoever only
    // connects would take the place of a prober.
    const headersTimeout = options.headMs ?? HEAD_MS;
    this.#server = createServer(
      { requestTimeout: 0, headersTimeout, connectionsCheckingInterval: headersTimeout },
      (request, response) => this.#route(request, response),
    );
    this.#server.maxConnections = MAX_CONNECTIONS;
    this.#server.on('clientError', (_error, socket) => {
      this.#requests++;
      socket.destroy();
    });
    this.#socket = new KeptUnixSocket(this.#server, options.path, { mode: SOCKET_MODE }, (change) =>
      this.#socketChanged(change),
    );
  }

  /** Resolves when the socket has been tried once. Never rejects: what fails is logged, in `problems`, and tried again. */
  start(): Promise<void> {
    if (!this.#stopped) this.#look ??= setInterval(() => this.#watchSilence(), LOOK_MS).unref();
    return this.#socket.start();
  }

  /** Why no prober can connect, for the status. */
  problems(): string[] {
    return this.#socketProblem === undefined ? [] : [this.#socketProblem];
  }

  /** Closes the prober's streams and removes the socket, if it is still ours. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#look);
    this.#close();
    await this.#socket.stop();
    this.#server.closeAllConnections();
  }

  /** Receives facts, a batch a call. A later call replaces the earlier receiver. */
  onResults(receiver: (results: readonly ProbeResult[]) => void): void {
    this.#onResults = receiver;
  }

  /** Receives how full the connection tracking table is, whenever the prober says it (R16); 0 when it no longer does. */
  onConntrack(receiver: (fill: number) => void): void {
    this.#onConntrack = receiver;
  }

  /** These targets and no others. Only the difference is sent. */
  setTargets(all: readonly Target[]): void {
    const keep = new Set(all.map((target) => target.key));
    this.changeTargets(
      all,
      [...this.#targets.keys()].filter((key) => !keep.has(key)),
    );
  }

  /** Removals first. What is handed out already is not sent again. */
  changeTargets(add: readonly Target[], remove: readonly string[]): void {
    for (const key of remove) if (this.#targets.delete(key)) this.#session?.untold.put(key, null);
    for (const target of add) {
      const old = this.#targets.get(target.key);
      if (old === target || (old !== undefined && JSON.stringify(old) === JSON.stringify(target))) continue;
      this.#targets.set(target.key, target);
      this.#session?.untold.put(target.key, target);
    }
    this.#tell();
  }

  /** R20: to be probed at once. Dropped when no prober reads: the next probe comes anyway. */
  hasten(keys: readonly string[]): void {
    const session = this.#session;
    if (session === undefined || session.stalled !== undefined) return;
    for (let from = 0; from < keys.length; ) {
      const count = fitLine(keys, from, LINE_BYTES);
      this.#say(session, { op: 'now', keys: keys.slice(from, from + count) });
      from += count;
    }
  }

  status(): ProberStatus {
    const heard = this.#heard === undefined ? undefined : this.#clock.now().boot - this.#heard;
    const { pid, late, localErrors, portable } = this.#latest;
    const unprobed = this.#session?.coverage.unprobed ?? 0;
    return {
      state: this.#state(heard),
      targets: this.#targets.size,
      ...(pid === undefined ? {} : { pid }),
      ...(heard === undefined ? {} : { lastHeardMs: heard }),
      ...(late === undefined ? {} : { lateMs: late }),
      ...(localErrors === undefined ? {} : { localErrors }),
      ...(portable === undefined ? {} : { portable }),
      ...(this.condition.stretch > 1 ? { stretch: this.condition.stretch } : {}),
      ...(this.condition.isLate ? { late: true } : {}),
      ...(this.condition.isShort ? { short: this.condition.reason ?? 'unknown' } : {}),
      ...(this.condition.odd === undefined ? {} : { odd: this.condition.odd }),
      ...(unprobed > 0 && this.condition.isPartial ? { unprobed } : {}),
    };
  }

  drops(): ProberDrops {
    return { messages: this.#messages, requests: this.#requests };
  }

  #state(heard: Ms | undefined): ProberStatus['state'] {
    if (heard !== undefined && heard <= SILENT_MS && this.#session !== undefined) return 'ok';
    if (this.#targets.size === 0) return 'not-needed';
    return heard === undefined ? 'never' : 'stale';
  }

  #route(request: IncomingMessage, response: ServerResponse): void {
    request.on('error', () => {});
    response.on('error', () => {});
    const id = request.headers[SESSION_HEADER];
    if (request.url === '/v1/targets' && request.method === 'GET') {
      if (typeof id === 'string' && SESSION_ID.test(id)) this.#open(id, request, response);
      else this.#refuse(response, 400, `a ${SESSION_HEADER} header with an id is needed`);
    } else if (request.url === '/v1/verdicts' && request.method === 'POST') {
      const session = this.#session;
      if (session !== undefined && session.id === id && session.in === undefined)
        this.#listen(session, request, response);
      else this.#refuse(response, 409, 'no such session, or a newer one took its place');
    } else if (request.url === VACANCY_PATH && request.method === 'GET') {
      if (!this.#waiting.add(response)) this.#refuse(response, 503, 'there are enough that wait');
      else if (this.#session === undefined) this.#waiting.call();
    } else {
      this.#refuse(response, 404, `GET /v1/targets, POST /v1/verdicts or GET ${VACANCY_PATH}`);
    }
  }

  #refuse(response: ServerResponse, status: number, reason: string): void {
    this.#requests++;
    response.writeHead(status, { 'content-type': 'text/plain', connection: 'close' });
    response.end(`${reason}\n`);
  }

  #open(id: string, request: IncomingMessage, out: ServerResponse): void {
    if (this.#session !== undefined) {
      this.#log('warn', 'prober-replaced', { pid: this.#session.self.pid });
      this.#close({ op: 'replaced' });
    }
    const now = this.#clock.now().boot;
    const untold = new UntoldTargets(this.#targets, LINE_BYTES);
    const session: Session = { id, out, untold, heard: now, coverage: new ProberCoverage(now), self: {} };
    this.#session = session;
    this.#latest = session.self;
    this.condition.begin();
    request.resume();
    out.on('close', () => this.#lose(session));
    out.on('drain', () => {
      clearTimeout(session.stalled);
      delete session.stalled;
      if (session === this.#session) this.#tell();
    });
    out.writeHead(200, { 'content-type': 'application/x-ndjson' });
    this.#say(session, { op: 'targets', targets: untold.takeTargets() });
    this.#tell();
  }

  #listen(session: Session, request: IncomingMessage, response: ServerResponse): void {
    session.in = request;
    const splitter = new LineSplitter(MAX_LINE_BYTES);
    request.on('data', (chunk: Buffer) => {
      if (session !== this.#session) return;
      this.#read(session, splitter.push(chunk));
      if (splitter.tooLong === 0) return;
      this.#messages += splitter.tooLong;
      splitter.tooLong = 0;
      this.condition.noteOdd(`a line of more than ${MAX_LINE_BYTES} bytes`, this.#clock.now().boot);
    });
    request.on('close', () => this.#lose(session));
    request.on('end', () => this.#lose(session));
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.flushHeaders();
  }

  #read(session: Session, lines: readonly string[]): void {
    const now = this.#clock.now().boot;
    const results: ProbeResult[] = [];
    for (const line of lines) {
      const { message, dropped, odd } = readFromProber(line, (key) => this.#targets.get(key)?.key, now);
      this.#messages += dropped;
      if (odd !== undefined) this.condition.noteOdd(odd, now);
      if (message === undefined) continue;
      this.#hear(session, message, now);
      if (message.op === 'results') for (const result of message.results) results.push(result);
    }
    if (results.length === 0) return;
    session.coverage.heard(now);
    this.#onResults(results);
  }

  #hear(session: Session, message: FromProber, now: BootMs): void {
    this.#heard = now;
    session.heard = now;
    if (this.#silent && message.op !== 'hello') this.#log('info', 'prober-heard-again', { pid: session.self.pid });
    this.#silent = false;
    if (message.op === 'hello') {
      session.self.pid = message.pid;
      this.#log('info', 'prober-connected', {
        pid: message.pid,
        version: message.version,
        targets: this.#targets.size,
      });
    } else if (message.op === 'alive') {
      session.self.late = message.late;
      // R15: what ended for a reason of this host was probed, and is told as such.
      if (message.localErrors !== session.self.localErrors) session.coverage.heard(now);
      session.self.localErrors = message.localErrors;
      session.self.portable = message.portable;
      session.coverage.note(this.#targets.size, message.targets, () => this.#shortest(message.stretch), now);
      this.condition.note(message, session.coverage.unprobed, now);
      this.#tableIs(message.conntrack);
    }
  }

  #tableIs(fill = 0): void {
    if (fill > 0 || this.condition.fill > 0) this.#onConntrack((this.condition.fill = fill));
  }

  /** The shortest interval of all targets, so much longer. */
  #shortest(stretch = 1): Ms {
    let least = Number.POSITIVE_INFINITY;
    for (const { interval } of this.#targets.values()) least = Math.min(least, interval);
    return least * stretch;
  }

  /** Sends what the session was not told yet, as long as the prober reads. */
  #tell(): void {
    const session = this.#session;
    while (session !== undefined && session.untold.size > 0 && session.stalled === undefined)
      this.#say(session, { op: 'change', ...session.untold.takeChange() });
  }

  #say(session: Session, message: ToProber): void {
    if (session.out.write(`${JSON.stringify(message)}\n`)) return;
    session.stalled ??= setTimeout(() => {
      this.#log('warn', 'prober-stalled', { pid: session.self.pid, stalledMs: this.#stalledMs });
      this.#lose(session);
    }, this.#stalledMs);
  }

  /** The session's streams broke, or are not read. */
  #lose(session: Session): void {
    if (session !== this.#session) return;
    this.#log('warn', 'prober-gone', { pid: session.self.pid });
    this.#close();
    this.#waiting.call();
  }

  #close(last?: ToProber): void {
    const session = this.#session;
    if (session === undefined) return;
    this.#session = undefined;
    clearTimeout(session.stalled);
    const destroy = (): void => {
      session.out.destroy();
      session.in?.socket.destroy();
    };
    if (last === undefined) {
      destroy();
      return;
    }
    // The prober closes both when it has read why. One that does not read must not keep its connections.
    session.out.end(`${JSON.stringify(last)}\n`);
    setTimeout(destroy, LOOK_MS).unref();
  }

  #watchSilence(): void {
    const now = this.#clock.now().boot;
    const silent = this.#state(this.#heard === undefined ? undefined : now - this.#heard) === 'stale';
    if (silent && !this.#silent) this.#log('warn', 'prober-stale', { pid: this.#latest.pid });
    this.#silent = silent;
    this.condition.look(now);
    if (silent) this.#tableIs();
    // One that says nothing keeps its place until somebody takes it.
    if (this.#session === undefined || now - this.#session.heard > SILENT_MS) this.#waiting.call();
  }

  #socketChanged(change: SocketChange): void {
    if (change.state === 'down') {
      this.#socketProblem = `prober.sock cannot be opened: ${change.reason}: no prober can connect`;
      this.#log('error', 'prober-socket-unavailable', { reason: change.reason });
      return;
    }
    this.#socketProblem = undefined;
    this.#log(change.state === 'up' ? 'info' : 'warn', `prober-socket-${change.state}`, {});
  }
}
