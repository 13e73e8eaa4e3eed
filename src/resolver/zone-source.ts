/** One registry of a zone: what it said last, whether it is heard, and the guard over it (R32). */
import { Catalog, type ListReport, type Reception } from '../catalog/catalog.js';
import { Guard, type GuardEvent } from '../catalog/guard.js';
import type { Layer } from '../catalog/layers.js';
import { plainRow } from '../catalog/merge-rows.js';
import type { CatalogRow, Strength } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { Steps } from '../catalog/steps.js';
import { isOnDemand } from '../config/on-demand.js';
import type { ZoneConfig } from '../config/types.js';
import { registryIdentity } from '../registry/identity.js';
import type { Listing, Rejected, ReleaseMark, Row } from '../registry/registry.js';
import { isHostName } from '../registry/rows.js';
import type { BootMs, Instant, WallMs } from '../system/clock.js';
import type { Log } from './events.js';
import { GuardLog } from './guard-log.js';
import type { HostTable } from './host-table.js';
import { together } from './refused-report.js';
import { SourceHosts } from './source-hosts.js';
import { ZoneHearing } from './zone-hearing.js';

export interface SourceEvents {
  added(source: ZoneSource, service: Service, row: CatalogRow): void;
  removed(source: ZoneSource, service: Service, row: CatalogRow): void;
  strength(source: ZoneSource, service: Service): Strength;
  /** R19, see `Guard`. */
  isClaimed(service: Service, row: CatalogRow): boolean;
  /** R19, see `CatalogEvents`. */
  isTaken(service: Service, row: CatalogRow): boolean;
}

export class ZoneSource implements Layer {
  /** See `registryIdentity`. */
  identity: string;
  readonly hearing: ZoneHearing;
  readonly guard: Guard;
  readonly guardLog: GuardLog;
  readonly hosts: SourceHosts;
  readonly catalog: Catalog;
  readonly once = new Set<string>();
  answerable = 0;
  /** Where what it holds came from: `none` until the first list or a snapshot. */
  from: 'registry' | 'snapshot' | 'none' = 'none';
  /** R33: it is asked for one service after the other. */
  onDemand = false;
  /** So it was, and has not said since what it has in all: what is not here may be there. */
  isPart = false;
  epoch: string | undefined;
  revision: string | undefined;
  rejected: readonly Rejected[] = [];
  /** Release marks that were seen, with the wall time from which they count. */
  readonly releases = new Map<string, { readonly wall: WallMs; readonly counts: WallMs }>();
  /** False: the first believable list replaces what is here without a guard (R29). */
  trusted = true;
  /** What was said and not taken in, over the zone's limits: the registry takes it for known. */
  refused: ListReport | undefined;
  /** The first list was taken in and not told of. */
  #firstTaken = false;
  readonly #who: { readonly zone: string; registry?: string };
  readonly #log: Log;
  /** Addresses of host names left while the registry was not heard. */
  #behind = false;

