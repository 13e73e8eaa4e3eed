/** A server of somebody else that a test starts, stops and starts again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const START_MS = 30_000;
const LOOK_MS = 100;

export interface DaemonOptions {
  /** Of its own: what it says is in `log` there. It is made. */
  readonly folder: string;
  readonly command: () => readonly [program: string, ...words: string[]];
  /** Whether it is ready. A rejection means that it is not. */
  readonly isReady: () => Promise<boolean>;
  /** How it is ended. By default without a farewell. */
  readonly signal?: NodeJS.Signals;
}

export class Daemon {
  readonly #options: DaemonOptions;
  #child: ChildProcess | undefined;

  constructor(options: DaemonOptions) {
    this.#options = options;
    mkdirSync(options.folder, { recursive: true });
  }

  /** Of its process, while it runs. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Starts it, again after a stop, on the data that is there. */
  async run(wait = true): Promise<void> {
    this.#start();
    if (wait) await this.ready();
  }

  #start(): void {
    const { folder, command } = this.#options;
    const [program, ...words] = command();
    const log = openSync(join(folder, 'log'), 'a');
    const child = spawn(program, words, { stdio: ['ignore', log, log], cwd: folder });
    child.on('error', () => undefined);
    this.#child = child;
  }

  async ready(): Promise<void> {
    const start = performance.now();
    while (performance.now() - start < START_MS) {
      if (await this.#options.isReady().catch(() => false)) return;
      await sleep(LOOK_MS);
      // Its port may have been somebody's for a moment: of a connection, of another test.
      if (this.#child !== undefined && this.#ended(this.#child)) this.#start();
    }
    const log = readFileSync(join(this.#options.folder, 'log'), 'utf8');
    throw new Error(`${this.#options.command()[0]} is not ready: ${log.slice(-2_000)}`);
  }

  async stop(signal = this.#options.signal ?? 'SIGKILL'): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.pid === undefined || this.#ended(child)) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    const late = setTimeout(() => child.kill('SIGKILL'), 2_000);
    await exit;
    clearTimeout(late);
  }

  /** Tells it something, such as to read its files again. */
  tell(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  #ended({ exitCode, signalCode }: ChildProcess): boolean {
    return exitCode !== null || signalCode !== null;
  }
}
