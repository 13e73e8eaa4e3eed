/**
 * The services of a zone, seen through its registries in order of belief (R32). With one registry they are its own.
 * With several, each has a catalog and a guard of its own, and what is answered is put together here, by name: of the
 * first that has or had it (`first`), or of all (`union`).
 */

import { rowKey } from '../registry/registry.js';
import type { Catalog } from './catalog.js';
import type { Guard } from './guard.js';
import { combine } from './merge-rows.js';
import { CatalogRow, type Strength } from './row.js';
import { Service } from './service.js';

/** One registry's part. */
export interface Layer {
  readonly catalog: Catalog;
  readonly guard: Guard;
  /** Names that it had and has no more, the oldest first: a later registry never answers them. */
  readonly once: Set<string>;
  /** Its rows in the answer by R10 and R12. Kept here, where there are several. */
  answerable: number;
}

export interface LayerEvents {
  /** A row that is seen, tombstones included, came or went. */
  added(service: Service, row: CatalogRow): void;
  removed(service: Service, row: CatalogRow): void;
}

/** A service as one registry has it. */
interface Part<L extends Layer> {
  readonly layer: L;
  readonly service: Service;
}

export class Layers<L extends Layer> {
  readonly all: readonly L[];
  /** What is seen, by name. */
  readonly services: Map<string, Service>;
  readonly #merge: 'first' | 'union';
  readonly #events: LayerEvents;
  readonly #mostOnce: number;
  /** Whose a name is, with `first`. */
  readonly #owners = new Map<string, L>();
  #rows = 0;

  /** @param mostOnce of `once`, the oldest go first */
  constructor(all: readonly L[], merge: 'first' | 'union', mostOnce: number, events: LayerEvents) {
    this.all = all;
    this.#merge = merge;
    this.#mostOnce = mostOnce;
    this.#events = events;
    const [only] = all;
    this.services = all.length === 1 ? (only!.catalog.services as Map<string, Service>) : new Map();
  }

  get several(): boolean {
    return this.all.length > 1;
  }

  /** Rows that are seen, tombstones included. */
  get rows(): number {
    return this.several ? this.#rows : this.all[0]!.catalog.rows;
  }