  constructor(identity: string, config: ZoneConfig, log: Log, hosts: HostTable, events: SourceEvents, now: Instant) {
    this.identity = identity;
    this.#log = log;
    this.#who = { zone: config.name };
    this.hosts = new SourceHosts(hosts);
    this.hearing = new ZoneHearing(this.#who, log, now);
    this.guard = new Guard(config.guard, (service, row) => events.isClaimed(service, row));
    this.guardLog = new GuardLog(this.#who, this.guard, log);
    this.catalog = new Catalog(config.limits, this.guard, {
      added: (service, row) => events.added(this, service, row),
      removed: (service, row) => events.removed(this, service, row),
      strength: (service) => events.strength(this, service),
      isTaken: (service, row) => events.isTaken(service, row),
    });
  }

  /** @param several the log says which registry it is about */
  configure(identity: string, several: boolean, config: ZoneConfig, now: Instant): void {
    const isOther = identity !== this.identity;
    this.identity = identity;
    if (several) this.#who.registry = identity;
    else delete this.#who.registry;
    if (isOther) {
      this.once.clear();
      this.refused = undefined;
      for (const service of this.catalog.services.values()) service.borrowed = true;
      this.rejected = [];
      this.revision = undefined;
      this.hearing.lost('another registry since a reload, which has not been heard yet', now);
    }
    this.guard.configure(config.guard);
    this.catalog.configure(config.limits);
    const registry = config.registries.find((one) => registryIdentity(one) === identity);
    const onDemand = registry !== undefined && isOnDemand(registry);
    this.isPart = !onDemand && (this.isPart || this.onDemand);
    this.onDemand = onDemand;
    this.hosts.configure(config.allowAddresses, registry?.type === 'file', config.softTtl);
  }

  /**
   * Takes in a list or a change. The services that it touches are put into `touched` as it goes. Returns whether it is
   * believed.
   */
  *taking(given: ListReport, now: Instant, touched: Set<Service>): Steps<boolean> {
    const whole = together(this.refused, given);
    const report = this.hosts.expand(whole, this.#known);
    const over = this.catalog.overLimit(report);
    // What is over the limits without addresses of host names is so to whoever reads the registry, too.
    this.refused = over !== undefined && (this.hosts.any || report !== whole) ? whole : undefined;
    if (over !== undefined) {
      this.hearing.lost(`not believable: ${over}`, now);
      return false;
    }
    if (report.kind === 'change' && this.from !== 'registry') {
      this.hearing.lost('not believable: a change before the first list', now);
      return false;
    }
    this.hosts.believe(whole, this.#known);
    const first = this.from === 'none';
    const unguarded = this.from === 'snapshot' && !this.trusted;
    const newEpoch = this.epoch !== undefined && report.epoch !== this.epoch && !unguarded;
    if (newEpoch) this.#log('warn', 'epoch-changed', { ...this.#who, from: this.epoch, to: report.epoch });
    const how = {
      boot: now.boot,
      heard: this.hearing.clock.at(now.boot),
      wall: now.wall,
      first,
      unguarded,
      newEpoch,
      removals: believedForRemovals(report),
    };
    yield* this.catalog.applying(report, how, touched);
    this.from = 'registry';
    this.trusted = true;
    this.isPart = false;
    this.epoch = report.epoch;
    // A change may be of a part that has none of its own: what was seen before stands.
    this.revision = report.revision ?? (report.kind === 'change' ? this.revision : undefined);
    this.rejected = report.rejected;
    this.#firstTaken = first;
    return true;
  }

  /** To be called when what was taken in is answered: only then is it said. */
  tellFirst(): void {
    if (!this.#firstTaken) return;
    this.#firstTaken = false;
    this.#log('info', 'zone-synced', { ...this.#who, services: this.catalog.services.size });
  }

  /**
   * R28: takes listings in whose host names have other addresses now. While the registry is not heard what has left
   * stays (R4), and is looked at again by `relist`. Returns the services that were touched.
   */
  replace(services: readonly Listing[], now: Instant): Set<Service> {
    const { heard } = this.hearing;
    if (!heard) this.#behind = true;
    const about = { at: now.boot, epoch: this.epoch ?? '', gone: [], releases: [], rejected: [] };
    const report = { kind: 'change', services, ...about } as const;
    if (this.from === 'none') return new Set();
    const over = this.catalog.overLimit(report);
    for (const { rows } of services) for (const { host } of rows) if (host !== undefined) this.hosts.refuse(host, over);
    if (over !== undefined) return new Set();
    for (const { name, rows } of services) this.#announce(this.catalog.services.get(name), rows);
    return this.catalog.apply(report, {
      boot: now.boot,
      heard: this.hearing.clock.at(now.boot),
      wall: now.wall,
      first: false,
      unguarded: false,
      newEpoch: false,
      removals: heard,
    });
  }

  /**
   * R33: a service that was looked up is there from now on, all of it at once. Undefined when it is over the zone's
   * limits. What else is here is not confirmed by it.
   */
  adopt(listing: Listing, now: Instant): Set<Service> | undefined {
    return this.#change([listing], [], { first: !this.catalog.services.has(listing.name), unguarded: false }, now);
  }

  /** R33: services leave that nobody asks for: that is no loss. */
  drop(services: readonly string[], now: Instant): Set<Service> {
    return this.#change([], services, { first: false, unguarded: true }, now) ?? new Set();
  }

  #change(
    services: readonly Listing[],
    gone: readonly string[],
    how: Pick<Reception, 'first' | 'unguarded'>,
    now: Instant,
  ): Set<Service> | undefined {
    const about = { at: now.boot, epoch: this.epoch ?? '', releases: [], rejected: [] };
    const given = { kind: 'change' as const, services, gone, ...about };
    const report = this.hosts.expand(given, this.#known);
    if (this.catalog.overLimit(report) !== undefined) return undefined;
    this.hosts.believe(given, this.#known);
    const heard = this.hearing.clock.at(now.boot);
    return this.catalog.apply(report, {
      boot: now.boot,
      heard,
      wall: now.wall,
      newEpoch: false,
      removals: this.hearing.heard,
      ...how,
    });
  }

  /** The registry is heard again: what host names lost meanwhile goes now. */
  relist(now: Instant): Set<Service> {
    if (!this.#behind) return new Set();
    this.#behind = false;
    return this.replace(this.hosts.all(), now);
  }

  /** What stood for a host without addresses makes way for them: that is no loss of capacity. */
  #announce(service: Service | undefined, rows: readonly Row[]): void {
    for (const row of service?.rows.values() ?? []) {
      if (!isHostName(row.address) || rows.some(({ address }) => address === row.address)) continue;
      row.update({ ...plainRow(row), state: 'draining' });
    }
  }

  /** R9: marks newer than a hold let it go; one from the future counts from when it was first seen. */
  release(marks: readonly ReleaseMark[], now: Instant): GuardEvent[] {
    const events: GuardEvent[] = [];
    for (const { service: name, wall } of marks) {
      const seen = this.releases.get(name);
      const counts = seen?.wall === wall ? seen.counts : Math.min(wall, now.wall);
      this.releases.set(name, { wall, counts });
      const service = name === '*' ? undefined : this.catalog.services.get(name);
      if (name !== '*' && service === undefined) continue;
      events.push(...this.guard.accept(service, counts));
    }
    return events;
  }

  readonly #known = (service: string): Service | undefined => this.catalog.services.get(service);

  isStale(now: BootMs, softTtl: number): boolean {
    if (this.from !== 'registry') return this.from === 'snapshot';
    return this.hearing.lastConfirmed !== undefined && now - this.hearing.lastConfirmed > softTtl;
  }
}

/** R6. */
export function believedForRemovals(report: ListReport): boolean {
  return report.kind === 'change' || report.removalsBelievable;
}
