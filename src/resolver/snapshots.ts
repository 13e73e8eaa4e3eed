/** When a zone's snapshot is loaded, and what of it goes to the writer (R29). */
import { join } from 'node:path';
import { isTrusted, type LoadedSnapshot, loadSnapshot } from '../catalog/snapshot.js';
import { pauseAfter, type SnapshotDelta, type WrittenSnapshot } from '../catalog/snapshot-writer.js';
import type { ZoneConfig } from '../config/types.js';
import { zoneIdentity } from '../registry/identity.js';
import type { BootMs, Instant, Ms, WallMs } from '../system/clock.js';
import { makeFolder } from '../system/folder.js';
import type { Log } from './events.js';
import type { Resolver } from './resolver.js';
import { SnapshotWaits } from './snapshot-waits.js';
import { zoneView } from './status.js';
import { zoneKeys } from './zone-keys.js';

/** A snapshot that is not trusted waits so long for the registry's own word. */
const UNTRUSTED_WAIT_MS: Ms = 2_000;
/** Between two deltas without a change: the wall time of the file is when it was last in force. */
const IN_FORCE_MS: Ms = 60_000;

/** A command waits so long, at most, until what it said is on disk. */
const SAVED_MS: Ms = 3_000;

/** One or two milliseconds' worth. */
const ROWS_AT_ONCE = 500;

export function snapshotFolder(stateDir: string): string {
  return join(stateDir, 'snapshots');
}

export class Snapshots {
  readonly #resolver: Resolver;
  readonly #log: Log;
  readonly #machine: string | undefined;
  /** Snapshots to be used only when the registry stays silent. */
  readonly #waiting = new Map<string, { readonly snapshot: LoadedSnapshot; readonly until: BootMs }>();
  readonly #full = new Set<string>();
  /** Zones of which a part of the last delta is still to come. */
  readonly #partial = new Set<string>();
  /** Whose data went to the writer last, and when. */
  readonly #sent = new Map<string, { readonly at: BootMs; readonly registry: string }>();
  readonly #written = new Map<string, WrittenSnapshot>();
  /** Deltas so far. */
  #count = 0;
  readonly #waits = new SnapshotWaits();
  /** Zones whose file cannot be written, with why. */
  readonly problems = new Map<string, string>();

  constructor(resolver: Resolver, machine: string | undefined, log: Log) {
    this.#resolver = resolver;
    this.#machine = machine;
    this.#log = log;
  }

