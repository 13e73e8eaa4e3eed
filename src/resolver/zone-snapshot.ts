/** What a zone's snapshot holds (R29), and back. Times are wall time on disk; heard time goes on where it stood. */
import { CatalogRow, type HeardMs, type Hold, type Strength } from '../catalog/row.js';
import { Service } from '../catalog/service.js';
import type { VerdictSeed, VerdictStore } from '../health/verdicts.js';
import type { ListedCheck, ListedNode, Protocol, RowState } from '../registry/registry.js';
import type { BootMs, Instant, WallMs } from '../system/clock.js';
import type { Zone } from './zone.js';
import type { RestoreVerdict } from './zone-restore.js';
import type { ZoneSource } from './zone-source.js';

/** Between the name of a service and the index of a registry: no name has it. */
const SEPARATOR = '\0';

export interface SnapshotContent {
  readonly meta: unknown;
  readonly services: Iterable<unknown>;
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
  readonly host?: string;
  /** Present when it has left. */
  readonly left?: true;
  readonly addedAt?: HeardMs;
  readonly counted?: true;
  readonly loss?: { readonly at: HeardMs; readonly before: SavedStrength };
  readonly hold?: Hold;
  readonly answered?: true;
  /** R19. */
  readonly since?: WallMs;
  readonly gone?: WallMs;
  readonly doubted?: true;
  /** By an operator (R10). */
  readonly drained?: true;
  readonly verdict?: VerdictSeed;
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };

interface SavedService {
  readonly name: string;
  /** Index of the registry that has it; absent: the first. */
  readonly registry?: number;
  readonly unlisted?: true;
  readonly borrowed?: true;
  readonly check?: ListedCheck;
  readonly tripped?: true;
  readonly quietSince?: HeardMs;
  /** R33: when it was asked last. */
  readonly asked?: WallMs;
  readonly rows: readonly SavedRow[];
}

/** What is saved of one registry beside its services. */
interface SavedSource {
  /** See `registryIdentity`; absent in what earlier versions wrote. */
  readonly identity?: string;
  /** R33: what was asked for, and not all that it had. */
  readonly part?: true;
  readonly epoch?: string;
  readonly revision?: string;
  readonly heard: HeardMs;
  readonly lastConfirmed?: WallMs;
  readonly zoneTripped?: true;
  readonly zoneQuietSince?: HeardMs;
  readonly heldPassingSince?: HeardMs;
  readonly releases: readonly (readonly [string, WallMs, WallMs])[];
  /** R32: names that it had and has no more. */
  readonly once?: readonly string[];
  /** Its hosts, where they have names. */
  readonly nodes?: readonly ListedNode[];
}

/** The first registry's facts stand in the meta itself. */
interface SavedMeta extends SavedSource {
  /** When the snapshot was last in force. */
  readonly wall: WallMs;
  readonly serial: number;
  /** R23: addresses without a row, with when they go. */
  readonly kept: readonly (readonly [string, WallMs])[];
  readonly keptNodes?: readonly (readonly [ListedNode, WallMs])[];
  /** The first registry had nothing yet. */
  readonly missing?: true;
  /** Of the other registries, by their index; one that had nothing yet is left out. */
  readonly others?: readonly (readonly [index: number, source: SavedSource])[];
}

export function exportMeta(zone: Zone, now: Instant): SavedMeta {
  const kept: [string, WallMs][] = [];
  for (const [address, until] of zone.names.kept.leaving()) kept.push([address, now.wall + (until - now.boot)]);
  const keptNodes = [...zone.names.nodes.leaving()].map(([node, until]) => {
    return [node, now.wall + (until - now.boot)] as const;
  });
  const [first, ...others] = zone.sources.all;
  const saved = others.flatMap((source, i) => {
    return source.from === 'none' ? [] : [[i + 1, exportSource(zone, source, now)] as const];
  });
  return {
    wall: now.wall,
    ...exportSource(zone, first!, now),
    ...(first!.from === 'none' ? { missing: true as const } : {}),
    serial: zone.serial,
    kept,
    ...(keptNodes.length === 0 ? {} : { keptNodes }),
    ...(saved.length === 0 ? {} : { others: saved }),
  };
}

