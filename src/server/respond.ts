import { FOREIGN_FORM, type Form, NAME_FORM, NO_FORM, TARGET_FORM } from '../answers/naming/form.js';
import { formOf } from '../answers/naming/form-of.js';
import {
  EDE_BARE_BYTES,
  EDE_BARE_LENGTH,
  EDE_CODE,
  EDE_FULL_BYTES,
  EDE_FULL_LENGTH,
  ENTRY_ASKED_WORD,
  ENTRY_STATUS_WORD,
  NOT_SYNCED,
  SEGMENT_UNITS_LOG2,
  SEGMENT_UNITS_MASK,
  SET_ZONE,
  type SharedTable,
  SYNCED,
  ZONE_NEGATIVE_WORD,
  ZONE_SOA_BYTES,
  ZONE_SOA_LENGTH,
  ZONE_SYNCED,
} from '../answers/shared.js';
import { isOpen, type ReaderZone, TableReader } from '../answers/table-reader.js';
import { CLASS, EDE, HEADER_BYTES, RCODE, TYPE } from '../dns/constants.js';
import { IS_RESPONSE, MALFORMED, Query, TOO_SHORT } from '../dns/query.js';
import { type Allowed, allows, strangerLimit } from './acl.js';
import { Composer } from './compose.js';
import { COUNTER, typeCounter } from './counters.js';
import { type KeptAnswer, KeptAnswers } from './kept-answers.js';
import { LOOKED_UP, type LookedUp, type LookUpName } from './looked-up.js';
import { type FixedEde, OPT_BYTES, type Peer, Reply, type Transport } from './reply.js';

export type { Peer, Transport };

/** `respond` returns it when the control thread has to answer. */
export const NEEDS_CONTROL = -1;

export interface ResponderOptions {
  /** Largest UDP reply, in bytes: 1232. */
  readonly maxUdp: number;
  /** Largest TCP reply, in bytes: 65535. */
  readonly tcpMax: number;
  /** This reader's slot, from `AnswerTable.addReader()`. */
  readonly reader: number;
  /** Seeds the order of answers. */
  readonly seed: number;
}

const MIN_UDP = 512;
/** Room that every reply to an EDNS query keeps, so that fresh and stale answers are cut alike (R26). */
const RESERVED_BYTES = OPT_BYTES + EDE_BARE_LENGTH - 2;
const ARPA = 'arpa';

/**
 * Matches queries to the table (R21 to R27): the same for every transport and thread. It never throws, reads no clock
 * and allocates nothing.
 */
export class Responder {
  /** The last reply, until the next query. */
  readonly reply: Reply;
  /** Of the next query's name, where the table has it not. Answer threads know nothing of that. */
  lookedUp: LookedUp = LOOKED_UP.NOT_YET;
  readonly #reader: TableReader;
  readonly #counters: Uint32Array;
  readonly #options: ResponderOptions;
  readonly #query = new Query();
  readonly #composer: Composer;
  /** Whose foreign questions are not refused but handed over; nobody's when absent. */
  #forward: Allowed | undefined;
  #forwardOpen = false;
  #handOver = false;
  readonly #kept = new KeptAnswers();
  #limit = 0;
  /** Of the query, when it came as a datagram: its sender may be another than it says. 0 otherwise. */
  #datagram = 0;
  /** Block of the EDE that goes with the reply, 0 for none. */
  #ede = 0;
  #fixedEde: FixedEde | 0 = 0;

  /** `counters`: COUNTER_WORDS words that this responder alone writes. `handle` was shared after `addReader()`. */
  constructor(handle: SharedTable, counters: Uint32Array, options: ResponderOptions) {
    this.#reader = new TableReader(handle, options.reader);
    this.#counters = counters;
    this.#options = options;
    this.reply = new Reply(options.maxUdp);
    this.#composer = new Composer(options.seed);
  }

  /** Takes a newer handle: a grown table, changed zones. Between batches only. */
  update(handle: SharedTable): void {
    this.#reader.update(handle);
  }

