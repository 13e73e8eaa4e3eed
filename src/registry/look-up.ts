/** Registries on demand (R33): services that are asked for are looked up, and followed from then on. */
import type { Listing } from './registry.js';

/** What a look-up found. */
export type LookUp =
  | { readonly kind: 'found'; readonly listing: Listing }
  /** The registry, believed, has no such service. */
  | { readonly kind: 'unknown' }
  /** It said nothing, or nothing that can be believed. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The part of an adapter that is asked for services one by one. Its lists are of those that it knows. */
export interface OnDemand {
  /** One read. A service that is found is known from then on. Failures are results; a rejection is one, too. */
  lookUp(service: string, signal: AbortSignal): Promise<LookUp>;
  /** Services to follow from now on, the first first, and services to follow no more. */
  know(add: readonly string[], drop: readonly string[]): void;
  /** All that is known, most recently asked first: in this order it is read. */
  order(services: readonly string[]): void;
}
