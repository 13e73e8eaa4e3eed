/**
 * One zone as a deterministic machine: registry reports, verdicts and time go in; names in the answer table,
 * probe targets and events come out. It decides by the catalog's guard, health's table and the floor, in that order.
 */
import type { ZoneSpec } from '../answers/contract.js';
import type { AnswerTable } from '../answers/table.js';
import { Catalog, type ListReport } from '../catalog/catalog.js';
import { Guard, type GuardEvent } from '../catalog/guard.js';
import { HeardClock } from '../catalog/heard-clock.js';
import type { CatalogRow, Strength } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { ZoneConfig } from '../config/types.js';
import { type Floored, type FloorStep, floor, judge } from '../health/floor.js';
import { Interest } from '../health/interest.js';
import type { TargetSet } from '../health/targets.js';
import type { JudgeSettings, VerdictStore } from '../health/verdicts.js';
import type { Rejected, ReleaseMark, Report } from '../registry/registry.js';
import type { BootMs, Instant, Ms, WallMs } from '../system/clock.js';
import type { Log } from './events.js';
import { describeAge, statusText } from './status-text.js';
import { ZoneNames } from './zone-names.js';
import { type Holder, ZoneProbes } from './zone-probes.js';

export interface ZoneDeps {
  readonly table: AnswerTable;
  readonly verdicts: VerdictStore;
  readonly targets: TargetSet<Holder<Zone>>;
  readonly log: Log;
  /** R17: by their slot in the answer table, whose names are asked. */
  readonly asked: Map<number, Asked>;
  /** Indexes of the listen addresses on which the zone exists; absent: all. */
  readonly listen: readonly number[] | undefined;
  readonly nameservers: readonly string[];
}

/** What a mark of the answer table is about. */
export interface Asked {
  readonly zone: Zone;
  readonly service: Service;
}

