/** What clients say of failed connections, brought to the rows that they mean, and what follows (R20). */
import type { ClientReport } from '../admin/documents.js';
import type { Places } from '../catalog/places.js';
import { familyOf } from '../health/networks.js';
import { type Ejection, Reports } from '../health/reports.js';
import type { TargetSet } from '../health/targets.js';
import type { VerdictStore } from '../health/verdicts.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Log } from './events.js';
import type { Zone } from './zone.js';
import type { Holder } from './zone-probes.js';

/** The longest that reports alone keep an endpoint out. */
const MAX_HOLD_MS: Ms = 30_000;
/** The longest gap between two probes, in intervals. */
const LONGEST_GAP = 1.2;

const NONE: readonly Holder<Zone>[] = [];

export interface DeskDeps {
  readonly places: Places<Holder<Zone>>;
  readonly targets: TargetSet<Holder<Zone>>;
  readonly verdicts: VerdictStore;
  readonly log: Log;
}

export class ReportDesk {
  readonly #reports = new Reports<Holder<Zone>>();
  readonly #deps: DeskDeps;
  /** Since the start: reports that were about an endpoint of ours, about none, and times that one came to be out. */
  readonly counts = { known: 0, unknown: 0, ejections: 0 };

  constructor(deps: DeskDeps) {
    this.#deps = deps;
  }

  /** Takes reports in. Returns the keys of targets to be probed now. */
  take(reports: readonly ClientReport[], zones: Iterable<Zone>, now: BootMs): Set<string> {
    const probes = new Set<string>();
    const all = [...zones];
    for (const report of reports) {
      const zone = report.service === undefined ? undefined : zoneOf(all, report.service);
      let known = false;
      for (const holder of this.#deps.places.at(report)) {
        if (report.service !== undefined && holder.zone.config.name !== zone) continue;
        known = true;
        if (this.#isVoid(report)) continue;
        const { target } = holder.row;
        const probe = this.#reports.report(holder, report.failure, this.#hold(holder), now);
        if (probe && target !== undefined) probes.add(target);
      }
      this.counts[known ? 'known' : 'unknown']++;
    }
    return probes;
  }

  /** A probe for these ended at `at`. Returns those that came to be out by reports, or back. */
  outcome(holders: Iterable<Holder<Zone>>, failed: boolean, at: BootMs): readonly Holder<Zone>[] {
    if (this.#reports.isEmpty) return NONE;
    const changed: Holder<Zone>[] = [];
    for (const holder of holders) {
      if (this.#reports.outcome(holder, failed, at)) changed.push(holder);
    }
    for (const holder of changed) this.#turned(holder, failed ? 'a probe failed, too' : 'a probe passed');
    return changed;
  }

  /** Runs the clocks. Returns the holders that came to be out by reports, or back. */
  expire(now: BootMs): Holder<Zone>[] {
    // A row that has left meanwhile has no holder any more.
    const changed = this.#reports.expire(now).filter((holder) => holder.row.holder === holder);
    for (const holder of changed) this.#turned(holder, 'no probe answered in time');
    return changed;
  }

  /** Keys of targets that are to be probed now, since more was said after they were. */
  due(now: BootMs): Set<string> {
    return new Set(this.#reports.due(now).flatMap(({ row }) => row.target ?? []));
  }

  nextExpiry(): BootMs {
    return this.#reports.nextExpiry();
  }

  ejection(row: Holder<Zone>['row']): Ejection | undefined {
    return this.#reports.ejection(row.holder as Holder<Zone>);
  }

  /** R16: a timeout here says nothing while this host is suspected. */
  #isVoid({ address, failure }: ClientReport): boolean {
    if (failure !== 'timeout' && failure !== 'unreachable') return false;
    return this.#deps.verdicts.suspectedSince(familyOf(address)) !== undefined;
  }

  /** Until the prober has had the time to find out by itself. */
  #hold({ zone, service }: Holder<Zone>): Ms {
    const { fall, timeout } = zone.probes.settings(service).check;
    return Math.min(MAX_HOLD_MS, fall * zone.probes.interval(service) * LONGEST_GAP + timeout);
  }

  #turned(holder: Holder<Zone>, why: string): void {
    const { zone, service, row } = holder;
    const ejection = this.#reports.ejection(holder);
    row.ejected = ejection !== undefined;
    const endpoint = { zone: zone.config.name, service: service.name, address: row.address, port: row.port };
    if (ejection === undefined) {
      this.#deps.log('info', 'readmitted', endpoint);
      return;
    }
    this.counts.ejections++;
    const { count, failure } = ejection;
    this.#deps.log('warn', 'ejected', { ...endpoint, reports: count, failure, why });
  }
}

/** Name of the zone that owns a name: all its views have it, and who asked which is not known (R31). */
function zoneOf(zones: readonly Zone[], name: string): string | undefined {
  let best: string | undefined;
  for (const { config } of zones) {
    const own = config.name;
    if ((name === own || name.endsWith(`.${own}`)) && own.length > (best?.length ?? 0)) best = own;
  }
  return best;
}
