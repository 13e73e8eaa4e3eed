/** The hosts file while it changes: read whole, in turns, and never waited for. */
import { statSync } from 'node:fs';
import { type Hosts, NO_HOSTS, parseHosts, readHosts } from '../forward/hosts-file.js';
import { type Looked, look, readExactly, type Signature, STILL_MS, sameSignature } from '../registry/settled-file.js';
import type { Ms } from '../system/clock.js';
import { readRegular } from '../system/regular-file.js';
import type { Log } from './events.js';

const LOOK_MS: Ms = 1_000;
/** A longer file is not taken in. */
const MAX_BYTES = 64 * 1024 * 1024;
/** A file up to this size is read before the first question is answered. */
const AT_ONCE_BYTES = 1024 * 1024;
/** A file replaced by deleting it is away for a moment. */
const GONE_LOOKS = 2;

export class HostsLink {
  readonly path: string;
  readonly #log: Log;
  readonly #changed: () => void;
  #hosts: Hosts = NO_HOSTS;
  #taken: Signature | undefined;
  #fault: string | undefined;
  #missing = 0;
  #looking = false;
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  /** `changed` is called when `hosts` has become another. */
  constructor(path: string, log: Log, changed: () => void) {
    this.path = path;
    this.#log = log;
    this.#changed = changed;
    this.#readAtOnce();
  }

  get hosts(): Hosts {
    return this.#hosts;
  }

  /** What is wrong, in a sentence; what was read before stays in force. */
  get fault(): string | undefined {
    return this.#fault;
  }

  start(): void {
    if (this.#timer !== undefined || this.#stopped) return;
    this.#timer = setInterval(() => void this.look(), LOOK_MS);
    void this.look();
  }

  stop(): void {
    this.#stopped = true;
    clearInterval(this.#timer);
  }

  /** At a start and a reload, where there is no time to wait in turn. A long file comes with the first look. */
  #readAtOnce(): void {
    try {
      const stats = statSync(this.path);
      if (!stats.isFile() || stats.size > AT_ONCE_BYTES) return;
      this.#hosts = parseHosts(readRegular(this.path, MAX_BYTES).toString('utf8'));
    } catch {
      // The first look says what is wrong.
    }
  }

  /** Takes in what has changed; on a timer from `start` on. Never rejects. */
  async look(): Promise<void> {
    if (this.#looking) return;
    this.#looking = true;
    try {
      await this.#look();
    } finally {
      this.#looking = false;
    }
  }

  async #look(): Promise<void> {
    const looked = await look(this.path);
    if (looked.kind !== 'file') {
      this.#noFile(looked);
      return;
    }
    this.#missing = 0;
    const { signature } = looked;
    if (sameSignature(signature, this.#taken)) return;
    // Written in place it may be half done (R34).
    await new Promise((resolve) => setTimeout(resolve, STILL_MS));
    const again = await look(this.path);
    if (this.#stopped || again.kind !== 'file' || !sameSignature(again.signature, signature)) return;
    this.#taken = signature;
    if (signature.size > MAX_BYTES) {
      this.#setFault(`${this.path} is longer than ${MAX_BYTES} bytes and is not taken in`);
      return;
    }
    const read = await readExactly(this.path, signature);
    if (read.kind !== 'bytes') {
      this.#taken = undefined;
      if (read.kind === 'unreadable') this.#setFault(`${this.path} cannot be read: ${read.reason}`);
      return;
    }
    const hosts = await inTurns(readHosts(Buffer.from(read.bytes).toString('utf8')));
    if (this.#stopped) return;
    this.#fault = undefined;
    this.#take(hosts);
  }

  #noFile(looked: Exclude<Looked, { kind: 'file' }>): void {
    this.#taken = undefined;
    if (looked.kind === 'missing') {
      // A host without the file is a host without such names.
      this.#fault = undefined;
      if (++this.#missing === GONE_LOOKS && this.#hosts.addresses.size > 0) this.#take(NO_HOSTS);
      return;
    }
    this.#setFault(`${this.path} cannot be read: ${looked.kind === 'folder' ? 'it is a directory' : looked.reason}`);
  }

  #take(hosts: Hosts): void {
    this.#hosts = hosts;
    this.#log('info', 'hosts-file', { file: this.path, names: hosts.addresses.size });
    const { ignored, examples } = hosts;
    if (ignored > 0) this.#log('warn', 'hosts-file-ignored', { file: this.path, count: ignored, examples });
    this.#changed();
  }

  #setFault(fault: string): void {
    if (fault !== this.#fault) this.#log('warn', 'hosts-file-fault', { message: fault });
    this.#fault = fault;
  }
}

/** Others have their turn in between. */
async function inTurns<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
