import { type Row, rowKey } from '../registry/registry.js';
import type { CatalogRow } from './row.js';

type Place = Pick<Row, 'address' | 'port' | 'protocol'>;

/** From so many rows on they are found by an index; nearly all services have fewer, and looking costs them no memory. */
const INDEXED = 24;

/** The rows of a service by address, port and protocol (R5), in the order of listing. */
export class RowSet {
  /** Never changed in place while somebody may walk over it, but for what is put at its end. */
  #rows: CatalogRow[] = [];
  #index: Map<string, CatalogRow> | undefined;

  get size(): number {
    return this.#rows.length;
  }

  /** What is added while it is walked over is seen, what is deleted may be. */
  values(): readonly CatalogRow[] {
    return this.#rows;
  }

  get(place: Place): CatalogRow | undefined {
    if (this.#index !== undefined) return this.#index.get(rowKey(place));
    const { address, port, protocol } = place;
    for (const row of this.#rows) {
      if (row.port === port && row.address === address && row.protocol === protocol) return row;
    }
    return undefined;
  }

  /** No row has its place so far. */
  add(row: CatalogRow): void {
    this.#rows.push(row);
    if (this.#index !== undefined) this.#index.set(rowKey(row), row);
    else if (this.#rows.length >= INDEXED) this.#index = new Map(this.#rows.map((one) => [rowKey(one), one]));
  }

  /** Gives back what was taken for rows to come: there are none for now. */
  trim(): void {
    this.#rows = this.#rows.slice();
  }

  /** Takes the rows out. Returns how many were there. */
  delete(rows: ReadonlySet<CatalogRow>): number {
    const left = this.#rows.filter((row) => !rows.has(row));
    const gone = this.#rows.length - left.length;
    this.#rows = left;
    if (left.length < INDEXED) this.#index = undefined;
    else for (const row of rows) this.#index?.delete(rowKey(row));
    return gone;
  }
}
