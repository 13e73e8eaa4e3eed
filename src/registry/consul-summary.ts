/**
 * How many instances each service has, and on which nodes, in one answer: what Consul tells its own user interface. It
 * is no part of what Consul documents, so it is never taken for data: it says which services have to be read, and where
 * it cannot be had that is found out in longer ways.
 */
import type { Ms } from '../system/clock.js';
import { CostPace } from './consul-cost-pace.js';

export const SUMMARY_PATH = 'internal/ui/services';

/** Where it cannot be had, it is tried again after so long. */
const RETRY_MS: Ms = 300_000;
/** A change among many is answered within a second. */
const COST_SHARE = 1 / 3;

export interface ServiceSummary {
  readonly name: string;
  readonly instances: number;
  /** In any order, each once. */
  readonly nodes: readonly string[];
}

/** Without services of peers. Undefined when it is none of Consul's. */
export function readSummary(body: unknown): ServiceSummary[] | undefined {
  if (!Array.isArray(body)) return undefined;
  const summaries: ServiceSummary[] = [];
  for (const value of body as (Record<string, unknown> | null)[]) {
    const { Name: name, InstanceCount: instances, Nodes, PeerName = '' } = value ?? {};
    const nodes = Nodes ?? [];
    if (typeof name !== 'string' || typeof instances !== 'number' || !Array.isArray(nodes)) return undefined;
    if (PeerName === '') summaries.push({ name, instances, nodes });
  }
  return summaries;
}

/** When it is read. Pure: time is passed in. */
export class SummaryPace {
  readonly #pace = new CostPace(COST_SHARE);
  #failedAt = Number.NEGATIVE_INFINITY;

  took(began: Ms, now: Ms): void {
    this.#pace.took(began, now);
  }

  failed(now: Ms): void {
    this.#failedAt = now;
  }

  /** False where it cannot be had. */
  isOfUse(now: Ms): boolean {
    return now - this.#failedAt >= RETRY_MS;
  }

  due(wanted: Ms): Ms {
    return Math.max(wanted, this.#pace.due);
  }
}
