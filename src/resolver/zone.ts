/**
 * One zone as a deterministic machine: registry reports, verdicts and time go in; names in the answer table,
 * probe targets and events come out. It decides by the catalog's guard, health's table and the floor, in that order.
 */
import { serviceLabelOf } from '../answers/naming/service-of.js';
import type { ListReport } from '../catalog/catalog.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { goOn, type Steps, toTheEnd } from '../catalog/steps.js';
import type { ZoneConfig } from '../config/types.js';
import type { LookUp } from '../registry/look-up.js';
import type { Rejected, Report } from '../registry/registry.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { HostResult } from './host-table.js';
import { describeAge, statusText } from './status-text.js';
import { ZoneAsked } from './zone-asked.js';
import { ZoneClaims } from './zone-claims.js';
import { type Remembered, type Seek, ZoneDemand } from './zone-demand.js';
import { answerSpec, type ZoneDeps } from './zone-deps.js';
import { ZoneHealth } from './zone-health.js';
import { ZoneNames } from './zone-names.js';
import { type Holder, ZoneProbes } from './zone-probes.js';
import { type RestoredPart, type Seeds, ZoneRestore } from './zone-restore.js';
import { believedForRemovals, type ZoneSource } from './zone-source.js';
import { type ZoneFacts, ZoneSources } from './zone-sources.js';

/** Services that cease to be asked are slowed down so many at a time: after a start they all do at the same moment. */
const PACED_AT_ONCE = 200;

const EDE_STALE_NXDOMAIN = 19;

/** A report that is being taken in. */
interface Round {
  readonly steps: Steps;
  /** It is the first word on the zone: what it does not have yet may be there. */
  readonly first: boolean;
  /** Services that it touched and that are not judged yet. */
  touched: ReadonlySet<Service>;
  /** Those of them about which something else was said meanwhile. */
  readonly again: Set<Service>;
}

/** R33: what a name that is not in the table would be of. */
interface Sought {
  /** `unknown`: no service has the name, whatever the registry has. */
  readonly kind: 'empty' | 'unknown' | 'look-up';
  readonly service: string;
  /** It is known, and has no such name. */
  readonly known?: Service;
}

export class Zone {
  /** What tells it from all others, see `zoneKeys`. */
  key: string;
  config: ZoneConfig;
  readonly sources: ZoneSources;
  readonly names: ZoneNames;
  readonly probes: ZoneProbes<Zone>;
  readonly claims: ZoneClaims;
  readonly health: ZoneHealth;
  /** R33: absent where the registry is mirrored whole. */
  demand: ZoneDemand | undefined;
  readonly #asked: ZoneAsked<Zone>;
  readonly #restore: ZoneRestore;
  serial: number;
  /** Services whose snapshot line is out of date; undefined where the service is gone. */
  readonly unsaved = new Set<string>();
  #deps: ZoneDeps;
  /** The registry's last word was a failure. */
  #failing = false;
  /** Which registries were heard when what depends on that was last judged. */
  #heeded = '';
  /** The moment being worked on; set by every entry point. */
  #now: Instant;
  #round: Round | undefined;

