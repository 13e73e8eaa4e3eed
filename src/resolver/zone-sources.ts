/** The registries of a zone together: which stand after a change of the configuration, and how they are heard as one. */
import type { CatalogEvents } from '../catalog/catalog.js';
import { Layers } from '../catalog/layers.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { ZoneConfig } from '../config/types.js';
import { registryIdentity } from '../registry/identity.js';
import type { SeenRevision } from '../registry/revision-memory.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { Log } from './events.js';
import type { HostTable } from './host-table.js';
import { type SourceEvents, ZoneSource } from './zone-source.js';

/** What holds for a zone as a whole: heard only when all its registries are. */
export interface ZoneFacts {
  readonly heard: boolean;
  readonly reason: string | undefined;
  readonly since: Instant;
  /** Of the registry that was confirmed longest ago. */
  readonly lastConfirmed: BootMs | undefined;
}

export interface SeenEvents extends CatalogEvents {
  /** R19, see `Guard`. */
  isClaimed(service: Service, row: CatalogRow): boolean;
}

export class ZoneSources {
  #all: readonly ZoneSource[] = [];
  #layers: Layers<ZoneSource>;
  #shape = '';
  readonly #log: Log;
  readonly #hosts: HostTable;
  /** Of what is seen. */
  readonly #events: SeenEvents;

  constructor(config: ZoneConfig, log: Log, hosts: HostTable, events: SeenEvents, now: Instant) {
    this.#log = log;
    this.#hosts = hosts;
    this.#events = events;
    this.#layers = this.#arrange(config, now);
  }

  get all(): readonly ZoneSource[] {
    return this.#all;
  }

  get layers(): Layers<ZoneSource> {
    return this.#layers;
  }

  /**
   * Another configuration: registries that stay keep what they have, and one that took the place of another begins with
   * its last good data. Returns the services that were seen until now, when all has to be seen anew.
   */
  configure(config: ZoneConfig, now: Instant): Service[] | undefined {
    const before = this.#layers;
    const layers = this.#arrange(config, now);
    if (layers === before) return undefined;
    this.#layers = layers;
    return [...before.services.values()];
  }

  /** Of all, the sharpest: nothing is known, something is from a snapshot, or the registries have spoken. */
  get from(): 'registry' | 'snapshot' | 'none' {
    if (this.#all.some(({ from }) => from === 'snapshot')) return 'snapshot';
    return this.#all.some(({ from }) => from === 'registry') ? 'registry' : 'none';
  }

  /** R6: how far each was when it was believed last, by its identity. */
  seenRevisions(): Record<string, SeenRevision> {
    return Object.fromEntries(
      this.#all.flatMap(({ identity, epoch, revision, trusted }) =>
        trusted && epoch !== undefined && revision !== undefined ? [[identity, { epoch, revision }]] : [],
      ),
    );
  }

  /** What is not known here is not there: every registry has said what it has, now or before a restart. */
  get complete(): boolean {
    return this.#all.every(({ from, isPart }) => from !== 'none' && !isPart);
  }

  /** @param service of its registries alone; absent: of all */
  isStale(now: BootMs, softTtl: number, service?: Service): boolean {
    if (service !== undefined) return this.#layers.partsOf(service).some(({ layer }) => layer.isStale(now, softTtl));
    return this.#all.some((source) => source.isStale(now, softTtl)) || (this.from !== 'none' && !this.complete);
  }

  facts(): ZoneFacts {
    const [only] = this.#all;
    if (only !== undefined && this.#all.length === 1) {
      const { heard, reason, since, lastConfirmed } = only.hearing;
      return { heard, reason, since, lastConfirmed };
    }
    const silent = this.#all.filter(({ hearing }) => !hearing.heard);
    const ages = this.#all.flatMap(({ hearing: { lastConfirmed } }) => lastConfirmed ?? []);
    const told = (silent.length > 0 ? silent : this.#all).map(({ hearing }) => hearing.since);
    // Frozen since the first of them fell silent; whole again since the last of them came back.
    const since = told.reduce((a, b) => (silent.length > 0 === a.boot < b.boot ? a : b));
    return {
      heard: silent.length === 0,
      reason:
        silent.length === 0 ? undefined : silent.map((one) => `${one.identity}: ${one.hearing.reason}`).join('; '),
      since,
      lastConfirmed: ages.length === 0 ? undefined : Math.min(...ages),
    };
  }

  /** Whether all registries whose word on a service counts are heard. */
  heard(service: Service): boolean {
    return this.#layers.partsOf(service).every(({ layer }) => layer.hearing.heard);
  }

  /** Index of the registry that alone gives a service; undefined when it is the zone's only one, or several do. */
  only(service: Service): number | undefined {
    if (!this.#layers.several) return undefined;
    const parts = this.#layers.partsOf(service);
    return parts.length === 1 ? this.#all.indexOf(parts[0]!.layer) : undefined;
  }

  /** How long the guard has held a row, in time that its registry was heard. */
  heldFor(service: Service, row: CatalogRow, now: BootMs): number | undefined {
    const { hold } = row;
    if (hold === undefined) return undefined;
    const holder = this.#all.find(({ catalog }) => catalog.services.get(service.name)?.rows.get(row)?.hold === hold);
    return holder === undefined ? undefined : holder.hearing.clock.at(now) - hold.since;
  }

  #arrange(config: ZoneConfig, now: Instant): Layers<ZoneSource> {
    const identities = config.registries.map(registryIdentity);
    const several = identities.length > 1;
    const left = new Map(this.#all.map((source, index) => [index, source]));
    const take = (index: number | undefined): ZoneSource | undefined => {
      const source = index === undefined ? undefined : left.get(index);
      if (index !== undefined) left.delete(index);
      return source;
    };
    const found = identities.map((identity) => take([...left].find(([, one]) => one.identity === identity)?.[0]));
    const placed = found.map((source, i) => source ?? take(i));
    // Whoever is new has what one had that is configured no more, be that one's place another's now.
    const sources = placed.map((source, i) => {
      return (
        source ??
        take([...left.keys()][0]) ??
        new ZoneSource(identities[i]!, config, this.#log, this.#hosts, this.#sourceEvents, now)
      );
    });
    for (const [i, source] of sources.entries()) source.configure(identities[i]!, several, config, now);
    for (const source of left.values()) source.hosts.dispose();
    const shape = JSON.stringify([config.merge, several ? config.limits.maxServices : 0]);
    const same = sources.length === this.#all.length && sources.every((source, i) => source === this.#all[i]);
    if (same && shape === this.#shape) return this.#layers;
    this.#all = sources;
    this.#shape = shape;
    return new Layers(sources, config.merge, config.limits.maxServices, this.#events);
  }

  /** With one registry, what its catalog does is what is seen; with several the layers say what is. */
  readonly #sourceEvents: SourceEvents = {
    added: (_source, service, row) => {
      if (!this.#layers.several) this.#events.added(service, row);
    },
    removed: (_source, service, row) => {
      if (!this.#layers.several) this.#events.removed(service, row);
    },
    isClaimed: (service, row) => this.#events.isClaimed(service, row),
    isTaken: (service, row) => this.#events.isTaken(service, row),
    strength: (source, service) => {
      return this.#layers.several ? this.#layers.strength(source, service) : this.#events.strength(service);
    },
  };
}
