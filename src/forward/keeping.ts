/** What the answer threads may give again by themselves, and for how long. */
import type { KeptAnswer } from '../server/kept-answers.js';
import type { Ms } from '../system/clock.js';
import type { CacheEntry } from './cache.js';
import type { Question } from './question.js';
import type { UpstreamGroup } from './upstreams.js';

/** An entry that ran out so lately is answered at once, and refreshed behind the answer. */
const JUST_EXPIRED_MS: Ms = 30_000;
/** With less than this part of its lifetime left, an entry that is asked for is refreshed. */
const PREFETCH_PART = 0.1;
const PREFETCH_LEAST_MS: Ms = 10_000;
/** So long a thread gives what could not be refreshed; then it is seen here whether it is time for news. */
const SETTLED_MS: Ms = 2_000;
const OPT_BYTES = 11;
const NO_TTLS = new Uint16Array(0);

export class Keeping {
  readonly #maxUdp: number;
  readonly #maxStale: Ms;

  /** `maxUdp`: the payload size that our OPT records offer. `maxStale`: as in the configuration. */
  constructor(maxUdp: number, maxStale: Ms) {
    this.#maxUdp = maxUdp;
    this.#maxStale = maxStale;
  }

  /**
   * For a question that has been answered with `message`: undefined when a thread could not tell that another one is
   * the same, or when the answer was cut.
   */
  afterReply(
    question: Question,
    entry: CacheEntry,
    message: Uint8Array,
    group: UpstreamGroup,
    now: Ms,
  ): KeptAnswer | undefined {
    const plain = question.query.length === question.questionEnd + (question.edns ? OPT_BYTES : 0);
    return plain && (message[2]! & 2) === 0 ? this.of(question, entry, group, now) : undefined;
  }

  /** Undefined when no thread can give it. */
  of(question: Question, entry: CacheEntry, group: UpstreamGroup, now: Ms): KeptAnswer | undefined {
    const { reply, storedAt, expiresAt, retryAt } = entry;
    if (reply.truncated || reply.questionEnd !== question.questionEnd || reply.bytes.length > this.#maxUdp)
      return undefined;
    const settled = isSettled(entry, group, now) ? Math.min(retryAt - now, SETTLED_MS) : 0;
    const outageMs = expiresAt + this.#maxStale - now;
    return {
      ...asked(question),
      message: reply.bytes,
      ttls: reply.ttls,
      authenticData: reply.authenticData,
      age: Math.floor((now - storedAt) / 1000),
      dueMs: Math.min(Math.max(prefetchAt(entry), retryAt), expiresAt) - now,
      freshMs: expiresAt - now,
      aloneMs: Math.min(Math.max(expiresAt + JUST_EXPIRED_MS - now, settled), outageMs),
      outageMs,
      group: group.word,
    };
  }

  /** In place of what is kept: a thread has nothing to give any more. */
  nothing(question: Question): KeptAnswer {
    return {
      ...asked(question),
      message: question.query.slice(0, question.questionEnd),
      ttls: NO_TTLS,
      authenticData: false,
      age: 0,
      dueMs: 0,
      freshMs: 0,
      aloneMs: 0,
      outageMs: 0,
      group: 0,
    };
  }
}

function asked({ edns, checkingDisabled }: Question): { dnssecOk: boolean; checkingDisabled: boolean } {
  return { dnssecOk: edns?.dnssecOk === true, checkingDisabled };
}

/** It ran out so lately that a client need not wait for news. */
export function isJustExpired({ expiresAt, storedAt }: CacheEntry, now: Ms): boolean {
  return expiresAt > storedAt && now - expiresAt <= JUST_EXPIRED_MS;
}

/** A refresh has failed, and it is not time for another one. */
export function isSettled({ retryAt, failedIn }: CacheEntry, { epoch }: UpstreamGroup, now: Ms): boolean {
  return now < retryAt && failedIn === epoch;
}

/** An entry that is asked for near its end is refreshed before that. */
export function isRefreshDue(entry: CacheEntry, now: Ms): boolean {
  return entry.retryAt <= now && now < entry.expiresAt && now > prefetchAt(entry);
}

/** Boot time. One that lives shortly is refreshed when it has run out. */
function prefetchAt({ storedAt, expiresAt }: CacheEntry): Ms {
  const lifetime = expiresAt - storedAt;
  return lifetime >= PREFETCH_LEAST_MS ? expiresAt - lifetime * PREFETCH_PART : expiresAt;
}
