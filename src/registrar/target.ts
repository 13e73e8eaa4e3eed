/**
 * The contract of a registry that can be registered in. A target belongs to one registration; it may remember what the
 * registry gave it (a lease), never that it is registered: each call compares with what the registry holds now.
 */
import type { Failure } from '../registry/adapter.js';
import type { Entry } from './entry.js';

export type Kept =
  /** The registry holds the entry as it is wanted, and said so now. `wrote`: it had to be written. */
  | { readonly kind: 'kept'; readonly wrote: boolean }
  /** A younger registrar has the id. */
  | { readonly kind: 'taken'; readonly by: string };

/** The registry has said that nothing of ours is there. What is somebody else's stays. */
export interface Gone {
  readonly kind: 'gone';
}

export interface Target {
  /** Makes the registry hold `entry` for another TTL. Resolves soon after `signal`. A rejection is taken as a failure. */
  keep(entry: Entry, signal: AbortSignal): Promise<Kept | Failure>;
  remove(signal: AbortSignal): Promise<Gone | Failure>;
}

export function isFailure(result: Kept | Gone | Failure): result is Failure {
  return result.kind === 'unreachable' || result.kind === 'unbelievable';
}
