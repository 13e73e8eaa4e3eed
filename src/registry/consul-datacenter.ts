/**
 * One datacenter of Consul. Watched are the lists of services, of nodes, and of the checks in a bad state, which are
 * short; read are the services that something happened to. The list of all checks is long: it is read at the start, and
 * then where it may tell what the others do not.
 */
import type { Ms } from '../system/clock.js';
import type { Failure, Presence } from './adapter.js';
import { BAD_STATUSES, type BadStatus } from './consul-check-table.js';
import type { ConsulReply } from './consul-client.js';
import { answerOf, type Findings, later } from './consul-findings.js';
import { HotWatches } from './consul-hot.js';
import { type ListReply, type ListSource, lagOf, readList } from './consul-list.js';
import type { ConsulMirror } from './consul-mirror.js';
import { CHECKS_PATH, ConsulOverview } from './consul-overview.js';
import { NO_NODE, NO_STATE, Progress } from './consul-progress.js';
import { ConsulReader } from './consul-reader.js';
import { SeekPace } from './consul-seek.js';
import { watchService } from './consul-service-watch.js';
import { sleep, type Take, watchList } from './consul-watch.js';
import { isFailure } from './http-failure.js';
import { gateOf } from './source-gates.js';

export interface DatacenterOptions extends ListSource {
  readonly newMirror: () => ConsulMirror;
  /** R6: its revision as it was last known before this began. */
  readonly seen: readonly bigint[] | undefined;
  /** `seeking` is another than it was. */
  readonly seeks: () => void;
}

/** Up to so many checks that left a list of bad ones are looked at by their services, which may take so long. */
const FEW = 16;
const FEW_MS: Ms = 1_000;
/** Blocking queries that are always there: five lists, and the release marks. The others are of single services. */
const WATCHES = 6;
const READ_MS: Ms = 5_000;
const SETTLED_MS: Ms = 5_000;
const LONG_MS: Ms = 3_600_000;

const LISTS = ['nodes', 'checks', 'services'] as const;
type ListName = (typeof LISTS)[number];
type Indexes = Readonly<Record<ListName, bigint>>;
const PATHS = { nodes: 'catalog/nodes', checks: CHECKS_PATH, services: 'catalog/services' } as const;

export class ConsulDatacenter {
  readonly #options: DatacenterOptions;
  #mirror: ConsulMirror;
  #reader: ConsulReader;
  readonly #hot: HotWatches;
  readonly #seekPace = new SeekPace();
  #seeking = false;
  #origin = '';
  /** Of what was taken in; of checks, up to which their states are known. */
  #indexes: Indexes | undefined;
  #badIndexes: Record<BadStatus, bigint> = { critical: 0n, warning: 0n };
  #overview: ConsulOverview;
  readonly #progress = new Progress();
  #asked: readonly string[] = [];
  #changed = new Set<string>();
  #news: () => void = () => undefined;
  /** Ends the wait of `#keepUp`. */
  #wake: (() => void) | undefined;
  /** Why the lists are not the leader's word. */
  #doubt: string | undefined;
  /** Lists of which the token does not see all. */
  readonly #filtered = new Set<ListName>();

