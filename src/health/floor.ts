import type { CatalogRow } from '../catalog/row.js';
import type { BootMs, Ms } from '../system/clock.js';
import { decide, notFailing, wordOf } from './decide.js';

export type FloorStep = 'critical' | 'draining' | 'failed last' | 'all';

export interface Floored {
  readonly rows: readonly CatalogRow[];
  /** Which step of R11 gave them; absent when R10 and R12 left some. */
  readonly step?: FloorStep;
}

/** What the floor asks about a row's past. */
export type LastSuccess = (row: CatalogRow) => BootMs | undefined;

/**
 * R10, then R12 and R20: sets `answerable` on every row. Soft failures and reports of clients may hold back at most
 * `softCap` of a priority's listed rows that do not fail hard; beyond it those with the newest success stay answered.
 * Reports never take the last.
 */
export function judge(rows: Iterable<CatalogRow>, softCap: number, lastSuccess: LastSuccess): void {
  const soft = new Map<number, { standing: number; failing: CatalogRow[] }>();
  const ejected: CatalogRow[] = [];
  let left = 0;
  for (const row of rows) {
    row.answerable = decide(wordOf(row), row.column, row.hold !== undefined, row.longDead) === 'answer';
    if (row.foreign !== undefined) row.answerable = false;
    if (row.answerable && row.ejected && row.passing) {
      ejected.push(row);
      row.answerable = false;
    }
    if (row.answerable) left++;
    if (!row.passing || row.hard || row.longDead || row.foreign !== undefined) continue;
    const group = soft.get(row.priority) ?? { standing: 0, failing: [] };
    soft.set(row.priority, group);
    group.standing++;
    if (row.column === 'fails' || row.ejected) group.failing.push(row);
  }
  for (const { standing, failing } of soft.values()) {
    const over = failing.length - Math.ceil(standing * softCap);
    if (over <= 0) continue;
    const newestFirst = failing.map((row) => ({ row, at: lastSuccess(row) ?? Number.NEGATIVE_INFINITY }));
    newestFirst.sort((a, b) => (a.at === b.at ? 0 : b.at - a.at));
    for (const { row } of newestFirst.slice(0, over)) row.answerable = true;
    left += over;
  }
  if (left === 0) for (const row of ejected) row.answerable = true;
}

/**
 * R11 on one set of rows that stand, listed or held (a service's, or those of a tag or port): what R10 and R12 left, or
 * the first of the steps that is not empty. What belongs to others is in none of them (R19). `newestSuccess` gives the
 * newest last success of the whole service.
 */
export function floor(
  rows: readonly CatalogRow[],
  failOpenWindow: Ms,
  newestSuccess: () => BootMs | undefined,
  lastSuccess: LastSuccess,
): Floored {
  const left = rows.filter((row) => row.answerable);
  if (left.length === rows.length) return { rows };
  if (left.length > 0) return { rows: left };
  const own = rows.filter((row) => row.foreign === undefined);
  // Of a tag or a port, reports may have taken the last (R20).
  const ejected = own.filter((row) => row.ejected && row.passing && notFailing(row));
  if (ejected.length > 0) return { rows: ejected };
  const critical = own.filter((row) => row.listed && row.state === 'critical' && !row.draining && notFailing(row));
  if (critical.length > 0) return { rows: critical, step: 'critical' };
  const draining = own.filter((row) => row.listed && row.draining && notFailing(row));
  if (draining.length > 0) return { rows: draining, step: 'draining' };
  const listed = own.filter((row) => row.listed);
  const last = listed.length > 0 ? listed : own;
  const newest = newestSuccess();
  if (newest !== undefined) {
    const recent = last.filter((row) => {
      const at = lastSuccess(row);
      return at !== undefined && newest - at <= failOpenWindow;
    });
    if (recent.length > 0) return { rows: recent, step: 'failed last' };
  }
  return last.length > 0 ? { rows: last, step: 'all' } : { rows: [] };
}
