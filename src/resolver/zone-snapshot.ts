/** What a zone's snapshot holds (R29), and back. Times are wall time on disk; heard time goes on where it stood. */
import { CatalogRow, type HeardMs, type Hold, type Strength } from '../catalog/row.js';
import { Service } from '../catalog/service.js';
import type { VerdictSeed, VerdictStore } from '../health/verdicts.js';
import type { ListedCheck, ListedNode, Protocol, RowState } from '../registry/registry.js';
import type { Instant, WallMs } from '../system/clock.js';
import type { RestoreVerdict, Zone } from './zone.js';

export interface SnapshotContent {
  readonly meta: unknown;
  readonly services: readonly unknown[];
}

interface SavedStrength {
  readonly all: number;
  readonly zone: number;
  readonly byPriority: readonly (readonly [number, number])[];
}

interface SavedRow {
  readonly id: string;
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly portName?: string;
  readonly priority: number;
  readonly weight: number;
  readonly tags?: readonly string[];
  readonly zone?: string;
  readonly state: RowState;
  readonly node?: ListedNode;
  readonly atNode?: true;
  /** Present when it has left. */
  readonly left?: true;
  readonly addedAt?: HeardMs;
  readonly counted?: true;
  readonly loss?: { readonly at: HeardMs; readonly before: SavedStrength };
  readonly hold?: Hold;
  readonly answered?: true;
  readonly verdict?: VerdictSeed;
}

interface SavedService {
  readonly name: string;
  readonly unlisted?: true;
  readonly check?: ListedCheck;
  readonly tripped?: true;
  readonly quietSince?: HeardMs;
  readonly rows: readonly SavedRow[];
}

interface SavedMeta {
  /** When the snapshot was last in force. */
  readonly wall: WallMs;
  readonly epoch?: string;
  readonly revision?: string;
  readonly heard: HeardMs;
  readonly lastConfirmed?: WallMs;
  readonly serial: number;
  readonly zoneTripped?: true;
  readonly zoneQuietSince?: HeardMs;
  /** R23: addresses without a row, with when they go. */
  readonly kept: readonly (readonly [string, WallMs])[];
  readonly releases: readonly (readonly [string, WallMs, WallMs])[];
}

export function exportMeta(zone: Zone, now: Instant): SavedMeta {
  const kept: [string, WallMs][] = [];
  for (const [address, until] of zone.names.kept.leaving()) kept.push([address, now.wall + (until - now.boot)]);
  const { zoneTripped, zoneQuietSince } = zone.guard;
  return {
    wall: now.wall,
    ...(zone.epoch === undefined ? {} : { epoch: zone.epoch }),
    ...(zone.revision === undefined ? {} : { revision: zone.revision }),
    heard: zone.hearing.clock.at(now.boot),
    ...(zone.hearing.lastConfirmed === undefined
      ? {}
      : { lastConfirmed: now.wall - (now.boot - zone.hearing.lastConfirmed) }),
    serial: zone.serial,
    ...(zoneTripped ? { zoneTripped } : {}),
    ...(zoneQuietSince === undefined ? {} : { zoneQuietSince }),
    kept,
    releases: [...zone.releases].map(([service, { wall, counts }]) => [service, wall, counts] as const),
  };
}

export function exportService(service: Service, verdicts: VerdictStore, now: Instant): SavedService {
  return {
    name: service.name,
    ...(service.listed ? {} : { unlisted: true as const }),
    ...(service.check === undefined ? {} : { check: service.check }),
    ...(service.tripped ? { tripped: true as const } : {}),
    ...(service.quietSince === undefined ? {} : { quietSince: service.quietSince }),
    rows: [...service.rows.values()].map((row) => exportRow(row, verdicts, now)),
  };
}

