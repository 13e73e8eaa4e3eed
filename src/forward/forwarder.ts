/** Names that no zone owns: answered here, from the cache, or by an upstream. Nothing in it is on the path of held names. */
import { EDE, RCODE } from '../dns/constants.js';
import type { AnswerForeign, ForeignQuestion, ReplyForeign } from '../server/handover-desk.js';
import type { KeptAnswer } from '../server/kept-answers.js';
import type { Ms } from '../system/clock.js';
import { AliveCheck } from './alive-check.js';
import { type CacheEntry, ForwardCache } from './cache.js';
import { Flight, type FlightResult } from './flight.js';
import { type Group, Groups, same } from './groups.js';
import { answerFromHosts, asExisting } from './hosts.js';
import { type Journey, Journeys, type Waiter } from './journeys.js';
import { isJustExpired, isRefreshDue, Keeping } from './keeping.js';
import { LoopCheck } from './loop-check.js';
import { type Question, readQuestion } from './question.js';
import { type ForwardCounts, Replies } from './replies.js';
import type { ForwarderSettings } from './settings.js';
import { answerSpecial, isFixed } from './special-names.js';
import type { UpstreamReply } from './upstream-message.js';
import type { Upstream, UpstreamGroup } from './upstreams.js';

/** A client with patience for one try waits for two seconds at most. */
const DEADLINE_MS: Ms = 1_700;
/** For an older one a client waits so long for news before it gets the stale answer (RFC 8767 s.5). */
const NEWS_MS: Ms = 500;
/** RFC 8767 s.5: no more often is a stale name tried again. */
const RETRY_MS: Ms = 30_000;
/** While no upstream answers, one stale name is tried so often, whichever it is. */
const CHECK_MS: Ms = 2_000;
/** Of one group's upstreams, flights that nobody waits for: a group that falls silent is not asked for all that is in the cache. */
const MAX_RENEWALS = 64;
const MAX_TCP_BYTES = 65_535;
const MIN_UDP_BYTES = 512;

const TOO_MANY = { code: EDE.NETWORK_ERROR, text: 'too many questions at once' };

type Reply = ReplyForeign;

/** A question on its way through here. */
interface Asked {
  readonly question: Question;
  readonly tcp: boolean;
  /** Bytes of the largest reply. */
  readonly limit: number;
  readonly reply: Reply;
  /** A thread has answered it already. */
  readonly told: boolean;
  /** Threads may give the answer again. */
  readonly keeps: boolean;
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
  #generation = 0;
  #cache: ForwardCache;
  readonly #groups: Groups;
  readonly #journeys = new Journeys();
  readonly #loops = new LoopCheck();
  readonly #alive = new AliveCheck();
  #replies: Replies;
  #keeping: Keeping;

  constructor(settings: ForwarderSettings) {
    this.#settings = settings;
    this.#replies = new Replies(this.counts, settings.maxUdp);
    this.#cache = new ForwardCache(settings.cacheBytes, settings.maxStale);
    this.#groups = new Groups(settings);
    this.#keeping = new Keeping(settings.maxUdp, settings.maxStale);
  }

  /** Takes other settings. What is in the cache stays, unless its size or its domains are others. */
  reconfigure(settings: ForwarderSettings): void {
    const before = this.#settings;
    this.#settings = settings;
    this.#generation++;
    this.#replies = new Replies(this.counts, settings.maxUdp);
    this.#keeping = new Keeping(settings.maxUdp, settings.maxStale);
    const keep = before.cacheBytes === settings.cacheBytes && before.maxStale === settings.maxStale;
    if (!keep || !same(before.domains, settings.domains) || !same(before.agents, settings.agents))
      this.#cache = new ForwardCache(settings.cacheBytes, settings.maxStale);
    this.#groups.reconfigure(settings);
  }

