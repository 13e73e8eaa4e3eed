/** The metrics, by prom-client: every name declared once, all values read when they are asked for. */
import { createRequire } from 'node:module';
import type { StatusDocument } from './documents.js';
import { LatencyHistogram } from './latency-histogram.js';
import { ANSWER_METRICS } from './metrics/answers.js';
import type { CounterReadings, Declaration, Scrape } from './metrics/declaration.js';
import { FORWARD_METRICS } from './metrics/forward.js';
import { HEALTH_METRICS } from './metrics/health.js';
import { PROCESS_METRICS } from './metrics/process.js';
import { ZONE_METRICS } from './metrics/zones.js';

// By require, which is over when it returns: while a CommonJS package is being imported, another import of it may see half.
const { Counter, Gauge, Registry } = createRequire(import.meta.url)('prom-client') as typeof import('prom-client');

export interface MetricsSource {
  status(): StatusDocument;
  counters(): CounterReadings;
}

const DECLARATIONS: readonly Declaration[] = [
  ...PROCESS_METRICS,
  ...ANSWER_METRICS,
  ...ZONE_METRICS,
  ...HEALTH_METRICS,
  ...FORWARD_METRICS,
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
