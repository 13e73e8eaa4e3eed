/** What DNS answers to a question, and why: the outcome is a real reply's, the reasons are the rules'. */
import type { EndpointExplanation, Explanation } from '../admin/documents.js';
import { NAME_FORM } from '../answers/naming/form.js';
import type { AnswerTable } from '../answers/table.js';
import type { Service } from '../catalog/service.js';
import type { ListenAddress } from '../config/types.js';
import { prefixBytes } from '../dns/addresses.js';
import { TYPE } from '../dns/constants.js';
import { typeName, typeNumber } from '../dns/type-names.js';
import { familyOf } from '../health/networks.js';
import type { VerdictStore } from '../health/verdicts.js';
import type { BootMs, Instant } from '../system/clock.js';
import { beliefWords, neverWords, zoneWords } from './explain-belief.js';
import { explainDemand } from './explain-demand.js';
import { explainEndpoint, leftOutOf } from './explain-endpoint.js';
import { meaningOf, reversedAddress } from './explain-name.js';
import { holderOf, type NameMeaning } from './name-meaning.js';
import { askOwn, formBelow, type OwnReply } from './own-reply.js';
import type { ReportDesk } from './report-desk.js';
import { zoneView } from './status.js';
import { describeAge } from './status-text.js';
import type { Zone } from './zone.js';

export interface ExplainSource {
  readonly zones: readonly Zone[];
  readonly verdicts: VerdictStore;
  readonly desk: ReportDesk;
  readonly table: AnswerTable;
  /** All addresses that are listened on, as zones count them. */
  readonly listens: readonly ListenAddress[];
  /** Names that no zone owns are forwarded. */
  readonly forwards: boolean;
}

const FLOORS = {
  critical: 'nothing is answerable, so those that the registry calls critical and that do not fail are answered (R11)',
  draining: 'nothing is answerable, so those that drain and do not fail are answered (R11)',
  'failed last': 'everything fails, so those that failed last are answered (R11)',
  all: 'everything fails and nothing tells them apart, so all are answered (R11)',
} as const;

const LOOPBACK = Uint8Array.of(127, 0, 0, 1);

/** Throws on a name without wire form and on a type that does not exist. */
export function explain(source: ExplainSource, name: string, typed: string, now: Instant): Explanation {
  const wanted = name === '.' ? name : name.toLowerCase().replace(/\.$/, '');
  const number = typeNumber(typed);
  if (number === undefined) throw new Error(`${typed} is no record type`);
  const owners = ownersOf(source, wanted);
  const [first, ...others] = [...owners].map(([zone, listen]) => explainIn(source, zone, listen, wanted, number, now));
  if (first === undefined) return explainForeign(source, wanted, typeName(number), number, now);
  return others.length === 0 ? first : { ...first, others };
}

/** @param listen index of an address where the name is the zone's */
function explainIn(
  source: ExplainSource,
  zone: Zone,
  listen: number,
  wanted: string,
  number: number,
  now: Instant,
): Explanation {
  const type = typeName(number);
  const asked = askAsAllowed(source, wanted, number, [[zone, listen]]);
  const { words } = asked;
  const special = specialType(number);
  const below = wanted === zone.config.name ? '' : wanted.slice(0, -zone.config.name.length - 1);
  const form = formBelow(
    { ...zone.config, looksUp: zone.demand !== undefined },
    wanted,
    zone.config.name.split('.').length,
  );
  const looksUp = zone.demand !== undefined && form === NAME_FORM && asked.reply.outcome === 'forwarded';
  const demand = looksUp ? explainDemand(zone, below, now) : undefined;
  const { outcome } = demand ?? asked.reply;
  const base = { name: wanted, type, zone: zone.config.name, outcome, ...zoneView(zone.config) };
  if (special !== undefined) return { ...base, stale: zone.isStale(now.boot), because: [special], endpoints: [] };
  const reply: OwnReply = demand === undefined || outcome === 'look-up' ? asked.reply : { ...asked.reply, outcome };
  const meaning = meaningOf(zone, below, reply.outcome === 'answer' || reply.outcome === 'nodata', form);
  const stale = zone.sources.isStale(now.boot, zone.config.softTtl, meaning.service);
  // Of a service that is known it is another reason (R19).
  const never =
    demand === undefined && meaning.service === undefined && reply.outcome === 'servfail' && !zone.sources.complete;
  const because = [
    ...(never ? [neverWords(zone)] : (demand?.words.length ?? 0) > 0 ? demand!.words : meaning.words),
    ...typeWords(meaning, reply, type),
    ...beliefWords(zone, meaning.service, below, now.boot),
    ...zoneWords(zone, stale, now.boot),
    ...words,
  ];
  const endpoints = explainEndpoints(source, zone, meaning, reply, type, because, now);
  because.push(...edeWords(reply));
  const service = meaning.service === undefined ? {} : { service: meaning.service.name };
  return { ...base, ...service, stale, because, endpoints };
}

