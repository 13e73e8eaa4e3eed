/** From rows to record sets (R24). */
import { addressBytes, targetLabel } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { joinName } from '../dns/names.js';
import type { Row } from '../registry/registry.js';
import { TARGETS_LABEL } from './naming/rfc2782.js';
import { addressSet, type SetOrder, type SrvItem, srvSet, type WeightedAddress } from './sets.js';

export interface CompiledSet {
  readonly type: number;
  readonly bytes: Uint8Array;
}

/** An endpoint with what its records are made of. */
interface Endpoint {
  readonly row: Row;
  readonly address: Uint8Array;
}

/**
 * SRV records of all rows, best priority first. Rows that differ in protocol only make one record (RFC 2181 s.5),
 * with the better priority and the greater weight. A target whose name is over 255 octets has no record.
 */
export function compileSrv(rows: readonly Row[], zone: Uint8Array, ttl: number, order: SetOrder): CompiledSet[] {
  const items = new Map<string, SrvItem>();
  for (const { row, address } of endpoints(rows)) {
    const key = `${row.address} ${row.port}`;
    const known = items.get(key);
    const target = known?.target ?? joinName([targetLabel(address), TARGETS_LABEL], zone);
    if (target === undefined) continue;
    const { port } = row;
    const better = known === undefined || row.priority < known.priority;
    const same = known !== undefined && row.priority === known.priority;
    const priority = better ? row.priority : known.priority;
    const weight = better ? row.weight : same ? Math.max(row.weight, known.weight) : known.weight;
    items.set(key, { priority, weight, port, target, targetKey: row.address, address });
  }
  if (items.size === 0) return [];
  const sorted = [...items.values()].sort((a, b) => a.priority - b.priority);
  return [{ type: TYPE.SRV, bytes: srvSet(ttl, sorted, order) }];
}

/**
 * A and AAAA records of the best priority. An address stands once, with the greatest weight of its rows: two ports of
 * one host do not make it twice as strong. Weight 0 is given only when nothing else is left.
 */
export function compileAddresses(rows: readonly Row[], ttl: number, order: SetOrder): CompiledSet[] {
  const best = rows.reduce((least, row) => Math.min(least, row.priority), Number.POSITIVE_INFINITY);
  const preferred = rows.filter((row) => row.priority === best);
  const weighty = preferred.filter((row) => row.weight > 0);
  const weights = new Map<string, WeightedAddress>();
  for (const { row, address } of endpoints(weighty.length > 0 ? weighty : preferred)) {
    const known = weights.get(row.address);
    if (known === undefined || known.weight < row.weight) weights.set(row.address, { address, weight: row.weight });
  }
  const sets: CompiledSet[] = [];
  for (const [type, length] of ADDRESS_TYPES) {
    const family = [...weights.values()].filter(({ address }) => address.length === length);
    if (family.length > 0) sets.push({ type, bytes: addressSet(ttl, family, order) });
  }
  return sets;
}

const ADDRESS_TYPES = [
  [TYPE.A, 4],
  [TYPE.AAAA, 16],
] as const;

function endpoints(rows: readonly Row[]): Endpoint[] {
  const found: Endpoint[] = [];
  for (const row of rows) {
    const address = addressBytes(row.address);
    if (address !== undefined) found.push({ row, address });
  }
  return found;
}
