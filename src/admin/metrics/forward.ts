/** Metrics of names that no zone owns. */
import { type Declaration, flag, one } from './declaration.js';

export const FORWARD_METRICS: readonly Declaration[] = [
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
];
