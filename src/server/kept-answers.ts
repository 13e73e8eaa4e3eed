/**
 * Answers of upstreams that a thread gives again by itself while they are fresh: names that are asked often cost no
 * detour. The control thread decides what is kept, and for how long; want of room drops the oldest.
 */
import { HEADER_BYTES, OPTION_EDE, TYPE } from '../dns/constants.js';
import { FOLD } from '../dns/names.js';
import type { Query } from '../dns/query.js';

const MAX_BYTES = 4 * 1024 * 1024;
/** What an entry takes beside its message. */
const ENTRY_BYTES = 300;
const OPT_BYTES = 11;
/** Of an extended error without text. */
const EDE_BYTES = 6;
const PRIME = 0x01000193;

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
  /** It may be given for so many ms more. */
  readonly freshMs: number;
  /** It is stale: the code of the extended error that goes along. Its TTLs stand as they are to be given. */
  readonly ede?: number;
}

interface Entry extends KeptAnswer {
  readonly hash: number;
  /** On the thread's own clock, in ms. */
  readonly cameAt: number;
  readonly until: number;
}

export class KeptAnswers {
  readonly #entries = new Map<number, Entry>();
  #bytes = 0;
  /** The last answer that was found is stale. */
  stale = false;

  /** `now`: ms of the thread's own clock, here and in `find`. */
  keep(answer: KeptAnswer, now: number): void {
    const { message } = answer;
    let end = HEADER_BYTES;
    while (message[end] !== 0) end += message[end]! + 1;
    end += 5;
    const hash = hashOf(message, end, answer.dnssecOk, answer.checkingDisabled);
    this.#drop(this.#entries.get(hash));
    for (const oldest of this.#entries.values()) {
      if (this.#bytes + message.length + ENTRY_BYTES <= MAX_BYTES) break;
      this.#drop(oldest);
    }
    this.#entries.set(hash, { ...answer, hash, cameAt: now - answer.age * 1000, until: now + answer.freshMs });
    this.#bytes += message.length + ENTRY_BYTES;
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
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
    if (entry === undefined || now >= entry.until) return 0;
    const { message, ttls } = entry;
    const ede = edns ? (entry.ede ?? 0) : 0;
    const size = message.length + opt + (ede > 0 ? EDE_BYTES : 0);
    if (size > limit || entry.dnssecOk !== dnssecOk || entry.checkingDisabled !== checkingDisabled) return 0;
    for (let at = questionEnd - 4; at < questionEnd; at++) if (bytes[at] !== message[at]) return 0;
    for (let at = HEADER_BYTES; at < questionEnd - 4; at++) if (FOLD[bytes[at]!] !== FOLD[message[at]!]) return 0;
    out.set(message);
    // In a loop: a view of the query for each answer would be garbage.
    for (let at = HEADER_BYTES; at < questionEnd; at++) out[at] = bytes[at]!;
    out[0] = bytes[0]!;
    out[1] = bytes[1]!;
    out[2] = 0x81;
    const authentic = entry.authenticData && (dnssecOk || (bytes[3]! & 0x20) !== 0);
    out[3] = 0x80 | (authentic ? 0x20 : 0) | (checkingDisabled ? 0x10 : 0) | (message[3]! & 15);
    const age = Math.floor((now - entry.cameAt) / 1000);
    if (age > 0) for (let i = 0; i < ttls.length; i++) countDown(out, ttls[i]!, age);
    if (edns) putOpt(out, message.length, dnssecOk, maxUdp, ede);
    this.stale = entry.ede !== undefined;
    return size;
  }

  #drop(entry: Entry | undefined): void {
    if (entry === undefined) return;
    this.#entries.delete(entry.hash);
    this.#bytes -= entry.message.length + ENTRY_BYTES;
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
  const left = ttl > seconds ? ttl - seconds : 0;
  out[at] = left >>> 24;
  out[at + 1] = left >>> 16;
  out[at + 2] = left >>> 8;
  out[at + 3] = left;
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
