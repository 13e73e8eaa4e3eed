/** R6: a revision lower than seen is not believed until two reads, some time apart, agree. Pure. */
import type { BootMs, Ms } from '../system/clock.js';

/** Between the two reads. */
export const AGREE_MS: Ms = 10_000;

export interface Regress {
  readonly reason: string;
  /** The next read that could agree. */
  readonly retryAfter: Ms;
}

/** Of one datacenter at most: of several it is not told which they were, or were heard. */
const SEEDED = /^\d+(\.\d+){0,2}$/;

export interface SeenRevision {
  /** With the lineage behind a plus, where there was another than the first. */
  readonly epoch: string;
  readonly revision: string;
}

/** Numbers that only grow, each for itself; most sources have one. */
type Revision = readonly bigint[];

/** Remembers the highest revision of the present epoch. A revision is a decimal number, or several with dots between. */
export class RevisionMemory {
  #epoch: string | undefined;
  #highest: Revision = [];
  /** The first read that went back. */
  #doubt: { readonly revision: Revision; readonly at: BootMs } | undefined;
  /** How often a lower revision was believed in the end. */
  lineage = 0;

  /** What was seen before this process, or thread, began. What makes no sense is left. */
  seed({ epoch, revision: text }: SeenRevision): void {
    if (!SEEDED.test(text)) return;
    const { source, lineage } = lineageOf(epoch);
    this.lineage = lineage;
    this.#adopt(source, parse(text));
  }

  /** What is wrong with a list of this revision; undefined when it may be believed. A new epoch begins anew (R7). */
  judge(epoch: string, text: string, now: BootMs): Regress | undefined {
    const revision = parse(text);
    // Of other datacenters than before, another count of numbers tells nothing of each.
    const comparable = epoch === this.#epoch && revision.length === this.#highest.length;
    if (!comparable || reaches(revision, this.#highest)) return this.#adopt(epoch, revision);
    const doubt = this.#doubt;
    const agrees = doubt !== undefined && reaches(revision, doubt.revision);
    if (agrees && now - doubt.at >= AGREE_MS) {
      this.lineage++;
      return this.#adopt(epoch, revision);
    }
    if (!agrees) this.#doubt = { revision, at: now };
    const retryAfter = agrees ? doubt.at + AGREE_MS - now : AGREE_MS;
    return { reason: `revision went back from ${this.#highest.join('.')} to ${revision.join('.')}`, retryAfter };
  }

  /** A change that was delivered. */
  passed(epoch: string, text: string): void {
    const revision = parse(text);
    if (epoch === this.#epoch && reaches(revision, this.#highest)) this.#highest = revision;
  }

  #adopt(epoch: string, revision: Revision): undefined {
    this.#epoch = epoch;
    this.#highest = revision;
    this.#doubt = undefined;
  }
}

/** Where the data comes from, and how often a lower revision was believed there. */
export function lineageOf(epoch: string): { readonly source: string; readonly lineage: number } {
  const [, source, lineage] = /^(.*)\+([1-9]\d{0,8})$/s.exec(epoch) ?? [];
  return { source: source ?? epoch, lineage: Number(lineage ?? 0) };
}

export function epochOf(source: string, lineage: number): string {
  return lineage === 0 ? source : `${source}+${lineage}`;
}

function parse(text: string): Revision {
  return text.split('.').map(BigInt);
}

/** None of the numbers is lower than its counterpart. */
function reaches(revision: Revision, other: Revision): boolean {
  return other.every((number, i) => (revision[i] ?? 0n) >= number);
}
