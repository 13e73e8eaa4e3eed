/** Which rows of a zone are probed, and how: settings by service, and the hold of each row on its target (R13, R17). */
import type { Places } from '../catalog/places.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { serviceSettings } from '../config/service-settings.js';
import type { CheckConfig, ServiceSettings, ZoneConfig } from '../config/types.js';
import { type TargetSet, targetOf } from '../health/targets.js';
import { NO_WORD, type VerdictStore } from '../health/verdicts.js';
import type { ListedCheck } from '../registry/registry.js';
import { isHostName } from '../registry/rows.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Answering } from './zone-names.js';

/** A row with its place: what holds a probe target. */
export interface Holder<Zone> {
  readonly zone: Zone;
  readonly service: Service;
  readonly row: CatalogRow;
}

/** What holds for one service: the zone's settings, the registry's word, and local settings, in rising order. */
export interface Settings extends Answering {
  readonly check: CheckConfig;
  /** R18: the check is, in part at least, the word of a registry that is not local. */
  readonly hearsay: boolean;
}

/** Where all zones meet. */
export interface ProbesPlace<Zone> {
  readonly verdicts: VerdictStore;
  readonly targets: TargetSet<Holder<Zone>>;
  /** Rows by address, port and protocol. */
  readonly places: Places<Holder<Zone>>;
}

export class ZoneProbes<Zone> {
  readonly #zone: Zone;
  readonly #verdicts: VerdictStore;
  readonly #targets: TargetSet<Holder<Zone>>;
  readonly #places: Places<Holder<Zone>>;
  readonly #settings = new Map<string, Settings>();
  /** Of services about which nothing is said but for the zone. */
  #common: Settings | undefined;
  readonly #isAsked: (service: Service) => boolean;
  #config: ZoneConfig;

  constructor(
    zone: Zone,
    config: ZoneConfig,
    { verdicts, targets, places }: ProbesPlace<Zone>,
    isAsked: (service: Service) => boolean,
  ) {
    this.#isAsked = isAsked;
    this.#zone = zone;
    this.#config = config;
    this.#verdicts = verdicts;
    this.#targets = targets;
    this.#places = places;
  }

  /** The caller aims every service again. */
  configure(config: ZoneConfig): void {
    this.#config = config;
    this.#settings.clear();
    this.#common = undefined;
  }

  settings(service: Service): Settings {
    const known = this.#settings.get(service.name);
    if (known !== undefined) return known;
    const { services } = this.#config;
    if (services.length === 0 && service.check === undefined) return (this.#common ??= this.#of(service, {}));
    const settings = this.#of(service, serviceSettings(services, service.name));
    this.#settings.set(service.name, settings);
    return settings;
  }

  #of(service: Service, local: ServiceSettings): Settings {
    const maxAnswers = local.maxAnswers ?? this.#config.maxAnswers;
    return {
      check: { ...this.#config.check, ...service.check, ...local.check },
      hearsay: this.#config.registries[service.checkedBy]?.type !== 'file' && isHearsay(service.check, local.check),
      order: local.order ?? this.#config.order,
      ...(maxAnswers === undefined ? {} : { maxAnswers }),
      ...(local.alias === undefined ? {} : { alias: local.alias }),
    };
  }

  /** R17: at `interval` what is asked or pinned, the others not more often than `idleInterval`. */
  interval(service: Service): Ms {
    const { interval, pinned } = this.settings(service).check;
    return pinned || this.#isAsked(service) ? interval : Math.max(interval, this.#config.idleInterval);
  }

  /** The service's check may have changed: its rows are probed as it now says. */
  aim(service: Service, now: BootMs): void {
    this.#settings.delete(service.name);
    this.pace(service, now);
  }

  /** The service began or ceased to be asked. */
  pace(service: Service, now: BootMs): void {
    for (const row of service.rows.values()) {
      if (row.holder !== undefined) this.#aim(row.holder as Holder<Zone>, now);
    }
  }

  add(service: Service, row: CatalogRow, now: BootMs): void {
    const holder: Holder<Zone> = { zone: this.#zone, service, row };
    row.holder = holder;
    this.#places.add(holder);
    this.#aim(holder, now);
  }

  remove(row: CatalogRow, now: BootMs): void {
    const holder = row.holder as Holder<Zone> | undefined;
    if (holder === undefined) return;
    this.#places.remove(holder);
    if (row.target !== undefined) this.#drop(row.target, holder, now);
    row.holder = undefined;
  }

  forget(service: Service): void {
    this.#settings.delete(service.name);
  }

  lastSuccess = (row: CatalogRow): BootMs | undefined =>
    row.target === undefined ? undefined : this.#verdicts.lastSuccess(row.target);

  /** R18: a check of hearsay holds nothing back until it has passed once on this host, on any row of the service. */
  onTrial(service: Service): boolean {
    if (!this.settings(service).hearsay) return false;
    for (const { target } of service.rows.values()) {
      if (target !== undefined && this.#verdicts.isProven(target)) return false;
    }
    return true;
  }

  /** Writes the verdict on the row. Returns whether there is a word; on trial a failure is none. */
  read(row: CatalogRow, onTrial: boolean): boolean {
    if (onTrial) {
      row.column = 'no-word';
      row.hard = false;
      row.longDead = false;
      row.foreign = undefined;
      row.leaving = false;
      return false;
    }
    const standing = row.target === undefined ? NO_WORD : this.#verdicts.standing(row.target);
    row.column = standing.column;
    row.hard = standing.hard;
    row.longDead = standing.longDead;
    row.leaving = standing.draining;
    row.foreign = standing.wrongIdentity ? 'wrong-identity' : undefined;
    return row.column !== 'no-word';
  }

  /** A changed check inherits the verdict (R13). */
  #aim(holder: Holder<Zone>, now: BootMs): void {
    const { service, row } = holder;
    const check = this.settings(service).check;
    const target = isHostName(row.address) ? undefined : targetOf(row, check, this.interval(service));
    const before = row.target;
    if (target !== undefined) {
      this.#targets.hold(target, check, holder);
      this.#verdicts.slow(target.key, this.#targets.interval(target.key) ?? 0, now);
      if (target.key !== before) {
        if (before !== undefined) this.#verdicts.inherit(before, target.key, check, now);
        this.#verdicts.retain(target.key, now);
      }
    }
    if (before !== undefined && before !== target?.key) this.#drop(before, holder, now);
    row.target = target?.key;
  }

  #drop(key: string, holder: Holder<Zone>, now: BootMs): void {
    if (this.#targets.drop(key, holder)) this.#verdicts.release(key, now);
  }
}

/** Something of the registry's word is left when local configuration is laid over it. */
function isHearsay(listed: ListedCheck | undefined, local: Partial<CheckConfig> = {}): boolean {
  return listed !== undefined && Object.keys(listed).some((option) => !(option in local));
}
