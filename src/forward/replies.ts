/** The kinds of reply that a client gets, each counted. */
import { EDE, RCODE } from '../dns/constants.js';
import type { ReplyForeign } from '../server/handover-desk.js';
import type { Ms } from '../system/clock.js';
import type { CachedFailure, CacheEntry } from './cache.js';
import { composeEmpty, composeReply } from './compose.js';
import type { Ede } from './ede.js';
import type { Question } from './question.js';
import type { UpstreamReply } from './upstream-message.js';

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

  /** From the cache. */
  fresh(question: Question, { reply, storedAt }: CacheEntry, limit: number, now: Ms): Uint8Array {
    this.#counts.hits++;
    return this.#compose(question, reply, limit, { age: Math.floor((now - storedAt) / 1000) });
  }

  /** As it has just come. */
  live(question: Question, said: UpstreamReply, limit: number, reply: ReplyForeign): void {
    reply(this.#compose(question, said, limit, { age: 0, live: true }));
  }

  stale(question: Question, { reply }: CacheEntry, limit: number): Uint8Array {
    this.#counts.stale++;
    const code = reply.rcode === RCODE.NXDOMAIN ? EDE.STALE_NXDOMAIN : EDE.STALE_ANSWER;
    return this.#compose(question, reply, limit, { age: 0, stale: true, ede: { code } });
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

  #compose(
    question: Question,
    reply: UpstreamReply,
    limit: number,
    how: { age: number; stale?: boolean; live?: boolean; ede?: Ede },
  ): Uint8Array {
    return composeReply(question, reply, { limit, maxUdp: this.#maxUdp, stale: false, live: false, ...how });
  }
}