  constructor(key: string, config: ZoneConfig, deps: ZoneDeps, now: Instant) {
    this.key = key;
    this.config = config;
    this.#deps = deps;
    this.#now = now;
    this.serial = Math.floor(now.wall / 1000);
    this.demand = ZoneDemand.of(config);
    this.probes = new ZoneProbes<Zone>(this, config, deps, (service) => this.#asked.has(service));
    this.#asked = new ZoneAsked<Zone>(this, config, deps, (service) => this.probes.settings(service));
    this.claims = new ZoneClaims(this, deps.places);
    const mark = (service: Service, row: CatalogRow): void => this.claims.mark(service, row);
    this.health = new ZoneHealth(config.name, this.probes, mark, deps.log);
    const events = {
      added: (service: Service, row: CatalogRow) => this.#added(service, row, this.#now),
      removed: (service: Service, row: CatalogRow) => this.#removed(service, row, this.#now),
      strength: (service: Service) => this.health.strength(service),
      isClaimed: (service: Service, row: CatalogRow) => this.claims.isClaimedHere(service, row),
    };
    this.sources = new ZoneSources(config, deps.log, deps.hosts, events, now);
    this.names = new ZoneNames(deps.table, answerSpec(config, deps), config.keepTargets, {
      answering: (service) => this.probes.settings(service),
      answerOf: (service, subset) => this.health.answerOf(service, subset).rows,
      service: (name) => this.catalog.services.get(name),
      registry: (service) => this.sources.only(service),
    });
    this.#restore = new ZoneRestore(this.sources, this.probes, this.health, this.names);
    this.#show(now);
  }

  /** What is seen of all registries. */
  get catalog(): { readonly services: ReadonlyMap<string, Service>; readonly rows: number } {
    return this.sources.layers;
  }

  get hearing(): ZoneFacts {
    return this.sources.facts();
  }

  get source(): 'registry' | 'snapshot' | 'none' {
    return this.#round?.first ? 'none' : this.sources.from;
  }

  get rejected(): readonly Rejected[] {
    return this.sources.all.flatMap(({ rejected }) => rejected);
  }

  /** Names of services that a registry has, seen or not. */
  known(): Set<string> {
    return new Set(this.sources.all.flatMap(({ catalog }) => [...catalog.services.keys()]));
  }

  /** Services of which a guard holds an endpoint. */
  holding(): string[] {
    return [...new Set(this.sources.all.flatMap(({ guard }) => [...guard.holding()].map(({ name }) => name)))];
  }

  /** What a registry said. @param index in `config.registries` */
  report(index: number, report: Report, now: Instant): void {
    this.begin(index, report, now);
    this.#finishRound(now);
  }

  /** As `report`, but it is taken in by `goOn`: nothing that comes meanwhile waits for a large list. */
  begin(index: number, report: Report, now: Instant): void {
    this.finish(now);
    this.#now = now;
    const source = this.sources.all[index];
    if (source === undefined) return;
    const touched = new Set<Service>();
    const first = source.from === 'none' && this.sources.from === 'none';
    this.#round = { steps: this.#reporting(source, report, touched), first, touched, again: new Set() };
  }

  /** Takes in about `rows` rows of what has begun. Returns whether there is more. */
  goOn(rows: number, now: Instant): boolean {
    const round = this.#round;
    if (round === undefined) return false;
    this.#now = now;
    let more = false;
    try {
      more = goOn(round.steps, rows);
    } finally {
      if (!more) this.#round = undefined;
    }
    if (!more && round.again.size > 0) this.#settle(round.again, now);
    this.#show(now);
    if (!more) for (const source of this.sources.all) source.tellFirst();
    return more;
  }

  /** Nothing that was begun is left, nor anything of a restore. */
  finish(now: Instant): void {
    this.#finishRound(now);
    this.finishRestore(Number.POSITIVE_INFINITY, now);
  }

  /** Something that was begun is not done. */
  get busy(): boolean {
    return this.#round !== undefined || this.#restore.pending;
  }

  #finishRound(now: Instant): void {
    this.goOn(Number.POSITIVE_INFINITY, now);
  }

  *#reporting(source: ZoneSource, report: Report, touched: Set<Service>): Steps {
    const { hearing } = source;
    this.#failing = report.kind === 'unreachable' || report.kind === 'unbelievable';
    if (report.kind === 'unreachable' || report.kind === 'unbelievable') {
      hearing.lost(report.kind === 'unreachable' ? report.reason : `not believable: ${report.reason}`, this.#now);
    } else if (report.kind === 'confirmed') {
      if (source.from === 'registry') yield* this.#heardAgain(source, new Set(), this.#now.boot);
    } else {
      yield* this.#listed(source, report, touched);
    }
    this.#heed(this.#now);
  }