  /** Finds upstreams that pass questions on to us: at the start, and of those that did, now and then. */
  checkLoops(again: boolean): void {
    for (const { group } of this.#groups.resolvers())
      for (const upstream of group.upstreams)
        if ((!again || upstream.loop) && !this.#settings.isOurs(upstream.address)) this.#loops.ask(upstream);
  }

  /** All groups, the one for other names first, without a domain. */
  groups(): Group[] {
    return this.#groups.all();
  }

  /** Shared memory: 1 in the word of a group (KeptAnswer.group) while none of its upstreams answers. */
  get outages(): Int32Array {
    return this.#groups.outages;
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
    const told = foreign.told === true;
    if (!told) this.counts.queries++;
    const limit = this.#limitOf(foreign, question);
    const group = this.#groups.of(question.name, foreign.listen);
    const asked: Asked = { question, tcp: foreign.transport === 'tcp', limit, reply, told, keeps: true };
    if (this.#loops.sees(question.name))
      this.#replies.refuse(question, reply, 'this server asked for it itself: a loop');
    else if (group === 'ours') this.#replies.refuse(question, reply, 'a name of a zone of this server');
    else if (this.#groups.isAgents(group)) {
      const recurses = this.#settings.recurses(foreign.peer);
      this.#forward({ ...asked, reply: ofAgent(reply, recurses), keeps: false }, group);
    } else this.#answer(asked, group);
  };

  /** The hosts file first, then servers of the domain, then what is special, then whoever may know. */
  #answer(asked: Asked, group: UpstreamGroup | undefined): void {
    const { question, limit, reply } = asked;
    const { hosts, maxUdp } = this.#settings;
    const known = hosts !== undefined && !isFixed(question.name) ? hosts : undefined;
    const local =
      (known && answerFromHosts(known, question, limit, maxUdp)) ??
      (group === undefined ? answerSpecial(question, maxUdp) : undefined);
    const exists = known?.addresses.has(question.name) === true;
    if (local === undefined)
      this.#forward(
        exists ? { ...asked, reply: asExisting(reply), keeps: false } : asked,
        group ?? this.#groups.others,
      );
    else {
      this.counts.local++;
      (exists ? asExisting(reply) : reply)(local);
    }
  }

  #limitOf({ transport, most = MAX_TCP_BYTES }: ForeignQuestion, { edns }: Question): number {
    if (transport === 'tcp') return MAX_TCP_BYTES;
    return Math.min(edns?.payload ?? MIN_UDP_BYTES, this.#settings.maxUdp, most);
  }

  #forward(asked: Asked, group: UpstreamGroup): void {
    const { question, limit, reply } = asked;
    const now = this.#settings.now();
    // A question without RD asks what is in a cache: not everybody's business. An agent's names are the zone's own.
    if (!question.recursionDesired && !this.#groups.isAgents(group)) {
      this.#replies.refuse(question, reply, 'recursion was not desired');
      return;
    }
    const entry = this.#cache.get(question.key, now);
    if (asked.told) this.#hear(asked, group, entry, now);
    else if (entry === undefined) this.#find(asked, group, now);
    else if (now < entry.expiresAt) {
      const message = this.#replies.fresh(question, entry, limit, now);
      reply(message, this.#keep(asked, entry, message, group, now));
      this.#prefetch(asked, group, entry, now);
    } else if (this.#refresh(asked, group, entry, now))
      this.#wait(this.#journeys.get(question.key), asked, NEWS_MS, () =>
        reply(this.#replies.stale(question, entry, limit)),
      );
    else {
      const message = this.#replies.stale(question, entry, limit);
      reply(message, this.#keep(asked, entry, message, group, now));
    }
  }

  /** What a thread has answered from what it keeps: there may be news, and otherwise somebody has to ask for some. */
  #hear(asked: Asked, group: UpstreamGroup, entry: CacheEntry | undefined, now: Ms): void {
    const { reply } = asked;
    if (entry === undefined) reply(undefined);
    else if (now >= entry.expiresAt) {
      this.#refresh(asked, group, entry, now);
      reply(undefined);
    } else {
      this.#prefetch(asked, group, entry, now);
      reply(undefined, isRefreshDue(entry, now) ? undefined : this.#news(asked, entry, group, now));
    }
  }

  #prefetch(asked: Asked, group: UpstreamGroup, entry: CacheEntry, now: Ms): void {
    const may = !group.failing && group.renewals < MAX_RENEWALS && !this.#journeys.has(asked.question.key);
    if (may && isRefreshDue(entry, now)) this.#start(asked, group, true);
  }

  /** For threads to give again after this reply. */
  #keep(asked: Asked, entry: CacheEntry, message: Uint8Array, group: UpstreamGroup, now: Ms): KeptAnswer | undefined {
    const keep = asked.keeps ? this.#keeping.afterReply(asked.question, entry, message, group, now) : undefined;
    if (keep !== undefined) entry.kept = true;
    return keep;
  }

  /** In place of what threads have of it. */
  #news(
    { question, keeps }: Pick<Asked, 'question' | 'keeps'>,
    entry: CacheEntry,
    group: UpstreamGroup,
    now: Ms,
  ): KeptAnswer {
    const keep = keeps ? this.#keeping.of(question, entry, group, now) : undefined;
    entry.kept = keep !== undefined;
    return keep ?? this.#keeping.nothing(question);
  }

