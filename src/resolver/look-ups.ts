/**
 * Questions for names of zones on demand that no answer thread could answer (R33): each waits for the look-up of its
 * service, and no longer than a client would. The reply is a responder's, like that of any thread. Time is passed in.
 */
import type { AnswerTable } from '../answers/table.js';
import type { LookUp } from '../registry/look-up.js';
import type { Allowed } from '../server/acl.js';
import { COUNTER_WORDS } from '../server/counters.js';
import type { ForeignQuestion, ReplyForeign } from '../server/handover-desk.js';
import { LOOKED_UP, type LookedUp } from '../server/looked-up.js';
import { NEEDS_CONTROL, Responder } from '../server/respond.js';
import type { BootMs, Instant, Ms } from '../system/clock.js';
import type { Zone } from './zone.js';

/** R25. */
export const WAIT_MS: Ms = 1_500;
const MAX_UDP = 1_232;
const MAX_TCP = 65_535;
/** Of all zones, such as arrive within `WAIT_MS`. */
const MAX_WAITING = 4_096;

interface Waiter {
  readonly question: ForeignQuestion;
  readonly reply: ReplyForeign;
  readonly until: BootMs;
}

export class LookUps {
  readonly #table: AnswerTable;
  readonly #zones: ReadonlyMap<string, Zone>;
  readonly #begin: (zone: string, service: string) => void;
  /** By zone and service. */
  readonly #waiting = new Map<Zone, Map<string, Set<Waiter>>>();
  /** The same, the one that came first first. */
  readonly #all = new Map<Waiter, readonly [zone: Zone, service: string]>();
  readonly #out = new Uint8Array(MAX_TCP);
  /** From the first question on. */
  #responder: { readonly responder: Responder; generation: number } | undefined;
  #recursion: Allowed | undefined;

  constructor(table: AnswerTable, zones: ReadonlyMap<string, Zone>, begin: (zone: string, service: string) => void) {
    this.#table = table;
    this.#zones = zones;
    this.#begin = begin;
  }

  /** Who may have recursion, which every reply tells (R26). */
  setForward(allowed: Allowed | undefined): void {
    this.#recursion = allowed;
    this.#responder?.responder.setForward(allowed);
  }

  /** Questions that wait. */
  waiting(zone: Zone): number {
    let count = 0;
    for (const waiters of this.#waiting.get(zone)?.values() ?? []) count += waiters.size;
    return count;
  }

  /** False: it is none of these zones' names. Otherwise `reply` is called, at once or later. */
  answer(question: ForeignQuestion, reply: ReplyForeign, now: Instant): boolean {
    const { query, peer, listen } = question;
    const responder = this.#ready();
    const name = responder.lookUpName(query, query.length, peer, listen);
    const zone = name && this.#zoneOf(name.zone);
    if (name === undefined || zone === undefined) return false;
    // It may have become known on the way here.
    const known = this.#respond(question, LOOKED_UP.NOT_YET);
    if (known !== undefined) {
      reply(known);
      return true;
    }
    const { kind, service } = zone.lookUps.seek(name.labels, now);
    if (kind === 'wait' || kind === 'begin') this.#wait(zone, service, { question, reply, until: now.boot + WAIT_MS });
    else reply(this.#respond(question, OUTCOMES[kind]));
    if (kind === 'begin') this.#begin(zone.key, service);
    return true;
  }

  /** A look-up is over. */
  landed(zone: Zone, service: string, found: LookUp['kind']): void {
    const services = this.#waiting.get(zone);
    const waiters = services?.get(service);
    if (services === undefined || waiters === undefined) return;
    services.delete(service);
    if (services.size === 0) this.#waiting.delete(zone);
    const outcome = found === 'failed' ? LOOKED_UP.FAILED : LOOKED_UP.UNKNOWN;
    for (const waiter of waiters) {
      this.#all.delete(waiter);
      waiter.reply(this.#respond(waiter.question, outcome));
    }
  }

  /** Those that have waited long enough. */
  tick(now: Instant): void {
    // What the table held until now is used again only when every reader has the new handle.
    if (this.#responder !== undefined) this.#ready();
    for (const [waiter, [zone, service]] of this.#all) {
      if (waiter.until > now.boot) break;
      this.#leave(waiter, zone, service);
      waiter.reply(this.#respond(waiter.question, LOOKED_UP.FAILED));
    }
  }

  nextWake(): BootMs {
    for (const { until } of this.#all.keys()) return until;
    return Number.POSITIVE_INFINITY;
  }

  #wait(zone: Zone, service: string, waiter: Waiter): void {
    if (this.#all.size >= MAX_WAITING) {
      waiter.reply(this.#respond(waiter.question, LOOKED_UP.FAILED));
      return;
    }
    let services = this.#waiting.get(zone);
    if (services === undefined) this.#waiting.set(zone, (services = new Map()));
    const waiters = services.get(service);
    if (waiters === undefined) services.set(service, new Set([waiter]));
    else waiters.add(waiter);
    this.#all.set(waiter, [zone, service]);
  }

  #leave(waiter: Waiter, zone: Zone, service: string): void {
    this.#all.delete(waiter);
    const services = this.#waiting.get(zone);
    const waiters = services?.get(service);
    waiters?.delete(waiter);
    if (waiters?.size === 0) services?.delete(service);
    if (services?.size === 0) this.#waiting.delete(zone);
  }

  #zoneOf(index: number): Zone | undefined {
    for (const zone of this.#zones.values()) if (zone.names.index === index) return zone;
    return undefined;
  }

  /** Undefined: it cannot be answered with what is known. */
  #respond({ query, peer, listen, transport }: ForeignQuestion, lookedUp: LookedUp): Uint8Array | undefined {
    const responder = this.#ready();
    const out = transport === 'tcp' ? this.#out : this.#out.subarray(0, MAX_UDP);
    responder.lookedUp = lookedUp;
    responder.beginBatch();
    const length = responder.respond(query, query.length, peer, listen, transport, out);
    responder.endBatch();
    return length === NEEDS_CONTROL || length === 0 ? undefined : this.#out.slice(0, length);
  }

  #ready(): Responder {
    const table = this.#table;
    if (this.#responder === undefined) {
      const reader = table.addReader();
      const limits = { maxUdp: MAX_UDP, tcpMax: MAX_TCP, reader, seed: 0 };
      // The answer thread has counted the question, and whoever sends the reply counts that.
      const responder = new Responder(table.share(), new Uint32Array(COUNTER_WORDS), limits);
      responder.setForward(this.#recursion);
      this.#responder = { responder, generation: table.generation };
    } else if (this.#responder.generation !== table.generation) {
      this.#responder.responder.update(table.share());
      this.#responder.generation = table.generation;
    }
    return this.#responder.responder;
  }
}

const OUTCOMES = { unknown: LOOKED_UP.UNKNOWN, failed: LOOKED_UP.FAILED, empty: LOOKED_UP.EMPTY } as const;
