/** Which transport a start uses for UDP. */
import type { Ms } from '../system/clock.js';
import { CrashMarker } from './crash-marker.js';
import type { AnswerSettings, ServerLog } from './settings.js';

/** A start that lived so long has proved itself. */
const PROOF_MS: Ms = 60_000;

export class TransportChoice {
  readonly wanted: 'batched' | 'portable';
  #marker: CrashMarker | undefined;
  #proof: NodeJS.Timeout | undefined;

  constructor(settings: Pick<AnswerSettings, 'transport' | 'stateDir'>, log: ServerLog) {
    const { transport, stateDir } = settings;
    if (transport !== 'auto') this.wanted = transport;
    else if (process.platform !== 'linux') this.wanted = 'portable';
    else this.wanted = stateDir === undefined || this.#begin(stateDir, log) ? 'batched' : 'portable';
  }

  /** The process ends as it should, or the batched transport is not used after all. */
  clear(): void {
    clearTimeout(this.#proof);
    this.#marker?.clear();
  }

  #begin(stateDir: string, log: ServerLog): boolean {
    const marker = new CrashMarker(stateDir);
    if (!marker.begin(Date.now())) {
      log('warn', 'transport-avoided', {
        message: `the last two starts with the batched transport were ended by a signal within a minute: using the portable one (remove ${marker.file} to try again)`,
      });
      return false;
    }
    this.#marker = marker;
    this.#proof = setTimeout(() => marker.clear(), PROOF_MS).unref();
    return true;
  }
}
