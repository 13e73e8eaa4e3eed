/** What an explanation knows of a name. */
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import type { Zone } from './zone.js';

export interface NameMeaning {
  /** The types that the name may have. */
  readonly types: readonly string[];
  /** A sentence each. */
  readonly words: readonly string[];
  readonly service?: Service;
  /** The endpoints that the name is about. */
  readonly rows?: readonly CatalogRow[];
}

/** Who has an address, in words that complete "the name of ADDRESS, ". */
export function holderOf(zone: Zone, address: string): string {
  for (const [left] of zone.names.kept.leaving()) {
    if (left === address) return 'which no endpoint has any more: the name is kept for keepTargets';
  }
  return 'which an endpoint of the zone has';
}
