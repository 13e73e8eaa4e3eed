/** R6: a revision lower than seen is not believed until two reads, some time apart, agree. Pure. */
import type { BootMs, Ms } from '../system/clock.js';

/** Between the two reads. */
export const AGREE_MS: Ms = 10_000;
/** What goes back and comes back again and again is read less and less often: each time half as often, down to this. */
const FLAPPING_MS: Ms = 160_000;
/** As often it is read as soon as ever. */
const FEW_FLAPS = 1;
/** So long after the last time it counts no more. */
const CALM_MS: Ms = 600_000;

export interface Regress {
  readonly reason: string;
  /** The next read that could agree. */
  readonly retryAfter: Ms;
}

const PART = String.raw`(?:[\w-]+=)?\d+(?:\.\d+)*`;
const REVISION = new RegExp(`^${PART}(?:,${PART})*$`);

export interface SeenRevision {
  /** With the lineage behind a plus, where there was another than the first. */
  readonly epoch: string;
  readonly revision: string;
}

/** Numbers that only grow, each for itself, by the datacenter that they are of; most sources have one, without a name. */
export type Revision = ReadonlyMap<string, readonly bigint[]>;

/**
 * Remembers the highest revision of the present epoch. A revision is a decimal number, or several with dots between; of
 * several datacenters each has its name before it, as in `dc1=7.5,dc2=9.4`.
 */
export class RevisionMemory {
  #epoch: string | undefined;
  #highest: Revision = new Map();
  /** The first read that went back. */
  #doubt: { readonly revision: Revision; readonly at: BootMs } | undefined;
  /** How often a doubt came to nothing lately, and when the last one did. */
  #flaps = { count: 0, at: 0 };
  /** How often a lower revision was believed in the end. */
  lineage = 0;

  /** What was seen before this process, or thread, began. What makes no sense is left. */
  seed({ epoch, revision: text }: SeenRevision): void {
    const revision = readRevision(text);
    if (revision === undefined) return;
    const { source, lineage } = lineageOf(epoch);
    this.lineage = lineage;
    this.#adopt(source, revision);
  }

  /** What is wrong with a list of this revision; undefined when it may be believed. A new epoch begins anew (R7). */
  judge(epoch: string, text: string, now: BootMs): Regress | undefined {
    const revision = parse(text);
    const doubt = this.#doubt;
    if (now - this.#flaps.at > CALM_MS) this.#flaps = { count: 0, at: now };
    if (epoch !== this.#epoch || reaches(revision, this.#highest)) {
      if (doubt !== undefined) this.#flaps = { count: this.#flaps.count + 1, at: now };
      return this.#adopt(epoch, revision);
    }
    const agrees = doubt !== undefined && reaches(revision, doubt.revision);
    if (agrees && now - doubt.at >= AGREE_MS) {
      this.lineage++;
      return this.#adopt(epoch, revision);
    }
    if (!agrees) this.#doubt = { revision, at: now };
    const pause = AGREE_MS * 2 ** Math.max(0, this.#flaps.count - FEW_FLAPS);
    const retryAfter = agrees ? doubt.at + AGREE_MS - now : Math.min(FLAPPING_MS, pause);
    return { reason: `revision went back from ${showRevision(this.#highest)} to ${text}`, retryAfter };
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

/** Undefined where it makes no sense. */
export function readRevision(text: string): Revision | undefined {
  return REVISION.test(text) ? parse(text) : undefined;
}

export function showRevision(revision: Revision): string {
  const parts = [...revision].map(([name, numbers]) => `${name === '' ? '' : `${name}=`}${numbers.join('.')}`);
  return parts.join();
}

function parse(text: string): Revision {
  const parts = text.split(',').map((part) => part.split('='));
  return new Map(parts.map((part) => [part.length > 1 ? part[0]! : '', part.at(-1)!.split('.').map(BigInt)]));
}

/** None of the numbers is lower than its counterpart. What is of another datacenter, or counted otherwise, has none. */
function reaches(revision: Revision, other: Revision): boolean {
  return [...other].every(([name, numbers]) => {
    const counterparts = revision.get(name);
    if (counterparts?.length !== numbers.length) return true;
    return numbers.every((number, i) => counterparts[i]! >= number);
  });
}
