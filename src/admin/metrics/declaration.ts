/** What a metric is made of. */
import type { StatusDocument } from '../documents.js';
import type { Latency } from '../latency-histogram.js';

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

export interface Reading {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface Scrape {
  readonly status: StatusDocument;
  readonly counters: CounterReadings;
}

/** One metric: declared once, read at each scrape. */
export interface Declaration {
  readonly name: string;
  readonly help: string;
  readonly kind: 'gauge' | 'counter';
  readonly labels?: readonly string[];
  readonly read: (scrape: Scrape) => readonly Reading[];
}

export const one = (value: number): Reading[] => [{ value }];
export const seconds = (ms: number) => ms / 1000;
export const flag = (on: boolean) => (on ? 1 : 0);
