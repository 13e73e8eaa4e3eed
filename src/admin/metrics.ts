/** The metrics, by prom-client: every name declared once, all values read when they are asked for. */
import { createRequire } from 'node:module';
import type { RegistryStatus, StatusDocument, ZoneStatus } from './documents.js';
import { type Latency, LatencyHistogram } from './latency-histogram.js';

// By require, which is over when it returns: while a CommonJS package is being imported, another import of it may see half.
const { Counter, Gauge, Registry } = createRequire(import.meta.url)('prom-client') as typeof import('prom-client');

/** Sums since the start of the process. */
export interface CounterReadings {
  readonly queries: readonly { transport: 'udp' | 'tcp'; count: number }[];
  readonly types: readonly { type: string; count: number }[];
  readonly responses: readonly { rcode: string; count: number }[];
  readonly drops: readonly { reason: string; count: number }[];
  /** Fresh answers of upstreams that an answer thread gave by itself. */
  readonly forwardKept: number;
  /** Likewise, stale ones. */
  readonly forwardKeptStale: number;
  /** Results of probes by outcome. */
  readonly probes: Readonly<Record<string, number>>;
  /** R20. */
  readonly reports: { readonly known: number; readonly unknown: number; readonly ejections: number };
  /** Answers that went out while stale (R1). */
  readonly staleAnswers: number;
  readonly reloads: { readonly ok: number; readonly failed: number };
  /** Answer threads that died and were started again. */
  readonly workerRestarts: number;
  readonly snapshots: readonly { zone: string; view?: string; ageMs?: number; problems: number }[];
  readonly latency?: Latency;
}

export interface MetricsSource {
  status(): StatusDocument;
  counters(): CounterReadings;
}

