import type { CatalogRow, Column } from '../catalog/row.js';

/** The registry's last believable word about a row: the rows of R10's table. */
export type Word = 'listed' | 'critical' | 'draining' | 'absent-guarded' | 'absent-released';

export type Decision = 'answer' | 'hold back' | 'remove';

const TABLE: Readonly<Record<Word, Readonly<Record<Column, Decision>>>> = {
  listed: { passes: 'answer', fails: 'hold back', 'no-word': 'answer' },
  critical: { passes: 'hold back', fails: 'hold back', 'no-word': 'hold back' },
  draining: { passes: 'hold back', fails: 'hold back', 'no-word': 'hold back' },
  'absent-guarded': { passes: 'answer', fails: 'hold back', 'no-word': 'answer' },
  'absent-released': { passes: 'remove', fails: 'remove', 'no-word': 'remove' },
};

/**
 * R10. `flipGuarded`: the guard holds the row's flip to critical, so it stands where it was.
 * `longDead` (R14): it had failed for that long at its last result, so silence does not bring it back.
 */
export function decide(word: Word, column: Column, flipGuarded: boolean, longDead: boolean): Decision {
  const seen: Column = column === 'no-word' && longDead ? 'fails' : column;
  return TABLE[word === 'critical' && flipGuarded ? 'listed' : word][seen];
}

export function wordOf(row: CatalogRow): Word {
  if (!row.listed && row.hold === undefined) return 'absent-released';
  if (row.draining) return 'draining';
  if (!row.listed) return 'absent-guarded';
  if (row.state === 'critical') return row.state;
  return 'listed';
}

/** Passes or has no word, R14 apart. */
export function notFailing(row: CatalogRow): boolean {
  return row.column === 'passes' || (row.column === 'no-word' && !row.longDead);
}