  /** What one registry's services changed of what is seen. */
  show(layer: L, touched: Iterable<Service>): Set<Service> {
    if (!this.several) return touched instanceof Set ? (touched as Set<Service>) : new Set(touched);
    const seen = new Set<Service>();
    for (const service of touched) {
      const parts = this.#parts(service.name);
      if (parts.some((part) => part.layer === layer)) seen.add(this.#put(service.name, parts));
      else layer.catalog.sweep([service]);
    }
    return seen;
  }

  /** Puts everything together anew. */
  showAll(): Set<Service> {
    if (!this.several) return new Set(this.services.values());
    const names = new Set(this.all.flatMap(({ catalog }) => [...catalog.services.keys()]));
    const seen = new Set<Service>();
    for (const name of names) {
      const parts = this.#parts(name);
      if (parts.length > 0) seen.add(this.#put(name, parts));
    }
    return seen;
  }

  /** The registries whose word on the service counts, and the service as each has it. */
  partsOf(service: Service): readonly Part<L>[] {
    if (!this.several) return [{ layer: this.all[0]!, service }];
    return this.#parts(service.name);
  }

  /** The rows that a row which is seen was put together from. */
  originsOf(service: Service, row: CatalogRow): CatalogRow[] {
    if (!this.several) return [row];
    return this.#parts(service.name).flatMap((part) => part.service.rows.get(row) ?? []);
  }

  /** The registry that once had a name which nobody is answered for now, though a later one may have it. */
  keeperOf(name: string): L | undefined {
    if (!this.several || this.#merge !== 'first') return undefined;
    const keeper = this.all.find(({ catalog, once }) => catalog.services.has(name) || once.has(name));
    return keeper?.catalog.services.has(name) ? undefined : keeper;
  }

  /** The registries that list a row, or whose guard holds it. */
  saidBy(service: Service, seen: CatalogRow): L[] {
    return this.partsOf(service).flatMap(({ layer, service: own }) => {
      const row = own.rows.get(seen);
      return row !== undefined && (row.listed || row.hold !== undefined) ? [layer] : [];
    });
  }

  /** Health has decided about a service: the guards look at the rows of their own registries. */
  judged(service: Service): void {
    if (!this.several) return;
    for (const part of this.#parts(service.name)) {
      let answerable = 0;
      for (const row of part.service.rows.values()) {
        const seen = service.rows.get(row);
        row.target = seen?.target;
        row.column = seen?.column ?? 'no-word';
        row.hard = seen?.hard ?? false;
        row.longDead = seen?.longDead ?? false;
        row.doubted = seen?.doubted ?? false;
        row.drained = seen?.drained ?? false;
        row.leaving = seen?.leaving ?? false;
        row.answerable = (seen?.answerable ?? false) && (row.listed || row.hold !== undefined);
        row.answered = (seen?.answered ?? false) && (row.listed || row.hold !== undefined);
        if (row.answerable) answerable++;
      }
      count(part, answerable);
    }
  }

  /** The answerable rows of a registry's service and of all its services, for its guard's base (R8). */
  strength(layer: L, service: Service): Strength {
    const byPriority = new Map<number, number>();
    for (const row of service.rows.values()) {
      if (row.answerable) byPriority.set(row.priority, (byPriority.get(row.priority) ?? 0) + 1);
    }
    return { all: service.answerable, zone: layer.answerable, byPriority };
  }

  /** Removes what nothing keeps any more. Returns the services that are no longer seen. */
  sweep(touched: Iterable<Service>): Service[] {
    if (!this.several) return this.all[0]!.catalog.sweep(touched);
    const gone: Service[] = [];
    for (const service of touched) {
      const { name } = service;
      for (const [index, layer] of this.all.entries()) {
        const own = layer.catalog.services.get(name);
        if (own === undefined || layer.catalog.sweep([own]).length === 0) continue;
        count({ layer, service: own }, 0);
        if (this.#merge === 'first' && index < this.all.length - 1 && !own.borrowed) this.#remember(layer, name);
      }
      const parts = this.#parts(name);
      this.#put(name, parts);
      if (parts.length > 0) continue;
      this.services.delete(name);
      this.#owners.delete(name);
      gone.push(service);
    }
    return gone;
  }

  #parts(name: string): Part<L>[] {
    const parts: Part<L>[] = [];
    for (const layer of this.all) {
      const service = layer.catalog.services.get(name);
      if (service !== undefined) parts.push({ layer, service });
      if (this.#merge === 'first' && (service !== undefined || layer.once.has(name))) break;
    }
    return parts;
  }

  #remember(layer: L, name: string): void {
    const { once } = layer;
    once.delete(name);
    once.add(name);
    for (const oldest of once) {
      if (once.size <= this.#mostOnce) break;
      once.delete(oldest);
    }
  }

  #put(name: string, parts: readonly Part<L>[]): Service {
    let seen = this.services.get(name);
    if (seen === undefined) {
      seen = new Service(name);
      this.services.set(name, seen);
    }
    const owner = parts[0];
    if (this.#merge === 'first' && owner !== undefined && this.#owners.get(name) !== owner.layer) {
      this.#owners.set(name, owner.layer);
      this.#hideLater(name, owner.layer);
    }
    seen.listed = parts.some(({ service }) => service.listed);
    const checked = parts.find(({ service }) => service.check !== undefined);
    seen.check = checked?.service.check;
    seen.checkedBy = checked === undefined ? 0 : this.all.indexOf(checked.layer);
    this.#putRows(seen, parts);
    return seen;
  }

  #putRows(service: Service, parts: readonly Part<L>[]): void {
    const places = new Map<string, CatalogRow[]>();
    for (const part of parts) {
      for (const row of part.service.rows.values()) {
        const key = rowKey(row);
        const same = places.get(key);
        if (same === undefined) places.set(key, [row]);
        else same.push(row);
      }
    }
    const present = new Set<CatalogRow>();
    for (const same of places.values()) present.add(this.#putRow(service, same));
    const gone = new Set<CatalogRow>();
    for (const row of service.rows.values()) if (!present.has(row)) gone.add(row);
    if (gone.size === 0) return;
    this.#rows -= service.rows.delete(gone);
    for (const row of gone) this.#events.removed(service, row);
  }

  #putRow(service: Service, same: readonly CatalogRow[]): CatalogRow {
    const { word, listed, hold, loss, addedAt } = combine(same);
    const known = service.rows.get(word);
    const row = known ?? new CatalogRow(word, addedAt);
    known?.update(word);
    row.listed = listed;
    row.hold = hold;
    row.loss = loss;
    const listing = same.filter((one) => one.listed);
    const since = Math.min(...listing.map((one) => one.listedSince));
    if (listing.length > 0 && since !== row.listedSince) row.listedSince = since;
    row.goneSince = listing.length > 0 ? undefined : Math.max(...same.map((one) => one.goneSince ?? 0));
    if (known !== undefined) return row;
    row.doubted = same.some((one) => one.doubted);
    row.drained = same.some((one) => one.drained);
    service.rows.add(row);
    this.#rows++;
    this.#events.added(service, row);
    return row;
  }

  /** R32: an earlier registry's list replaces the rows of later ones without a guard. */
  #hideLater(name: string, owner: L): void {
    for (const layer of this.all.slice(this.all.indexOf(owner) + 1)) {
      const service = layer.catalog.services.get(name);
      if (service === undefined) continue;
      count({ layer, service }, 0);
      for (const row of service.rows.values()) {
        layer.guard.found(row);
        row.target = undefined;
        row.column = 'no-word';
        row.hard = false;
        row.longDead = false;
        row.answerable = false;
        row.answered = false;
      }
      layer.catalog.sweep([service]);
    }
  }
}

function count<L extends Layer>({ layer, service }: Part<L>, answerable: number): void {
  layer.answerable += answerable - service.answerable;
  service.answerable = answerable;
}
