/**
 * One zone as a deterministic machine: registry reports, verdicts and time go in; names in the answer table,
 * probe targets and events come out. It decides by the catalog's guard, health's table and the floor, in that order.
 */
import type { ZoneSpec } from '../answers/contract.js';
import type { AnswerTable } from '../answers/table.js';
import { Catalog, type ListReport } from '../catalog/catalog.js';
import { Guard } from '../catalog/guard.js';
import type { Places } from '../catalog/places.js';
import type { CatalogRow, Column } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { ZoneConfig } from '../config/types.js';
import type { TargetSet } from '../health/targets.js';
import type { JudgeSettings, VerdictStore } from '../health/verdicts.js';
import type { Rejected, ReleaseMark, Report } from '../registry/registry.js';
import type { BootMs, Instant, WallMs } from '../system/clock.js';
import type { Log } from './events.js';
import { GuardLog } from './guard-log.js';
import { describeAge, statusText } from './status-text.js';
import { type Asked, ZoneAsked } from './zone-asked.js';
import { ZoneHealth } from './zone-health.js';
import { ZoneHearing } from './zone-hearing.js';
import { ZoneNames } from './zone-names.js';
import { type Holder, ZoneProbes } from './zone-probes.js';

export interface ZoneDeps {
  readonly table: AnswerTable;
  readonly verdicts: VerdictStore;
  readonly targets: TargetSet<Holder<Zone>>;
  /** Rows of all zones by address, port and protocol. */
  readonly places: Places<Holder<Zone>>;
  readonly log: Log;
  /** R17: by their slot in the answer table, whose names are asked. */
  readonly asked: Map<number, Asked<Zone>>;
  /** Indexes of the listen addresses on which the zone exists; absent: all. */
  readonly listen: readonly number[] | undefined;
  readonly nameservers: readonly string[];
}

/** Gives a row the verdict that a snapshot had of it. */
export type RestoreVerdict = (row: CatalogRow, settings: JudgeSettings, now: Instant) => void;

/** Services that cease to be asked are slowed down so many at a time: after a start they all do at the same moment. */
const PACED_AT_ONCE = 200;

const EDE_STALE_NXDOMAIN = 19;

function answerSpec(config: ZoneConfig, deps: ZoneDeps): ZoneSpec {
  return {
    name: config.name,
    naming: config.naming,
    answerTtl: config.answerTtl,
    negativeTtl: config.negativeTtl,
    allow: config.allow,
    ...(deps.listen === undefined ? {} : { listen: deps.listen }),
    nameservers: deps.nameservers,
  };
}

export class Zone {
  /** What tells it from all others, see `zoneKeys`. */
  key: string;
  config: ZoneConfig;
  readonly guard: Guard;
  readonly guardLog: GuardLog;
  readonly catalog: Catalog;
  readonly names: ZoneNames;
  readonly probes: ZoneProbes<Zone>;
  readonly health: ZoneHealth;
  readonly hearing: ZoneHearing;
  readonly #asked: ZoneAsked<Zone>;
  /** Restored services whose rows are not aimed at yet, see `restored`; the last first. */
  #unaimed: Service[] = [];
  #seed: RestoreVerdict | undefined;
  /** `none` until the first list or a snapshot. */
  source: 'registry' | 'snapshot' | 'none' = 'none';
  epoch: string | undefined;
  revision: string | undefined;
  serial: number;
  rejected: readonly Rejected[] = [];
  /** Services whose snapshot line is out of date; undefined where the service is gone. */
  readonly unsaved = new Set<string>();
  /** Release marks that were seen, with the wall time from which they count. */
  readonly releases = new Map<string, { readonly wall: WallMs; readonly counts: WallMs }>();
  #deps: ZoneDeps;
  #trusted = true;
  /** The moment being worked on; set by every entry point. */
  #now: Instant;

