/** One row out of what several registries say of the same endpoint (R5, R32). Pure. */
import type { Row } from '../registry/registry.js';
import { collapseRows } from '../registry/rows.js';
import type { CatalogRow, HeardMs, Hold, Loss } from './row.js';

export interface Combined {
  readonly word: Row;
  readonly listed: boolean;
  readonly hold: Hold | undefined;
  readonly loss: Loss | undefined;
  readonly addedAt: HeardMs;
}

/**
 * Duplicates collapse as those of one list do (R5): what is listed before what is only held, the best state, the lowest
 * priority, the greatest weight, all tags. A hold counts where no registry lists the row as passing.
 */
export function combine(rows: readonly CatalogRow[]): Combined {
  const [first] = rows;
  if (first !== undefined && rows.length === 1) {
    const { listed, hold, loss, addedAt } = first;
    return { word: first, listed, hold, loss, addedAt };
  }
  const listed = rows.filter((row) => row.listed);
  const held = rows.filter((row) => row.hold !== undefined);
  const best = listed.length > 0 ? listed : held.length > 0 ? held : rows;
  const word = collapseRows(best.map(plainRow))[0]!;
  const passes = listed.some((row) => row.passing);
  return {
    word,
    listed: listed.length > 0,
    hold: passes ? undefined : held[0]?.hold,
    loss: passes ? undefined : rows.find((row) => row.loss !== undefined)?.loss,
    addedAt: Math.min(...rows.map((row) => row.addedAt)),
  };
}

/** Without what only a row of the catalog has. */
export function plainRow(row: CatalogRow): Row {
  const { id, address, port, protocol, portName, priority, weight, tags, zone, state, node, atNode, host } = row;
  return { id, address, port, protocol, portName, priority, weight, tags, zone, state, node, atNode, host };
}