function exportSource(zone: Zone, source: ZoneSource, now: Instant): SavedSource {
  const { identity, epoch, revision, hearing, guard, once } = source;
  const { zoneTripped, zoneQuietSince, heldPassingSince } = guard;
  const nodes = [...zone.names.nodes.listed(source.identity)];
  return {
    identity,
    ...(source.onDemand || source.isPart ? { part: true as const } : {}),
    ...(epoch === undefined ? {} : { epoch }),
    ...(revision === undefined ? {} : { revision }),
    heard: hearing.clock.at(now.boot),
    ...(hearing.lastConfirmed === undefined ? {} : { lastConfirmed: now.wall - (now.boot - hearing.lastConfirmed) }),
    ...(zoneTripped ? { zoneTripped } : {}),
    ...(zoneQuietSince === undefined ? {} : { zoneQuietSince }),
    ...(heldPassingSince === undefined ? {} : { heldPassingSince }),
    releases: [...source.releases].map(([service, { wall, counts }]) => [service, wall, counts] as const),
    ...(once.size === 0 ? {} : { once: [...once] }),
    ...(nodes.length === 0 ? {} : { nodes }),
  };
}

/** A service's lines: one of each registry that has it, by the name of the line. Undefined: there is none. */
export function* exportLines(
  zone: Zone,
  name: string,
  verdicts: VerdictStore,
  now: Instant,
): Generator<readonly [line: string, saved: SavedService | undefined]> {
  for (const [index, source] of zone.sources.all.entries()) {
    const service = source.catalog.services.get(name);
    const line = index === 0 ? name : `${name}${SEPARATOR}${index}`;
    const asked = zone.demand?.askedAt(name);
    const saved =
      service === undefined
        ? undefined
        : {
            ...exportService(service, verdicts, now),
            ...(asked === undefined ? {} : { asked: now.wall - (now.boot - asked) }),
          };
    yield [line, saved === undefined || index === 0 ? saved : { ...saved, registry: index }];
  }
}

function exportService(service: Service, verdicts: VerdictStore, now: Instant): SavedService {
  return {
    name: service.name,
    ...(service.listed ? {} : { unlisted: true as const }),
    ...(service.borrowed ? { borrowed: true as const } : {}),
    ...(service.check === undefined ? {} : { check: service.check }),
    ...(service.tripped ? { tripped: true as const } : {}),
    ...(service.quietSince === undefined ? {} : { quietSince: service.quietSince }),
    rows: Array.from(service.rows.values(), (row) => exportRow(row, verdicts, now)),
  };
}

/** Field by field: when the verdicts of a large zone change, there are very many of these. */
function exportRow(row: CatalogRow, verdicts: VerdictStore, now: Instant): SavedRow {
  const { id, address, port, protocol, priority, weight, state, loss, hold, goneSince, addedAt, listedSince } = row;
  const wall = (at: BootMs): WallMs => now.wall - (now.boot - at);
  const saved: Writable<SavedRow> = { id, address, port, protocol, priority, weight, state };
  if (row.portName !== undefined) saved.portName = row.portName;
  if (row.tags.length > 0) saved.tags = row.tags;
  if (row.zone !== undefined) saved.zone = row.zone;
  if (row.node !== undefined) saved.node = row.node;
  if (row.atNode) saved.atNode = true;
  if (row.host !== undefined) saved.host = row.host;
  if (!row.listed) saved.left = true;
  if (addedAt !== Number.NEGATIVE_INFINITY) saved.addedAt = addedAt;
  if (row.counted) saved.counted = true;
  if (loss !== undefined) saved.loss = { at: loss.at, before: saveStrength(loss.before) };
  if (hold !== undefined) saved.hold = hold;
  if (row.answered) saved.answered = true;
  if (listedSince !== Number.NEGATIVE_INFINITY) saved.since = wall(listedSince);
  if (goneSince !== undefined) saved.gone = wall(goneSince);
  if (row.doubted) saved.doubted = true;
  if (row.drained) saved.drained = true;
  const verdict = row.target === undefined ? undefined : verdicts.export(row.target, now);
  if (verdict !== undefined) saved.verdict = verdict;
  return saved;
}

