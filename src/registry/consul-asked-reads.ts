/** Reads of services that are known on demand: one answer of Consul's about one of them, and whether it may be believed. */
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import type { AskedPart } from './consul-asked-service.js';
import type { ConsulClient, ConsulQuery, ConsulReply } from './consul-client.js';
import { later } from './consul-findings.js';
import { NO_NODE, NO_STATE, type TableIndexes } from './consul-progress.js';
import { isFailure } from './http-failure.js';
import type { Turn } from './request-gate.js';

/** A server that is not the leader has taken in by then what the leader had. */
const SETTLED_MS: Ms = 2_000;

export interface AskedReadsOptions {
  readonly client: ConsulClient;
  readonly stale: boolean;
  readonly maxLag: Ms;
  /** R6: the revision of a datacenter as it was last known before this began. */
  readonly seen: (dc: string | undefined) => readonly bigint[] | undefined;
}

/** How one read is made. */
export interface Reading {
  readonly origin: string;
  readonly turn?: Turn;
  readonly signal: AbortSignal;
  readonly deadline: Ms;
  /** Answered when the index moves, or after so long. */
  readonly wait?: Ms;
}

/** How far a datacenter was known to be. */
interface Known extends TableIndexes {
  /** The greatest index of any answer. */
  readonly newest: bigint;
  /** Since when the others are as at the last look, by `performance.now()`. */
  readonly since: number;
}

/** `wentBack`: what is there now is older than what is known. */
export type ReadFailure = Failure & { readonly wentBack?: true };

export class AskedReads {
  readonly #options: AskedReadsOptions;
  /** By datacenter. */
  readonly #known = new Map<string | undefined, Known>();
  /** Why answers are not the leader's word. */
  doubt: string | undefined;
  /** A datacenter was further than it is now, or is seen with another token: until everything was read anew. */
  outdated = false;

  constructor(options: AskedReadsOptions) {
    this.#options = options;
  }

  /** How far a datacenter was, be it before this began. */
  revision(dc: string | undefined): readonly bigint[] | undefined {
    const known = this.#known.get(dc);
    return known === undefined ? this.#options.seen(dc) : [known.catalog, known.checks, known.newest];
  }

  /** Nothing that was in the registry when it was last looked at is newer than what is known of it. */
  isAsOfNow({ dc, asOf }: AskedPart): boolean {
    const now = this.#known.get(dc);
    return now !== undefined && asOf !== undefined && asOf.catalog >= now.catalog && asOf.checks >= now.checks;
  }

  /** Looks how far a datacenter is. `lower`: it was further before. */
  async look(dc: string | undefined, reading: Reading): Promise<'lower' | 'read' | Failure> {
    const { stale } = this.#options;
    const before = this.revision(dc);
    let now = await this.#indexes(dc, reading, stale);
    // Another server may be behind; the leader tells.
    if (!isFailure(now) && stale && isLower(now, before)) now = await this.#indexes(dc, reading, false);
    if (isFailure(now)) return now;
    const lower = isLower(now, before);
    const known = this.#known.get(dc);
    const same = known !== undefined && known.catalog === now.catalog && known.checks === now.checks;
    const since = same ? known.since : performance.now();
    this.#known.set(dc, { ...now, newest: later(lower ? 0n : (known?.newest ?? 0n), indexOf(now)), since });
    if (lower) this.outdated = true;
    return lower ? 'lower' : 'read';
  }

