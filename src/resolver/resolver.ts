/**
 * The resolver without its rim: zones, verdicts and answers as a deterministic machine. It reads no clock,
 * opens nothing and starts no timer; daemon.ts feeds it in production and the scenario engine in tests.
 */
import type { ClientReport, Explanation, ServiceStatus, ZoneStatus } from '../admin/documents.js';
import { AnswerTable } from '../answers/table.js';
import { Places } from '../catalog/places.js';
import type { Service } from '../catalog/service.js';
import type { Config, ZoneConfig } from '../config/types.js';
import { LOOK_MS } from '../health/interest.js';
import { TargetSet } from '../health/targets.js';
import { type KeyFacts, VerdictStore } from '../health/verdicts.js';
import { FAILURE_KINDS, type FailureKind, type ProbeResult, type Target } from '../prober/feed.js';
import type { LookUp } from '../registry/look-up.js';
import type { Report } from '../registry/registry.js';
import type { BootMs, Instant, Ms } from '../system/clock.js';
import { AskedLooks } from './asked-looks.js';
import { drain } from './drain.js';
import type { ResolverEvents } from './events.js';
import { explain } from './explain.js';
import { type HostResult, HostTable } from './host-table.js';
import { gather, Judging } from './judging.js';
import { LookUps } from './look-ups.js';
import { ReportDesk } from './report-desk.js';
import { serviceStatus, zoneStatus } from './status.js';
import { tellSuspicion } from './suspicion-log.js';
import type { SeenRevisions } from './sync-messages.js';
import { Zone } from './zone.js';
import { exportZone, takeDelta, type ZoneDelta } from './zone-delta.js';
import { listenIndexes, nameservers, type ZoneDeps } from './zone-deps.js';
import { zoneKeys } from './zone-keys.js';
import type { Holder } from './zone-probes.js';
import { type SnapshotContent, takeSnapshotIn } from './zone-snapshot.js';

export type { Log, ResolverEvents } from './events.js';

type ProbeOutcome = FailureKind | 'pass';
const NO_FAILURES = Object.fromEntries(FAILURE_KINDS.map((kind) => [kind, 0])) as Record<FailureKind, number>;

/** As if measured at that interval: what clients report is out within 300 ms, and waits for 100 at most (R20). */
const REPORTED_MS: Ms = 2_000;

export interface ResolverOptions {
  /** Seeds the answer table's hash. */
  readonly seed?: number;
}

