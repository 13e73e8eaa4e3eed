import type { LimitsConfig } from '../config/types.js';
import { factsOf } from '../registry/packed-listings.js';
import type { Listing, Report, Row } from '../registry/registry.js';
import type { BootMs, WallMs } from '../system/clock.js';
import type { Guard } from './guard.js';
import { CatalogRow, type HeardMs, type Strength } from './row.js';
import { Service } from './service.js';
import { type Steps, toTheEnd } from './steps.js';

/** Told of every row that enters or leaves the catalog, tombstones included. */
export interface CatalogEvents {
  /** `key`: the row's, see `rowKey`. */
  added(service: Service, row: CatalogRow): void;
  removed(service: Service, row: CatalogRow): void;
  /** The answerable rows of a service and of the zone at present, for the guard's base (R8). */
  strength(service: Service): Strength;
  /** Somebody else was listed at the row's address since it left (R19). */
  isTaken(service: Service, row: CatalogRow): boolean;
}

/** The moment and the manner of a report. */
export interface Reception {
  readonly boot: BootMs;
  readonly heard: HeardMs;
  readonly wall: WallMs;
  /** Rows of a first list are not new (R8). */
  readonly first: boolean;
  /** R29: what was there came from a snapshot that is not trusted, and is replaced without a guard. */
  readonly unguarded: boolean;
  /** R7: every row that leaves is held. */
  readonly newEpoch: boolean;
  /** R6: false when only additions and recoveries may be believed. */
  readonly removals: boolean;
}

export type ListReport = Extract<Report, { kind: 'list' | 'change' }>;

/** Last known good services and rows of a zone. Data leaves it only by R9. */
export class Catalog {
  readonly services = new Map<string, Service>();
  #limits: LimitsConfig;
  readonly #guard: Guard;
  readonly #events: CatalogEvents;
  #rows = 0;
  /** What the registry lists of them, so that a change to one service costs that service only. */
  #listedServices = 0;
  #listedRows = 0;

  constructor(limits: LimitsConfig, guard: Guard, events: CatalogEvents) {
    this.#limits = limits;
    this.#guard = guard;
    this.#events = events;
  }

  configure(limits: LimitsConfig): void {
    this.#limits = limits;
  }

  /** Rows in all, tombstones included. */
  get rows(): number {
    return this.#rows;
  }