  async #indexes(dc: string | undefined, reading: Reading, stale: boolean): Promise<TableIndexes | Failure> {
    const [catalog, checks] = await Promise.all([
      this.#get('catalog/services', { dc, more: NO_NODE }, reading, stale),
      this.#get(NO_STATE, { dc }, reading, stale),
    ]);
    if (isFailure(catalog)) return catalog;
    return isFailure(checks) ? checks : { catalog: catalog.index!, checks: checks.index! };
  }

  /** Reads a service anew, or waits for news of it. What could not be read stands. */
  async read(part: AskedPart, reading: Reading): Promise<ReadFailure | undefined> {
    const { wait, signal } = reading;
    const { dc, index } = part;
    const indexes = this.#known.get(dc);
    const began = performance.now();
    const settled = !this.#options.stale || (indexes !== undefined && began - indexes.since >= SETTLED_MS);
    const path = `health/service/${encodeURIComponent(part.service.asked)}`;
    const watches = wait !== undefined && index !== undefined;
    let reply = await this.#get(path, { dc, ...(watches ? { index, wait } : {}) }, reading);
    // Another server may be behind; the leader tells.
    if (isOlder(reply, index) && this.#options.stale) reply = await this.#get(path, { dc }, reading, false);
    if (signal.aborted) return undefined;
    let failure: ReadFailure | undefined;
    if (isFailure(reply)) failure = reply;
    else if (isOlder(reply, index)) {
      const reason = `the index went back from ${index} to ${reply.index}`;
      failure = { kind: 'unbelievable', reason, wentBack: true };
    } else if (isOlder(reply, part.index)) {
      // It has been read meanwhile, from a server that was further.
      return undefined;
    } else if (!part.take(reply, settled ? indexes : undefined)) {
      failure = { kind: 'unbelievable', reason: 'the answer is not that of Consul' };
    }
    if (failure === undefined) {
      part.checkedAt = watches ? performance.now() : began;
      this.#passed(dc, part.index ?? 0n);
    } else part.fault = failure.reason;
    return failure && { ...failure, reason: `${path}: ${failure.reason}` };
  }

  /** An answer was of this index: so far is the catalog, or the checks. */
  #passed(dc: string | undefined, index: bigint): void {
    const known = this.#known.get(dc);
    if (known !== undefined && index > known.newest) this.#known.set(dc, { ...known, newest: index });
  }

  /** From the leader where another server cannot be believed; with a doubt, as if part of it were hidden, where that has no word. */
  async #get(
    path: string,
    query: ConsulQuery,
    reading: Reading,
    stale = this.#options.stale,
  ): Promise<ConsulReply | Failure> {
    const { client } = this.#options;
    const { origin, turn, signal, deadline } = reading;
    const ordered = turn === undefined ? {} : { turn };
    const ask = (anyServer: boolean, more: ConsulQuery): Promise<ConsulReply | Failure> =>
      client.get(origin, path, { ...more, ...ordered, stale: anyServer }, signal, deadline);
    const reply = await ask(stale, query);
    if (isFailure(reply)) return reply;
    if (reply.index === undefined) return { kind: 'unbelievable', reason: 'no X-Consul-Index: this is not Consul' };
    // Consul answers from what it streams, too: without a leader, and without a word of what the token does not see.
    const lag = stale || !reply.knownLeader ? this.#lag(reply) : undefined;
    if (lag === undefined) return reply;
    const { index: _index, wait: _wait, ...plain } = query;
    const leader = await ask(false, plain);
    if (!isFailure(leader) && leader.index !== undefined) return leader;
    this.doubt = lag;
    return { ...reply, filtered: true };
  }

  /** Why a server's word is not that of its leader. */
  #lag({ knownLeader, lastContact }: ConsulReply): string | undefined {
    if (!knownLeader) return 'the servers of Consul have no leader';
    if (lastContact <= this.#options.maxLag) return undefined;
    return `the server that answers has not heard of its leader for more than ${this.#options.maxLag / 1000} s`;
  }
}

function indexOf({ catalog, checks }: TableIndexes): bigint {
  return later(catalog, checks);
}

/** @param before `revision`; one that is kept from before the newest was told has two numbers */
function isLower(now: TableIndexes, [catalog = 0n, checks = 0n, newest = 0n]: readonly bigint[] = []): boolean {
  return now.catalog < catalog || now.checks < checks || indexOf(now) < newest;
}

/** The registry was further when the index was seen. */
function isOlder(reply: ConsulReply | Failure, index: bigint | undefined): boolean {
  return !isFailure(reply) && index !== undefined && reply.index! < index;
}
