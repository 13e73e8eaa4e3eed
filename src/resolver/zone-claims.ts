/** R19: rows of a zone whose address is another one's by now, as far as registries and time tell. */
import type { Places } from '../catalog/places.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { demandsIdentity } from '../health/targets.js';
import { rowKey } from '../registry/registry.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { Zone } from './zone.js';
import type { Holder } from './zone-probes.js';

/** Where more than so many are at one place, as at the one entrance of many services, they are not asked one by one. */
const CROWD = 8;

/** Since when a zone lists a place without a break. */
interface Listing {
  /** The latest, and of which service. */
  since: BootMs;
  service: string;
  /** The latest of other services. */
  others: BootMs;
}

export class ZoneClaims {
  readonly #zone: Zone;
  readonly #places: Places<Holder<Zone>>;
  /** By place, what each zone lists there, or ever did; for as long as nothing is listed or left. */
  readonly #crowds = new Map<string, Map<Zone, Listing>>();
  #crowdsAt: Instant | undefined;

  constructor(zone: Zone, places: Places<Holder<Zone>>) {
    this.#zone = zone;
    this.#places = places;
  }

  /** Another service of this zone was listed at the row's address when the row was gone: no guard keeps it. */
  isClaimedHere(service: Service, row: CatalogRow): boolean {
    const { goneSince } = row;
    if (goneSince === undefined || row.port === 0) return false;
    if (this.#places.count(row) > CROWD) {
      const own = this.#crowd(row).get(this.#zone);
      return own !== undefined && (own.service === service.name ? own.others : own.since) >= goneSince;
    }
    return this.#places.some(
      row,
      (other) =>
        other.row.listed &&
        other.row.listedSince >= goneSince &&
        other.zone === this.#zone &&
        other.service.name !== service.name,
    );
  }

  /**
   * Somebody else, here or in another zone of the address space, was listed at the row's address since it left: to be
   * listed again is to be listed anew.
   */
  isTaken(service: Service, row: CatalogRow): boolean {
    const { goneSince } = row;
    if (goneSince === undefined) return true;
    if (this.#places.count(row) > CROWD) {
      return [...this.#crowd(row, false)].some(([zone, listing]) => {
        if (zone !== this.#zone) return this.#isNeighbour(zone) && listing.since >= goneSince;
        return (listing.service === service.name ? listing.others : listing.since) >= goneSince;
      });
    }
    return this.#places.some(
      row,
      (other) =>
        other.row.listedSince >= goneSince &&
        (other.zone === this.#zone ? other.service.name !== service.name : this.#isNeighbour(other.zone)),
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

  /** What was listed may have changed. */
  begin(): void {
    this.#crowds.clear();
  }

  /** Services that are judged in another way when the registry falls silent, or is heard again. */
  *dependOnHearing(): Iterable<Service> {
    const { addressSpace, addresses } = this.#zone.config;
    if (addressSpace === undefined && addresses !== 'reused') return;
    for (const service of this.#zone.catalog.services.values()) {
      for (const row of service.rows.values()) {
        if (!row.doubted && (addressSpace === undefined || this.#places.count(row) < 2)) continue;
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
    const { probes } = this.#zone;
    const lastWord = (row.listed ? this.#confirmed(service) : row.goneSince) ?? Number.NEGATIVE_INFINITY;
    const claim =
      this.#places.count(row) > CROWD
        ? [...this.#crowd(row)].some(([zone, { since }]) => this.#isNeighbour(zone) && since > lastWord)
        : this.#places.some(
            row,
            (other) => this.#isNeighbour(other.zone) && other.row.listed && other.row.listedSince > lastWord,
          );
    return claim && !(row.column === 'passes' && demandsIdentity(probes.settings(service).check));
  }

  /** Another zone, and an address there is the same one here. Zones without an address space are on their own. */
  #isNeighbour(zone: Zone): boolean {
    const { addressSpace } = this.#zone.config;
    return zone !== this.#zone && addressSpace !== undefined && zone.config.addressSpace === addressSpace;
  }

  /** `listed` false: those that have left, too. */
  #crowd(row: CatalogRow, listed = true): Map<Zone, Listing> {
    if (this.#crowdsAt !== this.#zone.now) this.#crowds.clear();
    this.#crowdsAt = this.#zone.now;
    const key = `${rowKey(row)} ${listed}`;
    let crowd = this.#crowds.get(key);
    if (crowd === undefined) {
      crowd = crowdOf(this.#places.at(row).filter((holder) => !listed || holder.row.listed));
      this.#crowds.set(key, crowd);
    }
    return crowd;
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

function crowdOf(holders: readonly Holder<Zone>[]): Map<Zone, Listing> {
  const crowd = new Map<Zone, Listing>();
  for (const { zone, service, row } of holders) {
    const since = row.listedSince;
    const known = crowd.get(zone);
    if (known === undefined) crowd.set(zone, { since, service: service.name, others: Number.NEGATIVE_INFINITY });
    else if (since <= known.since) known.others = Math.max(known.others, since);
    else crowd.set(zone, { since, service: service.name, others: known.since });
  }
  return crowd;
}
