/** The snapshots of a world: what their writer was given, piece by piece, as the daemon does it (R29). */
import type { Config, ZoneConfig } from '../../src/config/types.js';
import { zoneIdentity } from '../../src/registry/identity.js';
import type { Resolver } from '../../src/resolver/resolver.js';
import type { Zone } from '../../src/resolver/zone.js';
import type { Instant } from '../../src/system/clock.js';

/** Rows that go to the writer at once. */
const ROWS_AT_ONCE = 5;

interface File {
  /** Who gave it. */
  readonly of: Zone;
  readonly registry: string;
  meta: string;
  readonly lines: Map<string, string>;
}

export class SavedZones {
  readonly #files: Map<string, File>;

  /** @param before what a process before this one has left */
  constructor(before?: SavedZones) {
    this.#files = new Map(before === undefined ? [] : before.#files);
  }

  /** What changed since the last time; all of a zone that is new, or has other registries. Files of zones that are gone stay. */
  save(resolver: Resolver, { zones }: Config, now: Instant): void {
    for (const { name, registries } of zones) {
      const zone = resolver.zone(name);
      if (zone === undefined || zone.source === 'none') continue;
      const registry = zoneIdentity(registries);
      const before = this.#files.get(name);
      const goesOn = before !== undefined && before.of === zone && before.registry === registry;
      const file = goesOn ? before : { of: zone, registry, meta: '', lines: new Map<string, string>() };
      let full = !goesOn;
      for (let more = true; more; full = false) {
        const delta = resolver.takeDelta(name, full, ROWS_AT_ONCE, now);
        for (const line of delta.drop) file.lines.delete(line);
        for (const [line, json] of delta.put) file.lines.set(line, json);
        file.meta = delta.meta ?? file.meta;
        more = delta.more;
      }
      this.#files.set(name, file);
    }
  }

  /** The zone's file is of the registries that it has. */
  isOf({ name, registries }: ZoneConfig): boolean {
    return this.#files.get(name)?.registry === zoneIdentity(registries);
  }

  /** The zone begins with its file, if there is one and a registry has not said anything yet. */
  restore(resolver: Resolver, { name }: ZoneConfig, trusted: boolean, now: Instant, deferring: boolean): void {
    const file = this.#files.get(name);
    if (file === undefined || resolver.zone(name)?.sources.complete !== false) return;
    const services = [...file.lines.values()].map((line) => JSON.parse(line));
    // As the daemon does: one that is not trusted is used when there is no hurry any more.
    resolver.restoreZone(name, { meta: JSON.parse(file.meta), services }, trusted, now, trusted && deferring);
  }
}
