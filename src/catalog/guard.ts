/**
 * The guard (R8, R9). It protects capacity, not identity: what a believable registry took away stands where it was
 * while too much would be missing. It changes marks on rows (`loss`, `hold`, `counted`) and nothing else.
 */
import type { GuardConfig } from '../config/types.js';
import type { WallMs } from '../system/clock.js';
import { failsHard, hasLife, isDead } from './dead.js';
import { makesGood } from './makes-good.js';
import type { CatalogRow, HeardMs, Hold, Strength } from './row.js';
import type { Service } from './service.js';

/** A zone trips at this share of its answerable rows over so many services, or at the lower share and so many rows (R8). */
const ZONE_SHARE = 0.2;
const ZONE_SHARE_LOW = 0.1;
const ZONE_LOW_COUNT = 10;
const ZONE_SERVICES = 3;

/** Why a hold ended (R9). */
export type Exit = 'listed again' | 'made good' | 'quiet' | 'dead' | 'maxHold' | 'accepted' | 'claimed';

export type GuardEvent =
  | {
      readonly kind: 'tripped';
      readonly scope: 'service' | 'zone';
      readonly service: Service | undefined;
      readonly lost: number;
    }
  | { readonly kind: 'held'; readonly service: Service; readonly rows: readonly CatalogRow[] }
  /** Losses that the window has passed over; tombstones go. */
  | { readonly kind: 'forgotten'; readonly service: Service }
  | { readonly kind: 'let go'; readonly service: Service; readonly rows: readonly CatalogRow[]; readonly exit: Exit };

/** The zone's side of a condition. */
interface Losses {
  readonly lost: readonly CatalogRow[];
  /** New rows that make lost ones good. */
  readonly gains: readonly CatalogRow[];
}

export class Guard {
  #config: GuardConfig;
  readonly #isClaimed: (service: Service, row: CatalogRow) => boolean;
  /** Services with a loss or a hold: all that the guard has to look at. */
  readonly #lossy = new Set<Service>();
  #zoneTripped = false;
  #zoneQuietSince: HeardMs | undefined;
  /** Sum of `remaining` over the zone. */
  #remaining = 0;
  #heldPassingSince: HeardMs | undefined;

  /** `isClaimed`: another service of the zone was listed at the row's address after the row was gone (R19). */
  constructor(config: GuardConfig, isClaimed: (service: Service, row: CatalogRow) => boolean = () => false) {
    this.#config = config;
    this.#isClaimed = isClaimed;
  }

  configure(config: GuardConfig): void {
    this.#config = config;
  }

  get zoneTripped(): boolean {
    return this.#zoneTripped;
  }

  get zoneQuietSince(): HeardMs | undefined {
    return this.#zoneQuietSince;
  }

  /** The zone's marks from a snapshot. */
  restoreZone(tripped: boolean, quietSince: HeardMs | undefined, heldPassingSince: HeardMs | undefined): void {
    this.#zoneTripped = tripped;
    this.#zoneQuietSince = quietSince;
    this.#heldPassingSince = heldPassingSince;
  }

