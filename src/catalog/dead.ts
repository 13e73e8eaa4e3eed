/** What the guard takes for dead (R9, R12). */
import type { CatalogRow } from './row.js';
import type { Service } from './service.js';

/** Whether a service has a row that is listed, or held and not dead. */
export function hasLife(service: Service): boolean {
  for (const row of service.rows.values()) if (row.listed || (row.hold !== undefined && !failsHard(row))) return true;
  return false;
}

/** R9: absent, and failing hard. */
export function isDead(row: CatalogRow): boolean {
  return !row.listed && failsHard(row);
}

export function failsHard(row: CatalogRow): boolean {
  return row.column === 'fails' && row.hard;
}
