/** When a new row makes a lost one good (R8): as soon as it passes, and at once when nobody will ever say that it does. */
import { isHostName } from '../registry/rows.js';
import type { CatalogRow } from './row.js';
import type { Service } from './service.js';

/** The test for new rows of a service, as it is now. */
export function makesGood(service: Service, proberSilent: boolean): (row: CatalogRow) => boolean {
  let lacksAddress: boolean | undefined;
  return (row) => {
    if (row.column === 'passes') return true;
    if (row.target !== undefined) return proberSilent;
    // R28: a host name that has no address so far does not stand in for one.
    return !isHostName(row.address) || !(lacksAddress ??= hasLostAddress(service));
  };
}

function hasLostAddress({ rows }: Service): boolean {
  for (const { loss, address } of rows.values()) if (loss !== undefined && !isHostName(address)) return true;
  return false;
}
