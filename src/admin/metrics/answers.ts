/** Metrics of queries and their answers. */
import { type Declaration, flag, one } from './declaration.js';

export const ANSWER_METRICS: readonly Declaration[] = [
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
    name: 'holdfast_worker_restarts_total',
    help: 'Answer threads that died and were started again.',
    kind: 'counter',
    read: ({ counters }) => one(counters.workerRestarts),
  },
];
