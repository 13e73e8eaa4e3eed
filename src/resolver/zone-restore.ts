/** Taking a snapshot in (R29), in two parts: what the first answers need, and what is to be probed. */
import type { CatalogRow, Column } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { JudgeSettings } from '../health/verdicts.js';
import type { Instant } from '../system/clock.js';
import type { ZoneHealth } from './zone-health.js';
import type { ZoneNames } from './zone-names.js';
import type { ZoneProbes } from './zone-probes.js';
import type { ZoneSource } from './zone-source.js';
import type { ZoneSources } from './zone-sources.js';

/** Gives a row the verdict that a snapshot had of it. `origins`: the rows that it was put together from. */
export type RestoreVerdict = (
  origins: readonly CatalogRow[],
  row: CatalogRow,
  settings: JudgeSettings,
  now: Instant,
) => void;

export interface Seeds {
  readonly column: (row: CatalogRow) => Column | undefined;
  readonly restore: RestoreVerdict;
}

/** What a snapshot had of one registry. */
export interface RestoredPart {
  readonly source: ZoneSource;
  readonly services: readonly Service[];
}

export class ZoneRestore {
  readonly #sources: ZoneSources;
  readonly #probes: ZoneProbes<unknown>;
  readonly #health: ZoneHealth;
  readonly #names: ZoneNames;
  /** Services whose rows are not aimed at yet; the last first. */
  readonly #unaimed: Service[] = [];
  #seed: RestoreVerdict | undefined;

  constructor(sources: ZoneSources, probes: ZoneProbes<unknown>, health: ZoneHealth, names: ZoneNames) {
    this.#sources = sources;
    this.#probes = probes;
    this.#health = health;
    this.#names = names;
  }

  /**
   * `trusted` false: the first believable list replaces it without a guard. `defer`: a service of which all is answered
   * whatever its verdicts say is aimed at later, by `finish`. Returns the services that are to be judged.
   */
  take(parts: readonly RestoredPart[], trusted: boolean, seeds: Seeds, defer: boolean, now: Instant): Set<Service> {
    this.#seed = seeds.restore;
    const { layers } = this.#sources;
    const touched = new Set<Service>();
    for (const { source, services } of parts) {
      source.from = 'snapshot';
      source.trusted = trusted;
      for (const service of services) {
        const waits = defer && !layers.several && this.#health.restorePlain(service, seeds.column);
        if (waits) this.#unaimed.push(service);
        source.catalog.restore(service);
        if (layers.several) continue;
        for (const row of service.rows.values()) if (row.answered) this.#health.answered++;
        if (waits) {
          source.guard.recount(service, source.hearing.clock.at(now.boot), true);
          this.#names.publish(service, now.boot);
        } else touched.add(service);
      }
    }
    const seen = layers.several ? layers.showAll() : touched;
    for (const service of seen) {
      const { check } = this.#probes.settings(service);
      for (const row of service.rows.values()) seeds.restore(layers.originsOf(service, row), row, check, now);
    }
    return seen;
  }

  /** Aims at up to `count` rows that were left for later. Returns the services of which something else is answered now. */
  finish(count: number, now: Instant): Set<Service> {
    const touched = new Set<Service>();
    let left = count;
    while (left > 0) {
      const service = this.#unaimed.pop();
      if (service === undefined) break;
      for (const row of service.rows.values()) {
        this.#probes.add(service, row, now.boot);
        this.#seed?.([row], row, this.#probes.settings(service).check, now);
        left--;
      }
      if (this.#health.judge(service)) touched.add(service);
    }
    if (!this.pending) this.#seed = undefined;
    return touched;
  }

  /** Something was left for later. */
  get pending(): boolean {
    return this.#unaimed.length > 0;
  }

  /** The service is the one that was left for later just now. */
  waits(service: Service): boolean {
    return service === this.#unaimed.at(-1);
  }
}
