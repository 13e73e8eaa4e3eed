/** The sync worker: the sync loops of all zones, and the writing of snapshots. Runs in a thread of its own. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { SnapshotWriter } from '../catalog/snapshot-writer.js';
import type { RegistryConfig } from '../config/types.js';
import { registryIdentity } from '../registry/identity.js';
import { openAdapter } from '../registry/open.js';
import { pack } from '../registry/packed-listings.js';
import type { Report } from '../registry/registry.js';
import { type HostFound, RegistryHosts } from '../registry/registry-hosts.js';
import { SyncLoop } from '../registry/sync.js';
import { bootClock } from '../system/boot-clock.js';
import type {
  FromSyncWorker,
  SeenRevisions,
  SyncSource,
  SyncWorkerData,
  SyncZone,
  ToSyncWorker,
} from './sync-messages.js';

interface RunningZone {
  /** What it was started with. */
  readonly settings: string;
  readonly loops: ReadonlyMap<number, SyncLoop>;
}

class SyncWorker {
  readonly #port: MessagePort;
  readonly #writer: SnapshotWriter;
  readonly #zones = new Map<string, RunningZone>();
  /** Loops that have not been stopped; the value continues one that waits for `next`. */
  readonly #live = new Map<number, () => void>();
  #lastLoop = 0;
  readonly #hosts: RegistryHosts;
  /** Host names that were asked for. */
  readonly #asked = new Map<string, (found: HostFound) => void>();

  constructor(port: MessagePort, { snapshotFolder, machine, hostsFile }: SyncWorkerData) {
    this.#port = port;
    this.#hosts = new RegistryHosts({
      file: hostsFile,
      ask: (host) =>
        new Promise((resolve) => {
          this.#asked.set(host, resolve);
          this.#send({ op: 'host', host });
        }),
    });
    this.#writer = new SnapshotWriter({
      folder: snapshotFolder,
      machine,
      onProblem: (zone, reason) => this.#send({ op: 'snapshot-problem', zone, reason }),
      onWritten: (zone, written) => this.#send({ op: 'snapshot-written', zone, written }),
    });
    port.on('message', (message: ToSyncWorker) => this.#take(message));
  }

  #take(message: ToSyncWorker): void {
    switch (message.op) {
      case 'zones':
        this.#setZones(message.zones, new Set(message.restored), message.known, message.seen);
        break;
      case 'know':
        this.#demanded(message.zone)?.loop.know(message.add, message.drop);
        break;
      case 'order':
        this.#demanded(message.zone)?.loop.adapter.onDemand?.order(message.services);
        break;
      case 'look-up':
        this.#lookUp(message.zone, message.service);
        break;
      case 'host-found':
        this.#asked.get(message.host)?.(message.found);
        this.#asked.delete(message.host);
        break;
      case 'relist':
        for (const { loops } of this.#zones.values()) for (const loop of loops.values()) loop.relist();
        break;
      case 'most-asked':
        for (const { adapter } of this.#zones.get(message.zone)?.loops.values() ?? []) {
          adapter.mostAsked?.(message.services);
        }
        break;
      case 'just-asked':
        for (const { adapter } of this.#zones.get(message.zone)?.loops.values() ?? []) {
          adapter.seeker?.justAsked(message.services);
        }
        break;
      case 'next':
        this.#live.get(message.source.loop)?.();
        break;
      case 'snapshot':
        this.#writer.take(message.delta);
        break;
      case 'flush':
        void this.#flush(message.id, message.within);
    }
  }

  async #flush(id: number, within: number): Promise<void> {
    const complete = await this.#writer.flush(within);
    this.#send({ op: 'flushed', id, complete });
  }

  /** Zones whose settings are as they were go on undisturbed. */
  #setZones(
    zones: readonly SyncZone[],
    restored: ReadonlySet<string>,
    known: Readonly<Record<string, readonly string[]>>,
    seen: SeenRevisions,
  ): void {
    const wanted = new Map(zones.map((zone) => [zone.name, JSON.stringify(zone)]));
    for (const [name, { settings, loops }] of this.#zones) {
      if (wanted.get(name) === settings) continue;
      for (const [id, loop] of loops) {
        loop.stop();
        const goOn = this.#live.get(id);
        this.#live.delete(id);
        goOn?.();
        this.#send({ op: 'ended', loop: id });
      }
      this.#zones.delete(name);
      if (!wanted.has(name)) this.#writer.forget(name);
    }
    for (const zone of zones) {
      if (this.#zones.has(zone.name)) continue;
      const loops = new Map(zone.registries.map((config, index) => this.#loop(zone, config, index, seen[zone.name])));
      this.#zones.set(zone.name, { settings: JSON.stringify(zone), loops });
      this.#demanded(zone.name)?.loop.adapter.onDemand?.order(known[zone.name] ?? []);
      for (const loop of loops.values()) loop.start(restored.has(zone.name));
    }
  }

  /** A registry on demand is the only one of its zone. */
  #demanded(zone: string): { readonly loop: SyncLoop; readonly id: number } | undefined {
    for (const [id, loop] of this.#zones.get(zone)?.loops ?? []) return { loop, id };
    return undefined;
  }

  /** Of a zone that has gone meanwhile nobody waits for it. */
  #lookUp(zone: string, service: string): void {
    const demanded = this.#demanded(zone);
    if (demanded === undefined) return;
    const { loop, id } = demanded;
    const source = { zone, registry: 0, identity: loop.adapter.identity, loop: id };
    void loop.lookUp(service, (found) => this.#send({ op: 'looked-up', source, service, found }));
  }

  #loop(
    zone: SyncZone,
    config: RegistryConfig,
    registry: number,
    seenBefore: SeenRevisions[string] = {},
  ): [number, SyncLoop] {
    const seen = seenBefore[registryIdentity(config)];
    const adapter = openAdapter(config, { ...zone, lookup: this.#hosts.lookup, seen });
    const id = ++this.#lastLoop;
    this.#live.set(id, () => undefined);
    const source = { zone: zone.name, registry, identity: adapter.identity, loop: id };
    adapter.seeker?.onSeek((seeking) => this.#send({ op: 'seeks', source, seeking }));
    const loop = new SyncLoop(adapter, {
      clock: bootClock(),
      random: Math.random,
      limits: zone.limits,
      emit: (report) => this.#report(source, report),
      watchFailed: (reason) => this.#send({ op: 'watch-failed', source, reason }),
      renewed: (files) => this.#send({ op: 'renewed', source, files }),
      seen,
    });
    return [id, loop];
  }

  /** Hands a report over, a large one in parts: the control thread asks for each. */
  async #report(source: SyncSource, report: Report): Promise<void> {
    if (report.kind !== 'list' && report.kind !== 'change') {
      this.#send({ op: 'report', source, report });
      return;
    }
    const { services, ...outline } = report;
    let first = true;
    const { parts, facts } = pack(services);
    for (const part of parts) {
      const taken = new Promise<void>((resolve) => this.#live.set(source.loop, resolve));
      this.#send({ op: 'part', source, first, services: part });
      first = false;
      await taken;
      if (!this.#live.has(source.loop)) return;
    }
    this.#send({ op: 'outline', source, first, outline: { ...outline, facts } });
  }

  #send(message: FromSyncWorker): void {
    this.#port.postMessage(message);
  }
}

if (parentPort !== null) new SyncWorker(parentPort, workerData as SyncWorkerData);
