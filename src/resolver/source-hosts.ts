/**
 * R28: what a registry lists by host name, as rows with addresses. Each good look-up gives a host its addresses; one
 * that fails, finds nothing, or finds what may be no endpoint changes nothing.
 */
import type { ListReport } from '../catalog/catalog.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { Cidr } from '../config/types.js';
import { factsOf } from '../registry/packed-listings.js';
import type { Listing, Row } from '../registry/registry.js';
import { AddressPolicy, collapseRows, isHostName } from '../registry/rows.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { HostResult, HostTable } from './host-table.js';

/** Of one host, so many are taken. */
const MAX_ADDRESSES = 64;

type Known = (service: string) => Service | undefined;

export class SourceHosts {
  readonly #table: HostTable;
  #policy = new AddressPolicy([], false);
  #softTtl: Ms = 0;
  /** Services with such rows, as they are listed. */
  readonly #listings = new Map<string, Listing>();
  readonly #hosts = new Map<string, ReadonlySet<string>>();
  /** Last good addresses. */
  readonly #good = new Map<string, readonly string[]>();
  /** Services by host. */
  readonly #services = new Map<string, Set<string>>();
  /** What was found that may be no endpoint, by host. */
  readonly #refused = new Map<string, string>();
  /** Why what was found is not taken in, by host: there are too many addresses. */
  readonly #over = new Map<string, string>();

  constructor(table: HostTable) {
    this.#table = table;
  }