  /** Whose questions about names of no zone the control thread answers from now on (R26), and what tells of outages. */
  setForward(allowed: Allowed | undefined, outages?: Int32Array): void {
    this.#forward = allowed;
    this.#forwardOpen = allowed !== undefined && isOpen(allowed);
    this.#kept.reset(outages);
  }

  /** An upstream's answer that may be given again. `now`: ms of the thread's own clock, here and in `respondKept`. */
  keep(answer: KeptAnswer, now: number): void {
    this.#kept.keep(answer, now);
  }

  /** Right after NEEDS_CONTROL: the length of an answer in `out` that is kept for this very query, or NEEDS_CONTROL. */
  respondKept(query: Uint8Array, length: number, now: number, out: Uint8Array): number {
    const { maxUdp } = this.#options;
    const size = this.#kept.find(query, length, this.#query, this.#limit, maxUdp, now, out);
    if (size === 0) return NEEDS_CONTROL;
    if (this.#kept.stale) {
      this.#counters[COUNTER.forwardKeptStale]!++;
      this.#counters[COUNTER.stale]!++;
    } else this.#counters[COUNTER.forwardKept]!++;
    this.#counters[COUNTER.rcode + (out[3]! & 15)]!++;
    return size;
  }

  /** Right after `respondKept` gave an answer: the control thread is to be told who asked for what. */
  get tells(): boolean {
    return this.#kept.tells;
  }

  /** What queries see from here to `endBatch`, replies that point into the table included, stays as it is. */
  beginBatch(): void {
    this.#reader.beginBatch();
  }

  endBatch(): void {
    this.#reader.endBatch();
  }

  /**
   * Length of the reply in `out`; 0: drop it; NEEDS_CONTROL: the control thread has to answer. `listen` is the index of
   * the listen address that was asked. `out` holds the transport's largest reply, and is not `query`.
   */
  respond(
    query: Uint8Array,
    length: number,
    peer: Peer,
    listen: number,
    transport: Transport,
    out: Uint8Array,
  ): number {
    this.reply.intoBytes(out);
    const size = this.#prepare(query, length, peer, listen, transport, out.length);
    return size > 0 ? this.reply.end(query) : size;
  }

  /** The query's name when it is one to be looked up unless it is in the table, by a client that may ask for it. */
  lookUpName(bytes: Uint8Array, length: number, peer: Peer, listen: number): LookUpName | undefined {
    const query = this.#query;
    if (query.parse(bytes, length) !== 0 || query.labelCount === 0) return undefined;
    const reader = this.#reader;
    reader.locate(bytes, query, listen);
    const { zone, zoneLabel } = reader;
    if (!zone?.looksUp || !allows(zone, peer)) return undefined;
    if (formOf(zone, bytes, query.labels, zoneLabel) !== NAME_FORM) return undefined;
    const labels = Array.from(query.labels.subarray(0, zoneLabel), (at) => {
      return Buffer.from(bytes.subarray(at + 1, at + 1 + bytes[at]!))
        .toString('latin1')
        .toLowerCase();
    });
    return { zone: zone.index, labels };
  }