/** Takes in what was saved of the registries that have not said anything yet. Returns how many lines could not be used. */
export function takeSnapshotIn(
  zone: Zone,
  verdicts: VerdictStore,
  content: SnapshotContent,
  trusted: boolean,
  defer: boolean,
  now: Instant,
): number {
  const meta = content.meta as SavedMeta;
  const saved = new Map<number, SavedSource>([...(meta.missing ? [] : [[0, meta] as const]), ...(meta.others ?? [])]);
  const places = placesOf(saved, zone.sources.all);
  // Where the clock was set back since, no time has passed: all that is dated is as old as it was then.
  const setBack = Math.max(0, meta.wall - now.wall);
  const asOf = ({ boot, wall }: Instant): Instant => ({ boot, wall: wall + setBack });
  const then = asOf(now);
  const seeds = new Map<CatalogRow, VerdictSeed>();
  const services = new Map<ZoneSource, Service[]>();
  let skipped = 0;
  for (const line of content.services as Iterable<SavedService>) {
    const service = takeServiceIn(line, seeds, then);
    if (service === undefined) {
      skipped++;
      continue;
    }
    const source = places.get(line.registry ?? 0);
    // What was looked up meanwhile is the registry's own word.
    if (source === undefined || source.catalog.services.has(service.name)) continue;
    zone.demand?.restored(service.name, then.boot - Math.max(0, then.wall - (line.asked ?? then.wall)));
    const own = services.get(source);
    if (own === undefined) services.set(source, [service]);
    else own.push(service);
  }
  zone.serial = Math.max(zone.serial, meta.serial);
  if (defer) zone.names.defer();
  const parts = [...places].flatMap(([index, source]) => {
    if (source.from !== 'none') return [];
    const facts = saved.get(index)!;
    const own = services.get(source) ?? [];
    const same = facts.identity === undefined ? trusted : facts.identity === source.identity;
    takeSourceIn(source, facts, same, then);
    if (!same) for (const service of own) service.borrowed = true;
    source.hosts.restore(own);
    return [{ source, facts, services: own }];
  });
  const restore: RestoreVerdict = (origins, row, settings, at) => {
    const seed = origins.map((origin) => seeds.get(origin)).find((one) => one !== undefined);
    if (seed !== undefined && row.target !== undefined)
      verdicts.restore(row.target, seed, settings, meta.wall, asOf(at));
  };
  zone.restored(parts, trusted, now, { column: (row) => seeds.get(row)?.column, restore }, defer);
  zone.names.nodes.restore(
    parts.map(({ source, facts }) => [source.identity, facts.nodes ?? []] as const),
    [...(meta.keptNodes ?? [])]
      .sort((a, b) => a[1] - b[1])
      .map(([node, until]) => [node, then.boot + (until - then.wall)] as const),
    now.boot,
  );
  for (const [address, until] of [...meta.kept].sort((a, b) => a[1] - b[1])) {
    zone.names.keep(address, then.boot + (until - then.wall));
  }
  return skipped;
}

/** Whose each part of a snapshot is: of the registry that it was of, wherever that stands now, or of the one in its place, or of another new one. */
function placesOf(saved: ReadonlyMap<number, SavedSource>, sources: readonly ZoneSource[]): Map<number, ZoneSource> {
  const places = new Map<number, ZoneSource>();
  const left = new Set(sources);
  const put = (index: number, source: ZoneSource | undefined): void => {
    if (source === undefined || places.has(index) || !left.delete(source)) return;
    places.set(index, source);
  };
  for (const [index, { identity }] of saved)
    put(
      index,
      sources.find((source) => source.identity === identity),
    );
  for (const index of saved.keys()) put(index, sources[index]);
  for (const index of saved.keys()) put(index, [...left][0]);
  return places;
}

/** @param same it is what this very registry had */
function takeSourceIn(source: ZoneSource, facts: SavedSource, same: boolean, now: Instant): void {
  source.epoch = facts.epoch;
  source.revision = same ? facts.revision : undefined;
  source.isPart = facts.part === true && !source.onDemand;
  source.hearing.clock.restore(facts.heard);
  if (facts.lastConfirmed !== undefined)
    source.hearing.lastConfirmed = now.boot - Math.max(0, now.wall - facts.lastConfirmed);
  for (const [service, mark, counts] of facts.releases) source.releases.set(service, { wall: mark, counts });
  source.guard.restoreZone(facts.zoneTripped === true, facts.zoneQuietSince, facts.heldPassingSince);
  // What another one once had says nothing of this one (R32).
  if (same) for (const name of facts.once ?? []) source.once.add(name);
}

function takeServiceIn(saved: SavedService, seeds: Map<CatalogRow, VerdictSeed>, now: Instant): Service | undefined {
  if (typeof saved?.name !== 'string' || !Array.isArray(saved.rows)) return undefined;
  const service = new Service(saved.name);
  service.listed = saved.unlisted !== true;
  service.borrowed = saved.borrowed === true;
  service.check = saved.check;
  service.tripped = saved.tripped === true;
  service.quietSince = saved.quietSince;
  for (const one of saved.rows) {
    const row = new CatalogRow(one, one.addedAt ?? Number.NEGATIVE_INFINITY);
    row.listed = one.left !== true;
    row.counted = one.counted === true;
    row.answered = one.answered === true;
    row.doubted = one.doubted === true;
    row.drained = one.drained === true;
    if (one.since !== undefined) row.listedSince = now.boot - Math.max(0, now.wall - one.since);
    if (one.gone !== undefined) row.goneSince = now.boot - Math.max(0, now.wall - one.gone);
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
