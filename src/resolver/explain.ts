/** Why each endpoint of a name is in or out: which cell of the table (R10), which ages, which floor. */
import type { EndpointExplanation, Explanation } from '../admin/documents.js';
import type { CatalogRow } from '../catalog/row.js';
import type { Service } from '../catalog/service.js';
import { type Word, wordOf } from '../health/decide.js';
import type { Verdict, VerdictStore } from '../health/verdicts.js';
import type { BootMs, Instant } from '../system/clock.js';
import { describeAge } from './status-text.js';
import type { Zone } from './zone.js';

interface Place {
  readonly service: Service;
  /** What narrows the service's rows, in words, and the rows that are left. */
  readonly narrowed: string | undefined;
  readonly rows: readonly CatalogRow[];
}

const FLOORS = {
  critical: 'nothing is answerable, so those that the registry calls critical and that do not fail are answered (R11)',
  draining: 'nothing is answerable, so those that drain and do not fail are answered (R11)',
  'failed last': 'everything fails, so those that failed last are answered (R11)',
  all: 'everything fails and nothing tells them apart, so all are answered (R11)',
} as const;

export function explain(
  zones: readonly Zone[],
  verdicts: VerdictStore,
  name: string,
  type: string,
  now: Instant,
): Explanation {
  const wanted = name.toLowerCase().replace(/\.$/, '');
  const zone = longestMatch(zones, wanted);
  const base = { name: wanted, type, stale: false, endpoints: [] };
  if (zone === undefined) {
    return { ...base, outcome: 'refused', because: ['no zone of ours has this name (R21), and nothing is forwarded'] };
  }
  const stale = zone.isStale(now.boot);
  const common = { ...base, zone: zone.config.name, stale };
  const because = zoneWords(zone, stale, now.boot);
  if (zone.source === 'none') {
    return {
      ...common,
      outcome: 'servfail',
      because: ['the zone has never had a list or a snapshot (R25)', ...because],
    };
  }
  const below = wanted === zone.config.name ? '' : wanted.slice(0, -zone.config.name.length - 1);
  if (below === '' || below === '_status')
    return { ...common, outcome: 'answer', because: ["the zone's own name (R27)"] };
  const place = locate(zone, below.split('.'));
  if (place === undefined) {
    return {
      ...common,
      outcome: 'nxdomain',
      because: ['no service has this name, or it fits no form (R21, R25)', ...because],
    };
  }
  const { rows: answered, step } = zone.answerOf(place.service, place.rows);
  const set = new Set(answered);
  if (place.narrowed !== undefined) because.push(place.narrowed);
  if (step !== undefined) because.push(FLOORS[step]);
  if ([...place.service.rows.values()].some((row) => row.hold !== undefined)) {
    because.push('the guard holds rows that the registry took away: too much would be missing (R8)');
  }
  const best = Math.min(...answered.map((row) => row.priority));
  const address = type === 'A' || type === 'AAAA';
  const served = answered.filter(
    (row) => !address || (row.priority === best && row.address.includes(':') === (type === 'AAAA')),
  );
  if (address && answered.some((row) => row.priority !== best))
    because.push('A and AAAA carry the best priority only (R24)');
  return {
    ...common,
    service: place.service.name,
    outcome: served.length > 0 && ['A', 'AAAA', 'SRV', 'ANY'].includes(type) ? 'answer' : 'nodata',
    because,
    endpoints: place.rows.map((row) =>
      describe(row, set.has(row), step !== undefined, verdictOf(row, verdicts), zone, now),
    ),
  };
}

function longestMatch(zones: readonly Zone[], name: string): Zone | undefined {
  let best: Zone | undefined;
  for (const zone of zones) {
    const own = zone.config.name;
    if ((name === own || name.endsWith(`.${own}`)) && own.length > (best?.config.name.length ?? 0)) best = zone;
  }
  return best;
}

