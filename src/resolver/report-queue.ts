/**
 * Reports on their way into the resolver, a zone's one after the other. A large one is taken in in parts, with time for
 * everything else between, and waits until the zone is restored.
 */
import type { Report } from '../registry/registry.js';
import type { Instant } from '../system/clock.js';
import type { Resolver } from './resolver.js';

/** Some milliseconds' worth. */
const ROWS_AT_ONCE = 1_000;

interface Waiting {
  readonly registry: number;
  readonly report: Report;
}

export interface ReportQueueOptions {
  readonly resolver: Resolver;
  /** Lays around whatever touches the resolver. */
  readonly at: (task: (now: Instant) => void) => void;
  /** A registry's first word was a failure. */
  readonly firstFailed: (zone: string, now: Instant) => void;
  readonly later?: (task: () => void) => void;
}

export class ReportQueue {
  readonly #options: ReportQueueOptions;
  readonly #later: (task: () => void) => void;
  /** By zone; the zones that have something in work. */
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(options: ReportQueueOptions) {
    this.#options = options;
    this.#later = options.later ?? setImmediate;
  }

  add(zone: string, registry: number, report: Report): void {
    const waiting = this.#waiting.get(zone);
    if (waiting !== undefined) {
      waiting.push({ registry, report });
      return;
    }
    const first = [{ registry, report }];
    this.#waiting.set(zone, first);
    this.#begin(zone, first);
  }

  /** Takes in all that waits, of one zone or of all, now: what it is about is to change. */
  flush(only?: string): void {
    for (const [zone, waiting] of this.#waiting) {
      if (only !== undefined && zone !== only) continue;
      this.#waiting.delete(zone);
      this.#options.at((now) => void this.#options.resolver.zone(zone)?.finish(now));
      for (const next of waiting.splice(0)) {
        this.#take(zone, next);
        this.#options.at((now) => void this.#options.resolver.goOn(zone, Number.POSITIVE_INFINITY, now));
      }
    }
  }

  #begin(zone: string, waiting: Waiting[]): void {
    for (;;) {
      if (this.#options.resolver.zone(zone)?.busy === true) {
        this.#later(() => this.#begin(zone, waiting));
        return;
      }
      const next = waiting.shift();
      if (next === undefined) {
        if (this.#waiting.get(zone) === waiting) this.#waiting.delete(zone);
        return;
      }
      if (!this.#take(zone, next)) continue;
      this.#later(() => this.#goOn(zone, waiting));
      return;
    }
  }

  #goOn(zone: string, waiting: Waiting[]): void {
    let more = false;
    const { at, resolver } = this.#options;
    at((now) => {
      more = resolver.goOn(zone, ROWS_AT_ONCE, now);
    });
    if (more) this.#later(() => this.#goOn(zone, waiting));
    else this.#begin(zone, waiting);
  }

  /** Returns whether there is more of it. */
  #take(zone: string, { registry, report }: Waiting): boolean {
    const { at, resolver, firstFailed } = this.#options;
    let more = false;
    at((now) => {
      const first = resolver.zone(zone)?.sources.all[registry]?.from === 'none';
      resolver.begin(zone, registry, report, now);
      more = resolver.goOn(zone, ROWS_AT_ONCE, now);
      if (first && (report.kind === 'unreachable' || report.kind === 'unbelievable')) firstFailed(zone, now);
    });
    return more;
  }
}
