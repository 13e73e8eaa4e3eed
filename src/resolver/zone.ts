/**
 * One zone as a deterministic machine: registry reports, verdicts and time go in; names in the answer table,
 * probe targets and events come out. It decides by the catalog's guard, health's table and the floor, in that order.
 */
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { ZoneConfig } from '../config/types.js';
import type { Rejected } from '../registry/registry.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { HostResult } from './host-table.js';
import { Unsaved } from './unsaved.js';
import { ZoneAsked } from './zone-asked.js';
import { ZoneClaims } from './zone-claims.js';
import type { ZoneDemand } from './zone-demand.js';
import { answerSpec, type ZoneDeps } from './zone-deps.js';
import { ZoneHealth } from './zone-health.js';
import { ZoneIntake } from './zone-intake.js';
import { ZoneLookUps } from './zone-look-ups.js';
import { ZoneNames } from './zone-names.js';
import { type Holder, ZoneProbes } from './zone-probes.js';
import { type RestoredPart, type Seeds, ZoneRestore } from './zone-restore.js';
import { ZoneSettling } from './zone-settling.js';
import { type ZoneFacts, ZoneSources } from './zone-sources.js';
import { nextState, showState } from './zone-state.js';

/** Services that cease to be asked are slowed down so many at a time: after a start they all do at the same moment. */
const PACED_AT_ONCE = 200;

export class Zone {
  /** What tells it from all others, see `zoneKeys`. */
  key: string;
  config: ZoneConfig;
  readonly sources: ZoneSources;
  readonly intake: ZoneIntake;
  readonly names: ZoneNames;
  readonly probes: ZoneProbes<Zone>;
  readonly claims: ZoneClaims;
  readonly health: ZoneHealth;
  readonly settling: ZoneSettling;
  readonly lookUps: ZoneLookUps;
  readonly #asked: ZoneAsked<Zone>;
  readonly #restore: ZoneRestore;
  serial: number;
  readonly unsaved = new Unsaved();
  /** The moment being worked on; set by every entry point. */
  now: Instant;
  #deps: ZoneDeps;