  constructor(key: string, config: ZoneConfig, deps: ZoneDeps, now: Instant) {
    this.key = key;
    this.config = config;
    this.#deps = deps;
    this.#now = now;
    this.hearing = new ZoneHearing(config.name, deps.log, now);
    this.serial = Math.floor(now.wall / 1000);
    this.probes = new ZoneProbes<Zone>(this, config, deps, (service) => this.#asked.has(service));
    this.#asked = new ZoneAsked<Zone>(this, config, deps, (service) => this.probes.settings(service));
    this.health = new ZoneHealth(config.name, this.probes, deps.log);
    this.guard = new Guard(config.guard);
    this.guardLog = new GuardLog(config.name, this.guard, deps.log);
    this.catalog = new Catalog(config.limits, this.guard, {
      added: (service, row) => this.#added(service, row, this.#now),
      removed: (service, row) => this.#removed(service, row, this.#now),
      strength: (service) => this.health.strength(service),
    });
    this.names = new ZoneNames(deps.table, answerSpec(config, deps), config.keepTargets, {
      answering: (service) => this.probes.settings(service),
      answerOf: (service, subset) => this.health.answerOf(service, subset).rows,
      service: (name) => this.catalog.services.get(name),
    });
    this.#show(now);
  }

  /** What a registry said. */
  report(report: Report, now: Instant): void {
    this.#now = now;
    this.finishRestore(Number.POSITIVE_INFINITY, now);
    if (report.kind === 'unreachable' || report.kind === 'unbelievable') {
      this.hearing.lost(report.kind === 'unreachable' ? report.reason : `not believable: ${report.reason}`, now);
    } else if (report.kind === 'confirmed') {
      if (this.source === 'registry') this.#heardAgain(now, new Set(), now.boot);
    } else {
      this.#listed(report, now);
    }
    this.#show(now);
  }

  /** R30: what was heard before the gap counts no more, until the registry speaks again. */
  clockGap(now: Instant): void {
    // The gap itself was not heard: the guard's clock stands since the zone was last looked at.
    this.hearing.lost('the clocks parted', now, this.#now.boot);
    this.#now = now;
    this.#show(now);
  }

  /** Verdicts on these rows changed. */
  verdictsChanged(rows: Iterable<Holder<Zone>>, now: Instant): void {
    this.#now = now;
    const touched = new Set<Service>();
    for (const { service } of rows) touched.add(service);
    this.#settle(touched, now);
    this.#show(now);
  }

  /** Runs the zone's own clocks: staleness, the guard's, kept targets. */
  tick(now: Instant): void {
    this.#now = now;
    this.names.tick(now.boot);
    for (const service of this.#asked.expire(now.boot, PACED_AT_ONCE)) this.probes.pace(service, now.boot);
    if (this.hearing.heard && this.hearing.clock.at(now.boot) >= this.guard.nextWake()) this.#settle(new Set(), now);
    this.#show(now);
  }

  nextWake(now: BootMs): BootMs {
    let next = Math.min(
      this.names.nextWake(),
      this.#asked.nextExpiry(),
      this.hearing.clock.bootAt(this.guard.nextWake(), now),
    );
    if (this.hearing.lastConfirmed !== undefined) {
      const stale = this.hearing.lastConfirmed + this.config.softTtl;
      next = Math.min(next, now <= stale ? stale + 1 : now + describeAge(now - this.hearing.lastConfirmed).nextChange);
    }
    if (!this.guardLog.alarm) next = Math.min(next, this.hearing.clock.bootAt(this.guardLog.due(), now));
    return next;
  }

  /** R17: names of these services were asked. */
  asked(service: Service, now: Instant): void {
    if (this.#asked.ask(service, now.boot)) this.probes.pace(service, now.boot);
  }

  /** R9. Returns how many rows were let go. */
  accept(name: string, now: Instant): number {
    this.#now = now;
    this.finishRestore(Number.POSITIVE_INFINITY, now);
    const service = name === '*' ? undefined : this.catalog.services.get(name);
    if (name !== '*' && service === undefined) return 0;
    const events = this.guard.accept(service, Number.POSITIVE_INFINITY);
    const rows = events.reduce((sum, event) => sum + (event.kind === 'let go' ? event.rows.length : 0), 0);
    this.#settle(this.guardLog.tell(events), now);
    this.#show(now);
    return rows;
  }

  /** New settings for the same zone; data, guard and verdicts stay (D32). */
  reconfigure(config: ZoneConfig, deps: ZoneDeps, now: Instant): void {
    this.#now = now;
    this.finishRestore(Number.POSITIVE_INFINITY, now);
    this.config = config;
    this.#deps = deps;
    this.probes.configure(config);
    this.#asked.configure(config);
    this.guard.configure(config.guard);
    this.catalog.configure(config.limits);
    for (const service of this.catalog.services.values()) this.#aim(service, now);
    this.names.reconfigure(answerSpec(config, deps), config.keepTargets, now.boot);
    this.#settle(new Set(this.catalog.services.values()), now);
    this.#show(now);
  }

  dispose(now: Instant): void {
    this.#now = now;
    for (const service of this.catalog.services.values()) {
      this.#asked.unmark(service);
      for (const row of service.rows.values()) this.probes.remove(row, now.boot);
    }
    this.names.dispose();
  }

  /**
   * Takes in what a snapshot had (R29). `trusted` false: the first believable list replaces it without a guard.
   * `defer`: a service of which all is answered whatever its verdicts say is aimed at later, by `finishRestore`.
   */
  restored(
    services: readonly Service[],
    trusted: boolean,
    now: Instant,
    verdicts: { readonly column: (row: CatalogRow) => Column | undefined; readonly restore: RestoreVerdict },
    defer: boolean,
  ): void {
    this.#now = now;
    this.source = 'snapshot';
    this.#trusted = trusted;
    this.#seed = verdicts.restore;
    const touched = new Set<Service>();
    for (const service of services) {
      const waits = defer && this.health.restorePlain(service, verdicts.column);
      if (waits) this.#unaimed.push(service);
      this.catalog.restore(service);
      for (const row of service.rows.values()) if (row.answered) this.health.answered++;
      if (waits) {
        this.guard.recount(service, this.hearing.clock.at(now.boot), true);
        this.names.publish(service);
        continue;
      }
      for (const row of service.rows.values()) verdicts.restore(row, this.probes.settings(service).check, now);
      touched.add(service);
    }
    this.#settle(touched, now);
    this.unsaved.clear();
    this.#show(now);
  }

  /** Aims at up to `count` rows that a restore left for later. Returns whether there are more. */
  finishRestore(count: number, now: Instant): boolean {
    const touched = new Set<Service>();
    while (count > 0) {
      const service = this.#unaimed.pop();
      if (service === undefined) break;
      for (const row of service.rows.values()) {
        this.probes.add(service, row, now.boot);
        this.#seed?.(row, this.probes.settings(service).check, now);
        count--;
      }
      if (this.health.judge(service)) touched.add(service);
    }
    if (touched.size > 0) this.#settle(touched, now);
    if (this.#unaimed.length > 0) return true;
    this.#seed = undefined;
    return false;
  }

  /** Does a part of what a restore left for later, about `count` of it. Returns whether there is more. */
  putDeferred(count: number, now: Instant): boolean {
    if (!this.names.deferred) return this.finishRestore(count, now);
    const more = this.names.putDeferred(count);
    if (!more) this.#show(now);
    return more || this.#unaimed.length > 0;
  }

  isStale(now: BootMs): boolean {
    if (this.source !== 'registry') return this.source === 'snapshot';
    return this.hearing.lastConfirmed !== undefined && now - this.hearing.lastConfirmed > this.config.softTtl;
  }

  /** R16: the registry, heard, has dropped the row or calls it critical: a second witness against it. */
  disowns(row: CatalogRow): boolean {
    return this.hearing.heard && (!row.listed || row.state === 'critical');
  }

  /** Indexes of the listen addresses on which the zone exists; undefined: all. */
  get listen(): readonly number[] | undefined {
    return this.#deps.listen;
  }

  #listed(report: ListReport, now: Instant): void {
    const over = this.catalog.overLimit(report);
    if (over !== undefined) {
      this.hearing.lost(`not believable: ${over}`, now);
      return;
    }
    if (report.kind === 'change' && this.source !== 'registry') {
      this.hearing.lost('not believable: a change before the first list', now);
      return;
    }
    const removals = report.kind === 'change' || report.removalsBelievable;
    const unguarded = this.source === 'snapshot' && !this.#trusted;
    const newEpoch = this.epoch !== undefined && report.epoch !== this.epoch && !unguarded;
    const first = this.source === 'none';
    if (newEpoch)
      this.#deps.log('warn', 'epoch-changed', { zone: this.config.name, from: this.epoch, to: report.epoch });
    const touched = this.catalog.apply(report, {
      heard: this.hearing.clock.at(now.boot),
      wall: now.wall,
      first,
      unguarded,
      newEpoch,
      removals,
    });
    for (const service of touched) this.#aim(service, now);
    this.source = 'registry';
    this.#trusted = true;
    this.epoch = report.epoch;
    this.revision = report.revision;
    this.rejected = report.rejected;
    if (touched.size > 0) this.#bump(now);
    if (removals) {
      this.#heardAgain(now, touched, Math.min(now.boot, report.at));
      this.#releaseMarks(report.releases, now);
    } else {
      this.hearing.lastConfirmed = Math.min(now.boot, report.at);
      this.hearing.lost(`believed for additions and recoveries only${firstFault(report.rejected)}`, now);
      this.#settle(touched, now);
    }
    if (first) this.#deps.log('info', 'zone-synced', { zone: this.config.name, services: this.catalog.services.size });
  }

  #heardAgain(now: Instant, touched: Set<Service>, confirmed: BootMs): void {
    this.hearing.lastConfirmed = confirmed;
    if (this.hearing.again(now)) this.#settle(new Set([...touched, ...this.guard.holding()]), now);
    else if (touched.size > 0) this.#settle(touched, now);
  }

  /** R9: a mark newer than a hold lets it go; one from the future counts from when it was first seen. */
  #releaseMarks(marks: readonly ReleaseMark[], now: Instant): void {
    for (const { service: name, wall } of marks) {
      const seen = this.releases.get(name);
      const counts = seen?.wall === wall ? seen.counts : Math.min(wall, now.wall);
      this.releases.set(name, { wall, counts });
      const service = name === '*' ? undefined : this.catalog.services.get(name);
      if (name !== '*' && service === undefined) continue;
      const events = this.guard.accept(service, counts);
      if (events.length > 0) this.#settle(this.guardLog.tell(events), now);
    }
  }

  /** Health, guard, answers, in that order, for the services that were touched; the guard looks at its own besides. */
  #settle(touched: Set<Service>, now: Instant): void {
    for (const service of touched) this.#judge(service, now);
    if (this.hearing.heard) {
      const events = this.guard.evaluate(this.hearing.clock.at(now.boot), now.wall, this.health.proberSilent);
      for (const service of this.guardLog.tell(events)) {
        this.#judge(service, now);
        touched.add(service);
      }
    }
    for (const service of this.catalog.sweep(touched)) {
      touched.delete(service);
      this.#forget(service);
    }
    for (const service of touched) {
      this.unsaved.add(service.name);
      this.health.tellFloor(service);
      this.names.publish(service);
    }
  }

  #judge(service: Service, now: Instant): void {
    if (this.health.judge(service)) this.#bump(now);
    this.guard.recount(service, this.hearing.clock.at(now.boot), this.health.proberSilent);
  }

