/** What registries listed when they were last heard: none of it is lost, whatever befalls them and the resolver (R4). */
import type { Zone } from '../src/resolver/zone.js';
import type { World } from './scenario-engine/world.js';
import { PLACES } from './wide-config.js';

interface Place {
  readonly place: string;
  readonly zone: Zone;
  /** In the zone's order of belief. */
  readonly index: number;
}

export class Belief {
  readonly #world: World;
  /** By place: services with endpoints. */
  readonly #services = new Map<string, ReadonlySet<string>>();
  /** By zone, the registries that it had when it was last there. */
  readonly #shapes = new Map<string, string>();
  /** Zones that are not there. */
  readonly #gone = new Set<string>();
  #configuredAt = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Something happened: those that are heard have said what they have. */
  look(): void {
    for (const { place, zone, index } of this.#places()) {
      const registry = this.#world.registry(place);
      const { hearing } = zone.sources.all[index]!;
      if (registry.heard !== 'heard' || !hearing.heard || hearing.lastConfirmed! < this.#configuredAt) continue;
      const filled = [...registry.services.values()].filter(({ rows }) => rows.length > 0);
      this.#services.set(place, new Set(filled.map(({ name }) => name)));
    }
  }

  /** Another configuration, perhaps: what is configured no more is not known; a zone that is gone has its snapshot. */
  configured(): void {
    this.#configuredAt = this.#world.now.boot;
    const places = new Set(this.#places().map(({ place }) => place));
    for (const zone of new Set(Object.keys(PLACES).map(zoneOf))) {
      const now = this.#world.resolver.zone(zone);
      if (now === undefined) {
        this.#gone.add(zone);
        continue;
      }
      const shape = now.sources.all.map(({ identity }) => identity).join();
      const isBack = this.#gone.delete(zone) && this.#shapes.get(zone) !== shape;
      this.#shapes.set(zone, shape);
      for (const place of this.#services.keys())
        if (zoneOf(place) === zone && (isBack || !places.has(place))) this.#services.delete(place);
    }
  }

  /** Names that have to be answered. With `first` a later registry has only those that no other one may have had. */
  *names(): Iterable<readonly [name: string, zone: Zone]> {
    for (const { place, zone, index } of this.#places()) {
      for (const name of this.#services.get(place) ?? []) {
        const listing = Object.keys(PLACES).filter(
          (one) => zoneOf(one) === zoneOf(place) && PLACES[one]!.includes(name),
        );
        if (listing.length === 1 || zone.config.merge === 'union' || index === 0) yield [name, zone];
      }
    }
  }

  #places(): Place[] {
    return Object.keys(PLACES).flatMap((place): Place[] => {
      const registry = this.#world.registry(place);
      const zone = this.#world.resolver.zone(registry.zone);
      const index = zone?.sources.all.findIndex(({ identity }) => identity === registry.identity) ?? -1;
      return zone === undefined || index === -1 ? [] : [{ place, zone, index }];
    });
  }
}

function zoneOf(place: string): string {
  return place.split('/')[0]!;
}
