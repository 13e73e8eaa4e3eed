/** Several files' contents as one list. */
import { Notes } from './notes.js';
import type { ListedCheck, ListedNode, Listing, Listings, Rejected, ReleaseMark, Row } from './registry.js';
import { collapseRows } from './rows.js';
import type { FileContents } from './services-file.js';

/** A service that is in several of them has the rows of all, and the first check; release marks are kept all; of two nodes of one name the last counts. */
export function mergeContents(files: readonly FileContents[]): {
  services: Listings;
  nodes?: readonly ListedNode[];
  releases: readonly ReleaseMark[];
  rejected: readonly Rejected[];
} {
  const only = files[0];
  if (only !== undefined && files.length === 1) return only;
  const merged = new Map<string, { listings: Listing[] }>();
  const notes = new Notes();
  for (const { services, rejected } of files) {
    for (const listing of services) {
      const known = merged.get(listing.name);
      if (known === undefined) merged.set(listing.name, { listings: [listing] });
      else known.listings.push(listing);
    }
    for (const { where, reason, count } of rejected) notes.add(where, reason, count);
  }
  const nodes = new Map(files.flatMap((file) => file.nodes ?? []).map((node) => [node.name, node]));
  return {
    ...(nodes.size === 0 ? {} : { nodes: [...nodes.values()] }),
    services: [...merged.values()].map(({ listings }) => union(listings)),
    releases: files.flatMap(({ releases }) => releases),
    rejected: notes.list('other files'),
  };
}

function union(listings: readonly Listing[]): Listing {
  const first = listings[0]!;
  if (listings.length === 1) return first;
  const rows: Row[] = listings.flatMap((listing) => listing.rows);
  const check: ListedCheck | undefined = listings.find((listing) => listing.check !== undefined)?.check;
  const listing = { name: first.name, rows: collapseRows(rows) };
  return check === undefined ? listing : { ...listing, check };
}
