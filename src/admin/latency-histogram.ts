/** A histogram whose buckets are counted elsewhere: prom-client's own can only count by itself. */
import type { Metric, Registry } from 'prom-client';

export interface Latency {
  /** Upper bounds in seconds, ascending, without infinity. */
  readonly bounds: readonly number[];
  /** How many fell into each bucket; one more than bounds, the last for what is beyond them. */
  readonly counts: readonly number[];
  /** Of all of them, in seconds. */
  readonly sum: number;
}

interface Value {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

export class LatencyHistogram {
  readonly name: string;
  readonly help: string;
  readonly #read: () => Latency | undefined;

  constructor(name: string, help: string, read: () => Latency | undefined) {
    this.name = name;
    this.help = help;
    this.#read = read;
  }

  addTo(registry: Registry): void {
    registry.registerMetric(this as unknown as Metric);
  }

  /** What prom-client asks of a metric when it writes. */
  async get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: Value[] }> {
    return { name: this.name, help: this.help, type: 'histogram', aggregator: 'sum', values: this.#values() };
  }

  #values(): Value[] {
    const latency = this.#read();
    if (!latency) return [];
    let sum = 0;
    const buckets = latency.counts.map((count, i): Value => {
      sum += count;
      return { metricName: `${this.name}_bucket`, labels: { le: latency.bounds[i] ?? '+Inf' }, value: sum };
    });
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels: {}, value: latency.sum },
      { metricName: `${this.name}_count`, labels: {}, value: sum },
    ];
  }
}
