/** Metrics of zones, their registries and snapshots. */
import type { RegistryStatus, ZoneStatus } from '../documents.js';
import { type Declaration, flag, type Scrape, seconds } from './declaration.js';

/** A zone without a view has no such label, which is the same as an empty one. */
const zoneLabels = (zone: string, view: string | undefined): Record<string, string> =>
  view === undefined ? { zone } : { zone, view };

function zoneGauge(name: string, help: string, value: (zone: ZoneStatus) => number | undefined): Declaration {
  const read = ({ status }: Scrape) =>
    status.zones.flatMap((zone) => {
      const reading = value(zone);
      return reading === undefined ? [] : [{ labels: zoneLabels(zone.name, zone.view), value: reading }];
    });
  return { name, help, kind: 'gauge', labels: ['zone', 'view'], read };
}

/** With the registry's own name: a zone may have several (R32). */
function registryGauge(
  name: string,
  help: string,
  value: (registry: RegistryStatus) => number | undefined,
): Declaration {
  const read = ({ status }: Scrape) =>
    status.zones.flatMap((zone) =>
      zone.registries.flatMap((registry) => {
        const reading = value(registry);
        const labels = { ...zoneLabels(zone.name, zone.view), registry: registry.registry };
        return reading === undefined ? [] : [{ labels, value: reading }];
      }),
    );
  return { name, help, kind: 'gauge', labels: ['zone', 'view', 'registry'], read };
}

const ZONE_STATES = ['fresh', 'stale', 'never-synced'] as const;

