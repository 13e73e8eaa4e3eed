/**
 * The file registry: one file, or a directory of `*.yaml`, `*.yml` and `*.json` whose services are put together.
 * A file that cannot be read or believed takes nothing away: in a directory its last good contents stand, and
 * nothing that is missing counts as gone, until it is mended or removed.
 */
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cidr, FileRegistryConfig, FilterConfig, LimitsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Adapter, Observation, PollContext } from './adapter.js';
import { watchFolder } from './file-watch.js';
import { registryIdentity } from './identity.js';
import { mergeContents } from './merge.js';
import { LATE, OneFlight } from './one-flight.js';
import type { SourcePace } from './pace.js';
import { factsOf } from './packed-listings.js';
import type { TargetLabels } from './services-file.js';
import { look, STILL_MS, systemReason } from './settled-file.js';
import { DISK_DEADLINE_MS, type Fault, type FileClocks, frozen, unreadable, WatchedFile } from './watched-file.js';

/** A file lives for ever (R7). */
const EPOCH = 'file';
/** For as long as files keep changing under our eyes, at most. */
const UNSETTLED_MS: Ms = 5000;
const MAX_FILES = 10_000;
/** Files that are looked at together: one by one, thousands would take a good part of a core. */
const LOOKS = 64;
/** A file of so many endpoints is read again, should its contents be wanted again, and not kept in memory. */
const LARGE_ROWS = 20_000;

export interface FileRegistryOptions {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  /** Of other services nothing is read. */
  readonly filter?: FilterConfig | undefined;
  /** For tests. */
  readonly clocks?: FileClocks;
}

export class FileRegistry implements Adapter {
  readonly identity: string;
  readonly interval: Ms;
  readonly deadline: Ms = 300_000;
  readonly pace: SourcePace;
  readonly #path: string;
  readonly #targets: TargetLabels | undefined;
  readonly #options: FileRegistryOptions;
  readonly #clocks: FileClocks;
  readonly #flight = new OneFlight();
  readonly #files = new Map<string, WatchedFile>();
  #isFolder = false;
  /** What was read differs from what was reported. */
  #news = true;
  #watch: { readonly folder: string; readonly close: () => void } | undefined;
  #wake: (() => void) | undefined;
  #watchFailed: (reason: string) => void = () => undefined;

  constructor(config: FileRegistryConfig, options: FileRegistryOptions) {
    this.identity = registryIdentity(config);
    this.interval = Math.min(5000, Math.max(100, options.softTtl / 2));
    const backoff = { base: Math.min(100, this.interval), cap: this.interval };
    this.pace = { backoff, firstSpread: 0, recoverySpread: 0 };
    this.#path = config.path;
    this.#targets = config.targets;
    this.#options = options;
    this.#clocks = options.clocks ?? { mono: () => performance.now(), wall: () => Date.now() };
  }

  watch(wake: () => void, failed: (reason: string) => void): void {
    this.#wake = wake;
    this.#watchFailed = failed;
  }

  close(): void {
    this.#wake = undefined;
    this.#watch?.close();
    this.#watch = undefined;
  }