  /** Services that hold a row at present. */
  *holding(): Iterable<Service> {
    for (const service of this.#lossy) if (hasHold(service)) yield service;
  }

  /** Since when the guard has held rows that pass; its alarm sounds after 5 minutes of it (R9). */
  get heldPassingSince(): HeardMs | undefined {
    return this.#heldPassingSince;
  }

  /** A row that was answered left or flipped to critical (R8). `epoch`: in the first list of a new epoch (R7). */
  lost(service: Service, row: CatalogRow, before: Strength, at: HeardMs, wall: number, epoch: boolean): void {
    if (row.loss === undefined) row.loss = { at, before };
    if (epoch && row.hold === undefined) row.hold = { scope: 'epoch', since: at, wall, deadSince: undefined };
    this.#lossy.add(service);
  }

  /** The registry lists the row as passing, or it marked it draining: it is not lost, and nothing holds it (R8, R9). */
  found(row: CatalogRow): void {
    row.loss = undefined;
    row.hold = undefined;
  }

  /** Marks of a service that came from a snapshot. */
  restored(service: Service): void {
    for (const row of service.rows.values())
      if (row.loss !== undefined || row.hold !== undefined) this.#lossy.add(service);
  }

  forget(service: Service): void {
    this.#lossy.delete(service);
    this.#remaining -= service.remaining;
    service.remaining = 0;
  }

  /** Counts a service's remaining rows and marks new ones that made good. To be called when its rows or their health changed. */
  recount(service: Service, now: HeardMs, proberSilent: boolean): void {
    let remaining = 0;
    const test = makesGood(service, proberSilent);
    for (const row of service.rows.values()) {
      if (!row.passing) continue;
      const fresh = row.isNew(now, this.#config.window);
      if (fresh && !row.counted && test(row)) row.counted = true;
      if (row.answerable && (!fresh || row.counted)) remaining++;
    }
    this.#remaining += remaining - service.remaining;
    service.remaining = remaining;
  }

  /**
   * Trips and exits, with the clocks standing at `now`. To be called when the zone is heard, after every report,
   * after every verdict on a row it looks at, and at `nextWake`. Rows that are let go have no marks any more; the
   * caller removes those that are not listed.
   */
  evaluate(now: HeardMs, wall: WallMs, proberSilent: boolean): GuardEvent[] {
    const events: GuardEvent[] = [];
    if (this.#lossy.size === 0) {
      this.#zoneTripped = false;
      this.#zoneQuietSince = undefined;
      this.#heldPassingSince = undefined;
      return events;
    }
    for (const service of this.#lossy) {
      this.recount(service, now, proberSilent);
      if (this.#forgetOldLosses(service, now)) events.push({ kind: 'forgotten', service });
      this.#releaseClaimed(service, events);
      this.#releaseDead(service, now, events);
      this.#releaseOld(service, now, events);
    }
    this.#evaluateZone(now, wall, events);
    for (const service of this.#lossy) this.#evaluateService(service, now, wall, events);
    let heldPassing = false;
    for (const service of this.#lossy) {
      let marked = false;
      for (const row of service.rows.values()) {
        marked ||= row.loss !== undefined || row.hold !== undefined;
        // What came to be held only now, or by its service instead of the zone, may have failed for long: no verdict will tell.
        if (row.hold !== undefined && isDead(row)) row.hold.deadSince ??= now;
        heldPassing ||= row.hold !== undefined && row.column === 'passes';
      }
      if (!marked) this.#lossy.delete(service);
    }
    if (this.#lossy.size === 0) this.#zoneTripped = false;
    if (heldPassing) this.#heldPassingSince ??= now;
    else this.#heldPassingSince = undefined;
    return events;
  }

  /** R9: a person or a mark lets go what is held: of one service, or of all. `before`: only what is held since before that wall time. */
  accept(service: Service | undefined, before: number): GuardEvent[] {
    const events: GuardEvent[] = [];
    for (const one of service === undefined ? this.#lossy : [service]) {
      const rows = [...one.rows.values()].filter((row) => row.hold !== undefined && row.hold.wall < before);
      release(one, rows, 'accepted', events);
    }
    return events;
  }

  /** The heard time at which something changes by the clock alone; Infinity when nothing does. */
  nextWake(): HeardMs {
    const { window, confirm, maxHold } = this.#config;
    let next = Number.POSITIVE_INFINITY;
    if (this.#zoneQuietSince !== undefined) next = this.#zoneQuietSince + confirm;
    for (const service of this.#lossy) {
      if (service.quietSince !== undefined) next = Math.min(next, service.quietSince + confirm);
      const others = hasLife(service);
      for (const row of service.rows.values()) {
        if (row.loss !== undefined && row.hold === undefined) next = Math.min(next, row.loss.at + window + 1);
        if (row.hold === undefined) continue;
        if (row.hold.scope !== 'zone') next = Math.min(next, row.hold.since + maxHold);
        if (row.hold.deadSince !== undefined)
          next = Math.min(next, this.#deadDue(row.hold, row.hold.deadSince, others));
      }
    }
    return next;
  }

  /** A loss is in the window, or held; older ones are done with, and their tombstones go. */
  #forgetOldLosses(service: Service, now: HeardMs): boolean {
    let some = false;
    for (const row of service.rows.values()) {
      if (row.loss === undefined || row.hold !== undefined || now - row.loss.at <= this.#config.window) continue;
      row.loss = undefined;
      some = true;
    }
    return some;
  }

  #losses(service: Service, now: HeardMs): Losses {
    const lost: CatalogRow[] = [];
    const gains: CatalogRow[] = [];
    for (const row of service.rows.values()) {
      if (row.loss !== undefined) {
        // Failing hard and not answered is dead, not lost; one that leaves just now was answered until now.
        if (!failsHard(row) || row.answered || row.loss.at === now) lost.push(row);
      } else if (row.counted && row.passing && row.isNew(now, this.#config.window)) gains.push(row);
    }
    return { lost, gains };
  }

  /** R8, first point. `withGains` false asks whether it would trip had nothing new come. */
  #serviceWouldTrip(service: Service, { lost, gains }: Losses, withGains: boolean, now: HeardMs): boolean {
    if (lost.length === 0) return false;
    const made = withGains ? gains : [];
    const remaining = [...service.rows.values()].filter(
      (row) => row.passing && row.answerable && (!row.isNew(now, this.#config.window) || (withGains && row.counted)),
    );
    if (remaining.length === 0) return true;
    if (this.#thin(lost.length - made.length, remaining.length, Math.max(...lost.map((row) => row.loss!.before.all))))
      return true;
    const best = Math.min(...[...lost, ...remaining].map((row) => row.priority));
    const ofBest = (row: CatalogRow): boolean => row.priority === best;
    const lostOfBest = lost.filter(ofBest);
    if (lostOfBest.length === 0) return false;
    return this.#thin(
      lostOfBest.length - made.filter(ofBest).length,
      remaining.filter(ofBest).length,
      Math.max(...lostOfBest.map((row) => row.loss!.before.byPriority.get(best) ?? 0)),
    );
  }

  #thin(net: number, remaining: number, base: number): boolean {
    return net >= this.#config.count && remaining < (1 - this.#config.share) * base;
  }

  /** R8, second point. */
  #zoneWouldTrip(now: HeardMs, withGains: boolean): boolean {
    let net = 0;
    let services = 0;
    let base = 0;
    let remaining = this.#remaining;
    for (const service of this.#lossy) {
      const { lost, gains } = this.#losses(service, now);
      if (!withGains) remaining -= gains.filter((row) => row.answerable).length;
      const missing = lost.length - (withGains ? gains.length : 0);
      if (missing <= 0) continue;
      net += missing;
      services++;
      for (const row of lost) base = Math.max(base, row.loss!.before.zone);
    }
    if (net === 0) return false;
    if (remaining === 0) return true;
    if (services < ZONE_SERVICES) return false;
    return net >= ZONE_SHARE * base || (net >= ZONE_LOW_COUNT && net >= ZONE_SHARE_LOW * base);
  }

  #evaluateZone(now: HeardMs, wall: number, events: GuardEvent[]): void {
    if (this.#zoneWouldTrip(now, true)) {
      this.#zoneQuietSince = undefined;
      if (!this.#zoneTripped) {
        let lost = 0;
        for (const service of this.#lossy) lost += this.#losses(service, now).lost.length;
        events.push({ kind: 'tripped', scope: 'zone', service: undefined, lost });
      }
      this.#zoneTripped = true;
      for (const service of this.#lossy) this.#hold(service, 'zone', now, wall, events);
      return;
    }
    this.#zoneTripped = false;
    if (![...this.#lossy].some((service) => hasHold(service, 'zone'))) {
      this.#zoneQuietSince = undefined;
      return;
    }
    this.#zoneQuietSince ??= now;
    const madeGood = this.#zoneWouldTrip(now, false);
    if (!madeGood && now - this.#zoneQuietSince < this.#config.confirm) return;
    this.#zoneQuietSince = undefined;
    for (const service of this.#lossy) {
      service.quietSince = undefined;
      const held = [...service.rows.values()].filter((row) => row.hold?.scope === 'zone');
      if (madeGood && !this.#serviceWouldTrip(service, this.#losses(service, now), true, now)) {
        release(service, held, 'made good', events);
      }
      for (const row of held) {
        if (row.hold !== undefined)
          row.hold = { scope: 'service', since: now, wall: row.hold.wall, deadSince: undefined };
      }
    }
  }

  #evaluateService(service: Service, now: HeardMs, wall: number, events: GuardEvent[]): void {
    const losses = this.#losses(service, now);
    const trips = this.#serviceWouldTrip(service, losses, true, now);
    if (trips) {
      if (!service.tripped) events.push({ kind: 'tripped', scope: 'service', service, lost: losses.lost.length });
      this.#hold(service, 'service', now, wall, events);
    }
    service.tripped = trips;
    const held = [...service.rows.values()].filter((row) => row.hold !== undefined && row.hold.scope !== 'zone');
    if (!trips && this.#serviceWouldTrip(service, losses, false, now)) {
      release(service, held, 'made good', events);
    }
    if (trips || !hasHold(service, 'service')) {
      service.quietSince = undefined;
      return;
    }
    service.quietSince ??= now;
    if (now - service.quietSince < this.#config.confirm) return;
    release(
      service,
      held.filter((row) => row.hold?.scope === 'service'),
      'quiet',
      events,
    );
    service.quietSince = undefined;
  }

  /** R19: its address is another service's now. It was lost all the same. */
  #releaseClaimed(service: Service, events: GuardEvent[]): void {
    const rows = [...service.rows.values()].filter((row) => row.hold !== undefined && this.#isClaimed(service, row));
    if (rows.length === 0) return;
    for (const row of rows) row.hold = undefined;
    events.push({ kind: 'let go', service, rows, exit: 'claimed' });
  }

  /** Holds every lost row of a service. A zone's guard takes over what the service's own held. */
  #hold(service: Service, scope: 'service' | 'zone', now: HeardMs, wall: number, events: GuardEvent[]): void {
    const rows: CatalogRow[] = [];
    for (const row of service.rows.values()) {
      if (row.loss === undefined) continue;
      if (row.hold === undefined) {
        if (this.#isClaimed(service, row)) continue;
        row.hold = { scope, since: now, wall, deadSince: undefined };
        rows.push(row);
      } else if (scope === 'zone') row.hold.scope = 'zone';
    }
    if (rows.length > 0) events.push({ kind: 'held', service, rows });
  }

  /** R9: absent, failing hard, for `confirm`; a service's last rows under a zone's guard for `maxHold`. */
  #releaseDead(service: Service, now: HeardMs, events: GuardEvent[]): void {
    const others = hasLife(service);
    const dead: CatalogRow[] = [];
    for (const row of service.rows.values()) {
      if (row.hold === undefined) continue;
      if (!isDead(row)) {
        row.hold.deadSince = undefined;
        continue;
      }
      row.hold.deadSince ??= now;
      if (now >= this.#deadDue(row.hold, row.hold.deadSince, others)) dead.push(row);
    }
    release(service, dead, 'dead', events);
  }

  /** R9: a service's guard lets go after `maxHold`, whatever the probes say. */
  #releaseOld(service: Service, now: HeardMs, events: GuardEvent[]): void {
    const due = (row: CatalogRow): boolean =>
      row.hold !== undefined && row.hold.scope !== 'zone' && now - row.hold.since >= this.#config.maxHold;
    release(service, [...service.rows.values()].filter(due), 'maxHold', events);
  }

  #deadDue(hold: Hold, deadSince: HeardMs, others: boolean): HeardMs {
    const confirmed = deadSince + this.#config.confirm;
    return hold.scope === 'zone' && !others ? Math.max(confirmed, hold.since + this.#config.maxHold) : confirmed;
  }
}

function hasHold(service: Service, ...scopes: readonly string[]): boolean {
  for (const row of service.rows.values()) {
    if (row.hold !== undefined && (scopes.length === 0 || scopes.includes(row.hold.scope))) return true;
  }
  return false;
}

function release(service: Service, rows: readonly CatalogRow[], exit: Exit, events: GuardEvent[]): void {
  if (rows.length === 0) return;
  for (const row of rows) {
    row.hold = undefined;
    row.loss = undefined;
  }
  events.push({ kind: 'let go', service, rows, exit });
}
