/** Writing snapshots as the zones change (R29). Lives in the sync worker, so that no query waits for a disk. */
import { LATE, OneFlight } from '../registry/one-flight.js';
import { removeTemporaries, replaceFile } from '../system/atomic-file.js';
import type { Ms, WallMs } from '../system/clock.js';
import { makeFolderAsync } from '../system/folder.js';
import { SnapshotBody } from './snapshot-body.js';
import { encodeSnapshot, snapshotPaths } from './snapshot-format.js';

/**
 * What changed in a zone since the delta before. One without changes says that the zone is still in force, and
 * makes its wall time new.
 */
export interface SnapshotDelta {
  readonly zone: string;
  /** See `zoneIdentity`. */
  readonly registry: string;
  readonly wall: WallMs;
  /** Grows from delta to delta: which of them a file has, whatever is done to the clock. */
  readonly number: number;
  /** True: `put` is all there is. The first delta of a zone has to be full; others before it are dropped. */
  readonly full: boolean;
  /** JSON text; absent: as before. */
  readonly meta?: string;
  /** Services by name, as JSON text. */
  readonly put: readonly (readonly [name: string, json: string])[];
  readonly drop: readonly string[];
  /** More of the same is to come: nothing is written before it is there. */
  readonly more?: boolean;
}

/** A file of a zone that was written. */
export interface WrittenSnapshot extends Pick<SnapshotDelta, 'wall' | 'number'> {
  readonly bytes: number;
}

export interface SnapshotWriterOptions {
  readonly folder: string;
  readonly machine: string | undefined;
  /** Said once when a zone's snapshot cannot be written, and once, with undefined, when it can again. */
  readonly onProblem: (zone: string, reason: string | undefined) => void;
  readonly onWritten?: (zone: string, written: WrittenSnapshot) => void;
  /** Shortest time between two writes of a zone, 1 s by default; tests use less. */
  readonly leastPause?: Ms;
}

const LEAST_PAUSE_MS: Ms = 1000;
const BYTES_PER_MS = 1000;

/** R29: how long after the writing of so many bytes a zone is written again at the earliest, beside the least pause. */
export function pauseAfter(bytes: number): Ms {
  return bytes / BYTES_PER_MS;
}

const RETRY_CAP_MS: Ms = 60_000;
const WRITE_DEADLINE_MS: Ms = 10_000;

interface ZoneState {
  readonly services: SnapshotBody;
  registry: string;
  wall: WallMs;
  number: number;
  meta: string;
  dirty: boolean;
  /** A part of what changed is still to come. */
  partial: boolean;
  /** Monotonic; not written before. */
  notBefore: Ms;
  failures: number;
  problem: string | undefined;
}

export class SnapshotWriter {
  readonly #options: SnapshotWriterOptions;
  readonly #leastPause: Ms;
  readonly #zones = new Map<string, ZoneState>();
  readonly #flight = new OneFlight();
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;

  constructor(options: SnapshotWriterOptions) {
    this.#options = options;
    this.#leastPause = options.leastPause ?? LEAST_PAUSE_MS;
  }

  take(delta: SnapshotDelta): void {
    let zone = this.#zones.get(delta.zone);
    if (zone === undefined) {
      if (!delta.full) return;
      const start = { notBefore: 0, failures: 0, problem: undefined, dirty: false, partial: false, meta: 'null' };
      const { registry, wall, number } = delta;
      zone = { services: new SnapshotBody(), registry, wall, number, ...start };
      this.#zones.set(delta.zone, zone);
      void removeTemporaries(snapshotPaths(this.#options.folder, delta.zone).current);
    }
    if (delta.full) zone.services.clear();
    for (const name of delta.drop) zone.services.drop(name);
    for (const [name, json] of delta.put) zone.services.put(name, json);
    if (delta.meta !== undefined) zone.meta = delta.meta;
    zone.registry = delta.registry;
    zone.wall = delta.wall;
    zone.number = delta.number;
    zone.dirty = true;
    zone.partial = delta.more === true;
    this.#schedule();
  }

  /** The zone is no longer ours to write. Its files stay: should it come back, their age is judged then. */
  forget(zone: string): void {
    this.#zones.delete(zone);
  }

  /** Writes all that is not yet written, now. False when that was not done within `ms`. */
  async flush(ms: Ms): Promise<boolean> {
    const until = performance.now() + ms;
    while (this.#dirty() && performance.now() < until) {
      for (const zone of this.#zones.values()) zone.notBefore = 0;
      const tried = this.#work();
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, until - performance.now());
      });
      await Promise.race([tried, timeout]);
      clearTimeout(timer);
      if ([...this.#zones.values()].every((zone) => !zone.dirty || zone.failures > 0)) break;
    }
    return !this.#dirty();
  }

  /** Ends all timers. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#zones.clear();
  }

  #dirty(): boolean {
    return [...this.#zones.values()].some(isDue);
  }

  #schedule(): void {
    if (this.#working !== undefined) return;
    clearTimeout(this.#timer);
    const due = [...this.#zones.values()].filter(isDue).map((zone) => zone.notBefore);
    if (due.length === 0) return;
    this.#timer = setTimeout(() => void this.#work(), Math.max(0, Math.min(...due) - performance.now()));
  }

  /** Writes every zone that is due, one after the other: a frozen disk holds one thread. */
  #work(): Promise<void> {
    this.#working ??= this.#writeDue().finally(() => {
      this.#working = undefined;
      this.#schedule();
    });
    return this.#working;
  }

  async #writeDue(): Promise<void> {
    for (const [name, zone] of [...this.#zones]) {
      if (isDue(zone) && zone.notBefore <= performance.now()) await this.#write(name, zone);
    }
  }

  async #write(name: string, zone: ZoneState): Promise<void> {
    const { folder, machine } = this.#options;
    // As it is now, all of it: more may come in while the disk works.
    const { wall, number, meta } = zone;
    zone.dirty = false;
    const about = { machine: machine ?? null, zone: name, registry: zone.registry, wall };
    const lines = zone.services.freeze();
    const { bytes } = lines;
    const { current, previous } = snapshotPaths(folder, name);
    let reason: string | undefined;
    try {
      const written = await this.#flight.run(async () => {
        await makeFolderAsync(folder, 0o700);
        await replaceFile(current, encodeSnapshot(about, meta, lines), { mode: 0o600, keepAs: previous });
      }, WRITE_DEADLINE_MS);
      if (written === LATE) reason = `not written within ${WRITE_DEADLINE_MS / 1000} s`;
    } catch (error) {
      reason = error instanceof Error ? error.message : String(error);
    }
    zone.failures = reason === undefined ? 0 : zone.failures + 1;
    zone.dirty ||= reason !== undefined;
    const pace = Math.max(this.#leastPause, pauseAfter(bytes));
    zone.notBefore = performance.now() + Math.min(RETRY_CAP_MS, pace * 2 ** Math.max(0, zone.failures - 1));
    if (reason === undefined) this.#options.onWritten?.(name, { wall, number, bytes });
    if ((reason === undefined) !== (zone.problem === undefined)) this.#options.onProblem(name, reason);
    zone.problem = reason;
  }
}

/** There is something to write, and it is complete. */
function isDue({ dirty, partial }: ZoneState): boolean {
  return dirty && !partial;
}