  async poll({ signal, fresh }: PollContext): Promise<Observation> {
    let fault = await this.#refresh(signal);
    if (fault === undefined && (fresh || this.#news) && this.#letGo()) {
      for (const file of this.#files.values()) file.readAgain();
      fault = await this.#refresh(signal);
    }
    if (fault !== undefined) return fault;
    const observation = this.#observe(fresh);
    if (observation.kind !== 'unreachable') await this.#keepWatch();
    return observation;
  }

  /** Examines all files until they stand still. */
  async #refresh(signal: AbortSignal): Promise<Fault | undefined> {
    const until = this.#clocks.mono() + UNSETTLED_MS;
    for (;;) {
      const paths = await this.#list();
      if (!Array.isArray(paths)) return paths;
      const moving: WatchedFile[] = [];
      for (let from = 0; from < paths.length; from += LOOKS) {
        const some = paths.slice(from, from + LOOKS);
        const looks = await this.#flight.run(() => Promise.all(some.map(look)), DISK_DEADLINE_MS);
        if (looks === LATE) return frozen(this.#path);
        for (const [i, path] of some.entries()) {
          const file = this.#file(path);
          const examined = await file.examine(this.#flight, looks[i]);
          if (signal.aborted) return unreadable(this.#path, 'not read in time');
          if (examined === 'frozen') return frozen(path);
          if (examined === 'changed') this.#news = true;
          if (examined === 'unsettled') moving.push(file);
        }
      }
      if (moving.length === 0) return undefined;
      if (this.#clocks.mono() >= until) {
        for (const file of moving) file.giveUp(`written to for ${UNSETTLED_MS / 1000} s without a pause`);
        this.#news = true;
        return undefined;
      }
      await sleep(STILL_MS + 5);
    }
  }

  /** The paths of the registry's files; those that have left are forgotten. */
  async #list(): Promise<string[] | Fault> {
    const looked = await this.#flight.run(() => look(this.#path), DISK_DEADLINE_MS);
    if (looked === LATE) return frozen(this.#path);
    const isFolder = looked.kind === 'folder' || (looked.kind !== 'file' && this.#isFolder);
    if (isFolder !== this.#isFolder) {
      this.#files.clear();
      this.#isFolder = isFolder;
    }
    if (!isFolder) return [this.#path];
    const names = await this.#flight.run(() => namesIn(this.#path), DISK_DEADLINE_MS);
    if (names === LATE) return frozen(this.#path);
    if (!Array.isArray(names)) return names;
    if (names.length > MAX_FILES)
      return { kind: 'unbelievable', reason: `${this.#path}: more than ${MAX_FILES} files` };
    const paths = names.map((name) => join(this.#path, name));
    const present = new Set(paths);
    const missing = [...this.#files.values()].filter((file) => !present.has(file.path));
    for (const file of missing) {
      // Gone for a moment only, it stays.
      if ((await file.examine(this.#flight)) === 'frozen') return frozen(file.path);
      if (!file.gone) paths.push(file.path);
      else if (this.#files.delete(file.path)) this.#news = true;
    }
    if (paths.length > 0) return paths;
    const hint = 'a file with `services: {}` says that there are none';
    return { kind: 'unbelievable', reason: `${this.#path}: no *.yaml, *.yml or *.json in this directory; ${hint}` };
  }

  #file(path: string): WatchedFile {
    let file = this.#files.get(path);
    if (file === undefined) {
      const { limits, allowAddresses, filter } = this.#options;
      const targets = this.#targets === undefined ? {} : { targets: this.#targets };
      const options = { file: path, limits, allowAddresses, filter, ...targets };
      file = new WatchedFile(path, options, this.#clocks);
      this.#files.set(path, file);
    }
    return file;
  }

  #observe(fresh: boolean): Observation {
    const files = [...this.#files.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
    const faults = files.flatMap((file) => (file.fault === undefined ? [] : [file.fault]));
    const good = files.flatMap((file) => file.good ?? []);
    if (faults[0] !== undefined && (!this.#isFolder || good.length === 0)) return faults[0];
    const doubt = faults[0]?.reason ?? good.find((contents) => contents.doubt !== undefined)?.doubt;
    if (!this.#news && !fresh) {
      return doubt === undefined ? { kind: 'confirmed' } : { kind: 'unbelievable', reason: doubt };
    }
    // It could not be read again just now; what it said stands.
    if (this.#letGo()) return unreadable(this.#path, 'not read again yet');
    this.#news = false;
    const { services, nodes, releases, rejected } = mergeContents(good);
    if (!this.#isFolder && factsOf(services).rows >= LARGE_ROWS) for (const file of files) file.letGo();
    const broken = faults.map(({ reason }) => ({
      where: this.#path,
      reason: `${reason}; its last good contents stand`,
    }));
    return {
      kind: 'list',
      epoch: EPOCH,
      services,
      ...(nodes === undefined ? {} : { nodes }),
      releases,
      rejected: [...broken, ...rejected],
      removalsBelievable: doubt === undefined,
    };
  }

  /** Its contents are on disk only. Those of several files are needed whenever one of them changes. */
  #letGo(): boolean {
    return [...this.#files.values()].some((file) => file.isLetGo);
  }

  /** Watches the folder that is there now: one that was replaced has another identity. */
  async #keepWatch(): Promise<void> {
    const path = this.#isFolder ? this.#path : dirname(this.#path);
    const looked = await this.#flight.run(() => look(path), DISK_DEADLINE_MS);
    const wake = this.#wake;
    if (wake === undefined || looked === LATE || looked.kind !== 'folder') return;
    if (this.#watch?.folder === looked.identity) return;
    this.#watch?.close();
    const files = this.#isFolder ? undefined : new Set([basename(this.#path)]);
    const close = watchFolder(path, files, wake, this.#watchFailed);
    this.#watch = { folder: looked.identity, close };
  }
}

async function namesIn(folder: string): Promise<string[] | Fault> {
  try {
    const names = await readdir(folder);
    return names.filter((name) => /^[^.].*\.(?:yaml|yml|json)$/.test(name)).sort();
  } catch (error) {
    return unreadable(folder, systemReason(error));
  }
}