/** R11: at least 60 s and three intervals. */
const FAIL_OPEN_MIN_MS: Ms = 60_000;
const FAIL_OPEN_INTERVALS = 3;
/** The guard's alarm sounds when it has held passing rows for so long (R9). */
const ALARM_MS: Ms = 300_000;
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
  config: ZoneConfig;
  readonly guard: Guard;
  readonly catalog: Catalog;
  readonly names: ZoneNames;
  readonly probes: ZoneProbes<Zone>;
  readonly heardClock = new HeardClock();
  readonly #interest: Interest<Service>;
  /** `none` until the first list or a snapshot. */
  source: 'registry' | 'snapshot' | 'none' = 'none';
  heard = false;
  /** Why it is not heard. */
  reason: string | undefined = 'not asked yet';
  heardSince: Instant;
  lastConfirmed: BootMs | undefined;
  epoch: string | undefined;
  revision: string | undefined;
  serial: number;
  rejected: readonly Rejected[] = [];
  /** By service name: the floor step that gives its answer. */
  readonly floors = new Map<string, FloorStep>();
  /** The same while it is being worked out. */
  readonly #steps = new Map<Service, FloorStep>();
  /** Services whose snapshot line is out of date; undefined where the service is gone. */
  readonly unsaved = new Set<string>();
  answeredRows = 0;
  /** When the guard last sounded, so that it sounds once. */
  alarm = false;
  /** Release marks that were seen, with the wall time from which they count. */
  readonly releases = new Map<string, { readonly wall: WallMs; readonly counts: WallMs }>();
  #deps: ZoneDeps;
  #trusted = true;
  #answerableRows = 0;
  #worded = 0;
  #probed = 0;
  /** The moment being worked on; set by every entry point. */
  #now: Instant;

  constructor(config: ZoneConfig, deps: ZoneDeps, now: Instant) {
    this.config = config;
    this.#deps = deps;
    this.#now = now;
    this.heardSince = now;
    this.serial = Math.floor(now.wall / 1000);
    this.#interest = new Interest(config.interest);
    this.probes = new ZoneProbes<Zone>(this, config, deps.verdicts, deps.targets, (service) =>
      this.#interest.has(service),
    );
    this.guard = new Guard(config.guard);
    this.catalog = new Catalog(config.limits, this.guard, {
      added: (service, row) => this.#added(service, row, this.#now),
      removed: (service, row) => this.#removed(service, row, this.#now),
      strength: (service) => this.#strength(service),
    });
    this.names = new ZoneNames(deps.table, answerSpec(config, deps), config.keepTargets, {
      answering: (service) => this.probes.settings(service),
      answerOf: (service, subset) => this.answerOf(service, subset).rows,
      service: (name) => this.catalog.services.get(name),
    });
    this.#show(now);
  }

  /** What a registry said. */
  report(report: Report, now: Instant): void {
    this.#now = now;
    if (report.kind === 'unreachable' || report.kind === 'unbelievable') {
      this.#notHeard(report.kind === 'unreachable' ? report.reason : `not believable: ${report.reason}`, now);
    } else if (report.kind === 'confirmed') {
      if (this.source === 'registry') this.#heardAgain(now, new Set(), now);
    } else {
      this.#listed(report, now);
    }
    this.#show(now);
  }

  /** R30: what was heard before the gap counts no more, until the registry speaks again. */
  clockGap(now: Instant): void {
    // The gap itself was not heard: the guard's clock stands since the zone was last looked at.
    this.heardClock.stop(this.#now.boot);
    this.#now = now;
    this.#notHeard('the clocks parted', now);
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
    for (const service of this.#interest.expire(now.boot)) this.probes.pace(service, now.boot);
    if (this.heard && this.heardClock.at(now.boot) >= this.guard.nextWake()) this.#settle(new Set(), now);
    this.#show(now);
  }

  nextWake(now: BootMs): BootMs {
    let next = Math.min(
      this.names.nextWake(),
      this.#interest.nextExpiry(),
      this.heardClock.bootAt(this.guard.nextWake(), now),
    );
    if (this.lastConfirmed !== undefined) {
      const stale = this.lastConfirmed + this.config.softTtl;
      next = Math.min(next, now <= stale ? stale + 1 : now + describeAge(now - this.lastConfirmed).nextChange);
    }
    if (this.guard.heldPassingSince !== undefined && !this.alarm) {
      next = Math.min(next, this.heardClock.bootAt(this.guard.heldPassingSince + ALARM_MS, now));
    }
    return next;
  }

  /** R17: names of these services were asked. */
  asked(service: Service, now: Instant): void {
    if (this.#interest.ask(service, now.boot)) this.probes.pace(service, now.boot);
  }

  /** R9. Returns how many rows were let go. */
  accept(name: string, now: Instant): number {
    this.#now = now;
    const service = name === '*' ? undefined : this.catalog.services.get(name);
    if (name !== '*' && service === undefined) return 0;
    const events = this.guard.accept(service, Number.POSITIVE_INFINITY);
    const rows = events.reduce((sum, event) => sum + (event.kind === 'let go' ? event.rows.length : 0), 0);
    this.#settle(this.#take(events), now);
    this.#show(now);
    return rows;
  }

  /** New settings for the same zone; data, guard and verdicts stay (D32). */
  reconfigure(config: ZoneConfig, deps: ZoneDeps, now: Instant): void {
    this.#now = now;
    this.config = config;
    this.#deps = deps;
    this.probes.configure(config);
    this.#interest.configure(config.interest);
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
      this.#unmark(service);
      for (const row of service.rows.values()) this.probes.remove(row, now.boot);
    }
    this.names.dispose();
  }

  /** Takes in what a snapshot had (R29). `trusted` false: the first believable list replaces it without a guard. */
  restored(
    services: readonly Service[],
    trusted: boolean,
    now: Instant,
    seed: (row: CatalogRow, settings: JudgeSettings) => void,
  ): void {
    this.#now = now;
    this.source = 'snapshot';
    this.#trusted = trusted;
    for (const service of services) {
      this.catalog.restore(service);
      const { check } = this.probes.settings(service);
      for (const row of service.rows.values()) {
        seed(row, check);
        if (row.answered) this.answeredRows++;
      }
    }
    this.#settle(new Set(services), now);
    this.unsaved.clear();
    this.#show(now);
  }

  /** The rows to answer out of a set of a service's rows: what R10 and R12 left, or the floor (R11). */
  answerOf(service: Service, subset: readonly CatalogRow[]): Floored {
    const { failOpenWindow } = this.probes.settings(service).check;
    const window = Math.max(failOpenWindow, FAIL_OPEN_MIN_MS, FAIL_OPEN_INTERVALS * this.probes.interval(service));
    return floor(subset, window, () => this.#newestSuccess(service), this.probes.lastSuccess);
  }

  /** Puts target names that a restore left for later. Returns whether there are more. */
  putDeferred(count: number, now: Instant): boolean {
    const more = this.names.putDeferred(count);
    if (!more) this.#show(now);
    return more;
  }

  isStale(now: BootMs): boolean {
    if (this.source !== 'registry') return this.source === 'snapshot';
    return this.lastConfirmed !== undefined && now - this.lastConfirmed > this.config.softTtl;
  }

  /** R16: the registry, heard, has dropped the row or calls it critical: a second witness against it. */
  disowns(row: CatalogRow): boolean {
    return this.heard && (!row.listed || row.state === 'critical');
  }

  /** Whether the prober gives no word at all for the zone (R8). */
  get proberSilent(): boolean {
    return this.#worded === 0;
  }

  get probed(): number {
    return this.#probed;
  }

  /** Indexes of the listen addresses on which the zone exists; undefined: all. */
  get listen(): readonly number[] | undefined {
    return this.#deps.listen;
  }

  #listed(report: ListReport, now: Instant): void {
    const over = this.catalog.overLimit(report);
    if (over !== undefined) {
      this.#notHeard(`not believable: ${over}`, now);
      return;
    }
    if (report.kind === 'change' && this.source !== 'registry') {
      this.#notHeard('not believable: a change before the first list', now);
      return;
    }
    const removals = report.kind === 'change' || report.removalsBelievable;
    const unguarded = this.source === 'snapshot' && !this.#trusted;
    const newEpoch = this.epoch !== undefined && report.epoch !== this.epoch && !unguarded;
    const first = this.source === 'none';
    if (newEpoch)
      this.#deps.log('warn', 'epoch-changed', { zone: this.config.name, from: this.epoch, to: report.epoch });
    const touched = this.catalog.apply(report, {
      heard: this.heardClock.at(now.boot),
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
      this.#heardAgain(now, touched, { ...now, boot: Math.min(now.boot, report.at) });
      this.#releaseMarks(report.releases, now);
    } else {
      this.lastConfirmed = Math.min(now.boot, report.at);
      this.#notHeard(`believed for additions and recoveries only${firstFault(report.rejected)}`, now);
      this.#settle(touched, now);
    }
    if (first) this.#deps.log('info', 'zone-synced', { zone: this.config.name, services: this.catalog.services.size });
  }

  #heardAgain(now: Instant, touched: Set<Service>, confirmed: Instant): void {
    this.lastConfirmed = confirmed.boot;
    if (!this.heard) {
      this.#deps.log('info', 'registry-heard', {
        zone: this.config.name,
        silentMs: Math.round(now.boot - this.heardSince.boot),
      });
      this.heard = true;
      this.reason = undefined;
      this.heardSince = now;
      this.heardClock.run(now.boot);
      this.#settle(new Set([...touched, ...this.guard.holding()]), now);
    } else if (touched.size > 0) this.#settle(touched, now);
  }

  #notHeard(reason: string, now: Instant): void {
    if (this.heard) {
      this.heardSince = now;
      this.#deps.log('warn', 'registry-not-heard', {
        zone: this.config.name,
        reason,
        frozen: 'capacity stays at its present level: new endpoints cannot be discovered',
      });
    } else if (this.reason !== reason) {
      this.#deps.log('warn', 'registry-still-not-heard', { zone: this.config.name, reason });
    }
    this.heard = false;
    this.reason = reason;
    this.heardClock.stop(now.boot);
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
      if (events.length > 0) this.#settle(this.#take(events), now);
    }
  }

  /** Health, guard, answers, in that order, for the services that were touched; the guard looks at its own besides. */
  #settle(touched: Set<Service>, now: Instant): void {
    for (const service of touched) this.#judge(service, now);
    if (this.heard) {
      const events = this.guard.evaluate(this.heardClock.at(now.boot), now.wall, this.proberSilent);
      for (const service of this.#take(events)) {
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
      this.#publish(service);
    }
  }

  /** Logs what the guard did. Returns the services that it changed. */
  #take(events: readonly GuardEvent[]): Set<Service> {
    const changed = new Set<Service>();
    const zone = this.config.name;
    for (const event of events) {
      if (event.kind === 'tripped') {
        const service = event.service?.name;
        this.#deps.log('warn', 'guard-tripped', {
          zone,
          scope: event.scope,
          ...(service && { service }),
          lost: event.lost,
        });
        continue;
      }
      changed.add(event.service);
      if (event.kind === 'forgotten') continue;
      const fields = { zone, service: event.service.name, rows: event.rows.length };
      if (event.kind === 'held') this.#deps.log('warn', 'guard-holds', fields);
      else this.#deps.log('info', 'guard-let-go', { ...fields, exit: event.exit });
    }
    return changed;
  }

  #judge(service: Service, now: Instant): void {
    let worded = 0;
    let probed = 0;
    const onTrial = this.probes.onTrial(service);
    for (const row of service.rows.values()) {
      if (row.target !== undefined) probed++;
      if (this.probes.read(row, onTrial)) worded++;
    }
    judge(service.rows.values(), this.probes.settings(service).check.softCap, this.probes.lastSuccess);
    let answerable = 0;
    for (const row of service.rows.values()) if (row.answerable) answerable++;
    this.#answerableRows += answerable - service.answerable;
    this.#worded += worded - service.worded;
    this.#probed += probed - service.probed;
    service.answerable = answerable;
    service.worded = worded;
    service.probed = probed;
    this.#answer(service, now);
    this.guard.recount(service, this.heardClock.at(now.boot), this.proberSilent);
  }

  /** Marks the rows that are answered, floor included. */
  #answer(service: Service, now: Instant): void {
    const standing = service.standing();
    const { rows, step } = this.answerOf(service, standing);
    if (step === undefined) this.#steps.delete(service);
    else this.#steps.set(service, step);
    // Nearly always all that stand are answered.
    const some = rows.length === standing.length ? undefined : new Set(rows);
    let changed = false;
    for (const row of service.rows.values()) {
      const answered = some === undefined ? row.listed || row.hold !== undefined : some.has(row);
      if (row.answered === answered) continue;
      row.answered = !row.answered;
      this.answeredRows += row.answered ? 1 : -1;
      changed = true;
    }
    if (changed) this.#bump(now);
  }

  #strength(service: Service): Strength {
    const byPriority = new Map<number, number>();
    for (const row of service.rows.values()) {
      if (row.answerable) byPriority.set(row.priority, (byPriority.get(row.priority) ?? 0) + 1);
    }
    return { all: service.answerable, zone: this.#answerableRows, byPriority };
  }

  #newestSuccess(service: Service): BootMs | undefined {
    let newest: BootMs | undefined;
    for (const row of service.rows.values()) {
      const at = this.probes.lastSuccess(row);
      if (at !== undefined && (newest === undefined || at > newest)) newest = at;
    }
    return newest;
  }

  #publish(service: Service): void {
    const step = this.#steps.get(service);
    if (step !== this.floors.get(service.name)) {
      const fields = { zone: this.config.name, service: service.name };
      if (step === undefined) this.floors.delete(service.name);
      else this.floors.set(service.name, step);
      if (step === undefined) this.#deps.log('info', 'floor-left', fields);
      else this.#deps.log('warn', 'floor', { ...fields, step });
    }
    this.names.publish(service);
  }

  #forget(service: Service): void {
    this.#answerableRows -= service.answerable;
    this.#worded -= service.worded;
    this.#probed -= service.probed;
    this.floors.delete(service.name);
    this.#steps.delete(service);
    this.probes.forget(service);
    this.#unmark(service);
    this.unsaved.add(service.name);
    this.names.forget(service);
  }

  #added(service: Service, row: CatalogRow, now: Instant): void {
    if (service.asked === 0) this.#mark(service, now);
    this.probes.add(service, row, now.boot);
    this.names.hold(row.address);
  }

  /** The service's check may have changed. */
  #aim(service: Service, now: Instant): void {
    this.probes.aim(service, now.boot);
    if (this.#isPinned(service)) this.#unmark(service);
    else if (service.asked === 0 && service.rows.size > 0) {
      this.#mark(service, now);
      this.probes.pace(service, now.boot);
    }
  }

  /** R17: from now on it is known when the service is asked, if that makes a difference. */
  #mark(service: Service, now: Instant): void {
    if (this.#isPinned(service)) return;
    service.asked = this.#deps.table.allocAsked();
    this.#deps.asked.set(service.asked, { zone: this, service });
    this.#interest.add(service, this.config.idleInterval, now.boot);
  }

  #unmark(service: Service): void {
    this.#interest.remove(service);
    if (service.asked === 0) return;
    this.#deps.asked.delete(service.asked);
    this.#deps.table.freeAsked(service.asked);
    service.asked = 0;
  }

  #isPinned(service: Service): boolean {
    const { type, pinned } = this.probes.settings(service).check;
    return pinned || type === 'none';
  }

  #removed(service: Service, row: CatalogRow, now: Instant): void {
    this.probes.remove(row, now.boot);
    this.names.kept.drop(row.address, now.boot);
    if (row.answered) this.answeredRows--;
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
    const age =
      this.lastConfirmed === undefined ? undefined : describeAge(Math.max(0, now.boot - this.lastConfirmed)).text;
    this.#sound(now);
    this.names.show(
      {
        synced: this.source !== 'none',
        ...(this.names.deferred ? { targetsPending: true } : {}),
        ...(this.heard ? {} : { negative: { code: EDE_STALE_NXDOMAIN, text: 'registry not heard' } }),
        serial: this.serial,
        statusText: statusText(this, stale),
      },
      stale ? `stale${age === undefined ? '' : ` ${age}`}` : undefined,
    );
  }

  /** R9: the guard's alarm sounds only when it has held passing rows for five minutes of heard time. */
  #sound(now: Instant): void {
    const since = this.guard.heldPassingSince;
    const alarm = since !== undefined && this.heardClock.at(now.boot) - since >= ALARM_MS;
    if (alarm === this.alarm) return;
    this.alarm = alarm;
    const services = [...this.guard.holding()].map((service) => service.name);
    if (alarm)
      this.#deps.log('error', 'guard-alarm', { zone: this.config.name, services, remedy: 'holdfast accept NAME' });
    else this.#deps.log('info', 'guard-alarm-ended', { zone: this.config.name });
  }
}

/** What a report that is believed in part left out, by its first fault. */
function firstFault([first, ...others]: readonly Rejected[]): string {
  if (first === undefined) return '';
  return `: ${first.where}: ${first.reason}${others.length === 0 ? '' : ` (and ${others.length} more)`}`;
}