  /** For a name of which nothing is known. */
  #find(asked: Asked, group: UpstreamGroup, now: Ms): void {
    const { question, limit, reply } = asked;
    const journey = this.#journeys.get(question.key);
    if (journey === undefined) {
      const failure = this.#cache.failure(question.key, now);
      if (failure !== undefined && failure.epoch === group.epoch) {
        this.counts.failureHits++;
        this.#replies.failure(question, failure, limit, reply);
        return;
      }
      if (!this.#makeRoom(now)) {
        this.counts.failures++;
        reply(this.#replies.empty(question, RCODE.SERVFAIL, TOO_MANY));
        return;
      }
    }
    const waited = journey ?? this.#start(asked, group, false);
    this.#wait(waited, asked, DEADLINE_MS, (waiter, late) => this.#giveUp(late, waiter));
  }

  /** False when all flights there may be are under way, and none for long. */
  #makeRoom(now: Ms): boolean {
    if (!this.#journeys.full) return true;
    const oldest = this.#journeys.endOldest(now);
    if (oldest === undefined) return false;
    for (const waiter of oldest.waiters) {
      this.counts.failures++;
      this.#fail(oldest, waiter, TOO_MANY.code, TOO_MANY.text);
    }
    return true;
  }

  /** Sends a stale name on its way again when it is time. True when the client should wait a little for it. */
  #refresh(asked: Asked, group: UpstreamGroup, entry: CacheEntry, now: Ms): boolean {
    const { failing } = group;
    const waits = !failing && !isJustExpired(entry, now);
    if (failing) this.#alive.watch(group);
    if (!this.#journeys.has(asked.question.key)) {
      if (this.#journeys.full) return false;
      if (!waits && !failing && group.renewals >= MAX_RENEWALS) return false;
      const due = entry.retryAt <= now || entry.failedIn !== group.epoch;
      const may = failing ? group.takeRecovery(now) || (due && group.takeCheck(now, CHECK_MS)) : due;
      if (!may) return false;
      this.#start(asked, group, !waits && !failing);
    }
    return waits && this.#journeys.has(asked.question.key);
  }

  /** `renewal`: nobody waits for it, and when the upstreams turn out to be silent it is given up. */
  #start({ question, tcp, keeps }: Asked, group: UpstreamGroup, renewal: boolean): Journey {
    const journey: Journey = {
      key: question.key,
      group,
      renewal,
      generation: keeps ? this.#generation : -1,
      beganAt: this.#settings.now(),
      cache: this.#cache,
      waiters: new Set(),
      flight: undefined,
    };
    this.#journeys.set(journey.key, journey);
    this.counts.flights++;
    if (renewal) group.renewals++;
    const { now, isOurs } = this.#settings;
    journey.flight = new Flight({
      question,
      group,
      tcp,
      now,
      isOurs: ({ address }: Upstream) => isOurs(address),
      isIdle: () => renewal && journey.waiters.size === 0,
      // After the first waiter is there, even when nobody can be asked.
      done: (result) => queueMicrotask(() => this.#landed(journey, question, result)),
    });
    return journey;
  }

  #landed(journey: Journey, question: Question, { reply, reason }: FlightResult): void {
    const { group } = journey;
    if (journey.renewal) group.renewals--;
    if (this.#journeys.get(journey.key) !== journey) return;
    this.#journeys.delete(journey.key);
    const now = this.#settings.now();
    if (reason === undefined && reply !== undefined) {
      // What was asked for one client's network, or with an option of unknown meaning, is not for others.
      if (question.options.length === 0) this.#store(journey, question, reply, now);
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
      if (stale !== undefined) waiter.reply(this.#replies.stale(waiter.question, stale, waiter.limit));
      else {
        this.counts.failures++;
        this.#replies.failure(waiter.question, failure, waiter.limit, waiter.reply, reply !== undefined);
      }
    }
  }

  /** Threads that give what was there before have what is there now, before any client has it. */
  #store({ key, group, cache, generation }: Journey, question: Question, reply: UpstreamReply, now: Ms): void {
    const before = cache.get(key, now);
    cache.put(key, reply, now, this.#groups.isAgents(group));
    const entry = cache.get(key, now);
    if (!before?.kept || entry === before || generation !== this.#generation) return;
    this.#settings.renewed?.(
      entry === undefined ? this.#keeping.nothing(question) : this.#news({ question, keeps: true }, entry, group, now),
    );
  }

  #wait(
    journey: Journey | undefined,
    { question, limit, reply }: Asked,
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

/** A zone's names are answered to clients that may not have recursion, too. No thread gives them again. */
function ofAgent(reply: Reply, recurses: boolean): Reply {
  return (message) => {
    if (message !== undefined && !recurses) message[3]! &= 0x7f;
    reply(message);
  };
}