export const ZONE_METRICS: readonly Declaration[] = [
  {
    name: 'holdfast_zone_state',
    help: '1 at the state of the zone: fresh, stale or never-synced.',
    kind: 'gauge',
    labels: ['zone', 'view', 'state'],
    read: ({ status }) =>
      status.zones.flatMap((zone) =>
        ZONE_STATES.map((state) => ({
          labels: { ...zoneLabels(zone.name, zone.view), state },
          value: flag(zone.state === state),
        })),
      ),
  },
  zoneGauge('holdfast_zone_heard', '1 while the registry answers and is believable; at 0 capacity is frozen.', (zone) =>
    flag(zone.heard),
  ),
  zoneGauge('holdfast_zone_heard_change_timestamp_seconds', 'Since when the zone has been heard or not.', (zone) => {
    const wall = Date.parse(zone.since);
    return Number.isNaN(wall) ? undefined : seconds(wall);
  }),
  zoneGauge('holdfast_zone_confirmed_age_seconds', 'Time since the registry last confirmed the data.', (zone) =>
    zone.lastConfirmedMs === undefined ? undefined : seconds(zone.lastConfirmedMs),
  ),
  zoneGauge('holdfast_zone_services', 'Services known.', (zone) => zone.services),
  zoneGauge('holdfast_zone_endpoints', 'Endpoints known.', (zone) => zone.endpoints),
  zoneGauge('holdfast_zone_endpoints_answered', 'Endpoints in answers.', (zone) => zone.answered),
  zoneGauge('holdfast_zone_endpoints_held_back', 'Endpoints kept out of answers.', (zone) => zone.heldBack),
  zoneGauge(
    'holdfast_zone_endpoints_ejected',
    'Endpoints kept out because connections of clients failed (R20).',
    (zone) => zone.ejected,
  ),
  zoneGauge('holdfast_zone_endpoints_drained', 'Endpoints that an operator drains.', (zone) => zone.drained),
  zoneGauge('holdfast_zone_endpoints_guarded', 'Endpoints that only the guard keeps.', (zone) => zone.guarded),
  zoneGauge('holdfast_zone_guard', '1 while the guard holds the whole zone.', (zone) => flag(zone.guard.zone)),
  zoneGauge(
    'holdfast_zone_guarded_services',
    'Services of which the guard holds endpoints.',
    (zone) => zone.guard.services.length,
  ),
  zoneGauge(
    'holdfast_zone_guard_alarm',
    '1 when the guard has held passing endpoints for long: look at the registry.',
    (zone) => flag(zone.guard.alarm),
  ),
  zoneGauge(
    'holdfast_zone_floor_services',
    'Services answered although nothing of them is healthy.',
    (zone) => zone.floor.length,
  ),
  zoneGauge(
    'holdfast_zone_withheld_services',
    'Services that are SERVFAIL because all their endpoints belong to others by now (R19).',
    (zone) => zone.withheld.length,
  ),
  zoneGauge('holdfast_zone_rejected_rows', 'Entries of the registry that were left out.', (zone) => zone.rejectedCount),
  zoneGauge('holdfast_zone_name_conflicts', 'Services whose name another one has.', (zone) => zone.conflicts.length),
  zoneGauge(
    'holdfast_zone_unnamed',
    'Services and ports that have no name since theirs is no label (R22).',
    (zone) => zone.unnamedCount,
  ),
  zoneGauge(
    'holdfast_zone_unresolved_hosts',
    'Host names of endpoints whose last look-up brought nothing (R28).',
    (zone) => zone.hosts.length,
  ),
  {
    name: 'holdfast_lookups_total',
    help: 'On demand: look-ups of services that were not known, by what they brought.',
    kind: 'counter',
    labels: ['zone', 'view', 'result'],
    read: ({ status }) =>
      status.zones.flatMap(({ name, view, onDemand }) =>
        Object.entries(onDemand?.lookUps ?? {}).map(([result, value]) => {
          return { labels: { ...zoneLabels(name, view), result }, value };
        }),
      ),
  },
  {
    name: 'holdfast_lookup_questions_total',
    help: 'On demand: questions for services that were not known and not looked up: answered by what was remembered, or refused (too many, or an outage).',
    kind: 'counter',
    labels: ['zone', 'view', 'fate'],
    read: ({ status }) =>
      status.zones.flatMap(({ name, view, onDemand }) =>
        onDemand === undefined
          ? []
          : (['remembered', 'refused'] as const).map((fate) => {
              return { labels: { ...zoneLabels(name, view), fate }, value: onDemand[fate] };
            }),
      ),
  },
  zoneGauge(
    'holdfast_lookup_waiting',
    'On demand: questions that wait for a look-up.',
    (zone) => zone.onDemand?.waiting,
  ),
  zoneGauge(
    'holdfast_unknown_services',
    'On demand: services that are remembered as not known to the registry.',
    (zone) => zone.onDemand?.unknown,
  ),
  registryGauge('holdfast_registry_heard', '1 while this registry of the zone answers and is believable.', (registry) =>
    flag(registry.heard),
  ),
  registryGauge('holdfast_registry_confirmed_age_seconds', 'Time since it last confirmed its data.', (registry) =>
    registry.lastConfirmedMs === undefined ? undefined : seconds(registry.lastConfirmedMs),
  ),
  registryGauge('holdfast_registry_services', 'Services that it lists.', (registry) => registry.services),
  registryGauge('holdfast_registry_endpoints', 'Endpoints that it lists.', (registry) => registry.endpoints),
  {
    name: 'holdfast_snapshot_age_seconds',
    help: 'Age of the snapshot on disk.',
    kind: 'gauge',
    labels: ['zone', 'view'],
    read: ({ counters }) =>
      counters.snapshots.flatMap(({ zone, view, ageMs }) =>
        ageMs === undefined ? [] : [{ labels: zoneLabels(zone, view), value: seconds(ageMs) }],
      ),
  },
  {
    name: 'holdfast_snapshot_failing',
    help: '1 while the snapshot of the zone cannot be written.',
    kind: 'gauge',
    labels: ['zone', 'view'],
    read: ({ counters }) =>
      counters.snapshots.map(({ zone, view, problems }) => ({
        labels: zoneLabels(zone, view),
        value: flag(problems > 0),
      })),
  },
];