  /** `local`: the registry is on this host's own disk (R18). Before anything else, and again with other settings. */
  configure(allow: readonly Cidr[], local: boolean, softTtl: Ms): void {
    this.#policy = new AddressPolicy(allow, local);
    this.#softTtl = softTtl;
    for (const [host, addresses] of this.#good) {
      const allowed = addresses.filter((address) => this.#policy.fault(address) === undefined);
      if (allowed.length > 0) this.#good.set(host, allowed);
      else this.#good.delete(host);
    }
    for (const host of this.#services.keys()) this.#table.want(host, this, softTtl);
  }

  dispose(): void {
    for (const host of this.#services.keys()) this.#table.unwant(host, this);
    this.#services.clear();
    this.#listings.clear();
    this.#hosts.clear();
  }

  /** Something is listed by a host name. */
  get any(): boolean {
    return this.#listings.size > 0;
  }

  /**
   * The report with addresses in the place of host names, as far as they are known.
   * @param known what there is of a service
   */
  expand<T extends ListReport>(report: T, known: Known): T {
    // Nearly always: no host name is there.
    if (!factsOf(report.services).hosts) return report;
    const services = [...report.services].map((listing) => {
      return hasHosts(listing) ? this.#expanded(listing, known(listing.name)) : listing;
    });
    return { ...report, services };
  }

  /**
   * The report is believed: what it lists by host name is looked up from now on, and nothing else.
   * @param known what there was of a service before
   */
  believe(report: ListReport, known: Known): void {
    const { hosts } = factsOf(report.services);
    if (this.#listings.size === 0 && !hosts) return;
    if (report.kind === 'change') for (const name of report.gone) this.#forget(name);
    else if (report.removalsBelievable) {
      const listed = new Set([...report.services].map(({ name }) => name));
      for (const name of [...this.#listings.keys()]) if (!listed.has(name)) this.#forget(name);
    }
    for (const listing of report.services) {
      if (hosts && hasHosts(listing)) this.#remember(listing, known(listing.name));
      else this.#forget(listing.name);
    }
  }

  /** From a snapshot: the addresses that hosts had. */
  restore(services: Iterable<Service>): void {
    for (const service of services) {
      for (const { host, address, listed } of service.rows.values()) {
        if (host === undefined || !listed || !this.#isGood(address)) continue;
        const known = this.#good.get(host) ?? [];
        if (!known.includes(address)) this.#good.set(host, [...known, address].sort());
      }
    }
  }

  /** Takes a look-up in. Returns the listings that are others now. */
  take(host: string, result: HostResult): Listing[] {
    const services = this.#services.get(host);
    if (services === undefined || result.kind === 'failed') return [];
    const allowed: string[] = [];
    let fault: string | undefined;
    for (const address of result.addresses) {
      const kind = this.#policy.fault(address);
      if (kind === undefined) allowed.push(address);
      else fault ??= `${address} is ${kind} (allowAddresses would permit it)`;
    }
    if (allowed.length <= MAX_ADDRESSES) this.#over.delete(host);
    else this.#over.set(host, `${allowed.length} addresses, of which ${MAX_ADDRESSES} are taken`);
    if (fault === undefined) this.#refused.delete(host);
    else this.#refused.set(host, fault);
    const before = this.#good.get(host) ?? [];
    const kept = before.filter((address) => result.unknown === (address.includes(':') ? 6 : 4));
    const now = [...new Set([...allowed, ...kept])].sort().slice(0, MAX_ADDRESSES);
    if (allowed.length === 0 || now.join() === before.join()) return [];
    this.#good.set(host, now);
    return [...services].map((name) => this.#expanded(this.#listings.get(name)!));
  }

  /** R6: what was found of a host is over the zone's limits, and not taken in; undefined: it is. */
  refuse(host: string, over: string | undefined): void {
    if (over !== undefined) this.#over.set(host, `what was found is not taken in: ${over}`);
    else if (this.#over.get(host)?.startsWith('what was found')) this.#over.delete(host);
  }

  /** All listings with host names, as they are now. */
  all(): Listing[] {
    return [...this.#listings.values()].map((listing) => this.#expanded(listing));
  }

  /** What is wrong with a host, a sentence each. */
  *problems(): Iterable<string> {
    for (const host of this.#services.keys()) {
      const fault = this.#table.reason(host) ?? this.#over.get(host) ?? this.#refused.get(host);
      const good = this.#good.get(host);
      if (good !== undefined && fault !== undefined) yield `${host}: ${fault}; its last addresses stand`;
      else if (good === undefined) {
        yield `${host}: ${fault ?? 'not resolved yet'}; SRV only, and not probed`;
      }
    }
  }

  #remember(listing: Listing, before: Service | undefined): void {
    this.#listings.set(listing.name, listing);
    const hosts = new Set(listing.rows.map(({ address }) => address).filter(isHostName));
    for (const host of hosts) {
      const good = this.#lastGood(host, before);
      if (good !== undefined) this.#good.set(host, good);
      const services = this.#services.get(host) ?? new Set();
      services.add(listing.name);
      this.#services.set(host, services);
      this.#table.want(host, this, this.#softTtl);
    }
    this.#leave(listing.name, hosts);
    this.#hosts.set(listing.name, hosts);
  }

  #forget(name: string): void {
    if (!this.#listings.delete(name)) return;
    this.#leave(name, new Set());
    this.#hosts.delete(name);
  }

  /** The service is at none but these hosts. */
  #leave(name: string, hosts: ReadonlySet<string>): void {
    for (const host of this.#hosts.get(name) ?? []) {
      const services = this.#services.get(host);
      if (hosts.has(host) || !services?.delete(name) || services.size > 0) continue;
      this.#services.delete(host);
      this.#refused.delete(host);
      this.#over.delete(host);
      this.#good.delete(host);
      this.#table.unwant(host, this);
    }
  }

  #expanded(listing: Listing, before?: Service): Listing {
    const rows = listing.rows.flatMap((row): Row[] => {
      if (!isHostName(row.address)) return [row];
      const host = row.address;
      return this.#lastGood(host, before)?.map((address) => ({ ...row, address, host })) ?? [{ ...row, host }];
    });
    return { ...listing, rows: collapseRows(rows) };
  }

  /**
   * Also of a host that the registry had dropped, while the guard kept what was found of it: what was there when it was
   * dropped, and nothing that had left before.
   */
  #lastGood(host: string, service: Service | undefined): readonly string[] | undefined {
    const good = this.#good.get(host);
    if (good !== undefined || service === undefined) return good;
    const kept = [...service.rows.values()].filter((row) => row.host === host && this.#isGood(row.address));
    if (kept.length === 0) return undefined;
    const latest = Math.max(...kept.map(lastThere));
    return [...new Set(kept.filter((row) => lastThere(row) === latest).map(({ address }) => address))].sort();
  }

  /** It may be an endpoint's. */
  #isGood(address: string): boolean {
    return !isHostName(address) && this.#policy.fault(address) === undefined;
  }
}

/** Until when a row was listed. */
function lastThere({ listed, goneSince }: CatalogRow): BootMs {
  return listed ? Number.POSITIVE_INFINITY : (goneSince ?? Number.NEGATIVE_INFINITY);
}

function hasHosts({ rows }: Listing): boolean {
  return rows.some(({ address }) => isHostName(address));
}
