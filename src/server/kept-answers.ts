/**
 * Answers of upstreams that a thread gives again by itself: names that are asked for often cost no detour, and in an
 * outage they wait for no busy control thread. While an answer is fresh it is given as it is. Stale, it is given at once
 * when it has run out lately, and for as long as no upstream answers, which the control thread says in shared memory. In
 * both cases the control thread is told now and then that somebody asks, so that it can look for news. Want of room
 * drops the oldest.
 */
import { EDE, HEADER_BYTES, OPTION_EDE, RCODE, TYPE } from '../dns/constants.js';
import { FOLD } from '../dns/names.js';
import type { Query } from '../dns/query.js';

/** RFC 8767 s.4: what a stale record may be kept for by a client. */
export const STALE_TTL_S = 30;
const MAX_BYTES = 4 * 1024 * 1024;
/** What an entry takes beside its message. */
const ENTRY_BYTES = 300;
const OPT_BYTES = 11;
/** Of an extended error without text. */
const EDE_BYTES = 6;
const PRIME = 0x01000193;
/** The control thread is told of one name no more often than this; while no upstream answers, of any name of those upstreams. */
const TELL_MS = 1_000;
const TELL_IN_OUTAGE_MS = 250;
const NO_OUTAGES = new Int32Array(0);

export interface KeptAnswer {
  /** Header, question and records as they came, without an OPT record. */
  readonly message: Uint8Array;
  /** Where the TTLs stand. */
  readonly ttls: Uint16Array;
  /** The question was asked with DO; with CD. The answer has AD. */
  readonly dnssecOk: boolean;
  readonly checkingDisabled: boolean;
  readonly authenticData: boolean;
  /** Seconds since it came. */
  readonly age: number;
  /** In so many ms news of it are wanted: from then on the control thread is told that it is asked for. */
  readonly dueMs: number;
  /** In so many ms it is stale. */
  readonly freshMs: number;
  /** For so many ms it may be given, stale or not, whatever its upstreams do. */
  readonly aloneMs: number;
  /** The same while none of its upstreams answers. */
  readonly outageMs: number;
  /** Its upstreams' word in the memory that tells of outages: 1 while none of them answers. */
  readonly group: number;
}

interface Entry {
  readonly answer: KeptAnswer;
  readonly hash: number;
  /** On the thread's own clock, in ms. */
  readonly cameAt: number;
  readonly dueAt: number;
  readonly staleAt: number;
  readonly aloneUntil: number;
  readonly outageUntil: number;
  toldAt: number;
}

export class KeptAnswers {
  readonly #entries = new Map<number, Entry>();
  #bytes = 0;
  #outages: Int32Array = NO_OUTAGES;
  /** When the control thread was told of a name of these upstreams in their outage. */
  #toldAt = new Float64Array(0);
  /** Of the answer that was found last: it is stale; the control thread is to be told. */
  stale = false;
  tells = false;

