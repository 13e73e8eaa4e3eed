/** What the control thread and the sync worker say to each other. */
import type { SnapshotDelta, WrittenSnapshot } from '../catalog/snapshot-writer.js';
import type { Cidr, LimitsConfig, RegistryConfig, ZoneConfig } from '../config/types.js';
import type { LookUp } from '../registry/look-up.js';
import type { ListingFacts } from '../registry/packed-listings.js';
import type { Report } from '../registry/registry.js';
import type { HostFound } from '../registry/registry-hosts.js';
import type { SeenRevision } from '../registry/revision-memory.js';
import type { Ms } from '../system/clock.js';

/** A zone as far as syncing goes. */
export interface SyncZone {
  readonly name: string;
  readonly registries: readonly RegistryConfig[];
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  readonly naming: ZoneConfig['naming'];
  readonly datacenters: readonly string[];
}

export function syncZone(zone: ZoneConfig): SyncZone {
  const { name, registries, softTtl, limits, allowAddresses, naming, datacenters } = zone;
  return { name, registries, softTtl, limits, allowAddresses, naming, datacenters };
}

/** One registry of one zone. `identity` tells a report of a source that was since replaced by a reload. */
export interface SyncSource {
  readonly zone: string;
  readonly registry: number;
  readonly identity: string;
  /** Which loop of the worker: a reload may begin another for the same source. */
  readonly loop: number;
}

type BigReport = Extract<Report, { kind: 'list' | 'change' }>;
type WithoutServices<T> = T extends unknown ? Omit<T, 'services'> : never;
/** The last part of a list or change: all but its services, which came before it. */
export type Outline = WithoutServices<BigReport> & { readonly facts: ListingFacts };
export type SmallReport = Exclude<Report, BigReport>;

export interface SyncWorkerData {
  /** Where addresses of registries are remembered. */
  readonly hostsFile: string;
  readonly snapshotFolder: string;
  readonly machine: string | undefined;
}

/** R6: how far each registry was known to be, by its zone and its identity. */
export type SeenRevisions = Readonly<Record<string, Readonly<Record<string, SeenRevision>>>>;

export type ToSyncWorker =
  /** `restored`: names of zones that answer from a snapshot already (R3). */
  | {
      readonly op: 'zones';
      readonly zones: readonly SyncZone[];
      readonly restored: readonly string[];
      /** R33: services of zones on demand, most recently asked first. */
      readonly known: Readonly<Record<string, readonly string[]>>;
      readonly seen: SeenRevisions;
    }
  /** R33: of a zone on demand. */
  | { readonly op: 'know'; readonly zone: string; readonly add: readonly string[]; readonly drop: readonly string[] }
  | { readonly op: 'order'; readonly zone: string; readonly services: readonly string[] }
  | { readonly op: 'look-up'; readonly zone: string; readonly service: string }
  /** What a registry's host name is. */
  | { readonly op: 'host-found'; readonly host: string; readonly found: HostFound }
  | { readonly op: 'relist' }
  /** R3: the services of a zone that are asked most, the first first. */
  | { readonly op: 'most-asked'; readonly zone: string; readonly services: readonly string[] }
  /** R3: services of a zone that are asked while its registry seeks what changed. */
  | { readonly op: 'just-asked'; readonly zone: string; readonly services: readonly string[] }
  /** The part was taken: send the next. */
  | { readonly op: 'next'; readonly source: SyncSource }
  | { readonly op: 'snapshot'; readonly delta: SnapshotDelta }
  | { readonly op: 'flush'; readonly id: number; readonly within: Ms };

export type FromSyncWorker =
  | { readonly op: 'report'; readonly source: SyncSource; readonly report: SmallReport }
  /** Some services, packed. `first` begins a new report. */
  | { readonly op: 'part'; readonly source: SyncSource; readonly first: boolean; readonly services: Uint8Array }
  | { readonly op: 'outline'; readonly source: SyncSource; readonly first: boolean; readonly outline: Outline }
  /** The loop is stopped: nothing more of it is to come. */
  | { readonly op: 'ended'; readonly loop: number }
  | { readonly op: 'looked-up'; readonly source: SyncSource; readonly service: string; readonly found: LookUp }
  /** What is this host name of a registry? */
  | { readonly op: 'host'; readonly host: string }
  /** R3: a registry of the zone does not know yet what changed, or does again. */
  | { readonly op: 'seeks'; readonly source: SyncSource; readonly seeking: boolean }
  | { readonly op: 'watch-failed'; readonly source: SyncSource; readonly reason: string }
  /** The registry is asked with other credentials from now on. */
  | { readonly op: 'renewed'; readonly source: SyncSource; readonly files: readonly string[] }
  | { readonly op: 'snapshot-problem'; readonly zone: string; readonly reason: string | undefined }
  | { readonly op: 'snapshot-written'; readonly zone: string; readonly written: WrittenSnapshot }
  | { readonly op: 'flushed'; readonly id: number; readonly complete: boolean };
