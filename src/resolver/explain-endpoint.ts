/** Why one endpoint is in or out: the cell of the table (R10), the ages of its words, and what its record type carries (R24). */
import type { EndpointExplanation, ProbeRun } from '../admin/documents.js';
import type { CatalogRow, Foreign } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { type Word, wordOf } from '../health/decide.js';
import type { Run } from '../health/history.js';
import type { Ejection } from '../health/reports.js';
import type { Verdict } from '../health/verdicts.js';
import { isHostName } from '../registry/rows.js';
import type { BootMs, Instant } from '../system/clock.js';
import type { Zone } from './zone.js';

/** What became of an endpoint. */
export interface Fate {
  /** In the answer by the table or the floor, whatever the type. */
  readonly answerable: boolean;
  /** The floor gives the answer (R11). */
  readonly floored: boolean;
  /** Why an answer of this type goes without it (R24). */
  readonly without: string | undefined;
}

const WORDS: Readonly<Record<Word, string>> = {
  listed: 'the registry lists it',
  critical: 'the registry calls it critical',
  draining: 'it drains',
  'absent-guarded': 'the registry dropped it, and the guard holds it',
  'absent-released': 'the registry dropped it',
};

const FOREIGN: Readonly<Record<Foreign, string>> = {
  claimed: 'another zone lists its address since the last word on it',
  'wrong-identity': 'another service answers there',
};
const DOUBTED =
  "; it has failed hard, its address may be another one's by now, and the registry is not heard to say so (R19)";

export function explainEndpoint(
  service: Service,
  row: CatalogRow,
  fate: Fate,
  verdict: Verdict | undefined,
  runs: readonly Run[],
  zone: Zone,
  ejection: Ejection | undefined,
  now: Instant,
): EndpointExplanation {
  const age = (at: BootMs | undefined): number | undefined =>
    at === undefined ? undefined : Math.round(now.boot - at);
  const heldFor = zone.sources.heldFor(service, row, now.boot);
  const { layers } = zone.sources;
  const optional = {
    lastResultMs: age(verdict?.lastResult),
    lastSuccessMs: age(verdict?.lastSuccess),
    failingForMs: age(verdict?.failingSince),
    lastFailure: verdict?.lastFailure,
    drainedBy: row.drained ? ('operator' as const) : row.leaving ? ('endpoint' as const) : undefined,
    ejectedForMs: ejection === undefined ? undefined : Math.round(ejection.until - now.boot),
    heldForMs: heldFor === undefined ? undefined : Math.round(heldFor),
  };
  const known = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined));
  return {
    id: row.id,
    address: row.address,
    ...(row.host === undefined ? {} : { host: row.host }),
    port: row.port,
    protocol: row.protocol,
    priority: row.priority,
    weight: row.weight,
    tags: [...row.tags],
    word: wordOf(row),
    probe: row.column,
    answered: fate.answerable && fate.without === undefined,
    why: why(row, fate, verdict, ejection),
    ...(layers.several ? { registries: layers.saidBy(service, row).map(({ identity }) => identity) } : {}),
    ...known,
    ...(verdict === undefined ? {} : { results: runs.map((run) => describeRun(run, now)).reverse() }),
  };
}

function describeRun({ failure, detail, isVoid, count, first, last, took }: Run, now: Instant): ProbeRun {
  return {
    outcome: failure ?? 'pass',
    ...(detail === undefined ? {} : { detail }),
    ...(isVoid ? { void: true as const } : {}),
    count,
    firstMs: Math.round(now.boot - first),
    lastMs: Math.round(now.boot - last),
    tookMs: Math.round(took),
  };
}

function drainer(row: CatalogRow): string {
  return row.drained ? "an operator's word (holdfast drain)" : row.leaving ? 'its own word' : "the registry's word";
}

function why(
  row: CatalogRow,
  { answerable, floored, without }: Fate,
  verdict: Verdict | undefined,
  ejection: Ejection | undefined,
): string {
  const word = wordOf(row);
  const flip = word === 'critical' && row.hold !== undefined ? ' while the guard holds the flip' : '';
  const probe =
    verdict === undefined
      ? 'it is not probed'
      : row.column === 'no-word'
        ? row.longDead
          ? 'it had failed for long when last probed, so silence does not bring it back (R14)'
          : 'there is no fresh probe result'
        : row.column === 'passes'
          ? 'its probe passes'
          : `its probe fails${verdict.lastFailure === undefined ? '' : `: ${verdict.lastFailure}`}`;
  const drained = word === 'draining' ? `, by ${drainer(row)}` : '';
  const other = row.foreign === undefined ? '' : `; ${FOREIGN[row.foreign]}, so it is never answered (R19)`;
  const doubted = row.doubted && verdict?.column !== 'fails' ? DOUBTED : '';
  const softCap =
    answerable && !floored && row.column === 'fails' ? '; soft failures may not take more than their share (R12)' : '';
  const reported =
    ejection === undefined
      ? ''
      : `; clients could not connect (${ejection.failure}), ${answerable ? 'but too many would be missing' : 'so it is out for a while'} (R20)`;
  const verb = !answerable
    ? 'held back'
    : without === undefined
      ? 'answered'
      : `not in this answer: ${without}; answerable`;
  return `${verb}${answerable && floored ? ' by the floor' : ''}: ${WORDS[word]}${drained}${flip}, ${probe} (R10)${softCap}${reported}${other}${doubted}`;
}

/**
 * Why an answer of one type goes without an endpoint that is answerable (R24); undefined for those that it carries.
 * `types`: those that the name may have.
 */
export function leftOutOf(
  type: string,
  types: readonly string[],
  answerable: readonly CatalogRow[],
): (row: CatalogRow) => string | undefined {
  if (!types.includes(type)) return () => `the name has no ${type} (R21)`;
  if (type === 'SRV') return () => undefined;
  const placed = answerable.filter(({ address }) => !isHostName(address));
  const best = placed.reduce((least, row) => Math.min(least, row.priority), Number.POSITIVE_INFINITY);
  const weighty = placed.some((row) => row.priority === best && row.weight > 0);
  return (row) => {
    if (isHostName(row.address)) return 'no address is known of its host name yet (R28)';
    if (row.address.includes(':') !== (type === 'AAAA'))
      return `${type} carries ${type === 'A' ? 'IPv4' : 'IPv6'} addresses only (R24)`;
    if (row.priority !== best) return `${type} carries the best priority only (R24)`;
    if (row.weight === 0 && weighty) return 'its weight is 0 and others have more (R24)';
    return undefined;
  };
}
