/** What a zone's registries say, on its way in: one report at a time, a large list in steps. */
import type { ListReport } from '../catalog/catalog.js';
import type { Service } from '../catalog/service.js';
import { goOn, type Steps } from '../catalog/steps.js';
import type { Rejected, Report } from '../registry/registry.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { Zone } from './zone.js';
import { believedForRemovals, type ZoneSource } from './zone-source.js';

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

export class ZoneIntake {
  readonly #zone: Zone;
  #round: Round | undefined;
  #failing = false;
  /** Which registries were heard when what depends on that was last judged. */
  #heeded = '';

  constructor(zone: Zone) {
    this.#zone = zone;
  }

  /** What a registry said. @param index in `config.registries` */
  report(index: number, report: Report, now: Instant): void {
    this.begin(index, report, now);
    this.finish(now);
  }

  /** As `report`, but it is taken in by `goOn`: nothing that comes meanwhile waits for a large list. */
  begin(index: number, report: Report, now: Instant): void {
    const zone = this.#zone;
    zone.finish(now);
    zone.now = now;
    const source = zone.sources.all[index];
    if (source === undefined) return;
    const touched = new Set<Service>();
    const first = source.from === 'none' && zone.sources.from === 'none';
    this.#round = { steps: this.#reporting(source, report, touched), first, touched, again: new Set() };
  }

  /** Takes in about `rows` rows of what has begun. Returns whether there is more. */
  goOn(rows: number, now: Instant): boolean {
    const round = this.#round;
    if (round === undefined) return false;
    const zone = this.#zone;
    zone.now = now;
    let more = false;
    try {
      more = goOn(round.steps, rows);
    } finally {
      if (!more) this.#round = undefined;
    }
    if (!more && round.again.size > 0) zone.settling.settle(round.again);
    zone.show();
    if (!more) for (const source of zone.sources.all) source.tellFirst();
    return more;
  }

  /** Nothing that was begun is left. */
  finish(now: Instant): void {
    this.goOn(Number.POSITIVE_INFINITY, now);
  }

  /** What was begun is of no use any more. */
  drop(): void {
    this.#round = undefined;
  }

  get busy(): boolean {
    return this.#round !== undefined;
  }

  /** The first word on the zone is being taken in. */
  get first(): boolean {
    return this.#round?.first === true;
  }

  /** R33: a registry's last word was a failure. */
  get failing(): boolean {
    return this.#failing;
  }

  /** Something else is to be looked at of the service: what is being taken in is judged as a whole. False: nothing of it is. */
  judgesLater(service: Service): boolean {
    if (this.#round?.touched.has(service) !== true) return false;
    this.#round.again.add(service);
    return true;
  }

  /** R19: some rows are judged in another way when the registry falls silent, or is heard again. */
  heed(): void {
    const zone = this.#zone;
    const heard = zone.sources.all.map(({ hearing }) => hearing.heard).join();
    if (heard === this.#heeded) return;
    this.#heeded = heard;
    const touched = new Set(zone.claims.dependOnHearing());
    if (touched.size > 0) zone.settling.settle(touched);
  }

  *#reporting(source: ZoneSource, report: Report, touched: Set<Service>): Steps {
    const { hearing } = source;
    const { now } = this.#zone;
    this.#failing = report.kind === 'unreachable' || report.kind === 'unbelievable';
    if (report.kind === 'unreachable' || report.kind === 'unbelievable') {
      hearing.lost(report.kind === 'unreachable' ? report.reason : `not believable: ${report.reason}`, now);
    } else if (report.kind === 'confirmed') {
      // What was not taken in may be within the limits by now.
      if (source.refused !== undefined) yield* this.#listed(source, { ...source.refused, at: report.at }, touched);
      else if (source.from === 'registry') yield* this.#heardAgain(source, new Set(), now.boot);
    } else {
      yield* this.#listed(source, report, touched);
    }
    this.heed();
  }

  *#listed(source: ZoneSource, report: ListReport, own: Set<Service>): Steps {
    const zone = this.#zone;
    const { settling } = zone;
    if (!(yield* source.taking(report, zone.now, own))) return;
    for (const { name } of own) {
      zone.unsaved.add(name);
      yield 1;
    }
    const touched = settling.seen(source, own);
    if (this.#round !== undefined) this.#round.touched = touched;
    for (const service of touched) {
      settling.aim(service);
      yield service.rows.size + 1;
    }
    zone.claims.contest(touched);
    if (report.kind === 'list' || report.nodes !== undefined)
      zone.names.nodes.list(source.identity, report.nodes ?? [], believedForRemovals(report), zone.now.boot);
    if (touched.size > 0) zone.bump();
    const confirmed = Math.min(zone.now.boot, report.at);
    if (believedForRemovals(report)) {
      yield* this.#heardAgain(source, touched, confirmed);
      const events = source.release(report.releases, zone.now);
      if (events.length > 0) settling.settle(settling.seen(source, source.guardLog.tell(events)));
    } else {
      source.hearing.lastConfirmed = confirmed;
      source.hearing.lost(`believed for additions and recoveries only${firstFault(report.rejected)}`, zone.now);
      yield* settling.settling(touched, true);
    }
  }

  *#heardAgain(source: ZoneSource, touched: Set<Service>, confirmed: BootMs): Steps {
    const zone = this.#zone;
    const { settling } = zone;
    const { hearing, guard } = source;
    hearing.lastConfirmed = confirmed;
    if (hearing.again(zone.now)) for (const service of settling.seen(source, guard.holding())) touched.add(service);
    else if (touched.size === 0) return settling.moved(source, source.relist(zone.now));
    yield* settling.settling(touched, true);
    settling.moved(source, source.relist(zone.now));
  }
}

/** What a report that is believed in part left out, by its first fault. */
function firstFault([first, ...others]: readonly Rejected[]): string {
  if (first === undefined) return '';
  return `: ${first.where}: ${first.reason}${others.length === 0 ? '' : ` (and ${others.length} more)`}`;
}
