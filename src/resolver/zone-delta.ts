/** What of a zone goes into its snapshot (R29): all, or what changed. */
import type { VerdictStore } from '../health/verdicts.js';
import type { Instant } from '../system/clock.js';
import type { Zone } from './zone.js';
import { exportLines, exportMeta, type SnapshotContent } from './zone-snapshot.js';

/** What changed in a zone since its snapshot was last taken. */
export interface ZoneDelta {
  /** JSON text, like the services'; comes with the last part. */
  readonly meta?: string;
  readonly put: readonly (readonly [name: string, json: string])[];
  readonly drop: readonly string[];
  /** The next call has more of it. */
  readonly more: boolean;
}

export function exportZone(zone: Zone, verdicts: VerdictStore, now: Instant): SnapshotContent {
  const services = [...new Set(zone.known())].flatMap((name) => {
    return [...exportLines(zone, name, verdicts, now)].flatMap(([, saved]) => saved ?? []);
  });
  return { meta: exportMeta(zone, now), services };
}

/** About `most` rows of it; `full`: everything is out of date. */
export function takeDelta(zone: Zone, verdicts: VerdictStore, full: boolean, most: number, now: Instant): ZoneDelta {
  if (full) {
    zone.unsaved.clear();
    zone.unsaved.addAll(zone.known());
  }
  let left = most;
  const put: [string, string][] = [];
  const drop: string[] = [];
  for (const name of zone.unsaved.take()) {
    left--;
    for (const [line, saved] of exportLines(zone, name, verdicts, now)) {
      if (saved === undefined) drop.push(line);
      else {
        put.push([line, JSON.stringify(saved)]);
        left -= saved.rows.length;
      }
    }
    if (left <= 0) break;
  }
  const more = zone.unsaved.some;
  return { ...(more ? {} : { meta: JSON.stringify(exportMeta(zone, now)) }), put, drop, more };
}
