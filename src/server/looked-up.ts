/** Names of zones on demand, of which answer threads know nothing (R33). */
/** What is known of a name that was handed over because it is not in the table of a zone on demand (R33). */
export const LOOKED_UP = {
  NOT_YET: 0,
  /** There is no such service, or it has no such name. */
  UNKNOWN: 1,
  /** No service has the name, but names of services may be below it. */
  EMPTY: 2,
  /** The registry gave no answer that can be believed in time. */
  FAILED: 3,
} as const;
export type LookedUp = (typeof LOOKED_UP)[keyof typeof LOOKED_UP];

/** A name in a zone on demand that would be looked up if it is not in the table. */
export interface LookUpName {
  /** The zone's number in the table. */
  readonly zone: number;
  /** Lower case, those below the zone. */
  readonly labels: readonly string[];
}
