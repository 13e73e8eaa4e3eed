/**
 * The reads of one datacenter's instances: of services that something happened to, the most asked first, and of all of
 * them where it is not known which, by service or by node, whichever are fewer.
 */
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import type { ConsulClient, ConsulReply } from './consul-client.js';
import { answerOf, type Findings } from './consul-findings.js';
import type { ConsulMirror } from './consul-mirror.js';
import { ReadPlan } from './consul-reads.js';
import { sleep } from './consul-watch.js';
import { isFailure } from './http-failure.js';

export interface ReaderOptions {
  readonly dc: string | undefined;
  readonly client: ConsulClient;
  /** Any server may answer. */
  readonly stale: boolean;
  readonly mirror: ConsulMirror;
  /** Names that are asked, the most asked first (R3). */
  readonly asked: () => readonly string[];
  /** It is watched by itself. */
  readonly watched: (name: string) => boolean;
  /** An answer was taken in. */
  readonly took: (findings: Findings) => void;
  /** A read has ended, well or not. */
  readonly ended: () => void;
  /** Whether what came or went can still be found out by one answer: then nothing is looked through. */
  readonly summed: () => boolean;
}

const READ_MS: Ms = 5_000;
/** Reads under way at once; the watches and liveness reads come to them. */
const READERS = 40;
/** As many are looked through before a list is reported; what is left, while it is watched. */
const LOOKED_THROUGH = 200;
/** One a time is looked at, when what changed seems to be known. */
const LEISURE_MS: Ms = 250;
const LONG_MS: Ms = 3_600_000;
/** What is being read or watched mostly explains what changed: so long nothing is looked for. */
const EXPLAIN_MS: Ms = 8;
/** And so long while services are read that are asked just then: a list of everything would keep the registry from them. */
const ASIDE_MS: Ms = 30;
/** So many that cannot be read are a fault of the registry, not of theirs. */
const MOST_FAILED = 3;

interface How {
  /** From the leader: another server may not have heard yet of what is looked for. */
  readonly exact: boolean;
  /** Before those that may take their time. */
  readonly urgent: boolean;
}

export class ConsulReader {
  readonly #options: ReaderOptions;
  readonly plan = new ReadPlan();
  /** Services that could not be read, and why. */
  readonly failed = new Map<string, string>();
  origin = '';
  /** `X-Consul-Index` of what was read last, by path. */
  readonly #indexes = new Map<string, bigint>();
  /** Nodes cannot be read one by one: an old Consul, or something between that lets nothing through. */
  #nodesFail = false;
  #movedAt = 0;
  /** Services that are being read beside. */
  #asides = 0;
  #wake: (() => void) | undefined;
  /** Of `follow`. */
  #following = AbortSignal.abort();

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** There may be something to read. */
  wake(): void {
    this.#wake?.();
  }

  /** Something came, went or changed. `told`: the list of services tells what. */
  moved(index: bigint, told: boolean): void {
    if (index !== this.plan.index) this.#movedAt = performance.now();
    this.plan.moved(index, told);
  }

  /** From then on what is not explained yet is looked for. */
  get explainedBy(): Ms {
    return this.#movedAt + (this.#asides > 0 ? ASIDE_MS : EXPLAIN_MS);
  }

  /** Something is being read that may explain what changed. */
  get isBusy(): boolean {
    return this.plan.isBusy(this.failed);
  }

