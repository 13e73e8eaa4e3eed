/** Metrics of the process and its configuration. */
import { type Declaration, flag, one, seconds } from './declaration.js';

export const PROCESS_METRICS: readonly Declaration[] = [
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
