/** Metrics of the prober, and of what clients report. */
import { type Declaration, flag, one, seconds } from './declaration.js';

export const HEALTH_METRICS: readonly Declaration[] = [
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
    name: 'holdfast_prober_unprobed',
    help: 'Endpoints that the prober leaves out although it lives: it hangs in part, or is of another version (R14).',
    kind: 'gauge',
    read: ({ status: { prober } }) => one(prober.unprobed ?? 0),
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
];
