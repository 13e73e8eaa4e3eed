/**
 * A part of a registry as if it were the whole: of several tenants that share one, each sees its own. Laid around any
 * adapter, so that limits, the guard and all that follows never see the rest.
 */
import { matchesGlob } from '../config/service-settings.js';
import type { FilterConfig } from '../config/types.js';
import type { Adapter, Delivery, Failure, Follower, Observation, Seeker } from './adapter.js';
import type { OnDemand } from './look-up.js';
import type { Listing, ReleaseMark } from './registry.js';

export function filtered(adapter: Adapter, filter: FilterConfig): Adapter {
  const part = new Part(filter);
  const { follower } = adapter;
  const whole = wholeNames(filter);
  return {
    identity: adapter.identity,
    interval: adapter.interval,
    deadline: adapter.deadline,
    pace: adapter.pace,
    ...(adapter.lineage === undefined ? {} : { lineage: adapter.lineage }),
    ...(adapter.seed === undefined ? {} : { seed: (seen) => adapter.seed!(seen) }),
    ...(adapter.credentials === undefined ? {} : { credentials: adapter.credentials }),
    poll: async (context) => part.of(await adapter.poll(context)),
    ...(follower === undefined ? {} : { follower: follow(follower, part) }),
    ...(adapter.onDemand === undefined ? {} : { onDemand: lookedUp(adapter.onDemand, filter, part) }),
    ...(adapter.watch === undefined ? {} : { watch: (wake, failed) => adapter.watch!(wake, failed) }),
    ...(adapter.mostAsked === undefined ? {} : { mostAsked: (names) => adapter.mostAsked!(names.map(whole)) }),
    ...(adapter.seeker === undefined ? {} : { seeker: sought(adapter.seeker, whole) }),
    close: () => adapter.close(),
  };
}

function follow(follower: Follower, part: Part): Follower {
  return {
    presenceDeadline: follower.presenceDeadline,
    ...(follower.severalWatches === undefined ? {} : { severalWatches: follower.severalWatches }),
    present: (signal) => follower.present(signal),
    follow: (signal, deliver) => follower.follow(signal, (delivery) => deliver(part.of(delivery))),
  };
}

/** The names of services as the registry has them. */
function wholeNames({ prefix = '' }: FilterConfig): (name: string) => string {
  return (name) => `${prefix}${name}`;
}

function sought(seeker: Seeker, whole: (name: string) => string): Seeker {
  return {
    onSeek: (seeks) => seeker.onSeek(seeks),
    justAsked: (names) => seeker.justAsked(names.map(whole)),
  };
}

function lookedUp(onDemand: OnDemand, filter: FilterConfig, part: Part): OnDemand {
  const whole = wholeNames(filter);
  return {
    lookUp: async (service, signal) => {
      const name = whole(service);
      if (nameWithin(filter, name) === undefined) return { kind: 'unknown' };
      const found = await onDemand.lookUp(name, signal);
      if (found.kind !== 'found') return found;
      const listing = part.listingOf(found.listing);
      if (listing !== undefined) return { kind: 'found', listing };
      // It is there, and none of this part's.
      onDemand.know([], [name]);
      return { kind: 'unknown' };
    },
    know: (add, drop) => onDemand.know(add.map(whole), drop.map(whole)),
    order: (services) => onDemand.order(services.map(whole)),
  };
}

class Part {
  readonly #filter: FilterConfig;

  constructor(filter: FilterConfig) {
    this.#filter = filter;
  }

  of(delivery: Delivery): Delivery;
  of(observation: Observation | Failure): Observation | Failure;
  of(observation: Observation | Failure): Observation | Failure {
    if (observation.kind !== 'list' && observation.kind !== 'change') return observation;
    const services: Listing[] = [];
    const gone: string[] = [];
    for (const listing of observation.services) {
      const name = nameWithin(this.#filter, listing.name);
      if (name === undefined) continue;
      const rows = this.#rowsOf(listing);
      if (rows === undefined) gone.push(name);
      else services.push({ ...listing, name, rows });
    }
    const releases = observation.releases.flatMap((mark) => this.#markOf(mark));
    // Of hosts this part has those of its rows.
    const { nodes: _, ...own } = observation;
    if (own.kind === 'list') return { ...own, services, releases };
    for (const name of own.gone) {
      const within = nameWithin(this.#filter, name);
      if (within !== undefined) gone.push(within);
    }
    return { ...own, services, gone, releases };
  }

  /** A service as it is in this part; undefined: it is not. */
  listingOf(listing: Listing): Listing | undefined {
    const name = nameWithin(this.#filter, listing.name);
    const rows = name === undefined ? undefined : this.#rowsOf(listing);
    return name === undefined || rows === undefined ? undefined : { ...listing, name, rows };
  }

  /** The endpoints of a service in this part; undefined: it has none there. */
  #rowsOf({ rows }: Listing): Listing['rows'] | undefined {
    const { tag } = this.#filter;
    if (tag === undefined) return rows;
    const own = rows.filter(({ tags }) => tags.includes(tag));
    return own.length === 0 ? undefined : own;
  }

  #markOf(mark: ReleaseMark): ReleaseMark[] {
    if (mark.service === '*') return [mark];
    const service = nameWithin(this.#filter, mark.service);
    return service === undefined ? [] : [{ ...mark, service }];
  }
}

/** It is known to belong to somebody else: whatever is wrong with it is no fault of this part (R31). */
export function isOthers(filter: FilterConfig | undefined, name: string): boolean {
  return filter !== undefined && nameWithin(filter, name) === undefined;
}

/** The name of a service in a part of a registry; undefined: it is not in it. */
export function nameWithin({ prefix = '', services }: FilterConfig, name: string): string | undefined {
  if (!name.startsWith(prefix) || name.length === prefix.length) return undefined;
  const own = name.slice(prefix.length);
  const lower = own.toLowerCase();
  if (services !== undefined && !services.some((glob) => matchesGlob(glob.toLowerCase(), lower))) return undefined;
  return own;
}
