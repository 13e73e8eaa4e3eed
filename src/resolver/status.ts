import { isIP } from 'node:net';
import type { ServiceStatus, ZoneStatus } from '../admin/documents.js';
import type { CatalogRow } from '../catalog/row.js';
import type { ZoneConfig } from '../config/types.js';
import { registryIdentity } from '../registry/identity.js';
import type { Instant } from '../system/clock.js';
import type { Zone } from './zone.js';

/** Rejections shown in a status; the rest is counted by their number. */
const SHOWN_REJECTIONS = 20;

export function zoneStatus(zone: Zone, now: Instant): ZoneStatus {
  let endpoints = 0;
  let heldBack = 0;
  let ejected = 0;
  let guarded = 0;
  let services = 0;
  for (const service of zone.catalog.services.values()) {
    if (service.known) services++;
    for (const row of service.rows.values()) {
      if (!stands(row)) continue;
      endpoints++;
      if (!row.answered) heldBack++;
      if (row.ejected && !row.answered) ejected++;
      if (row.hold !== undefined) guarded++;
    }
  }
  const stale = zone.isStale(now.boot);
  return {
    name: zone.config.name,
    ...zoneView(zone.config),
    state: zone.source === 'none' ? 'never-synced' : stale ? 'stale' : 'fresh',
    heard: zone.hearing.heard,
    ...(zone.hearing.heard || zone.hearing.reason === undefined ? {} : { reason: zone.hearing.reason }),
    since: new Date(now.wall - (now.boot - zone.hearing.since.boot)).toISOString(),
    ...(zone.hearing.lastConfirmed === undefined
      ? {}
      : { lastConfirmedMs: Math.round(now.boot - zone.hearing.lastConfirmed) }),
    registry: zone.config.registries.map(registryIdentity).join(', '),
    source: zone.source,
    services,
    endpoints,
    answered: zone.health.answered,
    heldBack,
    ejected,
    guarded,
    guard: {
      zone: zone.guard.zoneTripped,
      services: [...zone.guard.holding()].map((service) => service.name),
      alarm: zone.guardLog.alarm,
    },
    floor: [...zone.health.floors.keys()],
    rejected: zone.rejected.slice(0, SHOWN_REJECTIONS).map(({ where, reason }) => ({ where, reason })),
    conflicts: zone.names.labels.conflicts(),
    checks: hasChecks(zone, endpoints) ? 'on' : 'off',
    softTtlMs: zone.config.softTtl,
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