  /** What the registry lists of it. */
  get listed(): { readonly services: number; readonly rows: number } {
    return { services: this.#listedServices, rows: this.#listedRows };
  }

  /** R6: a list over the zone's limits is not believable. Returns the reason, or undefined when it is within them. */
  overLimit(report: ListReport): string | undefined {
    const { maxServices, maxEndpoints, maxEndpointsPerService } = this.#limits;
    const facts = factsOf(report.services);
    let { services, rows } = facts;
    if (facts.largest.rows > maxEndpointsPerService) {
      const { name, rows: most } = facts.largest;
      return `${name} has ${most} endpoints, more than maxEndpointsPerService (${maxEndpointsPerService})`;
    }
    if (report.kind === 'change') {
      services += this.#listedServices;
      rows += this.#listedRows;
      for (const name of new Set([...report.gone, ...[...report.services].map((listing) => listing.name)])) {
        const service = this.services.get(name);
        if (!service?.listed) continue;
        services--;
        for (const row of service.rows.values()) if (row.listed) rows--;
      }
    }
    if (services > maxServices) return `${services} services, more than maxServices (${maxServices})`;
    if (rows > maxEndpoints) return `${rows} endpoints, more than maxEndpoints (${maxEndpoints})`;
    return undefined;
  }

  /** Applies a believable report. Returns the services that it touched. */
  apply(report: ListReport, how: Reception): Set<Service> {
    const touched = new Set<Service>();
    toTheEnd(this.applying(report, how, touched));
    return touched;
  }

  /** The same in steps: a large list is not taken in at once. The services are put into `touched` as it goes. */
  *applying(report: ListReport, how: Reception, touched: Set<Service>): Steps {
    const listed = new Set<string>();
    for (const listing of report.services) {
      this.#list(listing, how, touched);
      if (report.kind === 'list') listed.add(listing.name);
      yield listing.rows.length + 1;
    }
    if (report.kind === 'list') {
      for (const service of this.services.values()) {
        if (service.listed && !listed.has(service.name)) {
          this.#leaves(service, how, touched);
          yield service.rows.size;
        }
        yield 1;
      }
    } else {
      for (const name of report.gone) {
        const service = this.services.get(name);
        if (service?.listed) this.#leaves(service, how, touched);
      }
    }
    this.#dropOldestTombstones(touched);
  }

  /** Removes what nothing keeps any more. Returns the services that are gone altogether. */
  sweep(services: Iterable<Service>): Service[] {
    const over: Service[] = [];
    for (const service of services) {
      const gone = new Set<CatalogRow>();
      for (const row of service.rows.values()) {
        if (!row.listed && row.loss === undefined && row.hold === undefined) gone.add(row);
      }
      this.#remove(service, gone);
      if (service.listed || service.rows.size > 0 || !this.services.delete(service.name)) continue;
      this.#guard.forget(service);
      over.push(service);
    }
    return over;
  }

  /** Takes in a service from a snapshot. */
  restore(service: Service): void {
    this.services.set(service.name, service);
    if (service.listed) this.#listedServices++;
    for (const row of service.rows.values()) {
      this.#rows++;
      if (row.listed) this.#listedRows++;
      this.#events.added(service, row);
    }
    this.#guard.restored(service);
  }

  #list(listing: Listing, how: Reception, touched: Set<Service>): void {
    let service = this.services.get(listing.name);
    const isNew = service === undefined;
    if (service === undefined) {
      service = new Service(listing.name);
      service.listed = false;
      this.services.set(listing.name, service);
    }
    if (service.borrowed) {
      service.borrowed = false;
      touched.add(service);
    }
    if (!service.listed) {
      service.listed = true;
      this.#listedServices++;
      touched.add(service);
    }
    if (JSON.stringify(service.check) !== JSON.stringify(listing.check)) {
      service.check = listing.check;
      touched.add(service);
    }
    let before: Strength | undefined;
    const strength = (): Strength => (before ??= this.#events.strength(service));
    const present = new Set<CatalogRow>();
    for (const row of listing.rows) {
      const known = service.rows.get(row);
      present.add(known ?? this.#add(service, row, how, touched));
      if (known !== undefined && this.#relist(service, known, row, how, strength)) touched.add(service);
    }
    const gone = new Set<CatalogRow>();
    for (const row of service.rows.values()) {
      if (!row.listed || present.has(row)) continue;
      if (this.#leave(service, row, gone, how, strength)) touched.add(service);
    }
    this.#remove(service, gone);
    if (isNew) service.rows.trim();
  }

  #leaves(service: Service, how: Reception, touched: Set<Service>): void {
    if (!how.removals) return;
    touched.add(service);
    const before = this.#events.strength(service);
    service.listed = false;
    this.#listedServices--;
    const gone = new Set<CatalogRow>();
    for (const row of service.rows.values()) if (row.listed) this.#leave(service, row, gone, how, () => before);
    this.#remove(service, gone);
  }

  #add(service: Service, row: Row, how: Reception, touched: Set<Service>): CatalogRow {
    const added = new CatalogRow(row, how.first || how.unguarded ? Number.NEGATIVE_INFINITY : how.heard);
    if (!how.first && !how.unguarded) added.listedSince = how.boot;
    service.rows.add(added);
    this.#rows++;
    this.#listedRows++;
    touched.add(service);
    this.#events.added(service, added);
    return added;
  }

  /** A row that is in the list again, or still. Returns whether anything changed. */
  #relist(service: Service, row: CatalogRow, now: Row, how: Reception, strength: () => Strength): boolean {
    const heldBack = now.state === 'critical' || now.state === 'draining';
    if (heldBack && !how.removals && row.passing) return false;
    const flips = now.state === 'critical' && row.passing && row.answered;
    let changed = !row.listed;
    if (!row.listed) {
      this.#listedRows++;
      // What comes back is where it was, unless the address was another's meanwhile.
      if (this.#events.isTaken(service, row)) row.listedSince = how.boot;
    }
    row.listed = true;
    changed = row.update(now) || changed;
    if (flips) row.goneSince = how.boot;
    else if (now.state !== 'critical') row.goneSince = undefined;
    if (flips) {
      if (!how.unguarded) this.#guard.lost(service, row, strength(), how.heard, how.wall, false);
    } else if (now.state !== 'critical' && (row.loss !== undefined || row.hold !== undefined)) {
      this.#guard.found(row);
      changed = true;
    }
    return changed;
  }

  /** A row that the registry does not list any more; nothing keeps those in `gone`. Returns whether anything changed. */
  #leave(service: Service, row: CatalogRow, gone: Set<CatalogRow>, how: Reception, strength: () => Strength): boolean {
    if (!how.removals) return false;
    const wasAnswered = row.answered || row.loss !== undefined || row.hold !== undefined;
    row.listed = false;
    row.goneSince ??= how.boot;
    this.#listedRows--;
    if (how.unguarded) this.#guard.found(row);
    else if (!row.draining && (wasAnswered || how.newEpoch)) {
      this.#guard.lost(service, row, strength(), how.heard, how.wall, how.newEpoch);
      return true;
    }
    gone.add(row);
    return true;
  }

  #remove(service: Service, gone: ReadonlySet<CatalogRow>): void {
    if (gone.size === 0) return;
    this.#rows -= service.rows.delete(gone);
    for (const row of gone) this.#events.removed(service, row);
  }

  /** Tombstones count in `maxEndpoints`; the oldest that are not held go first (R8). */
  #dropOldestTombstones(touched: Set<Service>): void {
    let over = this.#rows - this.#limits.maxEndpoints;
    if (over <= 0) return;
    const tombstones: { service: Service; row: CatalogRow; at: HeardMs }[] = [];
    for (const service of this.services.values()) {
      for (const row of service.rows.values()) {
        if (!row.listed && row.hold === undefined && row.loss !== undefined) {
          tombstones.push({ service, row, at: row.loss.at });
        }
      }
    }
    tombstones.sort((a, b) => a.at - b.at);
    for (const { service, row } of tombstones) {
      if (over-- <= 0) break;
      row.loss = undefined;
      this.#remove(service, new Set([row]));
      touched.add(service);
    }
  }
}
