import { isIP } from 'node:net';
import type { OnDemandStatus, RegistryStatus, ServiceStatus, ZoneStatus } from '../admin/documents.js';
import type { CatalogRow } from '../catalog/row.js';
import type { ZoneConfig } from '../config/types.js';
import { registryIdentity } from '../registry/identity.js';
import type { Rejected } from '../registry/registry.js';
import type { Instant } from '../system/clock.js';
import type { Zone } from './zone.js';
import type { ZoneDemand } from './zone-demand.js';
import type { ZoneSource } from './zone-source.js';
import type { ZoneFacts } from './zone-sources.js';

/** Rejections shown in a status; the rest is counted by their number. */
const SHOWN_REJECTIONS = 20;

/** @param waiting questions for names of the zone that wait for a look-up (R33) */
export function zoneStatus(zone: Zone, now: Instant, waiting = 0): ZoneStatus {
  let endpoints = 0;
  let heldBack = 0;
  let ejected = 0;
  let drained = 0;
  let guarded = 0;
  let services = 0;
  for (const service of zone.catalog.services.values()) {
    if (service.known) services++;
    for (const row of service.rows.values()) {
      if (!stands(row)) continue;
      endpoints++;
      if (!row.answered) heldBack++;
      if (row.drained) drained++;
      if (row.ejected && !row.answered) ejected++;
      if (row.hold !== undefined) guarded++;
    }
  }
  const { heard, reason, since, lastConfirmed } = zone.hearing;
  const unnamed = [...zone.names.unnamed(zone.catalog.services.values())];
  return {
    name: zone.config.name,
    ...zoneView(zone.config),
    state: zone.source === 'none' ? 'never-synced' : zone.isStale(now.boot) ? 'stale' : 'fresh',
    heard,
    ...hearingStatus({ heard, reason, since, lastConfirmed }, now),
    ...(zone.demand === undefined ? {} : { onDemand: onDemandStatus(zone.demand, waiting) }),
    registry: zone.config.registries.map(registryIdentity).join(', '),
    registries: zone.sources.all.map((source) => registryStatus(zone, source, now)),
    source: zone.source,
    services,
    endpoints,
    answered: zone.health.answered,
    heldBack,
    ejected,
    drained,
    guarded,
    guard: {
      zone: zone.sources.all.some(({ guard }) => guard.zoneTripped),
      services: zone.holding(),
      alarm: zone.sources.all.some(({ guardLog }) => guardLog.alarm),
    },
    floor: [...zone.health.floors.keys()],
    withheld: [...zone.health.withheld],
    rejected: zone.rejected.slice(0, SHOWN_REJECTIONS).map(({ where, reason }) => ({ where, reason })),
    rejectedCount: countOf(zone.rejected),
    conflicts: zone.names.labels.conflicts(),
    unnamed: unnamed.slice(0, SHOWN_REJECTIONS),
    unnamedCount: unnamed.length,
    ...(zone.names.namesNodes ? { unanswered: zone.names.nodes.otherDatacenters(zone.config.datacenters) } : {}),
    hosts: zone.sources.all.flatMap(({ hosts }) => [...hosts.problems()]),
    checks: hasChecks(zone, endpoints) ? 'on' : 'off',
    softTtlMs: zone.config.softTtl,
  };
}

function onDemandStatus({ counts, size }: ZoneDemand, waiting: number): OnDemandStatus {
  const { found, unknown, failed, remembered, refused } = counts;
  return { waiting, unknown: size.unknown, lookUps: { found, unknown, failed }, remembered, refused };
}

function registryStatus(zone: Zone, source: ZoneSource, now: Instant): RegistryStatus {
  const { identity, hearing, from, revision, catalog, once } = source;
  return {
    registry: identity,
    heard: hearing.heard,
    ...hearingStatus(hearing, now),
    source: from,
    stale: source.isStale(now.boot, zone.config.softTtl),
    ...(revision === undefined ? {} : { revision }),
    services: catalog.listed.services,
    endpoints: catalog.listed.rows,
    rejectedCount: countOf(source.rejected),
    once: once.size,
  };
}

function hearingStatus({ heard, reason, since, lastConfirmed }: ZoneFacts, now: Instant) {
  return {
    ...(heard || reason === undefined ? {} : { reason }),
    since: new Date(now.wall - (now.boot - since.boot)).toISOString(),
    ...(lastConfirmed === undefined ? {} : { lastConfirmedMs: Math.round(now.boot - lastConfirmed) }),
  };
}

export function serviceStatus(zone: Zone): ServiceStatus[] {
  const all: ServiceStatus[] = [];
  for (const service of zone.catalog.services.values()) {
    if (!service.known) continue;
    const rows = service.standing();
    const [label] = zone.names.labels.owned(service.name);
    all.push({
      zone: zone.config.name,
      name: service.name,
      ...(label === undefined ? {} : { label }),
      endpoints: rows.length,
      answered: rows.filter((row) => row.answered).length,
      heldBack: rows.filter((row) => !row.answered).length,
      guarded: rows.some((row) => row.hold !== undefined),
      floor: zone.health.floors.get(service.name) ?? null,
    });
  }
  return all;
}

function countOf(rejected: readonly Rejected[]): number {
  return rejected.reduce((sum, { count = 1 }) => sum + count, 0);
}

/** R17: something is probed, or would be if the zone had an endpoint. */
function hasChecks(zone: Zone, endpoints: number): boolean {
  if (zone.health.probed > 0) return true;
  if (endpoints > 0) return false;
  const { check, services } = zone.config;
  return [check, ...services.map(({ settings }) => settings.check)].some((one) => (one?.type ?? 'none') !== 'none');
}

/** The addresses of a zone that is not asked at all of them (R31). */
export function zoneView({ listen }: Pick<ZoneConfig, 'listen'>): { view?: string } {
  if (listen === undefined) return {};
  return { view: listen.map(({ address, port }) => hostPort(address, port)).join(', ') };
}

function stands(row: CatalogRow): boolean {
  return row.listed || row.hold !== undefined;
}

/** `[::1]:80`, `10.0.0.1:80`. */
export function hostPort(address: string, port: number): string {
  return isIP(address) === 6 ? `[${address}]:${port}` : `${address}:${port}`;
}
