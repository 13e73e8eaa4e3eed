import type { CounterReadings } from '../admin/metrics/declaration.js';
import type { AnswerServer } from '../server/answer-server.js';
import { COUNTED_RCODES, COUNTED_TYPES, COUNTER, CounterTotals, LATENCY_BUCKETS } from '../server/counters.js';
import type { DaemonParts } from './daemon-status.js';

const RCODES = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED'] as const;
const BADVERS = 16;

/** The answer threads' counters as the metrics want them. */
export class DaemonCounters {
  readonly #totals = new CounterTotals();

  /** To be called once an hour at least: the threads' words wrap. */
  sum(server: AnswerServer): void {
    for (const counters of server.counters()) this.#totals.add(counters);
  }

  read({ resolver, server, snapshots, prober, clock, facts }: DaemonParts): CounterReadings {
    this.sum(server);
    const { totals } = this.#totals;
    const at = (word: number): number => totals[word] ?? 0;
    const {
      refusedDatagrams,
      sendErrors,
      sendDrops,
      failures,
      handoverFull,
      tcpEvicted,
      tcpTimeouts,
      tcpAcceptErrors,
    } = server.transportCounters();
    const { messages, requests } = prober.drops();
    const drops: Record<string, number> = {
      'too-short': at(COUNTER.tooShort),
      response: at(COUNTER.response),
      malformed: at(COUNTER.malformed),
      'refused-client': at(COUNTER.refusedClient),
      'refused-foreign': at(COUNTER.refusedForeign),
      'refused-datagram': refusedDatagrams,
      'send-error': sendErrors,
      'send-buffer-full': sendDrops,
      failure: failures,
      'handover-full': handoverFull,
      'tcp-evicted': tcpEvicted,
      'tcp-timeout': tcpTimeouts,
      'tcp-accept': tcpAcceptErrors,
      'prober-message': messages,
      'prober-request': requests,
    };
    const { reloads } = facts();
    return {
      queries: [
        { transport: 'udp', count: at(COUNTER.udp) },
        { transport: 'tcp', count: at(COUNTER.tcp) },
      ],
      types: COUNTED_TYPES.map((type, i) => ({ type, count: at(COUNTER.type + i) })),
      responses: responses(at),
      drops: Object.entries(drops).map(([reason, count]) => ({ reason, count })),
      forwardKept: at(COUNTER.forwardKept),
      probes: { ...resolver.outcomes },
      forwardKeptStale: at(COUNTER.forwardKeptStale),
      reports: { ...resolver.desk.counts },
      staleAnswers: at(COUNTER.stale),
      reloads: { ok: reloads.done, failed: reloads.refused },
      workerRestarts: server.restarts,
      snapshots: snapshots.readings(clock.now().wall),
      latency: {
        bounds: Array.from({ length: LATENCY_BUCKETS - 1 }, (_, i) => 2 ** i / 1e6),
        counts: Array.from({ length: LATENCY_BUCKETS }, (_, i) => at(COUNTER.latency + i)),
        sum: at(COUNTER.latencySum) / 1e6,
      },
    };
  }
}

function responses(at: (word: number) => number): { rcode: string; count: number }[] {
  const all: { rcode: string; count: number }[] = [];
  for (let code = 0; code < COUNTED_RCODES; code++) {
    const name = RCODES[code] ?? (code === BADVERS ? 'BADVERS' : undefined);
    if (name !== undefined) all.push({ rcode: name, count: at(COUNTER.rcode + code) });
  }
  return all;
}
