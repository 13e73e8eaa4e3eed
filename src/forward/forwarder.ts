/** Names that no zone owns: answered here, from the cache, or by an upstream. Nothing in it is on the path of held names. */
import type { ListenAddress } from '../config/types.js';
import { EDE, RCODE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import type { AnswerForeign, ForeignQuestion, ReplyForeign } from '../server/handover-desk.js';
import type { Ms } from '../system/clock.js';
import { AliveCheck } from './alive-check.js';
import { type CacheEntry, ForwardCache } from './cache.js';
import { Flight, type FlightResult } from './flight.js';
import { answerFromHosts, asExisting } from './hosts.js';
import type { Hosts } from './hosts-file.js';
import { LoopCheck } from './loop-check.js';
import { type Question, readQuestion, suffixes } from './question.js';
import { type ForwardCounts, isRefreshDue, Replies } from './replies.js';
import { answerSpecial, isFixed } from './special-names.js';
import { type Upstream, UpstreamGroup } from './upstreams.js';

/** A client with patience for one try waits for two seconds at most. */
const DEADLINE_MS: Ms = 1_700;
/** An entry that ran out so lately is answered at once, and refreshed behind the answer. */
const JUST_EXPIRED_MS: Ms = 30_000;
/** For an older one a client waits so long for news before it gets the stale answer (RFC 8767 s.5). */
const NEWS_MS: Ms = 500;
/** RFC 8767 s.5: no more often is a stale name tried again. */
const RETRY_MS: Ms = 30_000;
/** While no upstream answers, one stale name is tried so often, whichever it is. */
const CHECK_MS: Ms = 2_000;
const MAX_FLIGHTS = 512;
const MAX_TCP_BYTES = 65_535;
const MIN_UDP_BYTES = 512;

export interface ForwarderSettings {
  readonly upstreams: readonly ListenAddress[];
  /** Domains with servers of their own, in lower case. */
  readonly domains: readonly { readonly domain: string; readonly upstreams: readonly ListenAddress[] }[];
  /** Zones of ours of which some names are asked elsewhere: the answer threads hand those over, and no others. */
  readonly agents: readonly AgentSettings[];
  /** Whether the client may have recursion (R26). */
  readonly recurses: (peer: ForeignQuestion['peer']) => boolean;
  /** Our own zones: names in them never leave, whoever asks. */
  readonly zones: readonly string[];
  readonly cacheBytes: number;
  readonly maxStale: Ms;
  readonly maxUdp: number;
  /** Names that the hosts file has. */
  readonly hosts?: Hosts;
  /** Boot time. */
  readonly now: () => Ms;
  /** Whether an address is one that we listen on. */
  readonly isOurs: (address: ListenAddress) => boolean;
}

export interface AgentSettings {
  /** The zone's name. */
  readonly domain: string;
  readonly upstreams: readonly ListenAddress[];
  /** Indexes of the listen addresses on which the zone exists; absent: all (R31). */
  readonly listen?: readonly number[];
}

type Reply = ReplyForeign;

interface Waiter {
  readonly question: Question;
  readonly limit: number;
  readonly reply: Reply;
  /** When its patience ends: what it gets then. */
  readonly timer: NodeJS.Timeout;
}

interface Group {
  readonly domain: string | undefined;
  readonly group: UpstreamGroup;
}

interface Journey {
  readonly key: string;
  /** Where its answer is kept: not in one that has taken its place meanwhile. */
  readonly cache: ForwardCache;
  readonly waiters: Set<Waiter>;
  flight: Flight | undefined;
}

export class Forwarder {
  readonly counts: ForwardCounts = {
    queries: 0,
    hits: 0,
    stale: 0,
    failureHits: 0,
    flights: 0,
    local: 0,
    failures: 0,
    refused: 0,
  };
  #settings: ForwarderSettings;
  #cache: ForwardCache;
  #group: UpstreamGroup;
  /** By name in wire form. */
  #domains = new Map<string, UpstreamGroup>();
  #zones: ReadonlySet<string>;
  /** By the zone's name in wire form. */
  #agents = new Map<string, UpstreamGroup>();
  readonly #journeys = new Map<string, Journey>();
  readonly #loops = new LoopCheck();
  readonly #alive = new AliveCheck();
  #replies: Replies;

  constructor(settings: ForwarderSettings) {
    this.#settings = settings;
    this.#replies = new Replies(this.counts, settings.maxUdp);
    this.#cache = new ForwardCache(settings.cacheBytes, settings.maxStale);
    this.#group = new UpstreamGroup(settings.upstreams);
    this.#zones = new Set(settings.zones.map(wire));
    this.#setDomains();
    this.#agents = groupsOf(settings.agents);
  }

  /** Takes other settings. What is in the cache stays, unless its size or its domains are others. */
  reconfigure(settings: ForwarderSettings): void {
    const before = this.#settings;
    this.#settings = settings;
    this.#replies = new Replies(this.counts, settings.maxUdp);
    const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);
    const keep = before.cacheBytes === settings.cacheBytes && before.maxStale === settings.maxStale;
    if (!keep || !same(before.domains, settings.domains) || !same(before.agents, settings.agents))
      this.#cache = new ForwardCache(settings.cacheBytes, settings.maxStale);
    if (!same(before.upstreams, settings.upstreams)) this.#group = new UpstreamGroup(settings.upstreams);
    if (!same(before.domains, settings.domains)) this.#setDomains();
    if (!same(before.agents, settings.agents)) this.#agents = groupsOf(settings.agents);
    this.#zones = new Set(settings.zones.map(wire));
  }

  #setDomains(): void {
    this.#domains = groupsOf(this.#settings.domains);
  }

  /** Finds upstreams that pass questions on to us: at the start, and of those that did, now and then. */
  checkLoops(again: boolean): void {
    for (const { group } of this.#resolvers())
      for (const upstream of group.upstreams)
        if ((!again || upstream.loop) && !this.#settings.isOurs(upstream.address)) this.#loops.ask(upstream);
  }

  /** All groups, the one for other names first, without a domain. */
  groups(): Group[] {
    const agents = this.#settings.agents.map(({ domain }) => ({ domain, group: this.#agents.get(wire(domain))! }));
    return [...this.#resolvers(), ...agents];
  }

  /** Those that are asked for any name: an agent that asks us for names that are not its own makes no loop. */
  #resolvers(): Group[] {
    const domains = this.#settings.domains.map(({ domain }) => ({ domain, group: this.#domains.get(wire(domain))! }));
    return [{ domain: undefined, group: this.#group }, ...domains];
  }

  get cache(): { entries: number; bytes: number } {
    return this.#cache.size;
  }

  /** Ends what is under way; those who wait get SERVFAIL. */
  close(): void {
    this.#loops.close();
    this.#alive.close();
    for (const journey of this.#journeys.values()) {
      journey.flight?.cancel();
      for (const waiter of journey.waiters) this.#fail(journey, waiter, EDE.NETWORK_ERROR, 'stopping');
    }
    this.#journeys.clear();
  }

  readonly answer: AnswerForeign = (foreign, reply) => {
    const question = readQuestion(foreign.query);
    if (question === undefined) {
      reply(undefined);
      return;
    }
    this.counts.queries++;
    const limit = this.#limitOf(foreign, question);
    const group = this.#groupOf(question, foreign.listen);
    if (this.#loops.sees(question.name))
      this.#replies.refuse(question, reply, 'this server asked for it itself: a loop');
    else if (group === 'ours') this.#replies.refuse(question, reply, 'a name of a zone of this server');
    else if (this.#isAgents(group)) {
      const recurses = this.#settings.recurses(foreign.peer);
      this.#forward(question, group, foreign.transport === 'tcp', limit, ofAgent(reply, recurses));
    } else this.#answer(question, group, foreign.transport === 'tcp', limit, reply);
  };

  /** The hosts file first, then servers of the domain, then what is special, then whoever may know. */
  #answer(question: Question, group: UpstreamGroup | undefined, tcp: boolean, limit: number, reply: Reply): void {
    const { hosts, maxUdp } = this.#settings;
    const known = hosts !== undefined && !isFixed(question.name) ? hosts : undefined;
    const local =
      (known && answerFromHosts(known, question, limit, maxUdp)) ??
      (group === undefined ? answerSpecial(question, maxUdp) : undefined);
    const answered = known?.addresses.has(question.name) ? asExisting(reply) : reply;
    if (local === undefined) this.#forward(question, group ?? this.#group, tcp, limit, answered);
    else {
      this.counts.local++;
      answered(local);
    }
  }

  #isAgents(group: UpstreamGroup | undefined): group is UpstreamGroup {
    for (const agents of this.#agents.values()) if (agents === group) return true;
    return false;
  }

  #limitOf({ transport, most = MAX_TCP_BYTES }: ForeignQuestion, { edns }: Question): number {
    if (transport === 'tcp') return MAX_TCP_BYTES;
    return Math.min(edns?.payload ?? MIN_UDP_BYTES, this.#settings.maxUdp, most);
  }

  /** Of the longest domain that the name lies in; `ours` for one of our zones; undefined for any other name. */
  #groupOf(question: Question, listen: number): UpstreamGroup | 'ours' | undefined {
    let found: UpstreamGroup | undefined;
    for (const suffix of suffixes(question.name)) {
      const agent = this.#agents.get(suffix);
      if (agent !== undefined && this.#isAskedOn(suffix, listen)) return agent;
      if (this.#zones.has(suffix)) return 'ours';
      found ??= this.#domains.get(suffix);
    }
    return found;
  }

  #isAskedOn(zone: string, listen: number): boolean {
    return this.#settings.agents.some(
      (agent) => wire(agent.domain) === zone && agent.listen?.includes(listen) !== false,
    );
  }

  #forward(question: Question, group: UpstreamGroup, tcp: boolean, limit: number, reply: Reply): void {
    const now = this.#settings.now();
    // A question without RD asks what is in a cache: not everybody's business. An agent's names are the zone's own.
    if (!question.recursionDesired && !this.#isAgents(group)) {
      this.#replies.refuse(question, reply, 'recursion was not desired');
      return;
    }
    const journey = this.#journeys.get(question.key);
    const entry = this.#cache.get(question.key, now);
    if (entry !== undefined && now < entry.expiresAt) {
      this.#replies.fresh(question, entry, limit, reply, now);
      if (journey === undefined && !group.failing && isRefreshDue(entry, now)) this.#start(question, group, tcp);
      return;
    }
    if (entry !== undefined) {
      const waits = this.#refresh(question, group, tcp, entry, now);
      if (!waits) {
        const settled = group.failing || (now < entry.retryAt && entry.failedIn === group.epoch);
        this.#replies.stale(question, entry, limit, reply, settled);
        return;
      }
      this.#wait(this.#journeys.get(question.key), question, limit, reply, NEWS_MS, () =>
        this.#replies.stale(question, entry, limit, reply),
      );
      return;
    }
    if (journey === undefined) {
      const failure = this.#cache.failure(question.key, now);
      if (failure !== undefined && failure.epoch === group.epoch) {
        this.counts.failureHits++;
        this.#replies.failure(question, failure, limit, reply);
        return;
      }
      if (this.#journeys.size >= MAX_FLIGHTS) {
        this.counts.failures++;
        reply(
          this.#replies.empty(question, RCODE.SERVFAIL, {
            code: EDE.NETWORK_ERROR,
            text: 'too many questions at once',
          }),
        );
        return;
      }
    }
    const waited = journey ?? this.#start(question, group, tcp);
    this.#wait(waited, question, limit, reply, DEADLINE_MS, (waiter, late) => this.#giveUp(late, waiter));
  }

  /** Sends a stale name on its way again when it is time. True when the client should wait a little for it. */
  #refresh(question: Question, group: UpstreamGroup, tcp: boolean, entry: CacheEntry, now: Ms): boolean {
    const due = entry.retryAt <= now || entry.failedIn !== group.epoch;
    const failing = group.failing;
    const underWay = this.#journeys.has(question.key);
    if (failing) this.#alive.watch(group);
    if (!underWay) {
      if (this.#journeys.size >= MAX_FLIGHTS) return false;
      const may = failing ? group.takeRecovery(now) || (due && group.takeCheck(now, CHECK_MS)) : due;
      if (!may) return false;
      this.#start(question, group, tcp);
    }
    const justExpired = entry.expiresAt > entry.storedAt && now - entry.expiresAt <= JUST_EXPIRED_MS;
    return !failing && !justExpired && this.#journeys.has(question.key);
  }

  #start(question: Question, group: UpstreamGroup, tcp: boolean): Journey {
    const journey: Journey = { key: question.key, cache: this.#cache, waiters: new Set(), flight: undefined };
    this.#journeys.set(journey.key, journey);
    this.counts.flights++;
    const { now, isOurs } = this.#settings;
    journey.flight = new Flight({
      question,
      group,
      tcp,
      now,
      isOurs: ({ address }: Upstream) => isOurs(address),
      // After the first waiter is there, even when nobody can be asked.
      done: (result) => queueMicrotask(() => this.#landed(journey, question, group, result)),
    });
    return journey;
  }

  #landed(journey: Journey, question: Question, group: UpstreamGroup, { reply, reason }: FlightResult): void {
    if (this.#journeys.get(journey.key) !== journey) return;
    this.#journeys.delete(journey.key);
    const now = this.#settings.now();
    if (reason === undefined && reply !== undefined) {
      // What was asked for one client's network, or with an option of unknown meaning, is not for others.
      if (question.options.length === 0) journey.cache.put(journey.key, reply, now, this.#isAgents(group));
      for (const waiter of journey.waiters) {
        clearTimeout(waiter.timer);
        this.#replies.live(waiter.question, reply, waiter.limit, waiter.reply);
      }
      return;
    }
    if (group.failing) this.#alive.watch(group);
    const stale = journey.cache.get(journey.key, now);
    const code = reply === undefined ? EDE.NETWORK_ERROR : EDE.NO_REACHABLE_AUTHORITY;
    const failure = { reply, ede: { code, text: reason ?? '' }, epoch: group.epoch };
    if (stale !== undefined) {
      stale.retryAt = now + RETRY_MS;
      stale.failedIn = group.epoch;
    } else journey.cache.fail(journey.key, failure, now);
    for (const waiter of journey.waiters) {
      clearTimeout(waiter.timer);
      if (stale !== undefined) this.#replies.stale(waiter.question, stale, waiter.limit, waiter.reply);
      else {
        this.counts.failures++;
        this.#replies.failure(waiter.question, failure, waiter.limit, waiter.reply, reply !== undefined);
      }
    }
  }

  #wait(
    journey: Journey | undefined,
    question: Question,
    limit: number,
    reply: Reply,
    patience: Ms,
    end: (waiter: Waiter, journey: Journey) => void,
  ): void {
    if (journey === undefined) return;
    const timer = setTimeout(() => {
      journey.waiters.delete(waiter);
      end(waiter, journey);
    }, patience);
    const waiter: Waiter = { question, limit, reply, timer };
    journey.waiters.add(waiter);
  }

  /** The patience of a client has ended; the question goes on for the next one. */
  #giveUp({ flight }: Journey, { question, limit, reply }: Waiter): void {
    this.counts.failures++;
    const best = flight?.best;
    if (best !== undefined) this.#replies.live(question, best, limit, reply);
    else reply(this.#replies.empty(question, RCODE.SERVFAIL, { code: EDE.NETWORK_ERROR, text: flight?.reason ?? '' }));
  }

  #fail(journey: Journey, waiter: Waiter, code: number, text: string): void {
    clearTimeout(waiter.timer);
    journey.waiters.delete(waiter);
    waiter.reply(this.#replies.empty(waiter.question, RCODE.SERVFAIL, { code, text }));
  }
}

function wire(name: string): string {
  return Buffer.from(nameToWire(name)!).toString('latin1');
}

function groupsOf(domains: ForwarderSettings['domains']): Map<string, UpstreamGroup> {
  return new Map(domains.map(({ domain, upstreams }) => [wire(domain), new UpstreamGroup(upstreams)]));
}

/** A zone's names are answered to clients that may not have recursion, too. No thread gives them again. */
function ofAgent(reply: Reply, recurses: boolean): Reply {
  return (message) => {
    if (message !== undefined && !recurses) message[3]! &= 0x7f;
    reply(message);
  };
}