/** A name of no zone: of an address (R23), or of nobody. */
function explainForeign(source: ExplainSource, name: string, type: string, number: number, now: Instant): Explanation {
  const address = reversedAddress(name);
  const holders = address === undefined ? [] : source.zones.filter((zone) => zone.names.kept.has(address));
  const { reply, words } = askAsAllowed(
    source,
    name,
    number,
    holders.map((zone) => [zone, zone.listen?.[0] ?? 0]),
  );
  const base = { name, type, outcome: reply.outcome, endpoints: [] };
  const special = specialType(number);
  const zone = reply.pointer === undefined ? holders[0] : longestMatch(source.zones, reply.pointer);
  if (special !== undefined) return { ...base, stale: false, because: [special] };
  if (address === undefined || zone === undefined || reply.outcome === 'refused') {
    if (source.forwards) {
      const words = 'no zone of ours has this name (R21): it is forwarded, for clients that may ask so';
      return { ...base, outcome: 'forwarded', stale: false, because: [words] };
    }
    const nobody =
      address === undefined
        ? 'no zone of ours has this name (R21), and nothing is forwarded'
        : `no zone has an endpoint with ${address} (R23), and nothing is forwarded`;
    return { ...base, stale: false, because: [nobody, ...edeWords(reply)] };
  }
  const stale = zone.isStale(now.boot);
  const pointer = reply.pointer === undefined ? [] : [`its name is ${reply.pointer}`];
  const because = [
    `the reverse name of ${address}, ${holderOf(zone, address)} (R23)`,
    ...pointer,
    ...typeWords({ types: ['PTR'], words: [] }, reply, type),
    ...zoneWords(zone, stale, now.boot),
    ...words,
  ];
  return { ...base, zone: zone.config.name, stale, because };
}

/** The reply that a client of the first zone that lets one in is given, at the address of that index. */
function askAsAllowed(
  { table, listens }: ExplainSource,
  name: string,
  type: number,
  zones: readonly (readonly [zone: Zone, listen: number])[],
): { readonly reply: OwnReply; readonly words: readonly string[] } {
  const ask = (from: Uint8Array, listen: number): OwnReply => {
    const reply = askOwn(table, { name, type, from, listen });
    if (reply === undefined) throw new Error(`${name} is no domain name`);
    return reply;
  };
  for (const [zone, listen] of zones) {
    const { address, port } = listens[listen]!;
    const words =
      zone.listen === undefined && listen === 0
        ? []
        : [`asked on ${address} port ${port}, where the zone exists (R31)`];
    const reply = ask(LOOPBACK, listen);
    if (reply.outcome !== 'refused') return { reply, words };
    for (const prefix of zone.config.allow) {
      const allowed = ask(prefixBytes(prefix)?.network ?? LOOPBACK, listen);
      if (allowed.outcome === 'refused') continue;
      return { reply: allowed, words: [...words, `as a client of ${prefix} is told; 127.0.0.1 is refused (R31)`] };
    }
  }
  return { reply: ask(LOOPBACK, zones[0]?.[1] ?? 0), words: [] };
}