export class Resolver {
  readonly table: AnswerTable;
  readonly #zones = new Map<string, Zone>();
  readonly #targets = new TargetSet<Holder<Zone>>({ of: ({ zone }) => (this.#zones.size > 1 ? zone.key : undefined) });
  readonly verdicts = new VerdictStore(keyFacts(this.#targets));
  readonly #places = new Places<Holder<Zone>>();
  readonly desk: ReportDesk;
  /** R33: questions that wait for a look-up. */
  readonly lookUps: LookUps;
  /** Results of probes since the start, by outcome. */
  readonly outcomes: Record<ProbeOutcome, number> = { pass: 0, ...NO_FAILURES };
  readonly #judging = new Judging(this.#zones);
  /** R28: host names that registries list. */
  readonly #hosts = new HostTable();
  /** R17: whose names are asked. */
  readonly #asked: AskedLooks<Zone>;
  #lookAt: BootMs;
  readonly #events: ResolverEvents;
  #config: Config;

  constructor(config: Config, events: ResolverEvents, now: Instant, options: ResolverOptions = {}) {
    this.#config = config;
    this.#events = events;
    this.#lookAt = now.boot + LOOK_MS;
    this.table = new AnswerTable({ seed: options.seed ?? 0 });
    this.#asked = new AskedLooks(this.table);
    const { verdicts } = this;
    this.lookUps = new LookUps(this.table, this.#zones, (zone, service) => events.lookUp?.(zone, service));
    this.desk = new ReportDesk({ places: this.#places, targets: this.#targets, verdicts, log: events.log });
    for (const [key, zone] of zoneKeys(config.zones)) this.#zones.set(key, new Zone(key, zone, this.#deps(zone), now));
  }

  /** What a registry said about a zone (by its key). `registry` is its index in `zone.registries`. */
  report(zone: string, registry: number, report: Report, now: Instant): void {
    this.#zones.get(zone)?.intake.report(registry, report, now);
    this.#settleClaims(now);
    this.#tellTargets();
  }

  /** As `report`, but it is taken in by `goOn`: nothing that comes meanwhile waits for a large list. */
  begin(zone: string, registry: number, report: Report, now: Instant): void {
    this.#zones.get(zone)?.intake.begin(registry, report, now);
  }

  /** Takes in about `rows` rows of what has begun for the zone. Returns whether there is more. */
  goOn(zone: string, rows: number, now: Instant): boolean {
    const more = this.#zones.get(zone)?.intake.goOn(rows, now) === true;
    this.#settleClaims(now);
    this.#tellTargets();
    return more;
  }

  /** R33: what a look-up of a service brought, after `ResolverEvents.lookUp`. */
  lookedUp(zone: string, service: string, found: LookUp, now: Instant): void {
    const one = this.#zones.get(zone);
    if (one !== undefined) this.lookUps.landed(one, service, one.lookUps.landed(service, found, now));
    this.#settleClaims(now);
    this.#tellTargets();
  }

  /** Facts from the prober, in any order; older than what is known are ignored. */
  results(results: readonly ProbeResult[], now: Instant): void {
    const judging = this.#judging;
    for (const result of results) {
      const held = this.#targets.held(result.key);
      if (held === undefined) continue;
      this.outcomes[result.failure ?? 'pass']++;
      const isFresh = (): boolean => some(held.holders, (holder) => holder.zone.isFresh(holder));
      const { interval } = result;
      if (this.verdicts.apply(result, held.settings, isFresh, now.boot)) judging.changed(held.holders, interval, now);
      if (this.verdicts.isVoid(result)) continue;
      const reported = this.desk.outcome(held.holders, result.failure !== undefined, result.at);
      judging.changed(reported, Math.min(interval, REPORTED_MS), now);
    }
    this.#judge(now);
    this.#tellTargets();
  }

  /** R20: what clients said of failed connections, checked and within the limits. */
  reported(reports: readonly ClientReport[], now: Instant): void {
    this.#probeNow(this.desk.take(reports, this.#zones.values(), now.boot));
  }

  #probeNow(keys: ReadonlySet<string>): void {
    if (keys.size > 0) this.#events.probeNow([...keys]);
  }

  /** R28: what a look-up of a host name brought, after `ResolverEvents.resolve`. */
  resolved(host: string, result: HostResult, now: Instant): void {
    if (!this.#hosts.heard(host, result, now.boot)) return;
    for (const zone of this.#zones.values()) zone.resolved(host, result, now);
    this.#settleClaims(now);
    this.#tellTargets();
  }

  /** R16: how full the host's connection tracking table is, 0 to 1. */
  conntrack(fill: number, now: Instant): void {
    this.verdicts.conntrack(fill, now.boot);
    this.#judge(now);
  }

  /** Runs every clock that is due: staleness, guard, verdict ages, kept targets. */
  tick(now: Instant): void {
    const judging = this.#judging;
    for (const key of this.verdicts.expire(now.boot)) {
      judging.changed(this.#targets.holders(key), this.#targets.interval(key) ?? 0, now);
    }
    for (const holder of this.desk.expire(now.boot)) {
      judging.changed([holder], Math.min(holder.zone.probes.interval(holder.service), REPORTED_MS), now);
    }
    this.#probeNow(this.desk.due(now.boot));
    this.#judge(now);
    if (now.boot >= this.#lookAt) this.#look(now);
    const hosts = this.#hosts.takeDue(now.boot);
    if (hosts.length > 0) this.#events.resolve?.(hosts);
    for (const zone of this.#zones.values()) zone.tick(now);
    this.lookUps.tick(now);
    this.#settleClaims(now);
    this.#tellTargets();
  }

  /** When `tick` has to run next, Infinity when nothing is pending. */
  nextWake(now: Instant): BootMs {
    let next = this.#asked.of.size === 0 ? Number.POSITIVE_INFINITY : this.#lookAt;
    next = Math.min(next, this.verdicts.nextExpiry(), this.desk.nextExpiry(), this.#hosts.nextDue());
    next = Math.min(next, this.lookUps.nextWake(), this.#judging.nextDue());
    for (const zone of this.#zones.values()) next = Math.min(next, zone.nextWake(now.boot));
    return next;
  }

  /** Every probe target at present. */
  targets(): Target[] {
    return this.#targets.all();
  }

  /** R30: the clocks parted, or the process was stopped. `listen`: verdicts start their age again (R13). */
  clockGap(now: Instant): void {
    this.verdicts.restartAges(now.boot);
    for (const zone of this.#zones.values()) zone.clockGap(now);
  }

  /** The resolver's own lateness, by which a verdict may be older (R13). */
  get lag(): Ms {
    return this.verdicts.lag;
  }

  set lag(ms: Ms) {
    this.verdicts.lag = ms;
  }

  /** R3: what is asked most, of each zone whose registries want to know, by the zone's name. */
  mostAsked(count: number, now: Instant): Map<string, readonly string[]> {
    const asked = new Map<string, readonly string[]>();
    for (const zone of this.#zones.values()) {
      const names = zone.mostAsked(count, now);
      if (names.length > 0) asked.set(zone.key, names);
    }
    return asked;
  }

  /** R3: the services that were asked since this was last called, or since the last look, by the zone's key. */
  askedJustNow(): Map<string, string[]> {
    return this.#asked.glimpse();
  }

  /** R9. `service` is a name or `*`. Returns how many rows were let go, and of which zones, or undefined when no zone knows the name. */
  accept(service: string, zone: string | undefined, now: Instant): { released: number; zones: Zone[] } | undefined {
    const zones: Zone[] = [];
    let released = 0;
    for (const one of this.#zones.values()) {
      if (zone !== undefined && one.config.name !== zone) continue;
      if (service !== '*' && one.meant(service) === undefined) continue;
      zones.push(one);
      released += one.accept(service, now);
    }
    this.#tellTargets();
    return zones.length === 0 ? undefined : { released, zones };
  }

  /** An operator's word on endpoints, see drain.ts. Undefined when no zone, or not the given one, has the name. */
  drain(name: string, zone: string | undefined, undo: boolean, now: Instant): ReturnType<typeof drain> {
    const zones = [...this.#zones.values()].filter(({ config }) => zone === undefined || config.name === zone);
    return drain(zones, name, undo, this.#events.log, now);
  }

  /** Takes a new configuration in: zones that stay keep their data (D32). */
  reload(config: Config, now: Instant): void {
    this.#config = config;
    const wanted = zoneKeys(config.zones);
    this.#renameViews(wanted);
    for (const [key, zone] of this.#zones) {
      if (wanted.has(key)) continue;
      zone.dispose(now);
      this.#zones.delete(key);
    }
    for (const [key, zone] of wanted) {
      const known = this.#zones.get(key);
      if (known === undefined) this.#zones.set(key, new Zone(key, zone, this.#deps(zone), now));
      else known.reconfigure(zone, this.#deps(zone), now);
    }
    this.verdicts.restartAges(now.boot);
    // Who shares an address space may have changed.
    for (const zone of this.#zones.values()) if (zone.config.addressSpace !== undefined) zone.settle(undefined, now);
    this.#tellTargets();
  }

  /** A name that came to be shared by views, or is no longer, or a view's other listen: the same zone by another key. */
  #renameViews(wanted: ReadonlyMap<string, ZoneConfig>): void {
    for (const [key, { name, listen }] of wanted) {
      if (this.#zones.has(key)) continue;
      const left = [...this.#zones.values()].filter((zone) => zone.config.name === name && !wanted.has(zone.key));
      const same = left.find((zone) => JSON.stringify(zone.config.listen) === JSON.stringify(listen)) ?? left[0];
      if (same === undefined) continue;
      this.#zones.delete(same.key);
      same.key = key;
      this.#zones.set(key, same);
    }
  }

  /** R33: a zone of ours looks names up. */
  get isOnDemand(): boolean {
    return some(this.#zones.values(), ({ demand }) => demand !== undefined);
  }

  /** R33: what each zone on demand follows, by its key, most recently asked first. */
  knownServices(): Record<string, readonly string[]> {
    const onDemand = [...this.#zones.values()].filter(({ demand }) => demand !== undefined);
    return Object.fromEntries(onDemand.map((zone) => [zone.key, zone.lookUps.order()]));
  }

  /** R6: how far each registry was when it was believed last. */
  seenRevisions(): SeenRevisions {
    return Object.fromEntries([...this.#zones].map(([key, { sources }]) => [key, sources.seenRevisions()]));
  }

  get zones(): Iterable<Zone> {
    return this.#zones.values();
  }

  zone(key: string): Zone | undefined {
    return this.#zones.get(key);
  }

  zoneStatus(now: Instant): ZoneStatus[] {
    return [...this.#zones.values()].map((zone) => zoneStatus(zone, now, this.lookUps.waiting(zone)));
  }

  services(): ServiceStatus[] {
    return [...this.#zones.values()].flatMap((zone) => serviceStatus(zone));
  }

  /** R16: families whose timeouts are not believed at present. */
  suspected(now: BootMs): { family: 'IPv4' | 'IPv6'; forMs: Ms }[] {
    return ([4, 6] as const).flatMap((family) => {
      const since = this.verdicts.suspectedSince(family);
      return since === undefined ? [] : [{ family: `IPv${family}` as const, forMs: Math.round(now - since) }];
    });
  }

  /** Throws on a name without wire form and on a type that does not exist. */
  explain(name: string, type: string, now: Instant): Explanation {
    const { verdicts, table, desk } = this;
    const { listen: listens, forward } = this.#config;
    const zones = [...this.#zones.values()];
    return explain({ zones, verdicts, desk, table, listens, forwards: forward !== undefined }, name, type, now);
  }

  /** What a snapshot of the zone holds (R29), whole. */
  exportZone(key: string, now: Instant): SnapshotContent {
    return exportZone(this.#restoredZone(key, now), this.verdicts, now);
  }

  /** What changed since the last call, for the snapshot's writer, about `most` rows of it at once; `full`: everything. */
  takeDelta(key: string, full: boolean, most: number, now: Instant): ZoneDelta {
    return takeDelta(this.#restoredZone(key, now), this.verdicts, full, most, now);
  }

  /**
   * Takes a snapshot in. `trusted`: younger than `snapshotTrust` and of the same registry (R29).
   * `defer`: leaves to `putDeferred` what the first answers do not need: target names, and what to probe. Lines that cannot be used are left out; returns how many.
   */
  restoreZone(key: string, content: SnapshotContent, trusted: boolean, now: Instant, defer = false): number {
    const zone = this.#zones.get(key);
    if (zone === undefined || zone.sources.complete) return 0;
    const skipped = takeSnapshotIn(zone, this.verdicts, content, trusted, defer, now);
    this.#tellTargets();
    return skipped;
  }

  /** Does a part of what restores left for later, about `count` of it. Returns whether there is more. */
  putDeferred(count: number, now: Instant): boolean {
    let more = false;
    for (const zone of this.#zones.values()) {
      more = zone.putDeferred(count, now);
      if (more) break;
    }
    this.#settleClaims(now);
    this.#tellTargets();
    return more;
  }

  /** The zone with all that it remembers, to be remembered again. */
  #restoredZone(key: string, now: Instant): Zone {
    const zone = this.#zones.get(key)!;
    zone.finish(now);
    return zone;
  }

  get targetCount(): number {
    return this.#targets.size;
  }

  /** R17: takes in what was asked since the last look. */
  #look(now: Instant): void {
    this.#lookAt = now.boot + LOOK_MS;
    for (const { zone, service } of this.#asked.take()) zone.asked(service, now);
  }

  /** R19: other zones may have come to list an address that is ours, or no longer. */
  #settleClaims(now: Instant): void {
    const changed = new Map<Zone, Set<Service>>();
    for (const holder of this.#places.takeContested()) {
      const { zone, service, row } = holder;
      if (zone.config.addressSpace !== undefined && row.holder === holder) gather(zone, service, changed);
    }
    for (const [zone, services] of changed) zone.verdictsChanged(services, now);
  }

  #judge(now: Instant): void {
    // R16: what failed in the window stands as it stood before.
    for (const key of tellSuspicion(this.verdicts, this.#events.log)) {
      this.#judging.changed(this.#targets.holders(key), 0, now);
    }
    this.#judging.judge(now);
  }

  /** Also what registries on demand are to follow. */
  #tellTargets(): void {
    for (const { key, demand } of this.#zones.values()) {
      const known = demand?.takeKnown();
      if (known !== undefined) this.#events.know?.(key, known.add, known.drop);
    }
    const { add, remove } = this.#targets.takeChanges();
    if (add.length > 0 || remove.length > 0) this.#events.targets(add, remove);
  }

  #deps(zone: ZoneConfig): ZoneDeps {
    return {
      table: this.table,
      verdicts: this.verdicts,
      targets: this.#targets,
      places: this.#places,
      asked: this.#asked.of,
      log: this.#events.log,
      listen: zone.listen && listenIndexes(zone.listen, this.#config.listen),
      hosts: this.#hosts,
      nameservers: nameservers(zone.listen ?? this.#config.listen),
    };
  }
}

function keyFacts(targets: TargetSet<Holder<Zone>>): KeyFacts {
  return {
    address: (key) => targets.get(key)?.address,
    interval: (key) => targets.interval(key),
    services: function* (key) {
      for (const { service } of targets.holders(key)) yield service;
    },
    disowned: (key) => !some(targets.holders(key), (holder) => !holder.zone.disowns(holder)),
  };
}

function some<T>(items: Iterable<T>, test: (item: T) => boolean): boolean {
  for (const item of items) if (test(item)) return true;
  return false;
}
