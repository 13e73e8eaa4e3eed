import type { ListedCheck } from '../registry/registry.js';
import type { CatalogRow, HeardMs } from './row.js';
import { RowSet } from './row-set.js';

/** A service of a zone: what the registry last said, the rows the guard keeps, and the guard's own marks. */
export class Service {
  readonly name: string;
  readonly rows = new RowSet();
  /** In the registry's last believable word. */
  listed = true;
  /** It is from another registry, in whose place this one is now, and which has not listed it itself (R32). */
  borrowed = false;
  check: ListedCheck | undefined;
  /** Index of the registry that said so, in the zone's order of belief (R32). */
  checkedBy = 0;
  /** The service's guard has tripped and its condition lasts (R8). */
  tripped = false;
  /** Since when what is held would not trip the guard (R9's `confirm`). */
  quietSince: HeardMs | undefined;
  /** Rows that are listed, answerable and not new and uncounted (R8). Kept by the guard. */
  remaining = 0;
  /** Rows in the answer by R10 and R12. Kept by the zone. */
  answerable = 0;
  /** Rows with a probe target, and those of them that have a word. Kept by the zone. */
  probed = 0;
  worded = 0;
  /** Rows that stand; -1 while it is not known. Kept by the zone. */
  stood = -1;
  /** Its slot in the answer table's marks of what is asked (R17); 0 without one. Kept by the zone. */
  asked = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** A known service is answered: it is listed, or the guard holds a row of it. */
  get known(): boolean {
    if (this.listed) return true;
    for (const row of this.rows.values()) if (row.hold !== undefined) return true;
    return false;
  }

  /** Rows that stand: listed or held. Tombstones do not. */
  standing(): CatalogRow[] {
    const rows: CatalogRow[] = [];
    for (const row of this.rows.values()) if (row.listed || row.hold !== undefined) rows.push(row);
    return rows;
  }
}
