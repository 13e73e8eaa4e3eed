/** The kinds of reply that a client gets, each counted. */
import { EDE, RCODE } from '../dns/constants.js';
import type { ReplyForeign } from '../server/handover-desk.js';
import type { KeptAnswer } from '../server/kept-answers.js';
import type { Ms } from '../system/clock.js';
import type { CachedFailure, CacheEntry } from './cache.js';
import { composeEmpty, composeReply, staleBytes } from './compose.js';
import type { Ede } from './ede.js';
import type { Question } from './question.js';
import type { UpstreamReply } from './upstream-message.js';

/** With less than this part of its lifetime left, an entry that is asked for is refreshed. */
const PREFETCH_PART = 0.1;
const PREFETCH_LEAST_MS: Ms = 10_000;
/** For less it is not worth to be handed to a thread. */
const KEEP_LEAST_MS: Ms = 1_000;
/** A thread gives a stale answer for so long; then it is seen here whether it is time for news. */
const STALE_KEPT_MS: Ms = 2_000;
const OPT_BYTES = 11;
const NO_TTLS = new Uint16Array(0);

/** Sums since the start. */
export interface ForwardCounts {
  queries: number;
  /** Answered from the cache, fresh; stale; from a kept failure. */
  hits: number;
  stale: number;
  failureHits: number;
  /** Questions that went to upstreams, those for a refresh included. */
  flights: number;
  /** Special names and names of the hosts file, answered here. */
  local: number;
  /** SERVFAIL for want of an upstream's answer. */
  failures: number;
  refused: number;
}

export class Replies {
  readonly #counts: ForwardCounts;
  readonly #maxUdp: number;

  /** `maxUdp`: the payload size that our OPT records offer. */
  constructor(counts: ForwardCounts, maxUdp: number) {
    this.#counts = counts;
    this.#maxUdp = maxUdp;
  }

  /** From the cache; a thread may give it again. */
  fresh(question: Question, entry: CacheEntry, limit: number, reply: ReplyForeign, now: Ms): void {
    this.#counts.hits++;
    const message = this.#compose(question, entry.reply, limit, { age: ageOf(entry, now) });
    reply(message, this.#keepable(question, entry, message, now));
  }

  /** As it has just come. */
  live(question: Question, said: UpstreamReply, limit: number, reply: ReplyForeign): void {
    reply(this.#compose(question, said, limit, { age: 0, live: true }));
  }

  /** `settled`: no news are under way, so a thread may give it again for a little while. */
  stale(question: Question, entry: CacheEntry, limit: number, reply: ReplyForeign, settled = false): void {
    this.#counts.stale++;
    const code = entry.reply.rcode === RCODE.NXDOMAIN ? EDE.STALE_NXDOMAIN : EDE.STALE_ANSWER;
    const message = this.#compose(question, entry.reply, limit, { age: 0, stale: true, ede: { code } });
    reply(message, settled ? this.#keepableStale(question, entry, message, code) : undefined);
  }

  /** The upstream's own words say most; without any, why there are none. `live`: they have just come. */
  failure(
    question: Question,
    { reply: said, ede }: Pick<CachedFailure, 'reply' | 'ede'>,
    limit: number,
    reply: ReplyForeign,
    live = false,
  ): void {
    if (said === undefined) reply(this.empty(question, RCODE.SERVFAIL, ede));
    else if (live && said.options.length > 0) this.live(question, said, limit, reply);
    else reply(this.#compose(question, said, limit, { age: 0, ede }));
  }

  refuse(question: Question, reply: ReplyForeign, text: string): void {
    this.#counts.refused++;
    reply(this.empty(question, RCODE.REFUSED, { code: EDE.NOT_AUTHORITATIVE, text }));
  }

  empty(question: Question, rcode: number, ede: Ede): Uint8Array {
    return composeEmpty(question, rcode, ede, this.#maxUdp);
  }

  /**
   * A name that is asked for again is left to the thread that asks, until a refresh is near.
   */
  #keepable(question: Question, entry: CacheEntry, message: Uint8Array, now: Ms): KeptAnswer | undefined {
    const { reply, storedAt, expiresAt } = entry;
    const freshMs = storedAt + (expiresAt - storedAt) * (1 - PREFETCH_PART) - now;
    if (freshMs < KEEP_LEAST_MS || !this.#isKeepable(question, reply, message)) return undefined;
    return {
      message: reply.bytes,
      ttls: reply.ttls,
      dnssecOk: question.edns?.dnssecOk === true,
      checkingDisabled: question.checkingDisabled,
      authenticData: reply.authenticData,
      age: ageOf(entry, now),
      freshMs,
    };
  }

  /** Held names of elsewhere wait for no busy control thread in an outage either. */
  #keepableStale(question: Question, { reply }: CacheEntry, message: Uint8Array, ede: number): KeptAnswer | undefined {
    if (!this.#isKeepable(question, reply, message)) return undefined;
    return {
      message: staleBytes(reply),
      ttls: NO_TTLS,
      dnssecOk: question.edns?.dnssecOk === true,
      checkingDisabled: question.checkingDisabled,
      authenticData: reply.authenticData,
      age: 0,
      freshMs: STALE_KEPT_MS,
      ede,
    };
  }

  /** Whether a thread can tell that another question is the same, and the answer was not cut for this client. */
  #isKeepable({ query, questionEnd, edns }: Question, reply: UpstreamReply, message: Uint8Array): boolean {
    const cut = (message[2]! & 2) !== 0 || reply.questionEnd !== questionEnd || reply.bytes.length > this.#maxUdp;
    return !cut && query.length === questionEnd + (edns ? OPT_BYTES : 0);
  }

  #compose(
    question: Question,
    reply: UpstreamReply,
    limit: number,
    how: { age: number; stale?: boolean; live?: boolean; ede?: Ede },
  ): Uint8Array {
    return composeReply(question, reply, { limit, maxUdp: this.#maxUdp, stale: false, live: false, ...how });
  }
}

function ageOf(entry: CacheEntry, now: Ms): number {
  return Math.floor((now - entry.storedAt) / 1000);
}

/** An entry that is asked for near its end is refreshed before that. */
export function isRefreshDue({ expiresAt, storedAt, retryAt }: CacheEntry, now: Ms): boolean {
  const lifetime = expiresAt - storedAt;
  return retryAt <= now && lifetime >= PREFETCH_LEAST_MS && expiresAt - now < lifetime * PREFETCH_PART;
}