  /** What was read says nothing of what an answer would be now. */
  readAnew(): void {
    this.#nodesFail = false;
    this.plan.want(this.#options.mirror.names.keys());
  }

  forget(name: string): void {
    this.plan.forget(name);
    this.failed.delete(name);
    this.#indexes.delete(servicePath(name));
  }

  /** Reads what is wanted, and a part of what is not explained. What was read stays, whether it succeeds or not. */
  async refresh(signal: AbortSignal): Promise<Failure | undefined> {
    const whole = this.#byNode && this.plan.wanted.length > 2 * this.#options.mirror.nodes.size;
    const failure = whole ? await this.#readWhole(signal) : undefined;
    return (
      failure ??
      (await this.#readServices(this.plan.wanted, true, signal)) ??
      (this.plan.unexplained ? await this.#lookThrough(LOOKED_THROUGH, signal) : undefined)
    );
  }

  /** Reads what is wanted, and looks for what is not explained, until `signal` or a failure: returns what. */
  async follow(signal: AbortSignal, news: () => void): Promise<string> {
    const { plan } = this;
    let leisure = performance.now() + LEISURE_MS;
    this.#following = signal;
    while (!signal.aborted) {
      const wanted = plan.wanted.filter((name) => !this.failed.has(name));
      let failure: Failure | undefined;
      if (wanted.length > 0) failure = await this.#readServices(wanted, true, signal, news);
      else if (plan.unexplained && performance.now() < this.explainedBy) {
        await this.#rest(this.explainedBy - performance.now(), signal);
      } else if (plan.unexplained && this.#options.summed() && this.#askedUnverified().length > 0) {
        failure = await this.#readServices(this.#askedUnverified(), true, signal, news);
      } else if (plan.traceless && this.#options.summed() && this.#isBehind())
        failure = await this.#lookThrough(READERS, signal, news);
      else if (this.failed.size === 0 && !this.#isBehind()) await this.#rest(LONG_MS, signal);
      else if (performance.now() < leisure) await this.#rest(leisure - performance.now(), signal);
      else {
        leisure = performance.now() + LEISURE_MS;
        const again = [...this.failed.keys()].slice(0, 1);
        failure =
          again.length === 0
            ? await this.#lookThrough(1, signal, news)
            : await this.#readServices(again, false, signal, news);
      }
      if (failure !== undefined) return failure.reason;
    }
    return 'stopped';
  }

  /** Reads a service beside all that goes on while it is followed, which does not wait for it. What fails is tried there. */
  async readAside(name: string, news: () => void): Promise<void> {
    const signal = this.#following;
    const at = this.plan.index;
    if (signal.aborted) return;
    this.#asides++;
    const reply = await this.#read(servicePath(name), { exact: true, urgent: true }, signal).finally(
      () => this.#asides--,
    );
    if (signal.aborted || isFailure(reply) || this.takeWatched(name, reply) !== undefined) return;
    this.plan.verified('service', name, at);
    news();
    this.wake();
    this.#options.ended();
  }

  /** The answer of the watch of one service. It says nothing of when it was known that nothing changed. */
  takeWatched(name: string, reply: ConsulReply): Failure | undefined {
    const path = servicePath(name);
    if (this.#wentBack(path, reply)) return this.#regress(path, reply);
    const found = this.#options.mirror.takeService(name, answerOf(reply));
    if (typeof found === 'string') return { kind: 'unbelievable', reason: found };
    this.#indexes.set(path, reply.index ?? 0n);
    this.#took(reply, found);
    return this.#over();
  }

  #over(): Failure | undefined {
    const { over } = this.#options.mirror;
    return over === undefined ? undefined : { kind: 'unbelievable', reason: over };
  }

  get #byNode(): boolean {
    const { mirror } = this.#options;
    return !this.#nodesFail && mirror.nodes.size > 0 && mirror.nodes.size < mirror.names.size;
  }

  #isBehind(): boolean {
    return this.#units(1).length > 0;
  }

  #units(most: number): string[] {
    const { mirror } = this.#options;
    return this.#byNode
      ? this.plan.unverified('node', mirror.nodes, most)
      : this.plan.unverified('service', mirror.names, most);
  }

  #askedUnverified(): string[] {
    const { mirror, asked, watched } = this.#options;
    const behind = (name: string): boolean => mirror.has(name) && !this.plan.isVerified('service', name);
    return asked().filter((name) => !watched(name) && !this.failed.has(name) && behind(name));
  }