  constructor(key: string, config: ZoneConfig, deps: ZoneDeps, now: Instant) {
    this.key = key;
    this.config = config;
    this.#deps = deps;
    this.now = now;
    this.serial = Math.floor(now.wall / 1000);
    this.lookUps = new ZoneLookUps(this, deps.log);
    this.intake = new ZoneIntake(this);
    this.probes = new ZoneProbes<Zone>(this, config, deps, (service) => this.#asked.has(service));
    this.#asked = new ZoneAsked<Zone>(this, config, deps, (service) => this.probes.settings(service));
    this.settling = new ZoneSettling(this, this.#asked);
    this.claims = new ZoneClaims(this, deps.places);
    const mark = (service: Service, row: CatalogRow): void => this.claims.mark(service, row);
    this.health = new ZoneHealth(config.name, this.probes, mark, deps.log);
    const events = {
      added: (service: Service, row: CatalogRow) => this.#added(service, row),
      removed: (service: Service, row: CatalogRow) => this.#removed(service, row),
      strength: (service: Service) => this.health.strength(service),
      isClaimed: (service: Service, row: CatalogRow) => this.claims.isClaimedHere(service, row),
      isTaken: (service: Service, row: CatalogRow) => this.claims.isTaken(service, row),
    };
    this.sources = new ZoneSources(config, deps.log, deps.hosts, events, now);
    this.names = new ZoneNames(deps.table, answerSpec(config, deps), config.keepTargets, {
      answering: (service) => this.probes.settings(service),
      answerOf: (service, subset) => this.health.answerOf(service, subset).rows,
      service: (name) => this.catalog.services.get(name),
      registry: (service) => this.sources.only(service),
    });
    this.#restore = new ZoneRestore(this.sources, this.probes, this.health, this.names);
    this.show();
  }

  /** What is seen of all registries. */
  get catalog(): { readonly services: ReadonlyMap<string, Service>; readonly rows: number } {
    return this.sources.layers;
  }

  get hearing(): ZoneFacts {
    return this.sources.facts();
  }

  get source(): 'registry' | 'snapshot' | 'none' {
    return this.intake.first ? 'none' : this.sources.from;
  }

  get rejected(): readonly Rejected[] {
    return this.sources.all.flatMap(({ rejected }) => rejected);
  }

  /** R33: absent where the registry is mirrored whole. */
  get demand(): ZoneDemand | undefined {
    return this.lookUps.demand;
  }

  /** Indexes of the listen addresses on which the zone exists; undefined: all. */
  get listen(): readonly number[] | undefined {
    return this.#deps.listen;
  }

  /** Names of services that a registry has, seen or not. One that several have comes more than once. */
  *known(): Iterable<string> {
    for (const { catalog } of this.sources.all) yield* catalog.services.keys();
  }

  /** Services of which a guard holds an endpoint. What a registry keeps that another one's word stands for is none. */
  holding(): string[] {
    const names = new Set(this.sources.all.flatMap(({ guard }) => [...guard.holding()].map(({ name }) => name)));
    return [...names].filter((name) => {
      return (
        this.catalog.services
          .get(name)
          ?.rows.values()
          .some(({ hold }) => hold !== undefined) === true
      );
    });
  }

  isStale(now: BootMs): boolean {
    return this.sources.isStale(now, this.config.softTtl);
  }

  /** Nothing that was begun is left, nor anything of a restore. */
  finish(now: Instant): void {
    this.intake.finish(now);
    this.finishRestore(Number.POSITIVE_INFINITY, now);
  }

  /** Something that was begun is not done. */
  get busy(): boolean {
    return this.intake.busy || this.#restore.pending;
  }

  /** R28: what a host name was found to be. */
  resolved(host: string, result: HostResult, now: Instant): void {
    this.now = now;
    for (const source of this.sources.all) {
      const listings = source.hosts.take(host, result);
      if (listings.length === 0) continue;
      this.finish(now);
      this.settling.moved(source, source.replace(listings, now));
    }
    this.show();
  }

  /** R30: what was heard before the gap counts no more, until the registries speak again. */
  clockGap(now: Instant): void {
    this.intake.finish(this.now);
    // The gap itself was not heard: the guard's clock stands since the zone was last looked at.
    for (const { hearing } of this.sources.all) hearing.lost('the clocks parted', now, this.now.boot);
    // A mark of the registry is newer than a hold, or not, by a clock that nobody sets (R9).
    const set = now.wall - this.now.wall - (now.boot - this.now.boot);
    for (const { guard } of this.sources.all)
      for (const { rows } of guard.holding()) for (const { hold } of rows.values()) if (hold) hold.wall += set;
    this.now = now;
    // What the snapshot has is dated by the clock that was, and counts time in which nobody looked.
    this.unsaved.addAll(this.known());
    this.intake.heed();
    this.show();
  }

  /** Verdicts on rows of these services changed. */
  verdictsChanged(services: Iterable<Service>, now: Instant): void {
    this.now = now;
    const touched = new Set<Service>();
    for (const service of services) if (!this.intake.judgesLater(service)) touched.add(service);
    this.settling.settle(touched, !this.intake.busy);
    this.show();
  }

  /** R13: newly added while others of the service are answered, and without a result so far. */
  isFresh(holder: Holder<Zone>): boolean {
    const { service, row } = holder;
    if (row.addedAt === Number.NEGATIVE_INFINITY) return false;
    for (const other of service.rows.values()) if (other !== row && other.answered) return true;
    return false;
  }

  /** R16: the registry, heard, has dropped the row or calls it critical: a second witness against it. */
  disowns({ service, row }: Holder<Zone>): boolean {
    return (!row.listed || row.state === 'critical') && this.sources.heard(service);
  }

  /** Looks at these services again, or at all: what is not the zone's own word on them has changed. */
  settle(services: Set<Service> | undefined, now: Instant): void {
    this.now = now;
    this.finish(now);
    this.settling.settle(services ?? new Set(this.catalog.services.values()));
    this.show();
  }

  /** Runs the zone's own clocks: staleness, the guard's, kept targets. */
  tick(now: Instant): void {
    this.now = now;
    this.names.tick(now.boot);
    for (const service of this.#asked.expire(now.boot, PACED_AT_ONCE)) this.probes.pace(service, now.boot);
    this.lookUps.forgetUnasked(now);
    const due = this.sources.all.some(({ hearing, guard }) => {
      return hearing.heard && hearing.clock.at(now.boot) >= guard.nextWake();
    });
    if (due && !this.intake.busy) this.settling.settle(new Set());
    this.show();
  }

  nextWake(now: BootMs): BootMs {
    const forget = this.demand?.nextWake() ?? Number.POSITIVE_INFINITY;
    return Math.min(this.names.nextWake(), this.#asked.nextExpiry(), forget, nextState(this, now));
  }

  /** R17: names of these services were asked. */
  asked(service: Service, now: Instant): void {
    if (this.#asked.ask(service, now.boot)) this.probes.pace(service, now.boot);
    if (this.demand?.ask(service.name, now.boot)) this.unsaved.add(service.name);
  }

  /** R3: the services that are asked most, the first first. */
  mostAsked(count: number, now: Instant): string[] {
    return this.#asked.most(count, now.boot);
  }

  /** The service that a person means: as its registry spells it, or as it is asked for. */
  meant(name: string): Service | undefined {
    const { services } = this.catalog;
    return services.get(name) ?? services.get(this.names.labels.owner(name.toLowerCase()) ?? name);
  }

  /** R9. Returns how many rows were let go. */
  accept(given: string, now: Instant): number {
    this.now = now;
    this.finish(now);
    const name = this.meant(given)?.name ?? given;
    let rows = 0;
    for (const source of this.sources.all) {
      const service = name === '*' ? undefined : source.catalog.services.get(name);
      if (name !== '*' && service === undefined) continue;
      const events = source.guard.accept(service, Number.POSITIVE_INFINITY);
      for (const event of events) if (event.kind === 'let go') rows += event.rows.length;
      this.settling.settle(this.settling.seen(source, source.guardLog.tell(events)));
    }
    this.show();
    return rows;
  }

  /** New settings for the same zone; data, guard and verdicts stay (D32). */
  reconfigure(config: ZoneConfig, deps: ZoneDeps, now: Instant): void {
    this.now = now;
    this.finish(now);
    this.config = config;
    this.#deps = deps;
    this.lookUps.configure(config, now);
    this.probes.configure(config);
    this.#asked.configure(config);
    const before = this.sources.configure(config, now);
    const services = this.sources.layers.showAll();
    if (before !== undefined && !this.sources.layers.several) this.#seenAlone(services);
    for (const service of before ?? []) if (!services.has(service)) this.#replaced(service);
    for (const service of services) this.settling.aim(service);
    const registries = this.sources.all.map(({ identity }) => identity);
    this.names.reconfigure(answerSpec(config, deps), config.keepTargets, registries, now.boot);
    this.settling.settle(services);
    this.show();
  }

  dispose(now: Instant): void {
    this.now = now;
    this.intake.drop();
    for (const service of this.catalog.services.values()) {
      this.#asked.unmark(service);
      for (const row of service.rows.values()) this.probes.remove(row, now.boot);
    }
    for (const { hosts } of this.sources.all) hosts.dispose();
    this.names.dispose();
  }

  /** Takes in what a snapshot had (R29), see `ZoneRestore`. */
  restored(parts: readonly RestoredPart[], trusted: boolean, now: Instant, seeds: Seeds, defer: boolean): void {
    this.now = now;
    this.settling.settle(this.#restore.take(parts, trusted, seeds, defer, now));
    this.unsaved.clear();
    this.show();
  }

  /** Aims at up to `count` rows that a restore left for later. Returns whether there are more. */
  finishRestore(count: number, now: Instant): boolean {
    const touched = this.#restore.finish(count, now);
    if (touched.size > 0) {
      this.now = now;
      this.settling.settle(touched);
    }
    return this.#restore.pending;
  }

  /** Does a part of what a restore left for later, about `count` of it. Returns whether there is more. */
  putDeferred(count: number, now: Instant): boolean {
    if (!this.names.deferred) return this.finishRestore(count, now);
    const more = this.names.putDeferred(count);
    if (!more) this.show(now);
    return more || this.#restore.pending;
  }

  /** The zone's last change, in the serial and in the snapshot. It never goes back (R27). */
  bump(): void {
    this.serial = Math.max(this.serial, Math.floor(this.now.wall / 1000));
  }

  /** What the zone as a whole answers with comes up to date. */
  show(now = this.now): void {
    showState(this, now.boot);
  }

  /** R32: one registry is left of several: its own rows are what is seen from now on. */
  #seenAlone(services: Iterable<Service>): void {
    this.sources.all[0]!.answerable = 0;
    for (const service of services) {
      const rows = [...service.rows.values()].filter((row) => row.holder === undefined);
      if (rows.length === 0) continue;
      service.answerable = 0;
      for (const row of rows) {
        if (row.answered) this.health.answered++;
        this.#added(service, row);
      }
    }
  }

  /** The same name is seen through another object from now on: what hung on this one goes. */
  #replaced(service: Service): void {
    for (const row of service.rows.values()) this.#removed(service, row);
    if (!this.catalog.services.has(service.name)) this.settling.forget(service);
    this.health.forget(service);
    this.#asked.unmark(service);
  }

  #added(service: Service, row: CatalogRow): void {
    const { boot } = this.now;
    if (service.asked === 0) this.#asked.mark(service, boot);
    if (!this.#restore.waits(service)) this.probes.add(service, row, boot);
    this.names.hold(row.address);
  }

  #removed(service: Service, row: CatalogRow): void {
    const { boot } = this.now;
    this.probes.remove(row, boot);
    row.ejected = false;
    this.names.kept.drop(row.address, boot);
    if (row.answered) this.health.answered--;
    this.unsaved.add(service.name);
  }
}