  /**
   * R33: somebody asks for a name that is not in the table: which service it would be of, and what is to be done. Of
   * `empty` names of services may be below.
   * @param labels those below the zone, lower case
   */
  seek(labels: readonly string[], now: Instant): { readonly kind: Seek | 'empty'; readonly service: string } {
    const { kind, service, known } = this.#sought(labels);
    if (known !== undefined) this.asked(known, now);
    if (kind !== 'look-up') return { kind, service };
    return { kind: this.demand!.seek(service, this.#failing, now.boot), service };
  }

  /** What `seek` would do, without doing it. */
  foretell(labels: readonly string[], now: Instant): Sought & { readonly remembered?: Remembered | undefined } {
    const sought = this.#sought(labels);
    if (sought.kind !== 'look-up') return sought;
    return { ...sought, remembered: this.demand!.remembered(sought.service, this.#failing, now.boot) };
  }

  #sought(labels: readonly string[]): Sought {
    const of = serviceLabelOf(this.config.naming, labels);
    if (of === 'none') return { kind: 'empty', service: '' };
    const owner = of && this.names.labels.owner(of.label);
    const known = owner === undefined ? undefined : this.catalog.services.get(owner);
    if (known?.known) return { kind: 'unknown', service: known.name, known };
    const service = of && this.names.fold(of.label) !== undefined ? this.demand?.serviceOf(of.label) : undefined;
    return service === undefined ? { kind: 'unknown', service: '' } : { kind: 'look-up', service };
  }

  /** R33: what a look-up found. Returns what that means for those who wait. */
  lookedUp(service: string, found: LookUp, now: Instant): LookUp['kind'] {
    this.#now = now;
    const { demand } = this;
    if (demand === undefined) return 'failed';
    let { kind } = found;
    if (found.kind === 'found') {
      this.finish(now);
      const { name } = found.listing;
      const source = this.sources.all[0]!;
      const touched = source.adopt(found.listing, now);
      if (touched === undefined) {
        kind = 'failed';
        demand.left(name);
      } else {
        this.#moved(source, touched, now);
        const own = this.catalog.services.get(name);
        if (own !== undefined) this.asked(own, now);
      }
    } else if (found.kind === 'failed') {
      this.#deps.log('debug', 'look-up-failed', { zone: this.config.name, service, reason: found.reason });
    }
    demand.landed(service, kind, now.boot);
    this.#show(now);
    return kind;
  }

  /** R33: all that a zone on demand follows, most recently asked first. */
  order(): string[] {
    return this.demand?.order(this.catalog.services.keys()) ?? [];
  }

  /** R28: what a host name was found to be. */
  resolved(host: string, result: HostResult, now: Instant): void {
    this.#now = now;
    for (const source of this.sources.all) {
      const listings = source.hosts.take(host, result);
      if (listings.length > 0) this.finish(now);
      if (listings.length > 0) this.#moved(source, source.replace(listings, now), now);
    }
    this.#show(now);
  }

  /** R30: what was heard before the gap counts no more, until the registries speak again. */
  clockGap(now: Instant): void {
    this.#finishRound(this.#now);
    // The gap itself was not heard: the guard's clock stands since the zone was last looked at.
    for (const { hearing } of this.sources.all) hearing.lost('the clocks parted', now, this.#now.boot);
    this.#now = now;
    this.#heed(now);
    this.#show(now);
  }

  /** Verdicts on these rows changed. */
  verdictsChanged(rows: Iterable<Holder<Zone>>, now: Instant): void {
    this.#now = now;
    const touched = new Set<Service>();
    for (const { service } of rows) {
      // What is being taken in is judged as a whole.
      if (this.#round?.touched.has(service)) this.#round.again.add(service);
      else touched.add(service);
    }
    this.#settle(touched, now, this.#round === undefined);
    this.#show(now);
  }

  /** Runs the zone's own clocks: staleness, the guard's, kept targets. */
  tick(now: Instant): void {
    this.#now = now;
    this.names.tick(now.boot);
    for (const service of this.#asked.expire(now.boot, PACED_AT_ONCE)) this.probes.pace(service, now.boot);
    this.#forgetUnasked(now);
    const due = this.sources.all.some(({ hearing, guard }) => {
      return hearing.heard && hearing.clock.at(now.boot) >= guard.nextWake();
    });
    if (due && this.#round === undefined) this.#settle(new Set(), now);
    this.#show(now);
  }

  nextWake(now: BootMs): BootMs {
    const forget = this.demand?.nextWake() ?? Number.POSITIVE_INFINITY;
    let next = Math.min(this.names.nextWake(), this.#asked.nextExpiry(), forget);
    for (const { hearing, guard, guardLog } of this.sources.all) {
      next = Math.min(next, hearing.clock.bootAt(guard.nextWake(), now));
      if (!guardLog.alarm) next = Math.min(next, hearing.clock.bootAt(guardLog.due(), now));
      if (hearing.lastConfirmed === undefined) continue;
      const stale = hearing.lastConfirmed + this.config.softTtl;
      next = Math.min(next, now <= stale ? stale + 1 : now + describeAge(now - hearing.lastConfirmed).nextChange);
    }
    return next;
  }

  /** R17: names of these services were asked. */
  asked(service: Service, now: Instant): void {
    if (this.#asked.ask(service, now.boot)) this.probes.pace(service, now.boot);
    if (this.demand?.ask(service.name, now.boot)) this.unsaved.add(service.name);
  }

  /** R33. */
  #forgetUnasked(now: Instant): void {
    const { demand } = this;
    const source = this.sources.all[0]!;
    const gone = demand?.forgotten(source.catalog.services.keys(), source.hearing.heard, now.boot) ?? [];
    if (gone.length === 0) return;
    this.finish(now);
    this.#deps.log('info', 'services-forgotten', {
      zone: this.config.name,
      services: gone.length,
      first: gone[0],
      why: 'nobody has asked for them for so long (forget, R33)',
    });
    this.#moved(source, source.drop(gone, now), now);
  }

  /** R3: the services that are asked most, the first first. */
  mostAsked(count: number, now: Instant): string[] {
    return this.#asked.most(count, now.boot);
  }

  /** R9. Returns how many rows were let go. */
  accept(name: string, now: Instant): number {
    this.#now = now;
    this.finish(now);
    let rows = 0;
    for (const source of this.sources.all) {
      const service = name === '*' ? undefined : source.catalog.services.get(name);
      if (name !== '*' && service === undefined) continue;
      const events = source.guard.accept(service, Number.POSITIVE_INFINITY);
      for (const event of events) if (event.kind === 'let go') rows += event.rows.length;
      this.#settle(this.#seen(source, source.guardLog.tell(events)), now);
    }
    this.#show(now);
    return rows;
  }

  /** New settings for the same zone; data, guard and verdicts stay (D32). */
  reconfigure(config: ZoneConfig, deps: ZoneDeps, now: Instant): void {
    this.#now = now;
    this.finish(now);
    this.config = config;
    this.#deps = deps;
    this.#demandAs(config);
    this.probes.configure(config);
    this.#asked.configure(config);
    const before = this.sources.configure(config, now);
    const services = this.sources.layers.showAll();
    for (const service of before ?? []) if (!services.has(service)) this.#replaced(service, now);
    for (const service of services) this.#aim(service, now);
    const registries = this.sources.all.map(({ identity }) => identity);
    this.names.reconfigure(answerSpec(config, deps), config.keepTargets, registries, now.boot);
    this.#settle(services, now);
    this.#show(now);
  }

  /** R33: its registry's last word was a failure. */
  get isFailing(): boolean {
    return this.#failing;
  }

  /** What is known stays known, in whatever way it came. */
  #demandAs(config: ZoneConfig): void {
    const wanted = ZoneDemand.of(config);
    if (wanted === undefined || this.demand === undefined) this.demand = wanted;
    else this.demand.configure(config);
    if (this.demand !== wanted) return;
    for (const name of this.catalog.services.keys()) this.demand?.restored(name, this.#now.boot);
  }

  dispose(now: Instant): void {
    this.#now = now;
    this.#round = undefined;
    for (const service of this.catalog.services.values()) {
      this.#asked.unmark(service);
      for (const row of service.rows.values()) this.probes.remove(row, now.boot);
    }
    for (const { hosts } of this.sources.all) hosts.dispose();
    this.names.dispose();
  }

  /** Takes in what a snapshot had (R29), see `ZoneRestore`. */
  restored(parts: readonly RestoredPart[], trusted: boolean, now: Instant, seeds: Seeds, defer: boolean): void {
    this.#now = now;
    this.#settle(this.#restore.take(parts, trusted, seeds, defer, now), now);
    this.unsaved.clear();
    this.#show(now);
  }

  /** Aims at up to `count` rows that a restore left for later. Returns whether there are more. */
  finishRestore(count: number, now: Instant): boolean {
    const touched = this.#restore.finish(count, now);
    if (touched.size > 0) this.#settle(touched, now);
    return this.#restore.pending;
  }

  /** Does a part of what a restore left for later, about `count` of it. Returns whether there is more. */
  putDeferred(count: number, now: Instant): boolean {
    if (!this.names.deferred) return this.finishRestore(count, now);
    const more = this.names.putDeferred(count);
    if (!more) this.#show(now);
    return more || this.#restore.pending;
  }

  isStale(now: BootMs): boolean {
    return this.sources.isStale(now, this.config.softTtl);
  }

  /** R16: the registry, heard, has dropped the row or calls it critical: a second witness against it. */
  disowns({ service, row }: Holder<Zone>): boolean {
    return (!row.listed || row.state === 'critical') && this.sources.heard(service);
  }

  /** Indexes of the listen addresses on which the zone exists; undefined: all. */
  get listen(): readonly number[] | undefined {
    return this.#deps.listen;
  }

  *#listed(source: ZoneSource, report: ListReport, own: Set<Service>): Steps {
    if (!(yield* source.taking(report, this.#now, own))) return;
    for (const { name } of own) this.unsaved.add(name);
    const touched = this.#seen(source, own);
    if (this.#round !== undefined) this.#round.touched = touched;
    for (const service of touched) {
      this.#aim(service, this.#now);
      yield service.rows.size + 1;
    }
    this.claims.contest(touched);
    if (report.kind === 'list' || report.nodes !== undefined)
      this.names.nodes.list(source.identity, report.nodes ?? [], believedForRemovals(report), this.#now.boot);
    if (touched.size > 0) this.#bump(this.#now);
    const confirmed = Math.min(this.#now.boot, report.at);
    if (believedForRemovals(report)) {
      yield* this.#heardAgain(source, touched, confirmed);
      const events = source.release(report.releases, this.#now);
      if (events.length > 0) this.#settle(this.#seen(source, source.guardLog.tell(events)), this.#now);
    } else {
      source.hearing.lastConfirmed = confirmed;
      source.hearing.lost(`believed for additions and recoveries only${firstFault(report.rejected)}`, this.#now);
      yield* this.#settling(touched, true);
    }
  }

  /** Rows came or went without a word of the registry. */
  #moved(source: ZoneSource, own: Set<Service>, now: Instant): void {
    if (own.size === 0) return;
    for (const { name } of own) this.unsaved.add(name);
    const touched = this.#seen(source, own);
    for (const service of touched) this.#aim(service, now);
    this.#bump(now);
    this.#settle(touched, now);
  }

  *#heardAgain(source: ZoneSource, touched: Set<Service>, confirmed: BootMs): Steps {
    const { hearing, guard } = source;
    hearing.lastConfirmed = confirmed;
    if (hearing.again(this.#now)) for (const service of this.#seen(source, guard.holding())) touched.add(service);
    else if (touched.size === 0) return this.#moved(source, source.relist(this.#now), this.#now);
    yield* this.#settling(touched, true);
    this.#moved(source, source.relist(this.#now), this.#now);
  }

  /** What is seen of a registry's services. */
  #seen(source: ZoneSource, services: Iterable<Service>): Set<Service> {
    return this.sources.layers.show(source, services);
  }

  /** `guards` false: what is being taken in is not whole yet, so no guard may judge by it. */
  #settle(touched: Set<Service>, now: Instant, guards = true): void {
    this.#now = now;
    toTheEnd(this.#settling(touched, guards));
  }

  /** Health, guard, answers, in that order, for the services that were touched; the guards look at their own besides. */
  *#settling(touched: Set<Service>, guards: boolean): Steps {
    for (const service of touched) {
      this.#judge(service, this.#now);
      yield service.rows.size + 1;
    }
    for (const source of guards ? this.sources.all : []) {
      if (!source.hearing.heard) continue;
      const { guard, guardLog, hearing } = source;
      const events = guard.evaluate(hearing.clock.at(this.#now.boot), this.#now.wall, this.health.proberSilent);
      for (const service of this.#seen(source, guardLog.tell(events))) {
        this.#judge(service, this.#now);
        touched.add(service);
      }
    }
    for (const service of touched) {
      for (const gone of this.sources.layers.sweep([service])) {
        touched.delete(gone);
        this.#forget(gone);
      }
      yield 1;
    }
    for (const service of touched) {
      this.unsaved.add(service.name);
      this.health.tellFloor(service);
      this.health.tellWithheld(service);
      this.names.publish(service, this.#now.boot);
      yield service.rows.size + 1;
    }
  }

  /** R19: some rows are judged in another way when the registry falls silent, or is heard again. */
  #heed(now: Instant): void {
    const heard = this.sources.all.map(({ hearing }) => hearing.heard).join();
    if (heard === this.#heeded) return;
    this.#heeded = heard;
    const touched = new Set(this.claims.dependOnHearing());
    if (touched.size > 0) this.#settle(touched, now);
  }

  /** Looks at these services again, or at all: what is not the zone's own word on them has changed. */
  settle(services: Set<Service> | undefined, now: Instant): void {
    this.#now = now;
    this.finish(now);
    this.#settle(services ?? new Set(this.catalog.services.values()), now);
    this.#show(now);
  }

  #judge(service: Service, now: Instant): void {
    if (this.health.judge(service)) this.#bump(now);
    this.sources.layers.judged(service);
    for (const { layer, service: own } of this.sources.layers.partsOf(service)) {
      layer.guard.recount(own, layer.hearing.clock.at(now.boot), this.health.proberSilent);
    }
  }

  #forget(service: Service): void {
    this.health.forget(service);
    this.probes.forget(service);
    this.#asked.unmark(service);
    this.unsaved.add(service.name);
    this.demand?.left(service.name);
    this.names.forget(service, this.#now.boot);
  }

  /** The same name is seen through another object from now on: what hung on this one goes. */
  #replaced(service: Service, now: Instant): void {
    for (const row of service.rows.values()) this.#removed(service, row, now);
    if (!this.catalog.services.has(service.name)) this.#forget(service);
    this.health.forget(service);
    this.#asked.unmark(service);
  }

  #added(service: Service, row: CatalogRow, now: Instant): void {
    if (service.asked === 0) this.#asked.mark(service, now.boot);
    if (!this.#restore.waits(service)) this.probes.add(service, row, now.boot);
    this.names.hold(row.address);
  }

  /** The service's check may have changed. */
  #aim(service: Service, now: Instant): void {
    this.probes.aim(service, now.boot);
    if (!this.#asked.wants(service)) this.#asked.unmark(service);
    else if (service.asked === 0 && service.rows.size > 0) {
      this.#asked.mark(service, now.boot);
      this.probes.pace(service, now.boot);
    }
  }

  #removed(service: Service, row: CatalogRow, now: Instant): void {
    this.probes.remove(row, now.boot);
    this.names.kept.drop(row.address, now.boot);
    if (row.answered) this.health.answered--;
    this.unsaved.add(service.name);
  }

  /** R13: newly added while others of the service are answered, and without a result so far. */
  isFresh(holder: Holder<Zone>): boolean {
    const { service, row } = holder;
    if (row.addedAt === Number.NEGATIVE_INFINITY) return false;
    for (const other of service.rows.values()) if (other !== row && other.answered) return true;
    return false;
  }

  /** The zone's last change, in the serial and in the snapshot. It never goes back (R27). */
  #bump(now: Instant): void {
    this.serial = Math.max(this.serial, Math.floor(now.wall / 1000));
  }

  /** Brings what the zone as a whole answers with up to date: staleness, negative EDE, serial, status text. */
  #show(now: Instant): void {
    const { sources } = this;
    const { heard, lastConfirmed } = sources.facts();
    const stale = this.isStale(now.boot);
    for (const { guardLog, hearing } of sources.all) guardLog.sound(hearing.clock.at(now.boot));
    this.names.show(
      {
        synced: sources.complete && this.#round?.first !== true,
        ...(this.names.deferred ? { targetsPending: true } : {}),
        ...(heard ? {} : { negative: { code: EDE_STALE_NXDOMAIN, text: 'registry not heard' } }),
        serial: this.serial,
        statusText: statusText(this, stale),
      },
      stale ? staleText(lastConfirmed, now.boot) : undefined,
      sources.layers.several ? sources.all.map((source) => this.#staleTextOf(source, now.boot)) : [],
    );
  }

  #staleTextOf(source: ZoneSource, now: BootMs): string | undefined {
    return source.isStale(now, this.config.softTtl) ? staleText(source.hearing.lastConfirmed, now) : undefined;
  }
}

function staleText(lastConfirmed: BootMs | undefined, now: BootMs): string {
  return lastConfirmed === undefined ? 'stale' : `stale ${describeAge(Math.max(0, now - lastConfirmed)).text}`;
}

/** What a report that is believed in part left out, by its first fault. */
function firstFault([first, ...others]: readonly Rejected[]): string {
  if (first === undefined) return '';
  return `: ${first.where}: ${first.reason}${others.length === 0 ? '' : ` (and ${others.length} more)`}`;
}