  /** Everything by reading all nodes, where all services are new. */
  async #readWhole(signal: AbortSignal): Promise<Failure | undefined> {
    const { mirror } = this.#options;
    const names = this.plan.wanted;
    const at = this.plan.index;
    const failures: Failure[] = [];
    await inTurn(
      [...mirror.nodes.keys()],
      signal,
      () => failures.length > 0,
      async (key) => {
        const read = (): Promise<Failure | undefined> => this.#readNode(key, true, false, signal);
        const failure = (await read()) && (await read());
        if (failure !== undefined) failures.push(failure);
      },
    );
    if (signal.aborted) return undefined;
    const [failure] = failures;
    // By services it is slower, and goes on from what was read.
    if (failure !== undefined) this.#nodesFail = true;
    else {
      // Those of which something was hidden are told to be whole by their own answers alone.
      const read = names.filter((name) => mirror.hasWhole(name));
      for (const name of read) this.plan.begin(name);
      for (const name of read) {
        this.plan.verified('service', name, at);
        this.plan.end(name);
      }
    }
    return undefined;
  }

  async #lookThrough(
    most: number,
    signal: AbortSignal,
    news: () => void = () => undefined,
  ): Promise<Failure | undefined> {
    const units = this.#units(most);
    if (!this.#byNode) return await this.#readServices(units, false, signal, news);
    const failures: Failure[] = [];
    await inTurn(
      units,
      signal,
      () => failures.length >= MOST_FAILED,
      async (key) => {
        const failure = await this.#readNode(key, false, most <= READERS, signal);
        if (failure === undefined) news();
        else failures.push(failure);
      },
    );
    if (failures.length > 0) this.#nodesFail = true;
    return undefined;
  }

  /** Reads services, many at once, the most asked first. A failure when more than a few cannot be read. */
  async #readServices(
    names: readonly string[],
    urgent: boolean,
    signal: AbortSignal,
    news: () => void = () => undefined,
  ): Promise<Failure | undefined> {
    const few = names.length <= READERS;
    const wanted = new Set(names);
    const order = new Set(this.#options.asked().filter((name) => wanted.has(name)));
    for (const name of names) order.add(name);
    const failures: Failure[] = [];
    await inTurn(
      [...order],
      signal,
      () => failures.length >= MOST_FAILED,
      async (name) => {
        const failure = await this.#readService(name, { exact: few, urgent: urgent && few }, signal);
        if (failure === undefined) news();
        else failures.push(failure);
      },
    );
    return failures.length >= MOST_FAILED ? failures[0] : undefined;
  }

  async #readService(name: string, how: How, signal: AbortSignal): Promise<Failure | undefined> {
    const path = servicePath(name);
    const at = this.plan.begin(name);
    const known = this.#indexes.get(path);
    const reply = await this.#read(path, how, signal);
    this.plan.end(name);
    this.#options.ended();
    if (signal.aborted) {
      this.plan.failed(name);
      return undefined;
    }
    const failure = isFailure(reply) ? reply : this.takeWatched(name, reply);
    if (failure !== undefined) {
      this.plan.failed(name);
      // Another answer overtook it: it is read once more.
      if (this.#indexes.get(path) !== known) return undefined;
      this.failed.set(name, failure.reason);
      return { ...failure, reason: `${path}: ${failure.reason}` };
    }
    // What was told of it is told no more.
    if (this.failed.delete(name)) this.#options.took({ changed: new Set([name]), unread: new Set() });
    this.plan.verified('service', name, at);
    return undefined;
  }

  /** @param key of a node that is listed; one that went meanwhile is none to be read */
  async #readNode(key: string, first: boolean, exact: boolean, signal: AbortSignal): Promise<Failure | undefined> {
    const { mirror } = this.#options;
    const node = mirror.nodes.get(key);
    if (node === undefined) return undefined;
    const path = `catalog/node-services/${encodeURIComponent(node.name)}`;
    const at = this.plan.index;
    const reply = await this.#read(path, { exact, urgent: false }, signal);
    if (signal.aborted) return undefined;
    if (isFailure(reply)) return { ...reply, reason: `${path}: ${reply.reason}` };
    const found = mirror.takeNode(answerOf(reply), first);
    if (typeof found === 'string') return { kind: 'unbelievable', reason: `${path}: ${found}` };
    this.#indexes.set(path, reply.index ?? 0n);
    this.#took(reply, found);
    this.plan.verified('node', key, at);
    return this.#over();
  }

  async #read(path: string, { exact, urgent }: How, signal: AbortSignal): Promise<ConsulReply | Failure> {
    const { client, dc, stale } = this.#options;
    const turn = urgent ? 'read' : 'later';
    const read = (anyServer: boolean): Promise<ConsulReply | Failure> =>
      client.get(this.origin, path, { dc, stale: anyServer, turn }, signal, READ_MS);
    let anyServer = stale && !exact;
    let reply = await read(anyServer);
    const retried = isFailure(reply) ? stale && exact : anyServer && this.#wentBack(path, reply);
    if (retried) {
      anyServer = isFailure(reply);
      reply = await read(anyServer);
    }
    if (isFailure(reply) || !this.#wentBack(path, reply)) return reply;
    return this.#regress(path, reply);
  }

  /** R6: a server that lags, or another lineage, which a list tells. */
  #regress(path: string, { index }: ConsulReply): Failure {
    return { kind: 'unbelievable', reason: `the index went back from ${this.#indexes.get(path)} to ${index}` };
  }

  #wentBack(path: string, { index = 0n }: ConsulReply): boolean {
    return index < (this.#indexes.get(path) ?? 0n);
  }

  #took({ index }: ConsulReply, found: Findings): void {
    const { newest = 0, lost = false } = found;
    this.plan.found({ newest: BigInt(newest), lost, index: index ?? 0n });
    this.plan.want(found.unread);
    this.#options.took(found);
  }

  /** Until something is new, or for so long. */
  async #rest(ms: Ms, signal: AbortSignal): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await sleep(ms, signal, woken);
    this.#wake = undefined;
  }
}

/** `run` for each of `names`, so many at once, until `enough`. */
async function inTurn(
  names: readonly string[],
  signal: AbortSignal,
  enough: () => boolean,
  run: (name: string) => Promise<void>,
): Promise<void> {
  const queue = names.values();
  const one = async (): Promise<void> => {
    for (const name of queue) {
      if (signal.aborted || enough()) return;
      await run(name);
    }
  };
  await Promise.all(Array.from({ length: Math.min(READERS, names.length) }, one));
}

function servicePath(name: string): string {
  return `health/service/${encodeURIComponent(name)}`;
}
