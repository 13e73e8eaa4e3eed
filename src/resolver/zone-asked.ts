/** R3, R17: which services of a zone are asked, as far as that makes a difference to how often they are read or probed. */
import type { AnswerTable } from '../answers/table.js';
import type { Service } from '../catalog/service.js';
import { isOnDemand } from '../config/on-demand.js';
import type { CheckConfig, ZoneConfig } from '../config/types.js';
import { Interest } from '../health/interest.js';
import { Popularity } from '../health/popularity.js';
import type { BootMs } from '../system/clock.js';

/** What a mark of the answer table is about. */
export interface Asked<Zone> {
  readonly zone: Zone;
  readonly service: Service;
}

/** Where the marks are: the table's, and what each is about by its slot. */
export interface AskedPlace<Zone> {
  readonly table: AnswerTable;
  readonly asked: Map<number, Asked<Zone>>;
}

export class ZoneAsked<Zone> {
  readonly #zone: Zone;
  readonly #place: AskedPlace<Zone>;
  readonly #settings: (service: Service) => { readonly check: CheckConfig };
  readonly #interest: Interest<Service>;
  /** R3: undefined where its registries make no difference between services. */
  #popularity: Popularity | undefined;
  #config: ZoneConfig;

  constructor(
    zone: Zone,
    config: ZoneConfig,
    place: AskedPlace<Zone>,
    settings: (service: Service) => { readonly check: CheckConfig },
  ) {
    this.#zone = zone;
    this.#config = config;
    this.#place = place;
    this.#settings = settings;
    this.#interest = new Interest(config.interest);
    this.#popularity = popularityOf(config, undefined);
  }

  configure(config: ZoneConfig): void {
    this.#config = config;
    this.#interest.configure(config.interest);
    this.#popularity = popularityOf(config, this.#popularity);
  }

  has(service: Service): boolean {
    return this.#interest.has(service);
  }

  /** Names of the service were asked. Returns whether it was not of interest before. */
  ask(service: Service, now: BootMs): boolean {
    this.#popularity?.ask(service.name, now);
    return !this.isPinned(service) && this.#interest.ask(service, now);
  }

  /** R3: the services that are asked most, the first first; none where nobody wants to know. */
  most(count: number, now: BootMs): string[] {
    return this.#popularity?.most(count, now) ?? [];
  }

  /** Up to `count` services that ceased to be of interest. */
  expire(now: BootMs, count: number): Iterable<Service> {
    return this.#interest.expire(now, count);
  }

  nextExpiry(): BootMs {
    return this.#interest.nextExpiry();
  }

  /** From now on it is known when the service is asked, if that makes a difference. */
  mark(service: Service, now: BootMs): void {
    if (!this.wants(service)) return;
    service.asked = this.#place.table.allocAsked();
    this.#place.asked.set(service.asked, { zone: this.#zone, service });
    if (!this.isPinned(service)) this.#interest.add(service, this.#config.idleInterval, now);
  }

  unmark(service: Service): void {
    this.#interest.remove(service);
    this.#popularity?.forget(service.name);
    if (service.asked === 0) return;
    this.#place.asked.delete(service.asked);
    this.#place.table.freeAsked(service.asked);
    service.asked = 0;
  }

  /** It makes a difference whether it is asked. */
  wants(service: Service): boolean {
    return this.#popularity !== undefined || !this.isPinned(service);
  }

  /** It is probed at the same pace whether it is asked or not, or not at all, and is not forgotten for want of questions. */
  isPinned(service: Service): boolean {
    const { type, pinned } = this.#settings(service).check;
    return pinned || (type === 'none' && !this.#config.registries.some(isOnDemand));
  }
}

/** Consul is read service by service, and the most asked first. */
function popularityOf({ registries }: ZoneConfig, known: Popularity | undefined): Popularity | undefined {
  return registries.some((one) => one.type === 'consul' && !isOnDemand(one)) ? (known ?? new Popularity()) : undefined;
}