interface Reading {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

interface Scrape {
  readonly status: StatusDocument;
  readonly counters: CounterReadings;
}

interface Declaration {
  readonly name: string;
  readonly help: string;
  readonly kind: 'gauge' | 'counter';
  readonly labels?: readonly string[];
  readonly read: (scrape: Scrape) => readonly Reading[];
}

const one = (value: number): Reading[] => [{ value }];
const seconds = (ms: number) => ms / 1000;
const flag = (on: boolean) => (on ? 1 : 0);

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

const DECLARATIONS: readonly Declaration[] = [
  {
    name: 'holdfast_build_info',
    help: 'Always 1; the version is in the label.',
    kind: 'gauge',
    labels: ['version'],
    read: ({ status }) => [{ labels: { version: status.version }, value: 1 }],
  },
  {
    name: 'holdfast_degraded',
    help: '1 when something is worse than it should be; `holdfast status` says what.',
    kind: 'gauge',
    read: ({ status }) => one(flag(status.state !== 'ok')),
  },
  {
    name: 'holdfast_config_last_good',
    help: '1 while the last good configuration is served because the file is bad.',
    kind: 'gauge',
    read: ({ status }) => one(flag(status.config.lastGood)),
  },
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
  registryGauge('holdfast_registry_heard', '1 while this registry of the zone answers and is believable.', (registry) =>
    flag(registry.heard),
  ),
  registryGauge('holdfast_registry_confirmed_age_seconds', 'Time since it last confirmed its data.', (registry) =>
    registry.lastConfirmedMs === undefined ? undefined : seconds(registry.lastConfirmedMs),
  ),
  registryGauge('holdfast_registry_services', 'Services that it lists.', (registry) => registry.services),
  registryGauge('holdfast_registry_endpoints', 'Endpoints that it lists.', (registry) => registry.endpoints),
  {
    name: 'holdfast_prober_stale',
    help: '1 when the prober is needed and its word is late or missing.',
    kind: 'gauge',
    read: ({ status }) => one(flag(status.prober.state === 'stale' || status.prober.state === 'never')),
  },
  {
    name: 'holdfast_prober_targets',
    help: 'Endpoints that are probed.',
    kind: 'gauge',
    read: ({ status }) => one(status.prober.targets),
  },
  {
    name: 'holdfast_prober_heard_age_seconds',
    help: 'Time since the prober last spoke.',
    kind: 'gauge',
    read: ({ status: { prober } }) => (prober.lastHeardMs === undefined ? [] : one(seconds(prober.lastHeardMs))),
  },
  {
    name: 'holdfast_prober_late_seconds',
    help: 'How late its schedule is.',
    kind: 'gauge',
    read: ({ status: { prober } }) => (prober.lateMs === undefined ? [] : one(seconds(prober.lateMs))),
  },
  {
    name: 'holdfast_prober_local_errors',
    help: 'Probes that failed by a fault of this host, as the prober counts them.',
    kind: 'gauge',
    read: ({ status: { prober } }) => (prober.localErrors === undefined ? [] : one(prober.localErrors)),
  },
  {
    name: 'holdfast_prober_stretch',
    help: 'By how much intervals are longer than they should be: 1 when they are not (R17).',
    kind: 'gauge',
    read: ({ status: { prober } }) => (prober.pid === undefined ? [] : one(prober.stretch ?? 1)),
  },
  {
    name: 'holdfast_prober_short',
    help: '1 while probes fail by a fault of this host: no descriptors, no ports, no route (R15).',
    kind: 'gauge',
    read: ({ status: { prober } }) => one(flag(prober.short !== undefined)),
  },
  {
    name: 'holdfast_suspect_self',
    help: '1 while timeouts of probes are not believed, because so much timed out at once (R16).',
    kind: 'gauge',
    labels: ['family'],
    read: ({ status }) =>
      (['IPv4', 'IPv6'] as const).map((family) => ({
        labels: { family },
        value: flag(status.prober.suspected?.some((one) => one.family === family) === true),
      })),
  },
  {
    name: 'holdfast_probe_results_total',
    help: 'Results of probes, by outcome: pass, or the kind of failure (R12).',
    kind: 'counter',
    labels: ['outcome'],
    read: ({ counters: { probes } }) =>
      Object.entries(probes).map(([outcome, value]) => ({ labels: { outcome }, value })),
  },
  {
    name: 'holdfast_client_reports_total',
    help: 'Reports of failed connections by clients: about an endpoint that is known, or not (R20).',
    kind: 'counter',
    labels: ['endpoint'],
    read: ({ counters: { reports } }) => [
      { labels: { endpoint: 'known' }, value: reports.known },
      { labels: { endpoint: 'unknown' }, value: reports.unknown },
    ],
  },
  {
    name: 'holdfast_ejections_total',
    help: 'Times that reports of clients took an endpoint out (R20).',
    kind: 'counter',
    read: ({ counters: { reports } }) => one(reports.ejections),
  },
  {
    name: 'holdfast_listener_up',
    help: '1 while the address answers.',
    kind: 'gauge',
    labels: ['address', 'protocol'],
    read: ({ status }) =>
      status.listen.flatMap((listen) =>
        (['udp', 'tcp'] as const).map((protocol) => ({
          labels: { address: `${listen.address}:${listen.port}`, protocol },
          value: flag(listen[protocol] === 'up'),
        })),
      ),
  },
  {
    name: 'holdfast_queries_total',
    help: 'Queries, by transport.',
    kind: 'counter',
    labels: ['transport'],
    read: ({ counters }) => counters.queries.map(({ transport, count }) => ({ labels: { transport }, value: count })),
  },
  {
    name: 'holdfast_queries_by_type_total',
    help: 'Queries, by record type.',
    kind: 'counter',
    labels: ['type'],
    read: ({ counters }) => counters.types.map(({ type, count }) => ({ labels: { type }, value: count })),
  },
  {
    name: 'holdfast_responses_total',
    help: 'Replies, by rcode.',
    kind: 'counter',
    labels: ['rcode'],
    read: ({ counters }) => counters.responses.map(({ rcode, count }) => ({ labels: { rcode }, value: count })),
  },
  {
    name: 'holdfast_drops_total',
    help: 'Messages without an answer.',
    kind: 'counter',
    labels: ['reason'],
    read: ({ counters }) => counters.drops.map(({ reason, count }) => ({ labels: { reason }, value: count })),
  },
  {
    name: 'holdfast_stale_answers_total',
    help: 'Answers given from data that was not confirmed in time.',
    kind: 'counter',
    read: ({ counters }) => one(counters.staleAnswers),
  },
  {
    name: 'holdfast_forward_queries_total',
    help: 'Questions for names that no zone owns, by how they were answered.',
    kind: 'counter',
    labels: ['result'],
    read: ({ status: { forward }, counters: { forwardKept, forwardKeptStale } }) => {
      if (forward === undefined) return [];
      const { hits, stale, failureHits, local, refused, failures, queries } = forward.counts;
      const rest = queries - hits - stale - failureHits - local - refused - failures;
      const results = {
        hit: hits + forwardKept,
        stale: stale + forwardKeptStale,
        'failure-hit': failureHits,
        local,
        refused,
        failed: failures,
        upstream: rest,
      };
      return Object.entries(results).map(([result, value]) => ({ labels: { result }, value: Math.max(0, value) }));
    },
  },
  {
    name: 'holdfast_forward_upstream_up',
    help: '1 while the upstream answers.',
    kind: 'gauge',
    labels: ['upstream', 'domain'],
    read: ({ status: { forward } }) =>
      (forward?.upstreams ?? []).map(({ address, domain = '', state }) => ({
        labels: { upstream: address, domain },
        value: flag(state === 'up'),
      })),
  },
  {
    name: 'holdfast_forward_upstream_queries_total',
    help: 'Tries at an upstream, and those of them that brought nothing.',
    kind: 'counter',
    labels: ['upstream', 'domain', 'result'],
    read: ({ status: { forward } }) =>
      (forward?.upstreams ?? []).flatMap(({ address, domain = '', queries, failures }) => [
        { labels: { upstream: address, domain, result: 'tried' }, value: queries },
        { labels: { upstream: address, domain, result: 'failed' }, value: failures },
      ]),
  },
  {
    name: 'holdfast_forward_cache_bytes',
    help: 'Memory of answers of upstreams.',
    kind: 'gauge',
    read: ({ status: { forward } }) => (forward === undefined ? [] : one(forward.cache.bytes)),
  },
  {
    name: 'holdfast_reloads_total',
    help: 'Reloads of the configuration.',
    kind: 'counter',
    labels: ['result'],
    read: ({ counters: { reloads } }) => [
      { labels: { result: 'ok' }, value: reloads.ok },
      { labels: { result: 'failed' }, value: reloads.failed },
    ],
  },
  {
    name: 'holdfast_worker_restarts_total',
    help: 'Answer threads that died and were started again.',
    kind: 'counter',
    read: ({ counters }) => one(counters.workerRestarts),
  },
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
  {
    name: 'process_resident_memory_bytes',
    help: 'Resident memory.',
    kind: 'gauge',
    read: () => one(process.memoryUsage.rss()),
  },
  {
    name: 'process_cpu_seconds_total',
    help: 'CPU time of all threads.',
    kind: 'counter',
    read: () => {
      const { user, system } = process.cpuUsage();
      return one((user + system) / 1e6);
    },
  },
  {
    name: 'process_start_time_seconds',
    help: 'Unix time of the start.',
    kind: 'gauge',
    read: ({ status }) => one(seconds(Date.parse(status.started))),
  },
];

const LATENCY = 'holdfast_answer_duration_seconds';

/** All names that exist: a contract with dashboards and alerts. */
export const METRIC_NAMES: readonly string[] = [...DECLARATIONS.map(({ name }) => name), LATENCY].sort();

export class Metrics {
  readonly #source: MetricsSource;
  readonly #registry = new Registry();
  #scrape: Scrape | undefined;

  constructor(source: MetricsSource) {
    this.#source = source;
    for (const declaration of DECLARATIONS) this.#declare(declaration);
    const latency = new LatencyHistogram(
      LATENCY,
      'Time from receiving to sending.',
      () => this.#scrape?.counters.latency,
    );
    latency.addTo(this.#registry);
  }

  /** In the text format 0.0.4. */
  async text(): Promise<string> {
    this.#scrape = { status: this.#source.status(), counters: this.#source.counters() };
    return this.#registry.metrics();
  }

  #declare({ name, help, kind, labels = [], read }: Declaration): void {
    const readings = () => (this.#scrape ? read(this.#scrape) : []);
    const options = { name, help, labelNames: labels, registers: [this.#registry] };
    if (kind === 'gauge') {
      new Gauge({
        ...options,
        collect() {
          this.reset();
          const all = readings();
          if (all.length === 0 && labels.length === 0) this.set(Number.NaN);
          for (const reading of all) this.set({ ...reading.labels }, reading.value);
        },
      });
    } else {
      new Counter({
        ...options,
        collect() {
          this.reset();
          for (const reading of readings()) this.inc({ ...reading.labels }, reading.value);
        },
      });
    }
  }
}