function explainEndpoints(
  { verdicts, desk }: ExplainSource,
  zone: Zone,
  { service, rows, types }: NameMeaning,
  reply: OwnReply,
  type: string,
  because: string[],
  now: Instant,
): EndpointExplanation[] {
  if (service === undefined || rows === undefined) return [];
  const { rows: answerable, step } = zone.health.answerOf(service, rows);
  if (step !== undefined) because.push(FLOORS[step]);
  if (rows.length > 0 && answerable.length === 0)
    because.push('every endpoint that is left belongs to others, which is worse than none (R19)');
  if ([...service.rows.values()].some((row) => row.hold !== undefined)) {
    because.push('the guard holds rows that the registry took away: too much would be missing (R8)');
  }
  because.push(...proberWords(verdicts, zone, service, now.boot));
  const given = reply.type === undefined ? type : typeName(reply.type);
  const without = leftOutOf(given, types, answerable);
  const { maxAnswers, order } = zone.probes.settings(service);
  const carried = answerable.filter((row) => without(row) === undefined).length;
  if (maxAnswers !== undefined && carried > maxAnswers)
    because.push(
      `each answer carries ${maxAnswers} of these ${carried}, ${order === 'stable' ? 'in their order from another start each time' : 'drawn anew each time'} (R24)`,
    );
  const inAnswer = new Set(answerable);
  return rows.map((row) => {
    const fate = { answerable: inAnswer.has(row), floored: step !== undefined, without: without(row) };
    const { target } = row;
    const verdict = target === undefined ? undefined : verdicts.get(target);
    const runs = target === undefined ? [] : verdicts.results(target);
    return explainEndpoint(service, row, fate, verdict, runs, zone, desk.ejection(row), now);
  });
}

/** What of the prober's word on a service does not count. */
function proberWords(verdicts: VerdictStore, zone: Zone, service: Service, now: BootMs): string[] {
  const words: string[] = [];
  const rows = [...service.rows.values()];
  for (const family of [4, 6] as const) {
    const since = verdicts.suspectedSince(family);
    if (since === undefined || !rows.some(({ address }) => familyOf(address) === family)) continue;
    words.push(
      `timeouts over IPv${family} have not been believed for ${describeAge(now - since).text}: the fault is probably on this host (R16)`,
    );
  }
  const interval = zone.probes.interval(service);
  if (interval > zone.probes.settings(service).check.interval && rows.some(({ target }) => target !== undefined))
    words.push(`nobody has asked for it lately, so it is probed every ${describeAge(interval).text} (R17)`);
  if (zone.probes.onTrial(service))
    words.push("its check is the registry's word and has not passed once on this host, so it holds nothing back (R18)");
  return words;
}

/** What is refused or wrong whatever the name (RFC 6895 s.3.1). */
function specialType(type: number): string | undefined {
  if (type === TYPE.AXFR || type === TYPE.IXFR) return 'zones are not transferred';
  if (type === TYPE.OPT || type === TYPE.TSIG || type === TYPE.TKEY) return 'this type cannot be asked for';
  return undefined;
}

function typeWords({ types }: NameMeaning, reply: OwnReply, type: string): string[] {
  if (type === 'ANY' && reply.type !== undefined)
    return [`ANY is given one record set, here ${typeName(reply.type)} (RFC 8482)`];
  if (reply.outcome !== 'nodata' || types.includes(type)) return [];
  return [types.length === 0 ? 'the name has no records of its own (R21)' : `the name has ${listed(types)} only (R21)`];
}

function listed(types: readonly string[]): string {
  return types.length < 2 ? types.join() : `${types.slice(0, -1).join(', ')} and ${types.at(-1)}`;
}

function edeWords({ ede, outcome }: OwnReply): string[] {
  if (ede === undefined || outcome === 'answer') return [];
  return [`the reply carries EDE ${ede.code}${ede.text === '' ? '' : `: ${ede.text}`} (R26)`];
}

/** Whose the name is, on the addresses that are listened on: each owner with the first of these. The longest name first. */
function ownersOf({ zones, listens }: ExplainSource, name: string): Map<Zone, number> {
  const owners = new Map<Zone, number>();
  for (const listen of listens.keys()) {
    const here = zones.filter((zone) => zone.listen?.includes(listen) !== false);
    const owner = longestMatch(here, name);
    if (owner !== undefined && !owners.has(owner)) owners.set(owner, listen);
  }
  return new Map([...owners].sort(([a], [b]) => b.config.name.length - a.config.name.length));
}

function longestMatch(zones: readonly Zone[], name: string): Zone | undefined {
  let best: Zone | undefined;
  for (const zone of zones) {
    const own = zone.config.name;
    if ((name === own || name.endsWith(`.${own}`)) && own.length > (best?.config.name.length ?? 0)) best = zone;
  }
  return best;
}
