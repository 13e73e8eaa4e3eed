/** One file of the file registry: its last good contents, and what is wrong with it now. */
import { createHash } from 'node:crypto';
import type { Ms } from '../system/clock.js';
import { LATE, type OneFlight } from './one-flight.js';
import { parseServices } from './parse.js';
import type { FileContents, ReadOptions } from './services-file.js';
import { isSettled, type Looked, look, readExactly, type Signature, STILL_MS, sameSignature } from './settled-file.js';

/** A disk that takes longer for one operation counts as frozen. */
export const DISK_DEADLINE_MS: Ms = 5000;
/** Kernels stamp files in ticks: two writes nearer than this may look like one. */
const TICK_MS: Ms = 50;

export interface Fault {
  readonly kind: 'unreachable' | 'unbelievable';
  readonly reason: string;
}

/**
 * What an examination found: `unsettled` asks for another one in `STILL_MS`, `frozen` tells that the disk does not
 * answer, which says nothing about the file.
 */
export type Examined = 'same' | 'changed' | 'unsettled' | 'frozen';

export interface FileClocks {
  /** Monotonic, in ms. */
  readonly mono: () => Ms;
  readonly wall: () => number;
}

export class WatchedFile {
  readonly path: string;
  readonly #options: ReadOptions;
  readonly #clocks: FileClocks;
  #good: FileContents | undefined;
  #isLetGo = false;
  #fault: Fault | undefined;
  /** What was judged last, good or not. */
  #judged: Signature | undefined;
  #verdict: { readonly digest: string; readonly fault: Fault | undefined } | undefined;
  #gone = false;
  /** The latest look, when it differs from what was judged. `undefined` in it: the file is missing. */
  #seen: { readonly signature: Signature | undefined; readonly since: Ms } | undefined;

  constructor(path: string, options: ReadOptions, clocks: FileClocks) {
    this.path = path;
    this.#options = options;
    this.#clocks = clocks;
  }

  get good(): FileContents | undefined {
    return this.#good;
  }

  /** Its last good contents were let go, see `letGo`. */
  get isLetGo(): boolean {
    return this.#isLetGo;
  }

  /** Frees the memory of the services in the last good contents: whoever wants them has to `readAgain`. */
  letGo(): void {
    if (this.#good === undefined) return;
    this.#good = { ...this.#good, services: [] };
    this.#isLetGo = true;
  }

  /** The next examination reads the file, whatever it looks like. */
  readAgain(): void {
    this.#judged = undefined;
    this.#verdict = undefined;
  }

  get fault(): Fault | undefined {
    return this.#fault;
  }

  /** Not there, and not only for a moment. */
  get gone(): boolean {
    return this.#gone;
  }

  /**
   * Looks at the file and reads it when it is new and whole. Never rejects.
   * @param seen what was just seen at its path
   */
  async examine(flight: OneFlight, seen?: Looked): Promise<Examined> {
    const looked = seen ?? (await flight.run(() => look(this.path), DISK_DEADLINE_MS));
    if (looked === LATE) return 'frozen';
    this.#gone = false;
    if (looked.kind !== 'file') return this.#noFile(looked);
    const { signature } = looked;
    if (sameSignature(signature, this.#judged)) {
      this.#seen = undefined;
      return 'same';
    }
    const { maxBody } = this.#options.limits;
    if (signature.size > maxBody) {
      const reason = `${this.path}: ${signature.size} bytes, more than limits.maxBody (${maxBody})`;
      return this.#judge(signature, { kind: 'unbelievable', reason });
    }
    if (!isSettled(signature, this.#judged, this.#stillFor(signature), this.#clocks.wall())) return 'unsettled';
    return this.#read(signature, flight);
  }

  /** It never stands still: its last good contents stand. */
  giveUp(reason: string): void {
    this.#judge(undefined, unreadable(this.path, reason));
  }

  async #read(signature: Signature, flight: OneFlight): Promise<Examined> {
    const wall = this.#clocks.wall();
    const read = await flight.run(() => readExactly(this.path, signature), DISK_DEADLINE_MS);
    if (read === LATE) return 'frozen';
    if (read.kind === 'moved') return 'unsettled';
    if (read.kind === 'unreadable') return this.#judge(undefined, unreadable(this.path, read.reason));
    // Read within the tick of its last change, it may change again and look the same: it is read once more.
    const judged = wall - Number(signature.changed / 1_000_000n) < TICK_MS ? undefined : signature;
    const digest = createHash('sha256').update(read.bytes).digest('hex');
    if (digest !== this.#verdict?.digest) {
      const format = this.path.endsWith('.json') ? 'json' : 'yaml';
      const result = await parseServices({ format, bytes: read.bytes, options: this.#options });
      if (result.ok) {
        this.#good = result.contents;
        this.#isLetGo = false;
      }
      const fault: Fault | undefined = result.ok ? undefined : { kind: 'unbelievable', reason: result.reason };
      this.#verdict = { digest, fault };
      this.#judge(judged, fault);
      return 'changed';
    }
    return this.#judge(judged, this.#verdict.fault);
  }

  /** @param signature of what was judged; undefined when it has to be read again all the same */
  #judge(signature: Signature | undefined, fault: Fault | undefined): Examined {
    const changed = this.#fault?.reason !== fault?.reason;
    this.#judged = signature;
    this.#seen = undefined;
    this.#fault = fault;
    return changed ? 'changed' : 'same';
  }

  #noFile(looked: Exclude<Looked, { kind: 'file' }>): Examined {
    // Editors move a file away before they write the new one.
    const passing = looked.kind === 'missing' && this.#good !== undefined && this.#fault === undefined;
    if (passing && this.#stillFor(undefined) < STILL_MS) return 'unsettled';
    this.#gone = looked.kind === 'missing';
    const reason = looked.kind === 'folder' ? 'a directory, not a file' : looked.reason;
    return this.#judge(undefined, unreadable(this.path, reason));
  }

  /** For how long the file has been seen as it is now. */
  #stillFor(signature: Signature | undefined): Ms {
    const now = this.#clocks.mono();
    if (this.#seen === undefined || !sameSignature(this.#seen.signature, signature)) {
      this.#seen = { signature, since: now };
    }
    return now - this.#seen.since;
  }
}

export function frozen(path: string): Fault {
  return { kind: 'unreachable', reason: `${path}: not read within ${DISK_DEADLINE_MS / 1000} s` };
}

export function unreadable(path: string, reason: string): Fault {
  return { kind: 'unreachable', reason: `${path}: ${reason}` };
}