  /** Right after NEEDS_CONTROL, when the control thread cannot take it: a SERVFAIL in `out`, its length. */
  respondBusy(query: Uint8Array, peer: Peer, out: Uint8Array): number {
    this.reply.intoBytes(out);
    this.reply.begin(this.#query.questionEnd);
    this.reply.rcode = RCODE.SERVFAIL;
    this.#finish(query, peer);
    return this.reply.end(query);
  }

  /**
   * As `respond`, but writes the reply over the query, which begins at `offset` of `view`, too. Large pieces of it are
   * left in the table, see `reply`: they stay valid until `endBatch`.
   */
  respondInPlace(
    bytes: Uint8Array,
    view: DataView,
    offset: number,
    length: number,
    peer: Peer,
    listen: number,
    transport: Transport,
    capacity: number,
  ): number {
    this.reply.into(view, offset, true);
    const size = this.#prepare(bytes, length, peer, listen, transport, capacity);
    if (size > 0) this.reply.endInPlace();
    return size;
  }

  #prepare(
    bytes: Uint8Array,
    length: number,
    peer: Peer,
    listen: number,
    transport: Transport,
    capacity: number,
  ): number {
    const query = this.#query;
    const parsed = query.parse(bytes, length);
    if (parsed === TOO_SHORT || parsed === IS_RESPONSE) {
      this.#counters[parsed === TOO_SHORT ? COUNTER.tooShort : COUNTER.response]!++;
      return 0;
    }
    this.#counters[transport === 'udp' ? COUNTER.udp : COUNTER.tcp]!++;
    this.#limit = Math.min(capacity, transport === 'tcp' ? this.#options.tcpMax : this.#udpLimit());
    this.#datagram = transport === 'udp' ? length : 0;
    this.#ede = 0;
    this.#fixedEde = 0;
    this.#handOver = false;
    this.reply.begin(query.questionEnd);
    if (query.opcode !== 0) {
      this.reply.begin(HEADER_BYTES);
      this.reply.rcode = RCODE.NOTIMP;
    } else if (parsed === MALFORMED) {
      this.#counters[COUNTER.malformed]!++;
      this.reply.rcode = RCODE.FORMERR;
    } else {
      this.#counters[typeCounter(query.type)]!++;
      this.#decide(bytes, peer, listen);
      if (this.#handOver) return NEEDS_CONTROL;
    }
    return this.#finish(bytes, peer);
  }

  #udpLimit(): number {
    const { edns, payload } = this.#query;
    const { maxUdp } = this.#options;
    return !edns ? MIN_UDP : Math.min(payload, maxUdp);
  }

