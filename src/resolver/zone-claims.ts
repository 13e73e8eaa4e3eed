/** R19: rows of a zone whose address is another one's by now, as far as registries and time tell. */
import type { Places } from '../catalog/places.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { demandsIdentity } from '../health/targets.js';
import type { BootMs } from '../system/clock.js';
import type { Zone } from './zone.js';
import type { Holder } from './zone-probes.js';

export class ZoneClaims {
  readonly #zone: Zone;
  readonly #places: Places<Holder<Zone>>;

  constructor(zone: Zone, places: Places<Holder<Zone>>) {
    this.#zone = zone;
    this.#places = places;
  }

  /** Another service of this zone was listed at the row's address when the row was gone: no guard keeps it. */
  isClaimedHere(service: Service, row: CatalogRow): boolean {
    const { goneSince } = row;
    if (goneSince === undefined || row.port === 0) return false;
    return this.#places.some(
      row,
      (other) =>
        other.row.listed &&
        other.row.listedSince >= goneSince &&
        other.zone === this.#zone &&
        other.service.name !== service.name,
    );
  }

  /** Marks a row whose verdict was just read: that another zone claims it, and that its pass proves nothing. */
  mark(service: Service, row: CatalogRow): void {
    const { addressSpace, addresses } = this.#zone.config;
    if (addressSpace !== undefined && row.foreign === undefined && this.#isClaimed(service, row))
      row.foreign = 'claimed';
    if (addresses === 'reused') this.#doubt(service, row);
    else row.doubted = false;
  }

  /** Something was said about these rows: other zones that have their addresses have to look again. */
  contest(services: Iterable<Service>): void {
    if (this.#zone.config.addressSpace === undefined) return;
    for (const service of services) for (const row of service.rows.values()) this.#places.contest(row);
  }

  /** Services that are judged in another way when the registry falls silent, or is heard again. */
  *dependOnHearing(): Iterable<Service> {
    const { addressSpace, addresses } = this.#zone.config;
    if (addressSpace === undefined && addresses !== 'reused') return;
    for (const service of this.#zone.catalog.services.values()) {
      for (const row of service.rows.values()) {
        if (!row.doubted && (addressSpace === undefined || this.#places.at(row).length < 2)) continue;
        yield service;
        break;
      }
    }
  }

  /**
   * Between zones of one address space: listed elsewhere after the last word on our row. A listing that is older is no
   * claim, the two share the address; nor is one without a port, which leaves it to all. The word of our own probe is
   * better when it asked who is there.
   */
  #isClaimed(service: Service, row: CatalogRow): boolean {
    if (row.port === 0) return false;
    const { config, probes } = this.#zone;
    const lastWord = row.listed ? this.#confirmed(service) : row.goneSince;
    const claim = this.#places.some(
      row,
      (other) =>
        other.zone !== this.#zone &&
        other.zone.config.addressSpace === config.addressSpace &&
        other.row.listed &&
        other.row.listedSince > (lastWord ?? Number.NEGATIVE_INFINITY),
    );
    return claim && !(row.column === 'passes' && demandsIdentity(probes.settings(service).check));
  }

  /** When the registries that list a service last said so. */
  #confirmed(service: Service): BootMs {
    const { sources } = this.#zone;
    if (sources.heard(service)) return Number.POSITIVE_INFINITY;
    const words = sources.layers.partsOf(service).map(({ layer }) => layer.hearing.lastConfirmed);
    return Math.min(...words.map((at) => at ?? Number.NEGATIVE_INFINITY));
  }

  /** Addresses are soon another's: what has failed hard is not back by a pass that anybody may give. */
  #doubt(service: Service, row: CatalogRow): void {
    const { sources, probes } = this.#zone;
    if (row.column === 'fails' && row.hard) row.doubted = true;
    else if (sources.heard(service) || (row.column === 'passes' && demandsIdentity(probes.settings(service).check)))
      row.doubted = false;
    if (!row.doubted) return;
    row.column = 'fails';
    row.hard = true;
  }
}
