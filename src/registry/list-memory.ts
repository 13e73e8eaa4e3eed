/** Remembers the last list that was passed on, so that only what changed need follow. */
import { createHash } from 'node:crypto';
import type { LimitsConfig } from '../config/types.js';
import type { Observation } from './adapter.js';
import { quote } from './endpoint.js';
import { factsOf, packedText } from './packed-listings.js';
import type { Listing } from './registry.js';

type List = Extract<Observation, { kind: 'list' }>;
type Change = Extract<Observation, { kind: 'change' }>;

interface Known {
  readonly digest: string;
  readonly rows: number;
}

/** Keeps a digest a service, not the rows. */
export class ListMemory {
  #services: Map<string, Known> | undefined;
  #rows = 0;
  /** The last list was one that may not be believed for removals. */
  #partial = false;
  #epoch = '';
  /** Digest of what is not rows: marks and notes. */
  #rest = '';
  #nodes = '';

  /** True when the next list will be passed on whole. */
  get empty(): boolean {
    return this.#services === undefined && !this.#partial;
  }

  forget(): void {
    this.#services = undefined;
    this.#partial = false;
  }

  /**
   * What to pass on for a list: nothing new is `confirmed`, fewer than half of the services changed is a `change`
   * (with all notes and release marks that are in force), anything else the list itself. A list that may not be
   * believed for removals is not remembered: what it leaves out is not known to be gone.
   */
  take(list: List): Observation {
    const before = this.#services;
    const now = new Map<string, Known>();
    for (const listing of list.services) now.set(listing.name, known(listing));
    const rest = digest([list.releases, list.rejected]);
    const comparable = before !== undefined && this.#epoch === list.epoch && list.removalsBelievable;
    const nodes = digest(list.nodes ?? []);
    const sameNodes = nodes === this.#nodes;
    const sameRest = rest === this.#rest && sameNodes;
    this.#services = list.removalsBelievable ? now : undefined;
    this.#rows = factsOf(list.services).rows;
    this.#partial = !list.removalsBelievable;
    this.#epoch = list.epoch;
    this.#rest = rest;
    this.#nodes = nodes;
    if (!comparable) return list;
    const changed = new Set<string>();
    for (const [name, { digest }] of now) if (before.get(name)?.digest !== digest) changed.add(name);
    const gone = [...before.keys()].filter((name) => !now.has(name));
    if (changed.size + gone.length === 0 && sameRest) return { kind: 'confirmed' };
    if ((changed.size + gone.length) * 2 >= Math.max(before.size, now.size, 1)) return list;
    const services: Listing[] = [];
    if (changed.size > 0) for (const listing of list.services) if (changed.has(listing.name)) services.push(listing);
    const { epoch, revision, releases, rejected } = list;
    const change: Change = { kind: 'change', epoch, services, gone, releases, rejected };
    return {
      ...change,
      ...(revision === undefined ? {} : { revision }),
      ...(sameNodes ? {} : { nodes: list.nodes ?? [] }),
    };
  }

  /** The same for a change that was watched: what is in it and not new is left out. Follows a list of the same epoch. */
  takeChange(change: Change): Observation {
    const before = this.#services;
    if (before === undefined) return change;
    const rest = digest([change.releases, change.rejected]);
    const nodes = change.nodes === undefined ? this.#nodes : digest(change.nodes);
    const sameNodes = nodes === this.#nodes;
    const sameRest = rest === this.#rest && sameNodes;
    this.#rest = rest;
    this.#nodes = nodes;
    const gone = change.gone.filter((name) => before.has(name));
    const services = [...change.services].filter((listing) => {
      const now = known(listing);
      const last = before.get(listing.name);
      if (last?.digest === now.digest) return false;
      this.#rows += now.rows - (last?.rows ?? 0);
      before.set(listing.name, now);
      return true;
    });
    for (const name of gone) {
      this.#rows -= before.get(name)?.rows ?? 0;
      before.delete(name);
    }
    if (services.length + gone.length === 0 && sameRest) return { kind: 'confirmed' };
    const { nodes: _, ...others } = change;
    return { ...others, services, gone, ...(sameNodes || change.nodes === undefined ? {} : { nodes: change.nodes }) };
  }

  /** R33: a service that was looked up belongs to what the next list is compared with. Returns why it cannot, over the limits. */
  add(listing: Listing, limits: LimitsConfig): string | undefined {
    const change = { kind: 'change', epoch: '', services: [listing], gone: [], releases: [], rejected: [] } as const;
    const over = this.overLimit(change, limits);
    if (over !== undefined || this.#services === undefined) return over;
    const now = known(listing);
    this.#rows += now.rows - (this.#services.get(listing.name)?.rows ?? 0);
    this.#services.set(listing.name, now);
    return undefined;
  }

  /** R33: these services are followed no more. */
  drop(names: readonly string[]): void {
    for (const name of names) {
      this.#rows -= this.#services?.get(name)?.rows ?? 0;
      this.#services?.delete(name);
    }
  }

  /** R6: why a list, or what is known with a change, is over the zone's limits; undefined when it is not. */
  overLimit(report: List | Change, limits: LimitsConfig): string | undefined {
    const facts = factsOf(report.services);
    if (facts.largest.rows > limits.maxEndpointsPerService) {
      const limit = `limits.maxEndpointsPerService (${limits.maxEndpointsPerService})`;
      return `service ${quote(facts.largest.name)} has ${facts.largest.rows} endpoints, more than ${limit}`;
    }
    let { services, rows } = facts;
    if (report.kind === 'change' && this.#services !== undefined) {
      const before = this.#services;
      services += before.size;
      rows += this.#rows;
      for (const name of new Set([...report.gone, ...[...report.services].map((listing) => listing.name)])) {
        const replaced = before.get(name);
        if (replaced !== undefined) services--;
        rows -= replaced?.rows ?? 0;
      }
    }
    if (services > limits.maxServices) {
      return `${services} services, more than limits.maxServices (${limits.maxServices})`;
    }
    const nodes = report.nodes?.length ?? 0;
    if (nodes > limits.maxEndpoints) return `${nodes} nodes, more than limits.maxEndpoints (${limits.maxEndpoints})`;
    if (rows <= limits.maxEndpoints) return undefined;
    return `${rows} endpoints, more than limits.maxEndpoints (${limits.maxEndpoints})`;
  }
}

function known(listing: Listing): Known {
  return { digest: digestOf(packedText(listing)), rows: listing.rows.length };
}

function digest(value: readonly unknown[]): string {
  return digestOf(JSON.stringify(value));
}

function digestOf(text: string): string {
  return createHash('sha1').update(text).digest('base64');
}