function zoneWords(zone: Zone, stale: boolean, now: BootMs): string[] {
  const words: string[] = [];
  if (!zone.heard) {
    const since = describeAge(now - zone.heardSince.boot).text;
    words.push(`the registry has not been heard for ${since}: ${zone.reason}; nothing moves, capacity is frozen (R4)`);
  }
  if (stale)
    words.push(
      `stale: last confirmed ${zone.lastConfirmed === undefined ? 'before a restart' : `${describeAge(now - zone.lastConfirmed).text} ago`}; answered as before (R1)`,
    );
  return words;
}

/** The service that a name below the zone is about, and the rows that its form narrows to (R21). */
function locate(zone: Zone, labels: readonly string[]): Place | undefined {
  const [first = '', second = ''] = labels;
  const find = (label: string): Service | undefined => {
    const owner = zone.names.labels.owner(label);
    const service = owner === undefined ? undefined : zone.catalog.services.get(owner);
    return service?.known ? service : undefined;
  };
  const narrow = (service: Service | undefined, narrowed: string | undefined, keep: (row: CatalogRow) => boolean) => {
    if (service === undefined) return undefined;
    const rows = service.standing().filter(keep);
    return rows.length === 0 && narrowed !== undefined ? undefined : { service, narrowed, rows };
  };
  const proto = second.slice(1);
  const hasTag = (row: CatalogRow, tag: string): boolean => row.tags.some((one) => one.toLowerCase() === tag);
  if (first.startsWith('_') && second.startsWith('_')) {
    const word = first.slice(1);
    if (labels.length === 2) return narrow(find(word), `only ${proto}`, (row) => row.protocol === proto);
    const ofPort = (row: CatalogRow): boolean => row.portName === word && row.protocol === proto;
    if (labels.length === 3) return narrow(find(labels[2]!), `only the port ${word}/${proto}`, ofPort);
    if (labels.length !== 4) return undefined;
    const tag = labels[2]!;
    return narrow(
      find(labels[3]!),
      `only the port ${word}/${proto} of the tag ${tag}`,
      (row) => ofPort(row) && hasTag(row, tag),
    );
  }
  if (labels.length === 1) return narrow(find(first), undefined, () => true);
  if (labels.length === 2) return narrow(find(second), `only the tag ${first}`, (row) => hasTag(row, first));
  return undefined;
}

function verdictOf(row: CatalogRow, verdicts: VerdictStore): Verdict | undefined {
  return row.target === undefined ? undefined : verdicts.get(row.target);
}

function describe(
  row: CatalogRow,
  answered: boolean,
  floored: boolean,
  verdict: Verdict | undefined,
  zone: Zone,
  now: Instant,
): EndpointExplanation {
  const age = (at: BootMs | undefined): number | undefined =>
    at === undefined ? undefined : Math.round(now.boot - at);
  const optional = {
    lastResultMs: age(verdict?.lastResult),
    lastSuccessMs: age(verdict?.lastSuccess),
    failingForMs: age(verdict?.failingSince),
    lastFailure: verdict?.lastFailure,
    heldForMs: row.hold === undefined ? undefined : Math.round(zone.heardClock.at(now.boot) - row.hold.since),
  };
  const known = Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined));
  return {
    id: row.id,
    address: row.address,
    port: row.port,
    protocol: row.protocol,
    priority: row.priority,
    weight: row.weight,
    tags: [...row.tags],
    word: wordOf(row),
    probe: row.column,
    answered,
    why: why(row, wordOf(row), answered, floored, verdict),
    ...known,
  };
}

const WORDS: Readonly<Record<Word, string>> = {
  listed: 'the registry lists it',
  critical: 'the registry calls it critical',
  draining: 'the registry drains it',
  'absent-guarded': 'the registry dropped it, and the guard holds it',
  'absent-released': 'the registry dropped it',
};

function why(row: CatalogRow, word: Word, answered: boolean, floored: boolean, verdict: Verdict | undefined): string {
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
  const softCap =
    answered && !floored && row.column === 'fails' ? '; soft failures may not take more than their share (R12)' : '';
  const verb = answered ? (floored ? 'answered by the floor' : 'answered') : 'held back';
  return `${verb}: ${WORDS[word]}${flip}, ${probe} (R10)${softCap}`;
}
