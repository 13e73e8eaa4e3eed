import type { Target } from '../prober/feed.js';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
/** One line a state change, with a stable event name. */
export type Log = (level: LogLevel, event: string, fields: Readonly<Record<string, unknown>>) => void;

export interface ResolverEvents {
  readonly log: Log;
  /** The set of probe targets changed. */
  readonly targets: (add: readonly Target[], remove: readonly string[]) => void;
  /** R20: targets, by key, that are to be probed at once. */
  readonly probeNow: (keys: readonly string[]) => void;
  /** R28: these host names are to be looked up; `Resolver.resolved` takes what is found. */
  readonly resolve?: (hosts: readonly string[]) => void;
  /** R33: this service of a zone, by its key, is to be looked up; `Resolver.lookedUp` takes what is found. */
  readonly lookUp?: (zone: string, service: string) => void;
  /** R33: services that the zone's registry is to follow from now on, and no more. */
  readonly know?: (zone: string, add: readonly string[], drop: readonly string[]) => void;
}
