/** One datacenter of Consul: three lists that are read and then watched, and reads of what changed in them. */
import type { Ms } from '../system/clock.js';
import type { ConsulClient, ConsulReply } from './consul-client.js';
import type { Answer, ConsulMirror, Findings } from './consul-mirror.js';
import { ReadPlan, type ServiceRead } from './consul-reads.js';
import { sleep, watchList } from './consul-watch.js';
import { isFailure } from './http-failure.js';
import type { RequestGate } from './request-gate.js';
import type { Failure, Presence } from './sync.js';

export interface DatacenterOptions {
  /** Undefined: the agent's own. */
  readonly dc: string | undefined;
  readonly client: ConsulClient;
  readonly gate: RequestGate;
  /** Any server may answer, R6 apart. */
  readonly stale: boolean;
  readonly maxLag: Ms;
  readonly newMirror: () => ConsulMirror;
}

const LIST_MS: Ms = 10_000;
const SERVICE_MS: Ms = 5_000;
/** Reads of services under way at once; the watches and liveness reads come to them. */
const READERS = 40;
/** As many services are looked through before a list is reported; what is left, while it is watched. */
const LOOKED_THROUGH = 200;
/** A service a time is looked at, when what changed seems to be known. */
const LEISURE_MS: Ms = 1_000;
const LONG_MS: Ms = 3_600_000;
/** So many services that cannot be read are a fault of the registry, not of theirs. */
const MOST_FAILED = 3;
/** No node and no check has these: the answer is nothing but the index. */
const NO_NODE = { 'node-meta': 'holdfast-liveness:read' };
const NO_STATE = 'health/state/none';

const LISTS = ['nodes', 'checks', 'services'] as const;
type ListName = (typeof LISTS)[number];
const PATHS = { nodes: 'catalog/nodes', checks: 'health/state/any', services: 'catalog/services' } as const;

export class ConsulDatacenter {
  readonly #options: DatacenterOptions;
  #mirror: ConsulMirror;
  #plan = new ReadPlan();
  #origin = '';
  /** Of what was taken in. */
  #indexes: Record<ListName, bigint> | undefined;
  /** The indexes that the last liveness read found. */
  #target: Record<'catalog' | 'checks', bigint> | undefined;
  /** Services that could not be read, and why. */
  readonly #failed = new Map<string, string>();
  #changed = new Set<string>();
  #wake: (() => void) | undefined;
  /** Why the lists are not the leader's word. */
  #doubt: string | undefined;
  /** Lists of which the token does not see all. */
  readonly #filtered = new Set<ListName>();

  constructor(options: DatacenterOptions) {
    this.#options = options;
    this.#mirror = options.newMirror();
  }

  get mirror(): ConsulMirror {
    return this.#mirror;
  }

  get origin(): string {
    return this.#origin;
  }

  /** Undefined before the first list. */
  get revision(): string | undefined {
    const indexes = this.#indexes;
    return indexes && LISTS.map((name) => indexes[name]).join('.');
  }

  /** Why nothing can be followed: the lists are not the leader's word. */
  get doubt(): string | undefined {
    return this.#doubt;
  }

