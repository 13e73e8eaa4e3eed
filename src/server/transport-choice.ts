/** Which transport a start uses for UDP. */
import type { Ms } from '../system/clock.js';
import { notLinux } from '../system/libc.js';
import { CrashMarker } from './crash-marker.js';
import type { AnswerSettings, ServerLog } from './settings.js';

/** A start that lived so long has proved itself. */
const PROOF_MS: Ms = 60_000;

export class TransportChoice {
  readonly wanted: 'batched' | 'portable';
  /** Why it is the portable one. */
  readonly reason: string | undefined;
  #marker: CrashMarker | undefined;
  #proof: NodeJS.Timeout | undefined;

  constructor(settings: Pick<AnswerSettings, 'transport' | 'stateDir'>, log: ServerLog) {
    const { transport, stateDir } = settings;
    if (transport === 'portable') this.reason = 'it is asked for: transport: portable';
    else if (transport === 'auto' && process.platform !== 'linux') this.reason = notLinux();
    else if (transport === 'auto' && stateDir !== undefined) this.reason = this.#begin(stateDir, log);
    this.wanted = this.reason === undefined ? 'batched' : 'portable';
  }

  /** The process ends as it should, or the batched transport is not used after all. */
  clear(): void {
    clearTimeout(this.#proof);
    this.#marker?.clear();
  }

  /** Why the batched transport is to be avoided. */
  #begin(stateDir: string, log: ServerLog): string | undefined {
    const marker = new CrashMarker(stateDir);
    if (!marker.begin(Date.now())) {
      const again = `(remove ${marker.file} to try again)`;
      const deaths = 'starts with the batched transport were ended by a signal within a minute';
      log('warn', 'transport-avoided', { message: `the last two ${deaths}: using the portable one ${again}` });
      return `two ${deaths} ${again}`;
    }
    this.#marker = marker;
    this.#proof = setTimeout(() => marker.clear(), PROOF_MS).unref();
    return undefined;
  }
}