  /** `now`: ms of the thread's own clock, here and in `find`. */
  keep(answer: KeptAnswer, now: number): void {
    const { message, dueMs, freshMs, aloneMs, outageMs } = answer;
    let end = HEADER_BYTES;
    while (message[end] !== 0) end += message[end]! + 1;
    end += 5;
    const hash = hashOf(message, end, answer.dnssecOk, answer.checkingDisabled);
    this.#drop(this.#entries.get(hash));
    for (const oldest of this.#entries.values()) {
      if (this.#bytes + message.length + ENTRY_BYTES <= MAX_BYTES) break;
      this.#drop(oldest);
    }
    this.#entries.set(hash, {
      answer,
      hash,
      cameAt: now - answer.age * 1000,
      dueAt: now + dueMs,
      staleAt: now + freshMs,
      aloneUntil: now + aloneMs,
      outageUntil: now + outageMs,
      toldAt: Number.NEGATIVE_INFINITY,
    });
    this.#bytes += message.length + ENTRY_BYTES;
  }

  /** Forgets all. `outages`: shared memory, a word for each group of upstreams. */
  reset(outages: Int32Array = NO_OUTAGES): void {
    this.#entries.clear();
    this.#bytes = 0;
    this.#outages = outages;
    this.#toldAt = new Float64Array(outages.length);
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The length of the answer in `out`, at most `limit`; 0 when none is kept that serves this query. `query` is `bytes`, read. */
  find(
    bytes: Uint8Array,
    length: number,
    query: Query,
    limit: number,
    maxUdp: number,
    now: number,
    out: Uint8Array,
  ): number {
    if (this.#bytes === 0) return 0;
    const { questionEnd, edns } = query;
    const opt = edns ? OPT_BYTES : 0;
    // With options it is the control thread's to say what they mean; without RD, too.
    if (length !== questionEnd + opt || (bytes[2]! & 1) === 0) return 0;
    const dnssecOk = edns && query.dnssecOk;
    const checkingDisabled = (bytes[3]! & 0x10) !== 0;
    const entry = this.#entries.get(hashOf(bytes, questionEnd, dnssecOk, checkingDisabled));
    if (entry === undefined || !this.#mayGive(entry, now)) return 0;
    const stale = now >= entry.staleAt;
    const { answer } = entry;
    const { message, ttls } = answer;
    const rcode = message[3]! & 15;
    let ede = 0;
    if (stale && edns) ede = rcode === RCODE.NXDOMAIN ? EDE.STALE_NXDOMAIN : EDE.STALE_ANSWER;
    const size = message.length + opt + (ede > 0 ? EDE_BYTES : 0);
    if (size > limit || answer.dnssecOk !== dnssecOk || answer.checkingDisabled !== checkingDisabled) return 0;
    for (let at = questionEnd - 4; at < questionEnd; at++) if (bytes[at] !== message[at]) return 0;
    for (let at = HEADER_BYTES; at < questionEnd - 4; at++) if (FOLD[bytes[at]!] !== FOLD[message[at]!]) return 0;
    out.set(message);
    // In a loop: a view of the query for each answer would be garbage.
    for (let at = HEADER_BYTES; at < questionEnd; at++) out[at] = bytes[at]!;
    out[0] = bytes[0]!;
    out[1] = bytes[1]!;
    out[2] = 0x81;
    const authentic = answer.authenticData && (dnssecOk || (bytes[3]! & 0x20) !== 0);
    out[3] = 0x80 | (authentic ? 0x20 : 0) | (checkingDisabled ? 0x10 : 0) | rcode;
    const age = Math.floor((now - entry.cameAt) / 1000);
    if (stale) for (let i = 0; i < ttls.length; i++) makeStale(out, ttls[i]!);
    else if (age > 0) for (let i = 0; i < ttls.length; i++) countDown(out, ttls[i]!, age);
    if (edns) putOpt(out, message.length, dnssecOk, maxUdp, ede);
    this.stale = stale;
    this.tells = now >= entry.dueAt && this.#takeTelling(entry, now);
    return size;
  }

  #mayGive({ answer, aloneUntil, outageUntil }: Entry, now: number): boolean {
    return now < aloneUntil || (now < outageUntil && this.#inOutage(answer.group));
  }

  #inOutage(group: number): boolean {
    return group < this.#outages.length && Atomics.load(this.#outages, group) !== 0;
  }

  /** In an outage one telling serves all names: a single question is on its way to see whether it is over. */
  #takeTelling(entry: Entry, now: number): boolean {
    const { group } = entry.answer;
    if (this.#inOutage(group)) {
      if (now - this.#toldAt[group]! < TELL_IN_OUTAGE_MS) return false;
      this.#toldAt[group] = now;
      return true;
    }
    if (now - entry.toldAt < TELL_MS) return false;
    entry.toldAt = now;
    return true;
  }

  #drop(entry: Entry | undefined): void {
    if (entry === undefined) return;
    this.#entries.delete(entry.hash);
    this.#bytes -= entry.answer.message.length + ENTRY_BYTES;
  }
}

/** Of the question in any letters, and of the flags that make it another one. */
function hashOf(bytes: Uint8Array, questionEnd: number, dnssecOk: boolean, checkingDisabled: boolean): number {
  let hash = 0x811c9dc5 ^ ((dnssecOk ? 1 : 0) | (checkingDisabled ? 2 : 0));
  for (let at = HEADER_BYTES; at < questionEnd; at++) hash = Math.imul(hash ^ FOLD[bytes[at]!]!, PRIME);
  return hash;
}

function countDown(out: Uint8Array, at: number, seconds: number): void {
  const ttl = ((out[at]! << 24) | (out[at + 1]! << 16) | (out[at + 2]! << 8) | out[at + 3]!) >>> 0;
  putTtl(out, at, ttl > seconds ? ttl - seconds : 0);
}

/** At least 1: 0 would say that it is for this one question only. */
function makeStale(out: Uint8Array, at: number): void {
  const long = out[at] !== 0 || out[at + 1] !== 0 || out[at + 2] !== 0 || out[at + 3]! > STALE_TTL_S;
  putTtl(out, at, long ? STALE_TTL_S : Math.max(1, out[at + 3]!));
}

function putTtl(out: Uint8Array, at: number, ttl: number): void {
  out[at] = ttl >>> 24;
  out[at + 1] = ttl >>> 16;
  out[at + 2] = ttl >>> 8;
  out[at + 3] = ttl;
}

/** One more additional record: our OPT, with an extended error unless `ede` is 0. */
function putOpt(out: Uint8Array, at: number, dnssecOk: boolean, maxUdp: number, ede: number): void {
  const additionals = ((out[10]! << 8) | out[11]!) + 1;
  out[10] = additionals >>> 8;
  out[11] = additionals;
  out[at] = 0;
  out[at + 1] = 0;
  out[at + 2] = TYPE.OPT;
  out[at + 3] = maxUdp >>> 8;
  out[at + 4] = maxUdp;
  out[at + 5] = 0;
  out[at + 6] = 0;
  out[at + 7] = dnssecOk ? 0x80 : 0;
  out[at + 8] = 0;
  out[at + 9] = 0;
  out[at + 10] = ede > 0 ? EDE_BYTES : 0;
  if (ede === 0) return;
  out[at + 11] = 0;
  out[at + 12] = OPTION_EDE;
  out[at + 13] = 0;
  out[at + 14] = 2;
  out[at + 15] = 0;
  out[at + 16] = ede;
}
