/** The control thread's end of the sync worker. Needs nothing but node: itself; the worker loads the rest. */
import { Worker } from 'node:worker_threads';
import type { SnapshotDelta, WrittenSnapshot } from '../catalog/snapshot-writer.js';
import type { ZoneConfig } from '../config/types.js';
import { nextBackoff } from '../registry/backoff.js';
import { registryIdentity } from '../registry/identity.js';
import type { LookUp } from '../registry/look-up.js';
import { PackedListings } from '../registry/packed-listings.js';
import type { Report } from '../registry/registry.js';
import type { HostFound } from '../registry/registry-hosts.js';
import type { Ms } from '../system/clock.js';
import type { Log } from './resolver.js';
import {
  type FromSyncWorker,
  type SeenRevisions,
  type SyncSource,
  type SyncWorkerData,
  type SyncZone,
  syncZone,
  type ToSyncWorker,
} from './sync-messages.js';

export interface SyncLinkOptions {
  /** Made when it is missing. */
  readonly snapshotFolder: string;
  readonly machine: string | undefined;
  readonly hostsFile: string;
  /** Host names of registries (D51). Never rejects. */
  readonly hostOf?: (host: string) => Promise<HostFound>;
  readonly log: Log;
  /** `registry` is the index in the zone's `registries`. */
  readonly onReport: (zone: string, registry: number, report: Report) => void;
  /** R33: what a look-up found, after `lookUp`. */
  readonly onLookedUp?: (zone: string, service: string, found: LookUp) => void;
  /** R3: whether a registry seeks what changed: what is asked meanwhile may be told by `justAsked`. */
  readonly onSeeks?: (source: SyncSource, seeking: boolean) => void;
  /** R33: what zones on demand know, most recently asked first: for a worker that knows nothing yet. */
  readonly known?: () => Readonly<Record<string, readonly string[]>>;
  /** R6: how far the registries were, by this process or the one before. */
  readonly seen?: () => SeenRevisions;
  /** A zone's snapshot cannot be written: said once, and once, with undefined, when it can again. */
  readonly onSnapshotProblem: (zone: string, reason: string | undefined) => void;
  readonly onSnapshotWritten?: (zone: string, written: WrittenSnapshot) => void;
  /** The worker is new and knows nothing: each zone's next delta has to be full. Also called by `start`. */
  readonly onSnapshotWanted: () => void;
  /** For tests. */
  readonly workerUrl?: URL;
}

const RESPAWN = { base: 100, cap: 10_000 };
/** A worker that ran so long was a good one. */
const GOOD_RUN_MS: Ms = 60_000;
const TERMINATE_MS: Ms = 500;
const NOBODY: HostFound = { kind: 'nobody' };

export class SyncLink {
  readonly #options: SyncLinkOptions;
  #zones: readonly SyncZone[] = [];
  #restored: readonly string[] = [];
  #worker: Worker | undefined;
  #respawn: NodeJS.Timeout | undefined;
  #pause: Ms | undefined;
  #stopped = false;
  /** Services of reports that are not complete yet, packed, by the loop that sends them. */
  readonly #parts = new Map<number, Uint8Array[]>();
  /** What was told of what is asked, by zone. */
  readonly #asked = new Map<string, string>();
  readonly #flushes = new Map<number, (complete: boolean) => void>();
  #lastFlush = 0;

  constructor(options: SyncLinkOptions) {
    this.#options = options;
  }

  /** @param restored names of zones that answer from a snapshot already */
  start(zones: readonly ZoneConfig[], restored: readonly string[] = []): void {
    this.#zones = zones.map(syncZone);
    this.#restored = restored;
    this.#spawn();
  }

  /** Zones whose registries and limits are as they were go on undisturbed; a changed one is listed anew. */
  reload(zones: readonly ZoneConfig[]): void {
    this.#zones = zones.map(syncZone);
    // A loop that begins anew has been told nothing.
    this.#asked.clear();
    this.#post({ op: 'zones', zones: this.#zones, restored: [], ...this.#memories() });
  }

  /** R33: asks the registry of a zone for a service; `onLookedUp` is called, unless the worker dies. */
  lookUp(zone: string, service: string): void {
    this.#post({ op: 'look-up', zone, service });
  }

  /** R33: services that a zone follows from now on, and no more. */
  know(zone: string, add: readonly string[], drop: readonly string[]): void {
    this.#post({ op: 'know', zone, add, drop });
  }

  /** R33: all that a zone knows, most recently asked first. */
  order(zone: string, services: readonly string[]): void {
    this.#post({ op: 'order', zone, services });
  }

  /** R30: every zone is read and listed again. */
  relist(): void {
    this.#post({ op: 'relist' });
  }