  #decide(bytes: Uint8Array, peer: Peer, listen: number): void {
    const { reply } = this;
    const query = this.#query;
    if (query.edns && query.version > 0) reply.rcode = RCODE.BADVERS;
    else if (query.class !== CLASS.IN || query.type === TYPE.AXFR || query.type === TYPE.IXFR) {
      reply.rcode = RCODE.REFUSED;
    } else if (query.type === TYPE.OPT || query.type === TYPE.TSIG || query.type === TYPE.TKEY) {
      reply.rcode = RCODE.FORMERR;
    } else if (query.labelCount === 0) this.#foreign(peer);
    else {
      this.#reader.locate(bytes, query, listen);
      const { zone } = this.#reader;
      if (zone === undefined) this.#answerReverse(bytes, peer, listen);
      else if (allows(zone, peer)) {
        if (zone.open) this.#limitStranger(peer);
        this.#answer(bytes, zone);
      } else {
        this.#counters[COUNTER.refusedClient]!++;
        reply.rcode = RCODE.REFUSED;
        this.#fixedEde = EDE.PROHIBITED;
      }
    }
  }

  /** Where anybody may ask, others are not to be flooded by what we send to them (RFC 5358). */
  #limitStranger(peer: Peer): void {
    if (this.#datagram > 0) this.#limit = Math.min(this.#limit, strangerLimit(peer, this.#datagram));
  }

  /** No zone owns the name: forwarded for those who may ask so (R26), REFUSED otherwise. */
  #foreign(peer: Peer): void {
    if (this.#forward !== undefined && allows(this.#forward, peer)) {
      this.#handOver = true;
      if (this.#forwardOpen) this.#limitStranger(peer);
      return;
    }
    this.#counters[COUNTER.refusedForeign]!++;
    this.reply.rcode = RCODE.REFUSED;
    this.#fixedEde = EDE.NOT_AUTHORITATIVE;
  }

  #answer(bytes: Uint8Array, zone: ReaderZone): void {
    const { memory } = this.#reader;
    const entry = this.#reader.find(bytes, this.#query);
    if (entry === 0) {
      this.#deny(bytes, zone);
      return;
    }
    this.reply.authoritative = true;
    const { asked } = memory;
    const mark = memory.word(entry, ENTRY_ASKED_WORD);
    if (asked[mark] === 0) asked[mark] = 1;
    const status = memory.word(entry, ENTRY_STATUS_WORD);
    if (status !== 0) this.#ede = memory.status[status]!;
    if (this.#ede !== 0 && memory.half(this.#ede, EDE_CODE) === EDE.NO_REACHABLE_AUTHORITY) {
      // R19: all that is left of it belongs to others.
      this.reply.authoritative = false;
      this.reply.rcode = RCODE.SERVFAIL;
      return;
    }
    const { type } = this.#query;
    const sets = memory.setCount(entry);
    for (let i = 0; i < sets; i++) {
      // RFC 8482 s.4.1: ANY gets one of the sets.
      if (type !== TYPE.ANY && memory.setType(entry, i) !== type) continue;
      this.#composer.put(this.reply, memory, memory.set(entry, i), this.#recordLimit());
      return;
    }
    this.#addSoa(zone);
  }

  /** R25: structure first, then knowledge. */
  #deny(bytes: Uint8Array, zone: ReaderZone): void {
    const { reply } = this;
    const { memory } = this.#reader;
    const state = memory.zoneStates[zone.index]!;
    const form = formOf(zone, bytes, this.#query.labels, this.#reader.zoneLabel);
    if (form === FOREIGN_FORM) {
      this.#denyForeign(zone);
      return;
    }
    // An agent reads any address out of its name, whoever has it.
    if (form === TARGET_FORM && zone.handsOver) {
      this.#handOver = true;
      return;
    }
    if (form === NAME_FORM && zone.looksUp && this.lookedUp !== LOOKED_UP.UNKNOWN) {
      this.#denyUntold(zone);
      return;
    }
    const whole = form === NAME_FORM && zone.looksUp ? SYNCED : memory.half(state, ZONE_SYNCED);
    if (state === 0 || mayExist(form, whole)) {
      reply.rcode = RCODE.SERVFAIL;
      this.#fixedEde = EDE.NOT_READY;
      return;
    }
    reply.rcode = RCODE.NXDOMAIN;
    reply.authoritative = true;
    if (form !== NO_FORM) this.#ede = memory.word(state, ZONE_NEGATIVE_WORD);
    this.#addSoa(zone);
  }

  /** R33: a name that is not in the table, and that may exist all the same. */
  #denyUntold(zone: ReaderZone): void {
    if (this.lookedUp === LOOKED_UP.NOT_YET) {
      this.#handOver = true;
    } else if (this.lookedUp === LOOKED_UP.EMPTY) {
      this.reply.authoritative = true;
      this.#addSoa(zone);
    } else {
      this.reply.rcode = RCODE.SERVFAIL;
      this.#fixedEde = EDE.NO_REACHABLE_AUTHORITY;
    }
  }

  /** A name of the zone that only the registry's own name server knows: never NXDOMAIN. */
  #denyForeign(zone: ReaderZone): void {
    if (zone.handsOver) {
      this.#handOver = true;
      return;
    }
    this.reply.rcode = RCODE.SERVFAIL;
    this.#fixedEde = EDE.NOT_SUPPORTED;
  }

  /** R23: a reverse name belongs to no zone of ours; the first zone that has its address and this client answers. */
  #answerReverse(bytes: Uint8Array, peer: Peer, listen: number): void {
    const { memory } = this.#reader;
    const entry = isArpa(bytes, this.#query) ? this.#reader.findReverse(bytes, this.#query) : 0;
    const sets = entry === 0 ? 0 : memory.setCount(entry);
    for (let i = 0; i < sets; i++) {
      const set = memory.set(entry, i);
      const zone = this.#reader.zoneAt(memory.half(set, SET_ZONE), listen);
      if (zone === undefined || !allows(zone, peer)) continue;
      if (zone.open) this.#limitStranger(peer);
      this.reply.authoritative = true;
      const { type } = this.#query;
      if (type === TYPE.PTR || type === TYPE.ANY) this.#composer.put(this.reply, memory, set, this.#recordLimit());
      else this.#addSoaAt(zone, HEADER_BYTES);
      return;
    }
    this.#foreign(peer);
  }

  #recordLimit(): number {
    return this.#query.edns ? this.#limit - RESERVED_BYTES : this.#limit;
  }

  #addSoa(zone: ReaderZone): void {
    this.#addSoaAt(zone, this.#query.labels[this.#reader.zoneLabel]!);
  }

  /** The zone's SOA in the authority section, owned by the name at `owner` of the message (RFC 2308 s.3). */
  #addSoaAt(zone: ReaderZone, owner: number): void {
    const { memory } = this.#reader;
    const state = memory.zoneStates[zone.index]!;
    if (state === 0) return;
    const length = memory.half(state, ZONE_SOA_LENGTH);
    if (this.reply.length + 2 + length > this.#recordLimit()) {
      this.reply.truncated = true;
      return;
    }
    this.reply.addPointer(owner);
    this.#addBlockBytes(state, ZONE_SOA_BYTES, length);
    this.reply.authorities = 1;
  }

  #addBlockBytes(block: number, start: number, length: number): void {
    const segment = block >>> SEGMENT_UNITS_LOG2;
    this.reply.add(this.#reader.memory.views[segment]!, segment, (block & SEGMENT_UNITS_MASK) * 8 + start, length);
  }

  /** Header flags, OPT and counters; the length of the reply. */
  #finish(bytes: Uint8Array, peer: Peer): number {
    const { reply } = this;
    const counters = this.#counters;
    if (this.#ede !== 0) {
      const code = this.#reader.memory.half(this.#ede, EDE_CODE);
      if (code === EDE.STALE_ANSWER || code === EDE.STALE_NXDOMAIN) counters[COUNTER.stale]!++;
    }
    if (this.#query.edns) this.#addOpt();
    const tc = reply.truncated ? 0x0200 : 0;
    const aa = reply.authoritative ? 0x0400 : 0;
    const ra = this.#forward !== undefined && allows(this.#forward, peer) ? 0x80 : 0;
    reply.flags = 0x8000 | ((bytes[2]! & 0x79) << 8) | aa | tc | ra | (bytes[3]! & 0x10) | (reply.rcode & 15);
    counters[COUNTER.rcode + reply.rcode]!++;
    if (reply.truncated) counters[COUNTER.truncated]!++;
    return reply.length;
  }

  /** RFC 6891 s.6.1.1. Of an EDE the text goes first when there is no room (R26). */
  #addOpt(): void {
    const { reply } = this;
    reply.addOptHead(this.#query.dnssecOk, reply.rcode === RCODE.BADVERS);
    if (this.#ede !== 0) {
      const full = this.#reader.memory.half(this.#ede, EDE_FULL_LENGTH);
      if (reply.length + full <= this.#limit) this.#addBlockBytes(this.#ede, EDE_FULL_BYTES, full);
      else this.#addBlockBytes(this.#ede, EDE_BARE_BYTES, EDE_BARE_LENGTH);
    } else if (this.#fixedEde !== 0) reply.addFixedEde(this.#fixedEde);
    else reply.addNoOptions();
  }
}

/** Is the last label `arpa`? */
function isArpa(bytes: Uint8Array, query: Query): boolean {
  const label = query.labels[query.labelCount - 1]!;
  if (bytes[label] !== ARPA.length) return false;
  for (let i = 0; i < ARPA.length; i++) if ((bytes[label + 1 + i]! | 0x20) !== ARPA.charCodeAt(i)) return false;
  return true;
}

/** Whether a name of this form that was not found may exist, for all that is known. */
function mayExist(form: Form, synced: number): boolean {
  if (form === NO_FORM || synced === SYNCED) return false;
  return synced === NOT_SYNCED || form === TARGET_FORM;
}
