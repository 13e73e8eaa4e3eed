/** From rows to record sets (R24). */
import { addressBytes, quad, targetLabelLength } from '../dns/addresses.js';
import { MAX_NAME, TYPE } from '../dns/constants.js';
import { nameToWire } from '../dns/names.js';
import type { Row } from '../registry/registry.js';
import type { Naming, Target } from './naming/naming.js';
import { addressSet, type SetOrder, type SrvItem, srvSet, type WeightedAddress } from './sets.js';

export interface CompiledSet {
  readonly type: number;
  readonly bytes: Uint8Array;
}

/**
 * SRV records of all rows, best priority first. Rows that differ in protocol only make one record (RFC 2181 s.5),
 * with the better priority and the greater weight. A target whose name is over 255 octets has no record.
 */
export function compileSrv(
  rows: readonly Row[],
  naming: Pick<Naming, 'targets' | 'target'>,
  ttl: number,
  order: SetOrder,
): CompiledSet[] {
  const { targets } = naming;
  const items = new Map<string, SrvItem>();
  for (const row of rows) {
    const target = row.host === undefined ? naming.target(row) : hostTarget(row.host);
    if (!hasRecords(row) && target === undefined) continue;
    if (target === undefined && (!targets || targetLabelLength(row.address) + 1 + targets.length > MAX_NAME)) continue;
    const key = `${target?.key ?? row.address} ${row.port}`;
    const known = items.get(key);
    if (known !== undefined && (row.priority > known.priority || !isBetter(row, known))) continue;
    const { address, port, priority, weight } = row;
    items.set(key, target === undefined ? row : { address, port, priority, weight, named: target });
  }
  if (items.size === 0) return [];
  const sorted = [...items.values()].sort((a, b) => a.priority - b.priority);
  return [{ type: TYPE.SRV, bytes: srvSet(ttl, sorted, targets, order) }];
}

/** R28: the target of an endpoint that is listed by host name is that name. */
function hostTarget(host: string): Target | undefined {
  const wire = nameToWire(host);
  return wire && { key: `host ${host}`, wire, outside: true };
}

function isBetter(a: SrvItem, b: SrvItem): boolean {
  return a.priority < b.priority || a.weight > b.weight;
}

/**
 * A and AAAA records of the best priority. An address stands once, with the greatest weight of its rows: two ports of
 * one host do not make it twice as strong. Weight 0 is given only when nothing else is left.
 */
export function compileAddresses(given: readonly Row[], ttl: number, order: SetOrder): CompiledSet[] {
  // Those that have only a name so far give no address, of whatever priority (R28).
  const rows = given.every(hasRecords) ? given : given.filter(hasRecords);
  const best = rows.reduce((least, row) => Math.min(least, row.priority), Number.POSITIVE_INFINITY);
  const preferred = rows.filter((row) => row.priority === best);
  const weighty = preferred.filter((row) => row.weight > 0);
  const weights = new Map<string, WeightedAddress>();
  for (const row of weighty.length > 0 ? weighty : preferred) {
    const known = weights.get(row.address);
    if (known === undefined || known.weight < row.weight) weights.set(row.address, row);
  }
  const all = [...weights.values()];
  const four = all.filter(({ address }) => !address.includes(':'));
  const six = four.length === all.length ? [] : all.filter(({ address }) => address.includes(':'));
  const sets: CompiledSet[] = [];
  if (four.length > 0) sets.push({ type: TYPE.A, bytes: addressSet(ttl, four, order) });
  if (six.length > 0) sets.push({ type: TYPE.AAAA, bytes: addressSet(ttl, six, order) });
  return sets;
}

/** Only what is an IP address has records. */
function hasRecords(row: Row): boolean {
  return row.address.includes(':') ? addressBytes(row.address) !== undefined : quad(row.address) >= 0;
}