  constructor(options: DatacenterOptions) {
    this.#options = options;
    this.#hot = new HotWatches({
      watch: (name, signal) => this.#watchService(name, signal),
      ended: () => this.#reader.wake(),
    });
    this.#mirror = options.newMirror();
    this.#reader = this.#newReader();
    this.#overview = this.#newOverview();
  }

  get mirror(): ConsulMirror {
    return this.#mirror;
  }

  get origin(): string {
    return this.#origin;
  }

  /** Undefined: the agent's own. */
  get dc(): string | undefined {
    return this.#options.dc;
  }

  get isRead(): boolean {
    return this.#indexes !== undefined;
  }

  /** How far it was when it was last read, be it before this began. */
  get revision(): readonly bigint[] | undefined {
    const indexes = this.#indexes;
    return indexes === undefined ? this.#options.seen : LISTS.map((name) => indexes[name]);
  }

  /** Why nothing can be followed: the lists are not the leader's word. */
  get doubt(): string | undefined {
    return this.#doubt;
  }

  /** Why what the lists leave out is not known to have left (R6). */
  get partial(): string | undefined {
    if (this.#doubt !== undefined) return this.#doubt;
    if (this.#filtered.size > 0) return 'the token does not see all services, checks and nodes';
    const [unknown] = [...this.#reader.failed].filter(([name]) => !this.#mirror.hasRead(name));
    return unknown && `service ${unknown[0]} cannot be read: ${unknown[1]}`;
  }

  /** Services that could not be read, and why. What is known of them stands. */
  get failed(): ReadonlyMap<string, string> {
    return this.#reader.failed;
  }

  /** Services whose rows may be others than when they were last taken. */
  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed;
    this.#changed = new Set();
    return changed;
  }

  /** The names that are asked, the most asked first (R3). */
  set asked(names: readonly string[]) {
    this.#asked = names;
    this.#wake?.();
  }

  /** Something changed, and it is not known what: `justAsked` helps. */
  get seeking(): boolean {
    return this.#seeking;
  }

  /** R3: whoever asks for these need not wait until it is found out what changed. */
  justAsked(names: readonly string[]): void {
    const { plan } = this.#reader;
    const mayDiffer = (name: string): boolean =>
      this.#mirror.has(name) && !this.#hot.has(name) && !plan.isVerified('service', name);
    if (!plan.unexplained) return;
    for (const name of this.#seekPace.pick(names.filter(mayDiffer))) {
      // What nobody thought of is met where the service is read like any other.
      this.#reader.readAside(name, this.#news).catch(() => plan.want([name]));
    }
  }

  /** Another token may see something else, at the same indexes: the next `refresh` reads all services. */
  readAnew(): void {
    this.#reader.readAnew();
    this.#overview.readAnew();
  }

  /** Reads all lists, and what is new in them. What was read stays, whether it succeeds or not. */
  async refresh(origin: string, signal: AbortSignal): Promise<Failure | undefined> {
    const known = this.#indexes;
    // A server that is behind what was seen before a restart may lag; the leader tells.
    const least = known ?? indexesOf(this.#options.seen);
    const read = (name: ListName, stale = this.#options.stale): Promise<ListReply | Failure> =>
      readList({ ...this.#options, stale }, origin, PATHS[name], least?.[name], signal);
    // One first: where it fails, nothing else is asked.
    const services = await read('services');
    if (isFailure(services)) return services;
    const began = performance.now();
    // Where the leader had to be asked it is asked for the others, too.
    const stale = this.#options.stale && services.index >= (least?.services ?? 0n);
    const replies = [...(await Promise.all([read('nodes', stale), read('checks', stale)])), services];
    const failure = replies.find((reply) => isFailure(reply));
    if (failure !== undefined) return failure;
    const lists = replies as ListReply[];
    const wentBack = known !== undefined && LISTS.some((name, i) => lists[i]!.index < known[name]);
    // Of another lineage: what was known says nothing of it.
    if (wentBack) this.#begin();
    for (const [i, name] of LISTS.entries()) {
      const fault = this.#take(name, lists[i]!);
      if (typeof fault === 'string') return { kind: 'unbelievable', reason: `${PATHS[name]}: ${fault}` };
    }
    this.#tookAll(lists[1]!, began);
    this.#reader.plan.compared(services.index);
    this.#origin = origin;
    this.#reader.origin = origin;
    this.#progress.listed();
    this.#doubt = lists.find((list) => list.doubt !== undefined)?.doubt;
    return await this.#reader.refresh(signal);
  }

  /**
   * Goes on from the last lists until `signal`, or until something is wrong: returns what.
   * @param news is called when something may have changed, and at each sign of life
   */
  async follow(signal: AbortSignal, news: () => void): Promise<string> {
    const indexes = this.#indexes;
    if (indexes === undefined) return 'nothing was read yet';
    this.#news = news;
    const leave = gateOf(this.#origin).join(WATCHES, () => this.#wake?.());
    const checks = (reply: ListReply): boolean => this.#sawChecks(reply.index, signal);
    const watches = [
      // Of no use where the others end at once.
      sleep(SETTLED_MS, signal).then(() => this.#watch(NO_STATE, this.#overview.allIndex, checks, signal)),
      this.#watch(PATHS.services, indexes.services, (reply) => this.#take('services', reply), signal),
      this.#watch(PATHS.nodes, indexes.nodes, (reply) => this.#take('nodes', reply), signal),
      ...BAD_STATUSES.map((status) => {
        const take = (reply: ListReply): boolean | string => this.#takeBad(status, reply);
        return this.#watch(`health/state/${status}`, this.#overview.allIndex, take, signal);
      }),
    ];
    try {
      return await Promise.race([...watches, this.#reader.follow(signal, news), this.#keepUp(signal)]);
    } finally {
      this.#hot.set([]);
      this.#seek(true);
      leave();
    }
  }

  /**
   * The present indexes, of answers without anything in them. Checks that pass have an index, too, which moves without
   * anything to tell: then the lists of bad ones are compared.
   */
  async present(signal: AbortSignal, deadline: Ms): Promise<Presence> {
    const indexes = this.#indexes;
    if (indexes === undefined) return { kind: 'lost' };
    const { client, dc, stale, maxLag } = this.#options;
    const read = (path: string, more?: Record<string, string>): Promise<ConsulReply | Failure> => {
      const query = { dc, stale, ...(more === undefined ? {} : { more }) };
      return client.get(this.#origin, path, query, signal, deadline);
    };
    const [catalog, checks] = await Promise.all([read(PATHS.services, NO_NODE), read(NO_STATE)]);
    if (isFailure(catalog)) return catalog;
    if (isFailure(checks)) return checks;
    if (catalog.index === undefined || checks.index === undefined) return { kind: 'lost' };
    if (lagOf(catalog, maxLag) !== undefined || lagOf(checks, maxLag) !== undefined) return { kind: 'lost' };
    if (checks.index > this.#checksIndex) {
      const lists = await Promise.all(BAD_STATUSES.map((status) => read(`health/state/${status}`)));
      const failure = lists.find((list) => isFailure(list));
      if (failure !== undefined) return failure;
      const same = BAD_STATUSES.every((status, i) => this.#mirror.hasBadChecks(status, lists[i] as ConsulReply));
      if (same) this.#knowChecks(checks.index);
    }
    const taken = { catalog: later(indexes.services, indexes.nodes), checks: this.#checksIndex };
    return this.#progress.judge(taken, { catalog: catalog.index, checks: checks.index });
  }

  #newReader(): ConsulReader {
    return new ConsulReader({
      ...this.#options,
      mirror: this.#mirror,
      asked: () => this.#asked,
      watched: (name) => this.#hot.has(name),
      took: ({ changed }) => {
        this.#touch(changed);
        if (this.#seeking) this.#seek();
      },
      ended: () => this.#wake?.(),
      summed: () => this.#overview.isSummed,
    });
  }

  #newOverview(): ConsulOverview {
    return new ConsulOverview({
      ...this.#options,
      origin: () => this.#origin,
      mirror: this.#mirror,
      reader: this.#reader,
      checksIndex: () => this.#checksIndex,
      nodesIndex: () => this.#indexes?.nodes ?? 0n,
      takeAll: (reply, began) => this.#takeAll(reply, began),
    });
  }

  #begin(): void {
    this.#touch(this.#mirror.names.keys());
    this.#mirror = this.#options.newMirror();
    this.#reader = this.#newReader();
    this.#overview = this.#newOverview();
    this.#badIndexes = { critical: 0n, warning: 0n };
    this.#indexes = undefined;
  }

  #touch(names: Iterable<string>): void {
    for (const name of names) this.#changed.add(name);
  }

  #watch(
    path: string,
    from: bigint,
    take: (reply: ListReply) => boolean | string,
    signal: AbortSignal,
  ): Promise<string> {
    const { client, dc, stale, maxLag } = this.#options;
    const whole: Take = (reply, index) => {
      const taken = lagOf(reply, maxLag) ?? take({ ...reply, index });
      if (typeof taken === 'string') return taken;
      this.#news();
      this.#reader.wake();
      this.#wake?.();
      return taken;
    };
    return watchList({ client, origin: this.#origin, query: { dc, stale }, path }, from, whole, signal);
  }

  /** Returns whether it changed anything, or what is wrong with it. */
  #take(name: ListName, reply: ListReply): boolean | string {
    const answer = answerOf(reply);
    const found =
      name === 'services'
        ? this.#mirror.takeServices(answer)
        : name === 'checks'
          ? this.#mirror.takeChecks(answer)
          : this.#mirror.takeNodes(answer);
    const fault = found === undefined ? 'the answer is not that of Consul' : this.#mirror.over;
    if (found === undefined || fault !== undefined) return fault!;
    const known = this.#indexes ?? { nodes: 0n, checks: 0n, services: 0n };
    this.#indexes = { ...known, [name]: later(known[name], reply.index) };
    if (reply.filtered) this.#filtered.add(name);
    else this.#filtered.delete(name);
    if (name === 'services') {
      const told = found.changed.size + found.unread.size > 0;
      this.#reader.moved(reply.index, told);
      this.#seek();
      for (const gone of found.changed) this.#reader.forget(gone);
    }
    if (name === 'nodes') this.#settle(reply.index);
    // Whatever moved the index of the services is a change, if not one that their list tells.
    return this.#found(found) || name === 'services';
  }

  #takeBad(status: BadStatus, reply: ListReply): boolean | string {
    const found = this.#mirror.takeBadChecks(status, answerOf(reply));
    if (found === undefined) return 'the answer is not that of Consul';
    this.#badIndexes[status] = reply.index;
    const { critical, warning } = this.#badIndexes;
    // Up to the lower of the two.
    this.#knowChecks(critical + warning - later(critical, warning));
    const { services, others } = found.left;
    const few = services.size <= FEW && !others;
    // The list of all tells at once what became of many.
    if (services.size > 0 || others) this.#overview.doubtUntil = performance.now() + (few ? FEW_MS : 0);
    if (few) this.#reader.plan.want(services);
    return this.#found(found) || services.size > 0;
  }

  #found({ changed, unread }: Findings): boolean {
    this.#touch(changed);
    this.#reader.plan.want(unread);
    return changed.size + unread.size > 0;
  }

  get #checksIndex(): bigint {
    return this.#indexes?.checks ?? 0n;
  }

  #knowChecks(index: bigint): void {
    if (this.#indexes !== undefined) this.#indexes = { ...this.#indexes, checks: later(this.#checksIndex, index) };
  }

  #tookAll(reply: ListReply, began: Ms): void {
    this.#overview.tookAll(reply, began);
    for (const status of BAD_STATUSES) this.#badIndexes[status] = later(this.#badIndexes[status], reply.index);
  }

  /** Takes in the list of all checks; returns what is wrong with it. */
  #takeAll(reply: ListReply, began: Ms): string | undefined {
    const fault = this.#wentBack(reply) ?? this.#take('checks', reply);
    if (typeof fault === 'string') return `${PATHS.checks}: ${fault}`;
    this.#tookAll(reply, began);
    return undefined;
  }

  /** The word of the leader: another lineage, which a list of everything has to tell. */
  #wentBack({ index }: ListReply): string | undefined {
    const known = this.#checksIndex;
    return index < known ? `the index went back from ${known} to ${index}` : undefined;
  }

  /** Some check is another, or has come or gone. That costs Consul nothing to tell, so it is known before any list. */
  #sawChecks(index: bigint, signal: AbortSignal): boolean {
    this.#overview.checksSeen = later(this.#overview.checksSeen, index);
    void this.#glance(index, signal);
    return false;
  }

  /** An instance that came or went with a check moved the index of the services, too: it need not wait for their list. */
  async #glance(checks: bigint, signal: AbortSignal): Promise<void> {
    const { client, dc, stale, maxLag } = this.#options;
    const query = { dc, stale, more: NO_NODE };
    const catalog = await client.get(this.#origin, PATHS.services, query, signal, READ_MS);
    const known = this.#indexes;
    if (signal.aborted || known === undefined || isFailure(catalog) || lagOf(catalog, maxLag) !== undefined) return;
    const index = catalog.index ?? 0n;
    if (index !== checks || index <= later(known.services, known.nodes)) return;
    this.#reader.moved(index, false);
    this.#seek();
    this.#wake?.();
  }

  #seek(over = false): void {
    const seeking = !over && this.#reader.plan.unexplained;
    if (seeking ? !this.#seekPace.begin(performance.now()) : !this.#seeking) return;
    this.#seeking = seeking;
    this.#options.seeks();
  }

  /** What was taken for a change of a service before its list came was one of a node. */
  #settle(nodes: bigint): void {
    const { services = 0n } = this.#indexes ?? {};
    const { plan } = this.#reader;
    if (plan.index <= services || nodes < plan.index) return;
    plan.moved(services, true);
    this.#seek();
  }

  /** Reads what tells of everything when it is due, and watches what is asked most, until `signal` or a failure. */
  async #keepUp(signal: AbortSignal): Promise<string> {
    while (!signal.aborted) {
      const { share } = gateOf(this.#origin);
      this.#hot.set(this.#asked.filter((name) => this.#mirror.has(name)).slice(0, share));
      const wait = this.#overview.due - performance.now();
      if (wait > 0) await this.#rest(Math.min(wait, LONG_MS), signal);
      else {
        const fault = await this.#overview.read(signal);
        if (fault !== undefined) return fault;
        this.#news();
        this.#reader.wake();
      }
    }
    return 'stopped';
  }

  #watchService(name: string, signal: AbortSignal): Promise<void> {
    const took = (): void => {
      this.#news();
      this.#wake?.();
    };
    return watchService({ ...this.#options, name, origin: this.#origin, reader: this.#reader, took }, signal);
  }

  async #rest(ms: Ms, signal: AbortSignal): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    await sleep(ms, signal, woken);
    this.#wake = undefined;
  }
}

/** A revision of other numbers than ours says nothing. */
function indexesOf([nodes, checks, services, ...others]: readonly bigint[] = []): Indexes | undefined {
  if (nodes === undefined || checks === undefined || services === undefined || others.length > 0) return undefined;
  return { nodes, checks, services };
}
