/** R6: a revision lower than seen is not believed until two reads, some time apart, agree. Pure. */
import type { BootMs, Ms } from '../system/clock.js';

/** Between the two reads. */
export const AGREE_MS: Ms = 10_000;

export interface Regress {
  readonly reason: string;
  /** The next read that could agree. */
  readonly retryAfter: Ms;
}

/** Remembers the highest revision of the present epoch. */
export class RevisionMemory {
  #epoch: string | undefined;
  #highest = 0n;
  /** The first read that went back. */
  #doubt: { readonly revision: bigint; readonly at: BootMs } | undefined;

  /** What is wrong with a list of this revision; undefined when it may be believed. A new epoch begins anew (R7). */
  judge(epoch: string, text: string, now: BootMs): Regress | undefined {
    const revision = BigInt(text);
    if (epoch !== this.#epoch || revision >= this.#highest) return this.#adopt(epoch, revision);
    const doubt = this.#doubt;
    const agrees = doubt !== undefined && revision >= doubt.revision;
    if (agrees && now - doubt.at >= AGREE_MS) return this.#adopt(epoch, revision);
    if (!agrees) this.#doubt = { revision, at: now };
    const retryAfter = agrees ? doubt.at + AGREE_MS - now : AGREE_MS;
    return { reason: `revision went back from ${this.#highest} to ${revision}`, retryAfter };
  }

  /** A change that was delivered. */
  passed(epoch: string, text: string): void {
    const revision = BigInt(text);
    if (epoch === this.#epoch && revision > this.#highest) this.#highest = revision;
  }

  #adopt(epoch: string, revision: bigint): undefined {
    this.#epoch = epoch;
    this.#highest = revision;
    this.#doubt = undefined;
  }
}