  #forget(service: Service): void {
    this.health.forget(service);
    this.probes.forget(service);
    this.#asked.unmark(service);
    this.unsaved.add(service.name);
    this.names.forget(service);
  }

  #added(service: Service, row: CatalogRow, now: Instant): void {
    if (service.asked === 0) this.#asked.mark(service, now.boot);
    if (service !== this.#unaimed.at(-1)) this.probes.add(service, row, now.boot);
    this.names.hold(row.address);
  }

  /** The service's check may have changed. */
  #aim(service: Service, now: Instant): void {
    this.probes.aim(service, now.boot);
    if (this.#asked.isPinned(service)) this.#asked.unmark(service);
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
    const stale = this.isStale(now.boot);
    const age = this.hearing.age(now.boot);
    this.guardLog.sound(this.hearing.clock.at(now.boot));
    this.names.show(
      {
        synced: this.source !== 'none',
        ...(this.names.deferred ? { targetsPending: true } : {}),
        ...(this.hearing.heard ? {} : { negative: { code: EDE_STALE_NXDOMAIN, text: 'registry not heard' } }),
        serial: this.serial,
        statusText: statusText(this, stale),
      },
      stale ? `stale${age === undefined ? '' : ` ${describeAge(age).text}`}` : undefined,
    );
  }
}

/** What a report that is believed in part left out, by its first fault. */
function firstFault([first, ...others]: readonly Rejected[]): string {
  if (first === undefined) return '';
  return `: ${first.where}: ${first.reason}${others.length === 0 ? '' : ` (and ${others.length} more)`}`;
}