  /** Before the first listen; what the first answers do not need is left to `Resolver.putDeferred`. Returns the zones that answer from a snapshot now. */
  load(stateDir: string, zones: readonly ZoneConfig[], now: Instant): string[] {
    const restored: string[] = [];
    try {
      makeFolder(stateDir, 0o700);
    } catch {
      // Told for the folder below it.
    }
    // The writer forgets a zone that goes: should it come back, it is given all of it.
    for (const key of [...this.#sent.keys(), ...this.#waits.zones, ...this.problems.keys()]) {
      if (this.#resolver.zone(key) !== undefined) continue;
      this.#sent.delete(key);
      this.#waits.failed(key, 'the zone is gone');
      this.problems.delete(key);
    }
    for (const [key, zone] of zoneKeys(zones)) {
      if (this.#resolver.zone(key)?.source !== 'none') continue;
      const expect = { machine: this.#machine, registry: zoneIdentity(zone.registries) };
      const { snapshot, problems } = loadSnapshot(snapshotFolder(stateDir), key, expect, now.wall);
      for (const problem of problems) this.#log('warn', 'snapshot-problem', { zone: zone.name, problem });
      if (snapshot === undefined) continue;
      if (isTrusted(snapshot, zone.snapshotTrust)) {
        if (this.#use(key, snapshot, true, true, now)) restored.push(key);
      } else {
        this.#waiting.get(key)?.snapshot.close();
        this.#waiting.set(key, { snapshot, until: now.boot + UNTRUSTED_WAIT_MS });
      }
    }
    return restored;
  }

  /** The first sync failed: what is not trusted is better than nothing. */
  firstSyncFailed(key: string, now: Instant): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    this.#waiting.delete(key);
    this.#use(key, waiting.snapshot, false, false, now);
  }

  /** Uses what has waited long enough. */
  tick(now: Instant): void {
    for (const [key, { snapshot, until }] of this.#waiting) {
      if (this.#resolver.zone(key)?.sources.complete !== false) {
        this.#waiting.delete(key);
        snapshot.close();
      } else if (now.boot >= until) this.firstSyncFailed(key, now);
    }
  }

  nextWake(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const { until } of this.#waiting.values()) next = Math.min(next, until);
    return next;
  }

  /** The writer knows nothing: the next delta of every zone is full. */
  wantFull(): void {
    for (const zone of this.#resolver.zones) this.#full.add(zone.key);
  }

  /**
   * What goes to the writer now, of a large zone a part (`more`): call it again soon. A zone without data has nothing to
   * be remembered, one whose snapshot waits to be used is remembered by that, and one that is busy with a list or a
   * restore is not whole; at the end (`last`) that is done first.
   */
  deltas(now: Instant, last = false): SnapshotDelta[] {
    const deltas: SnapshotDelta[] = [];
    for (const zone of this.#resolver.zones) {
      const { key } = zone;
      if (zone.source === 'none' || this.#waiting.has(key) || (zone.busy && !last)) continue;
      const sent = this.#sent.get(key);
      const registry = zoneIdentity(zone.config.registries);
      // Lines of registries that stand elsewhere now, or are gone, are of no use.
      const full = this.#full.has(key) || sent?.registry !== registry;
      const since = now.boot - (sent?.at ?? Number.NEGATIVE_INFINITY);
      // Who waits is told by a write, whether there is news or not.
      if (!full && since < IN_FORCE_MS && !zone.unsaved.some && !this.#waits.has(key)) continue;
      // What changes again before the file may be written again is not worth a line of its own.
      const pause = pauseAfter(this.#written.get(key)?.bytes ?? 0);
      if (!full && !last && since < pause && !this.#partial.has(key)) continue;
      this.#full.delete(key);
      const delta = this.#resolver.takeDelta(key, full, ROWS_AT_ONCE, now);
      const number = ++this.#count;
      this.#sent.set(key, { at: now.boot, registry });
      if (delta.more) this.#partial.add(key);
      else {
        this.#partial.delete(key);
        this.#waits.sent(key, number);
      }
      deltas.push({ zone: key, registry, wall: now.wall, number, full, ...delta });
    }
    return deltas;
  }

  /**
   * Resolves when what these zones have by now would outlive a death of this process, or with why it may not. `save`:
   * hands to the writer what is to be written. `within`: the longest that it takes.
   */
  async saved(keys: readonly string[], save: () => void, within = SAVED_MS): Promise<string | undefined> {
    // Of a zone that has nothing there is nothing to be written.
    const having = keys.filter((key) => this.#resolver.zone(key)?.source !== 'none');
    const written = having.map(async (key) => this.problems.get(key) ?? (await this.#waits.wait(key)));
    save();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<string>((done) => {
      timer = setTimeout(done, within, `not written within ${within / 1000} s`);
    });
    const all = Promise.all(written).then((problems) => problems.find((problem) => problem !== undefined));
    return Promise.race([all, late]).finally(() => clearTimeout(timer));
  }

  /** The zone's file was written. */
  wrote(key: string, written: WrittenSnapshot): void {
    this.#written.set(key, written);
    this.#waits.wrote(key, written.number);
    // A writer that is new, or that had forgotten the zone, knows nothing of what was wrong before.
    this.problem(key, undefined);
  }

  /** For the metrics: how old each zone's file is. */
  readings(nowWall: WallMs): { zone: string; view?: string; ageMs?: Ms; problems: number }[] {
    return [...this.#resolver.zones].map(({ key, config }) => {
      const wall = this.#written.get(key)?.wall;
      const problems = this.problems.has(key) ? 1 : 0;
      return {
        zone: config.name,
        ...zoneView(config),
        ...(wall === undefined ? {} : { ageMs: Math.max(0, nowWall - wall) }),
        problems,
      };
    });
  }

  /** The writer's word about a zone's file. */
  problem(key: string, reason: string | undefined): void {
    if (reason === undefined) {
      if (this.problems.delete(key)) this.#log('info', 'snapshot-written-again', { zone: key });
    } else if (this.#resolver.zone(key) !== undefined) {
      this.problems.set(key, reason);
      this.#waits.failed(key, reason);
      this.#log('error', 'snapshot-not-written', { zone: key, reason });
    }
  }

  /** Returns whether it could be read to its end; otherwise nothing of it was taken in. */
  #use(key: string, snapshot: LoadedSnapshot, trusted: boolean, defer: boolean, now: Instant): boolean {
    const { meta, services } = snapshot.data;
    const content = { meta, services: dataOf(services) };
    let skipped: number;
    try {
      skipped = this.#resolver.restoreZone(key, content, trusted, now, defer);
    } catch (error) {
      if (!(error instanceof UnreadableError)) throw error;
      this.#log('warn', 'snapshot-problem', { zone: key, problem: `snapshot: ${error.message}; it is not used` });
      return false;
    } finally {
      snapshot.close();
    }
    this.#log('info', 'snapshot-loaded', {
      zone: key,
      services: services.length - skipped,
      ageMs: Math.round(snapshot.age),
      generation: snapshot.generation,
      trusted,
      ...(skipped > 0 ? { skipped } : {}),
    });
    return true;
  }
}

/** The file of a snapshot could not be read to its end. */
class UnreadableError extends Error {}

function* dataOf(services: LoadedSnapshot['data']['services']): Generator<unknown> {
  const lines = services[Symbol.iterator]();
  for (;;) {
    let next: IteratorResult<readonly [string, unknown]>;
    try {
      next = lines.next();
    } catch (error) {
      throw new UnreadableError((error as Error).message);
    }
    if (next.done) return;
    yield next.value?.[1];
  }
}
