/** Whether this start may use native calls: not after two starts in a row that a signal ended soon. */
import type { Ms } from './clock.js';
import { CrashMarker } from './crash-marker.js';

/** A start that lived so long has proved itself. */
const PROOF_MS: Ms = 60_000;

export class NativeTrial {
  /** Why they are to be avoided. */
  readonly avoided: string | undefined;
  #marker: CrashMarker | undefined;
  #proof: NodeJS.Timeout | undefined;

  /**
   * @param file remembers it
   * @param what is done with native calls, for people
   */
  constructor(file: string, what: string) {
    const marker = new CrashMarker(file);
    if (!marker.begin(Date.now())) {
      this.avoided = `two starts with ${what} were ended by a signal within a minute (remove ${file} to try again)`;
      return;
    }
    this.#marker = marker;
    this.#proof = setTimeout(() => marker.clear(), PROOF_MS).unref();
  }

  /** The process ends as it should, or does without native calls after all. */
  clear(): void {
    clearTimeout(this.#proof);
    this.#marker?.clear();
  }
}
