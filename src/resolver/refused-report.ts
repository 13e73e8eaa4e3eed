/** R6: what a registry said that was not taken in, since it is over the zone's limits with the addresses of its host names. */
import type { ListReport } from '../catalog/catalog.js';
import type { Listing } from '../registry/registry.js';

/** Both as one: `later` is told by a registry that takes `earlier` for known. */
export function together(earlier: ListReport | undefined, later: ListReport): ListReport {
  if (earlier === undefined || later.kind === 'list') return later;
  const services = new Map<string, Listing>();
  for (const listing of earlier.services) services.set(listing.name, listing);
  for (const name of later.gone) services.delete(name);
  for (const listing of later.services) services.set(listing.name, listing);
  const { gone, ...rest } = later;
  const nodes = later.nodes ?? earlier.nodes;
  const both = { ...rest, ...(nodes === undefined ? {} : { nodes }), services: [...services.values()] };
  if (earlier.kind === 'list') return { ...both, kind: 'list', removalsBelievable: earlier.removalsBelievable };
  return { ...both, gone: [...new Set([...earlier.gone, ...gone])].filter((name) => !services.has(name)) };
}