function exportRow(row: CatalogRow, verdicts: VerdictStore, now: Instant): SavedRow {
  const verdict = row.target === undefined ? undefined : verdicts.export(row.target, now);
  return {
    id: row.id,
    address: row.address,
    port: row.port,
    protocol: row.protocol,
    ...(row.portName === undefined ? {} : { portName: row.portName }),
    priority: row.priority,
    weight: row.weight,
    ...(row.tags.length === 0 ? {} : { tags: row.tags }),
    ...(row.zone === undefined ? {} : { zone: row.zone }),
    state: row.state,
    ...(row.node === undefined ? {} : { node: row.node }),
    ...(row.atNode ? { atNode: true as const } : {}),
    ...(row.listed ? {} : { left: true as const }),
    ...(row.addedAt === Number.NEGATIVE_INFINITY ? {} : { addedAt: row.addedAt }),
    ...(row.counted ? { counted: true as const } : {}),
    ...(row.loss === undefined ? {} : { loss: { at: row.loss.at, before: saveStrength(row.loss.before) } }),
    ...(row.hold === undefined ? {} : { hold: row.hold }),
    ...(row.answered ? { answered: true as const } : {}),
    ...(verdict === undefined ? {} : { verdict }),
  };
}

/** Returns how many services could not be used. */
export function takeSnapshotIn(
  zone: Zone,
  verdicts: VerdictStore,
  content: SnapshotContent,
  trusted: boolean,
  defer: boolean,
  now: Instant,
): number {
  const meta = content.meta as SavedMeta;
  zone.epoch = meta.epoch;
  zone.revision = meta.revision;
  zone.hearing.clock.restore(meta.heard);
  zone.serial = Math.max(zone.serial, meta.serial);
  if (meta.lastConfirmed !== undefined)
    zone.hearing.lastConfirmed = now.boot - Math.max(0, now.wall - meta.lastConfirmed);
  for (const [service, mark, counts] of meta.releases) zone.releases.set(service, { wall: mark, counts });
  zone.guard.restoreZone(meta.zoneTripped === true, meta.zoneQuietSince);
  const services: Service[] = [];
  const seeds = new Map<CatalogRow, VerdictSeed>();
  for (const line of content.services) {
    const service = takeServiceIn(line as SavedService, seeds);
    if (service !== undefined) services.push(service);
  }
  if (defer) zone.names.defer();
  const restore: RestoreVerdict = (row, settings, at) => {
    const seed = seeds.get(row);
    if (seed !== undefined && row.target !== undefined) verdicts.restore(row.target, seed, settings, meta.wall, at);
  };
  zone.restored(services, trusted, now, { column: (row) => seeds.get(row)?.column, restore }, defer);
  for (const [address, until] of [...meta.kept].sort((a, b) => a[1] - b[1])) {
    zone.names.keep(address, now.boot + (until - now.wall));
  }
  return content.services.length - services.length;
}

function takeServiceIn(saved: SavedService, seeds: Map<CatalogRow, VerdictSeed>): Service | undefined {
  if (typeof saved?.name !== 'string' || !Array.isArray(saved.rows)) return undefined;
  const service = new Service(saved.name);
  service.listed = saved.unlisted !== true;
  service.check = saved.check;
  service.tripped = saved.tripped === true;
  service.quietSince = saved.quietSince;
  for (const one of saved.rows) {
    const row = new CatalogRow(one, one.addedAt ?? Number.NEGATIVE_INFINITY);
    row.listed = one.left !== true;
    row.counted = one.counted === true;
    row.answered = one.answered === true;
    if (one.loss !== undefined) row.loss = { at: one.loss.at, before: loadStrength(one.loss.before) };
    if (one.hold !== undefined) row.hold = { ...one.hold, deadSince: one.hold.deadSince };
    if (one.verdict !== undefined) seeds.set(row, one.verdict);
    if (service.rows.get(row) === undefined) service.rows.add(row);
  }
  return service;
}

function saveStrength({ all, zone, byPriority }: Strength): SavedStrength {
  return { all, zone, byPriority: [...byPriority] };
}

function loadStrength({ all, zone, byPriority }: SavedStrength): Strength {
  return { all, zone, byPriority: new Map(byPriority) };
}