  /** Why what the lists leave out is not known to have left (R6). */
  get partial(): string | undefined {
    if (this.#doubt !== undefined) return this.#doubt;
    if (this.#filtered.size > 0) return 'the token does not see all services, checks and nodes';
    const [unknown] = [...this.#failed].filter(([name]) => !this.#mirror.hasRead(name));
    return unknown && `service ${unknown[0]} cannot be read: ${unknown[1]}`;
  }

  /** Services that could not be read, and why. What is known of them stands. */
  get failed(): ReadonlyMap<string, string> {
    return this.#failed;
  }

  /** Services whose rows may be others than when they were last taken. */
  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** Reads all lists, and what is new in them. What was read stays, whether it succeeds or not. */
  async refresh(origin: string, signal: AbortSignal): Promise<Failure | undefined> {
    // One first: where it fails, nothing else is asked.
    const services = await this.#list('services', origin, signal);
    if (isFailure(services)) return services;
    const others = await Promise.all([this.#list('nodes', origin, signal), this.#list('checks', origin, signal)]);
    const replies = [...others, services];
    const failure = replies.find((reply) => isFailure(reply));
    if (failure !== undefined) return failure;
    const lists = replies as (ConsulReply & { readonly index: bigint; readonly doubt?: string })[];
    const known = this.#indexes;
    const wentBack = known !== undefined && LISTS.some((name, i) => lists[i]!.index < known[name]);
    // Of another lineage: what was known says nothing of it.
    if (wentBack) this.#begin();
    for (const [i, name] of LISTS.entries()) {
      const found = this.#take(name, lists[i]!, lists[i]!.index);
      if (typeof found === 'string') return { kind: 'unbelievable', reason: `${PATHS[name]}: ${found}` };
    }
    this.#origin = origin;
    this.#target = undefined;
    this.#doubt = lists.find((list) => list.doubt !== undefined)?.doubt;
    return (await this.#read(this.#plan.wanted, signal)) ?? (await this.#lookThrough(signal));
  }

  /**
   * Goes on from the last lists until `signal`, or until something is wrong: returns what.
   * @param news is called when something may have changed, and at each sign of life
   */
  async follow(signal: AbortSignal, news: () => void): Promise<string> {
    const indexes = this.#indexes;
    if (indexes === undefined) return 'nothing was read yet';
    const { client, gate, dc, stale } = this.#options;
    const watched = { client, gate, origin: this.#origin, query: { dc, stale } };
    const watches = LISTS.map((name) => {
      const take = (reply: ConsulReply, index: bigint): boolean | string => {
        const lag = this.#lag(reply);
        if (lag !== undefined) return lag;
        const found = this.#take(name, reply, index);
        if (typeof found === 'string') return found;
        news();
        this.#wake?.();
        return found.changed.size + found.unread.size > 0;
      };
      return watchList({ ...watched, path: PATHS[name] }, indexes[name], take, signal);
    });
    return await Promise.race([...watches, this.#keepReading(signal, news)]);
  }

  /**
   * The present indexes, of answers without anything in them. Under churn the watches are always a little behind: what
   * counts is that they have come as far as the registry was at the read before.
   */
  async present(signal: AbortSignal, deadline: Ms): Promise<Presence> {
    const indexes = this.#indexes;
    if (indexes === undefined) return { kind: 'lost' };
    const { client, gate, dc, stale } = this.#options;
    const read = (path: string, more?: Record<string, string>): Promise<ConsulReply | Failure> => {
      const query = { dc, stale, ...(more === undefined ? {} : { more }) };
      return gate.run(() => client.get(this.#origin, path, query, signal, deadline));
    };
    const [catalog, checks] = await Promise.all([read(PATHS.services, NO_NODE), read(NO_STATE)]);
    if (isFailure(catalog)) return catalog;
    if (isFailure(checks)) return checks;
    if (catalog.index === undefined || checks.index === undefined) return { kind: 'lost' };
    if (this.#lag(catalog) !== undefined || this.#lag(checks) !== undefined) return { kind: 'lost' };
    const taken = { catalog: max(indexes.services, indexes.nodes), checks: indexes.checks };
    const now = { catalog: catalog.index, checks: checks.index };
    // Lower ones come from a server that lags, or from another lineage: a list tells.
    if (now.catalog < taken.catalog || now.checks < taken.checks) return { kind: 'lost' };
    const reached = (goal: typeof now): boolean => taken.catalog >= goal.catalog && taken.checks >= goal.checks;
    if (this.#target === undefined || reached(this.#target)) {
      const first = this.#target === undefined;
      this.#target = now;
      return !first || reached(now) ? { kind: 'same' } : { kind: 'behind' };
    }
    return { kind: 'behind' };
  }

  #begin(): void {
    for (const name of this.#mirror.names) this.#changed.add(name);
    this.#mirror = this.#options.newMirror();
    this.#plan = new ReadPlan();
    this.#failed.clear();
    this.#indexes = undefined;
  }

  /** A list, from the leader where another server cannot be believed. With `doubt` when that has no word. */
  async #list(
    name: ListName,
    origin: string,
    signal: AbortSignal,
  ): Promise<(ConsulReply & { readonly doubt?: string }) | Failure> {
    const { client, gate, dc, stale } = this.#options;
    const read = (anyServer: boolean): Promise<ConsulReply | Failure> =>
      gate.run(() => client.get(origin, PATHS[name], { dc, stale: anyServer }, signal, LIST_MS));
    const reply = await read(stale);
    if (isFailure(reply)) return { ...reply, reason: this.#inDatacenter(reply.reason) };
    if (reply.index === undefined) {
      return { kind: 'unbelievable', reason: `${PATHS[name]}: no X-Consul-Index: this is not Consul` };
    }
    if (!stale) return reply;
    const lag = this.#lag(reply);
    const behind = this.#indexes !== undefined && reply.index < this.#indexes[name];
    if (lag === undefined && !behind) return reply;
    const leader = await read(false);
    if (!isFailure(leader) && leader.index !== undefined) return leader;
    if (behind) {
      const from = `${this.#indexes?.[name]} to ${reply.index}`;
      return {
        kind: 'unbelievable',
        reason: `${PATHS[name]}: the index went back from ${from}, and no leader answers`,
      };
    }
    return { ...reply, doubt: lag ?? 'no leader' };
  }

  /** Why a server's word is not that of its leader. */
  #lag({ knownLeader, lastContact }: ConsulReply): string | undefined {
    if (!knownLeader) return 'the servers of Consul have no leader';
    if (lastContact <= this.#options.maxLag) return undefined;
    return `the server that answers has not heard of its leader for more than ${this.#options.maxLag / 1000} s`;
  }

  #take(name: ListName, reply: Answer, index: bigint): Findings | string {
    const found =
      name === 'services'
        ? this.#mirror.takeServices(reply)
        : name === 'checks'
          ? this.#mirror.takeChecks(reply, Number(index))
          : this.#mirror.takeNodes(reply, Number(index));
    if (found === undefined) return 'the answer is not that of Consul';
    this.#indexes = { ...(this.#indexes ?? { nodes: 0n, checks: 0n, services: 0n }), [name]: index };
    if (reply.filtered) this.#filtered.add(name);
    else this.#filtered.delete(name);
    for (const changed of found.changed) this.#changed.add(changed);
    this.#plan.want(found.unread);
    if (name === 'services') {
      const told = found.changed.size + found.unread.size > 0;
      this.#plan.moved(index, told);
      for (const gone of found.changed) {
        this.#plan.forget(gone);
        this.#failed.delete(gone);
      }
    }
    return found;
  }

  /** Reads what is wanted, and looks for what is not explained, as long as there is a watch. */
  async #keepReading(signal: AbortSignal, news: () => void): Promise<string> {
    let leisure = performance.now() + LEISURE_MS;
    while (!signal.aborted) {
      const wanted = this.#plan.wanted.filter((name) => !this.#failed.has(name));
      const unverified = this.#plan.unverified(this.#mirror.names);
      const idle = [...this.#failed.keys(), ...unverified].slice(0, 1);
      let failure: Failure | undefined;
      if (wanted.length > 0) failure = await this.#read(wanted, signal, news);
      else if (this.#plan.unexplained && unverified.length > 0) {
        failure = await this.#read(unverified.slice(0, READERS), signal, news);
      } else if (idle.length > 0 && performance.now() >= leisure) {
        leisure = performance.now() + LEISURE_MS;
        failure = await this.#read(idle, signal, news);
      } else await this.#rest(idle.length > 0 ? leisure - performance.now() : undefined, signal);
      if (failure !== undefined) return failure.reason;
    }
    return 'stopped';
  }

  async #lookThrough(signal: AbortSignal): Promise<Failure | undefined> {
    const unverified = this.#plan.unexplained ? this.#plan.unverified(this.#mirror.names) : [];
    return await this.#read(unverified.slice(0, LOOKED_THROUGH), signal);
  }

  /** Until a list brings something new, or for so long. */
  async #rest(ms: Ms | undefined, signal: AbortSignal): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await sleep(ms ?? LONG_MS, signal, woken);
    this.#wake = undefined;
  }

  /** Reads services, many at once. A failure when more than a few cannot be read. */
  async #read(
    names: readonly string[],
    signal: AbortSignal,
    news: () => void = () => undefined,
  ): Promise<Failure | undefined> {
    const queue = names.values();
    const failures: Failure[] = [];
    const reader = async (): Promise<void> => {
      for (const name of queue) {
        if (signal.aborted || failures.length >= MOST_FAILED) return;
        const failure = await this.#readService(name, names.length <= READERS, signal);
        if (failure === undefined) news();
        else failures.push(failure);
      }
    };
    await Promise.all(Array.from({ length: Math.min(READERS, names.length) }, reader));
    return failures.length >= MOST_FAILED ? failures[0] : undefined;
  }

  /** @param exact from the leader: another server may not have heard yet of what is looked for */
  async #readService(name: string, exact: boolean, signal: AbortSignal): Promise<Failure | undefined> {
    const { client, gate, dc, stale } = this.#options;
    const mirror = this.#mirror;
    const path = `health/service/${encodeURIComponent(name)}`;
    const read = (anyServer: boolean): Promise<ConsulReply | Failure> =>
      gate.run(() => client.get(this.#origin, path, { dc, stale: anyServer }, signal, SERVICE_MS));
    const at = this.#plan.begin(name);
    let reply = await read(stale && !exact);
    if (isFailure(reply) && stale && exact) reply = await read(true);
    if (mirror !== this.#mirror) return undefined;
    if (signal.aborted) {
      this.#plan.failed(name);
      return undefined;
    }
    const found = isFailure(reply) ? undefined : mirror.takeService(name, reply);
    if (isFailure(reply) || found === undefined) {
      const failure = isFailure(reply)
        ? reply
        : { kind: 'unbelievable' as const, reason: 'the answer is not that of Consul' };
      this.#plan.failed(name);
      this.#failed.set(name, failure.reason);
      return { ...failure, reason: `${path}: ${failure.reason}` };
    }
    this.#failed.delete(name);
    this.#plan.done(name, at, describe(reply, found));
    for (const changed of found.changed) this.#changed.add(changed);
    return undefined;
  }

  #inDatacenter(reason: string): string {
    return this.#options.dc === undefined ? reason : `datacenter ${this.#options.dc}: ${reason}`;
  }
}

function describe({ body, index }: ConsulReply, { lost }: Findings): ServiceRead {
  let newest = 0;
  for (const { Service } of body as { Service?: { ModifyIndex?: unknown } }[]) {
    const at = Service?.ModifyIndex;
    if (typeof at === 'number' && at > newest) newest = at;
  }
  return { newest: BigInt(newest), lost: lost === true, index: index ?? 0n };
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
