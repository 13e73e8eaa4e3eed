/** Changes of a busy registry, put together: the first is passed on at once, what follows it soon, the others a few times a second. Pure. */
import type { BootMs, Ms } from '../system/clock.js';
import type { Observation } from './adapter.js';
import type { Listing } from './registry.js';

type Change = Extract<Observation, { kind: 'change' }>;

/** After so long without a change the next one is passed on without a wait. */
const QUIET_MS: Ms = 10_000;
/** What comes in one turn of the registry goes together. */
const FIRST_MS: Ms = 2;
/** A change rarely comes alone: what follows the first one is gathered for so long, and passed on once more. */
const GATHER_MS: Ms = 20;
/** From one change that is passed on to the next, in a registry that is not quiet. */
const CHURN_MS: Ms = 500;

export class ChangeBatch {
  readonly #services = new Map<string, Listing>();
  readonly #gone = new Set<string>();
  #last: Change | undefined;
  #due = Number.POSITIVE_INFINITY;
  #passedOn = Number.NEGATIVE_INFINITY;
  /** The last one that was passed on was the first after a quiet time. */
  #wasFirst = false;

  /** When what is gathered is to be passed on; Infinity when there is nothing. */
  get due(): BootMs {
    return this.#due;
  }

  add(change: Change, now: BootMs): void {
    for (const name of change.gone) {
      this.#services.delete(name);
      this.#gone.add(name);
    }
    for (const listing of change.services) {
      this.#gone.delete(listing.name);
      this.#services.set(listing.name, listing);
    }
    if (this.#last === undefined) {
      if (this.#isQuiet(now)) this.#due = now + FIRST_MS;
      else this.#due = Math.max(now + GATHER_MS, this.#wasFirst ? 0 : this.#passedOn + CHURN_MS);
    }
    const nodes = change.nodes ?? this.#last?.nodes;
    this.#last = nodes === undefined ? change : { ...change, nodes };
  }

  take(now: BootMs): Change | undefined {
    const last = this.#last;
    if (last === undefined) return undefined;
    const change = { ...last, services: [...this.#services.values()], gone: [...this.#gone] };
    this.#services.clear();
    this.#gone.clear();
    this.#last = undefined;
    this.#due = Number.POSITIVE_INFINITY;
    this.#wasFirst = this.#isQuiet(now);
    this.#passedOn = now;
    return change;
  }

  #isQuiet(now: BootMs): boolean {
    return now - this.#passedOn >= QUIET_MS;
  }
}
