/**
 * The resolver without its rim: zones, verdicts and answers as a deterministic machine. It reads no clock,
 * opens nothing and starts no timer; daemon.ts feeds it in production and the scenario engine in tests.
 */
import type { EndpointExplanation, Explanation, ServiceStatus, ZoneStatus } from '../admin/documents.js';
import type { Config } from '../config/types.js';
import type { ProbeResult, Target } from '../prober/feed.js';
import type { Report } from '../registry/registry.js';
import type { BootMs, Instant } from '../system/clock.js';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
/** One line a state change, with a stable event name. */
export type Log = (level: LogLevel, event: string, fields: Readonly<Record<string, unknown>>) => void;

export interface ResolverEvents {
  readonly log: Log;
  /** The set of probe targets changed. */
  readonly targets: (add: readonly Target[], remove: readonly string[]) => void;
}

export declare class Resolver {
  constructor(config: Config, events: ResolverEvents, now: Instant);
  /** What a registry said about a zone. `registry` is its index in `zone.registries`. */
  report(zone: string, registry: number, report: Report, now: Instant): void;
  /** Facts from the prober, in any order; older than what is known are ignored. */
  results(results: readonly ProbeResult[], now: Instant): void;
  /** Runs every clock that is due: staleness, guard, verdict ages, keepTargets. */
  tick(now: Instant): void;
  /** When `tick` has to run next, Infinity when nothing is pending. */
  nextWake(): BootMs;
  /** Every probe target at present. */
  targets(): Target[];
  /** R30: the clocks parted, or the process was stopped. */
  clockGap(now: Instant): void;
  /** R9. Returns how many rows were let go. */
  accept(service: string, zone: string | undefined, now: Instant): number;
  reload(config: Config, now: Instant): void;
  zoneStatus(now: Instant): ZoneStatus[];
  services(now: Instant): ServiceStatus[];
  explain(name: string, type: string, now: Instant): Explanation;
  /** What the snapshot of a zone holds (R29); plain JSON data. */
  exportZone(zone: string, now: Instant): unknown;
  /** Takes a snapshot in. `trusted`: younger than snapshotTrust and of the same registry. */
  restoreZone(zone: string, data: unknown, trusted: boolean, now: Instant): void;
}
export type { EndpointExplanation };
