/** Remembers the last list that was passed on, so that only what changed need follow. */
import { createHash } from 'node:crypto';
import type { Listing } from './registry.js';
import type { Observation } from './sync.js';

type List = Extract<Observation, { kind: 'list' }>;

/** Keeps a digest a service, not the rows. */
export class ListMemory {
  #services: Map<string, string> | undefined;
  /** The last list was one that may not be believed for removals. */
  #partial = false;
  #epoch = '';
  /** Digest of what is not rows: marks and notes. */
  #rest = '';

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
    const now = new Map(list.services.map((listing) => [listing.name, digest(listing)]));
    const rest = digest([list.releases, list.rejected]);
    const comparable = before !== undefined && this.#epoch === list.epoch && list.removalsBelievable;
    const sameRest = rest === this.#rest;
    this.#services = list.removalsBelievable ? now : undefined;
    this.#partial = !list.removalsBelievable;
    this.#epoch = list.epoch;
    this.#rest = rest;
    if (!comparable) return list;
    const services = list.services.filter((listing) => before.get(listing.name) !== now.get(listing.name));
    const gone = [...before.keys()].filter((name) => !now.has(name));
    if (services.length + gone.length === 0 && sameRest) return { kind: 'confirmed' };
    if ((services.length + gone.length) * 2 >= Math.max(before.size, now.size, 1)) return list;
    const { epoch, revision, releases, rejected } = list;
    const change = { kind: 'change', epoch, services, gone, releases, rejected } as const;
    return revision === undefined ? change : { ...change, revision };
  }
}

function digest(value: Listing | readonly unknown[]): string {
  return createHash('sha1').update(JSON.stringify(value)).digest('base64');
}