  /** R3: the services of a zone that are asked most, the first first. */
  mostAsked(zone: string, services: readonly string[]): void {
    const told = services.join('\n');
    if (this.#asked.get(zone) === told) return;
    this.#asked.set(zone, told);
    this.#post({ op: 'most-asked', zone, services });
  }

  /** R3: services of a zone that are being asked just now. */
  justAsked(zone: string, services: readonly string[]): void {
    this.#post({ op: 'just-asked', zone, services });
  }

  snapshot(delta: SnapshotDelta): void {
    this.#post({ op: 'snapshot', delta });
  }

  /** Writes all that `snapshot` was given. False when that was not done in time. */
  flush(within: Ms): Promise<boolean> {
    if (this.#worker === undefined) return Promise.resolve(false);
    const id = ++this.#lastFlush;
    return new Promise((resolve) => {
      const end = (complete: boolean): void => {
        clearTimeout(timer);
        this.#flushes.delete(id);
        resolve(complete);
      };
      const timer = setTimeout(end, within + 100, false);
      this.#flushes.set(id, end);
      this.#post({ op: 'flush', id, within });
    });
  }

  /**
   * Ends the worker. A thread that waits for a frozen disk cannot be ended: then this returns after half a second
   * and false, and only a signal ends the process.
   */
  async stop(): Promise<boolean> {
    this.#stopped = true;
    clearTimeout(this.#respawn);
    const worker = this.#worker;
    this.#worker = undefined;
    for (const end of this.#flushes.values()) end(false);
    if (worker === undefined) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(resolve, TERMINATE_MS, false);
    });
    const ended = await Promise.race([worker.terminate().then(() => true), late]);
    clearTimeout(timer);
    return ended;
  }

  #spawn(): void {
    const { snapshotFolder, machine, hostsFile, workerUrl } = this.#options;
    const data: SyncWorkerData = { snapshotFolder, machine, hostsFile };
    const started = performance.now();
    const worker = new Worker(workerUrl ?? new URL('./sync-worker.js', import.meta.url), { workerData: data });
    this.#worker = worker;
    this.#parts.clear();
    this.#asked.clear();
    let reason = '';
    worker.on('message', (message: FromSyncWorker) => {
      if (this.#worker === worker) this.#take(message);
    });
    worker.on('error', (error) => {
      reason = error instanceof Error ? error.message : String(error);
    });
    worker.once('exit', (code) => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      this.#died(reason === '' ? `exit code ${code}` : reason, performance.now() - started);
    });
    this.#post({ op: 'zones', zones: this.#zones, restored: this.#restored, ...this.#memories() });
    this.#restored = [];
    this.#options.onSnapshotWanted();
  }

  #died(reason: string, ran: Ms): void {
    for (const end of this.#flushes.values()) end(false);
    if (this.#stopped) return;
    this.#pause = nextBackoff(ran >= GOOD_RUN_MS ? undefined : this.#pause, RESPAWN, Math.random);
    const restartInMs = Math.round(this.#pause);
    this.#options.log('error', 'sync-worker-died', { reason, restartInMs });
    this.#respawn = setTimeout(() => this.#spawn(), restartInMs);
  }

  /** What a worker, or a loop in it, that begins anew cannot know. */
  #memories(): Pick<Extract<ToSyncWorker, { op: 'zones' }>, 'known' | 'seen'> {
    return { known: this.#options.known?.() ?? {}, seen: this.#options.seen?.() ?? {} };
  }

  #post(message: ToSyncWorker): void {
    this.#worker?.postMessage(message);
  }

  #take(message: FromSyncWorker): void {
    switch (message.op) {
      case 'report':
        this.#report(message.source, message.report);
        break;
      case 'part': {
        this.#collect(message.source, message.first).push(message.services);
        this.#post({ op: 'next', source: message.source });
        break;
      }
      case 'outline': {
        const parts = this.#collect(message.source, message.first);
        this.#parts.delete(message.source.loop);
        const { facts, ...outline } = message.outline;
        this.#report(message.source, { ...outline, services: new PackedListings({ parts, facts }) });
        break;
      }
      case 'ended':
        this.#parts.delete(message.loop);
        break;
      case 'looked-up':
        if (this.#isConfigured(message.source)) {
          this.#options.onLookedUp?.(message.source.zone, message.service, message.found);
        }
        break;
      case 'host': {
        const { host } = message;
        void (this.#options.hostOf?.(host) ?? Promise.resolve(NOBODY)).then((found) =>
          this.#post({ op: 'host-found', host, found }),
        );
        break;
      }
      case 'seeks':
        this.#options.onSeeks?.(message.source, message.seeking);
        break;
      case 'watch-failed': {
        const { zone, identity } = message.source;
        this.#options.log('warn', 'registry-watch-failed', { zone, registry: identity, reason: message.reason });
        break;
      }
      case 'renewed': {
        const { zone, identity } = message.source;
        this.#options.log('info', 'registry-credentials-changed', { zone, registry: identity, files: message.files });
        break;
      }
      case 'snapshot-problem':
        this.#options.onSnapshotProblem(message.zone, message.reason);
        break;
      case 'snapshot-written':
        this.#options.onSnapshotWritten?.(message.zone, message.written);
        break;
      case 'flushed':
        this.#flushes.get(message.id)?.(message.complete);
    }
  }

  /** The services of the report under way. */
  #collect({ loop }: SyncSource, first: boolean): Uint8Array[] {
    let parts = first ? undefined : this.#parts.get(loop);
    if (parts === undefined) this.#parts.set(loop, (parts = []));
    return parts;
  }

  /** Drops what comes from a registry that the zone no longer has. */
  #report(source: SyncSource, report: Report): void {
    if (this.#isConfigured(source)) this.#options.onReport(source.zone, source.registry, report);
  }

  #isConfigured({ zone, registry, identity }: SyncSource): boolean {
    const config = this.#zones.find(({ name }) => name === zone)?.registries[registry];
    return config !== undefined && registryIdentity(config) === identity;
  }
}
