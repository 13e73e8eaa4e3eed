/** What `status`, `explain` and `_status.ZONE` tell of zones is what they answer. */
import type { ZoneStatus } from '../src/admin/documents.js';
import type { Service } from '../src/catalog/service.js';
import { isHostName } from '../src/registry/rows.js';
import type { Zone } from '../src/resolver/zone.js';
import { parseQuestion } from './scenario-engine/client.js';
import type { World } from './scenario-engine/world.js';

const OUTCOMES: Readonly<Record<string, string>> = { NXDOMAIN: 'nxdomain', SERVFAIL: 'servfail' };

/** Throws when something is told otherwise than it is. */
export function checkTold(world: World): void {
  const { resolver, now } = world;
  for (const status of resolver.zoneStatus(now)) {
    const zone = resolver.zone(status.name)!;
    const equal = equality(status.name);
    const services = [...zone.catalog.services.values()];
    checkStatus(status, zone, services, equal);
    checkText(world, status, equal);
    checkSources(zone, equal);
    for (const service of services) {
      checkRows(zone, service);
      for (const type of ['A', 'SRV']) checkExplained(world, zone, service, type, equal);
    }
  }
}

type Equal = (what: string, told: unknown, is: unknown) => void;

function equality(zone: string): Equal {
  return (what, told, is) => {
    const [a, b] = [JSON.stringify(told), JSON.stringify(is)];
    if (a !== b) throw new Error(`${zone}: ${what} is told as ${a}, and is ${b}`);
  };
}

function checkStatus(status: ZoneStatus, zone: Zone, services: readonly Service[], equal: Equal): void {
  const rows = services.flatMap((service) => service.standing());
  const all = services.flatMap((service) => service.rows.values());
  const named = (test: (service: Service) => boolean) => services.filter(test).map(({ name }) => name);
  equal('services', status.services, named(({ known }) => known).length);
  equal('endpoints', status.endpoints, rows.length);
  equal('answered', status.answered, rows.filter(({ answered }) => answered).length);
  equal('guarded', status.guarded, rows.filter(({ hold }) => hold !== undefined).length);
  equal('probed', zone.health.probed, all.filter(({ target }) => target !== undefined).length);
  const floored = (one: Service) => one.known && zone.health.answerOf(one, one.standing()).step !== undefined;
  const withheld = (one: Service) => one.standing().length > 0 && !one.standing().some(({ answered }) => answered);
  const held = (one: Service) => one.rows.values().some(({ hold }) => hold !== undefined);
  equal('floor', status.floor.toSorted(), named(floored).sort());
  equal('withheld', status.withheld.toSorted(), named(withheld).sort());
  equal('guarded services', status.guard.services.toSorted(), named(held).sort());
}

function checkText(world: World, status: ZoneStatus, equal: Equal): void {
  const [record] = world.ask(parseQuestion('_status TXT +tcp', status.name)).answers;
  const { data = [] } = (record ?? {}) as { data?: readonly string[] };
  const words = Object.fromEntries(data.map((word) => String(word).split('=')));
  for (const key of ['state', 'heard', 'source', 'services', 'endpoints', 'answered'] as const)
    equal(`${key} by TXT`, words[key], String(status[key]));
}

function checkSources(zone: Zone, equal: Equal): void {
  for (const [index, { catalog, answerable }] of zone.sources.all.entries()) {
    const own = [...catalog.services.values()];
    const rows = own.flatMap((service) => service.rows.values());
    const inAnswers = own.reduce((sum, service) => sum + service.answerable, 0);
    if (zone.sources.all.length > 1) equal(`answerable of registry ${index}`, answerable, inAnswers);
    const listed = { services: own.filter((one) => one.listed).length, rows: rows.filter((row) => row.listed).length };
    equal(`listed of registry ${index}`, catalog.listed, listed);
    equal(`rows of registry ${index}`, catalog.rows, rows.length);
  }
}

function checkRows(zone: Zone, service: Service): void {
  for (const { id, holder, address } of service.rows.values()) {
    if (holder === undefined) throw new Error(`${id} of ${service.name} is not seen`);
    if (!isHostName(address) && !zone.names.kept.has(address)) throw new Error(`${address} has no name (R23)`);
  }
}

function checkExplained(world: World, zone: Zone, service: Service, type: string, equal: Equal): void {
  const { name } = zone.config;
  const told = world.resolver.explain(`${service.name}.${name}`, type, world.now);
  const { rcode, answers, ede } = world.ask(parseQuestion(`${service.name} ${type} +tcp`, name));
  const outcome = OUTCOMES[rcode] ?? (answers.length > 0 ? 'answer' : 'nodata');
  equal(`outcome of ${service.name} ${type}`, told.outcome, outcome);
  if (outcome !== 'answer') return;
  const guarded = service.standing().some(({ hold }) => hold !== undefined);
  equal(`staleness of ${service.name}`, told.stale || guarded, ede[0]?.code === 3);
  if (type !== 'A') return;
  const given = answers.map((rr) => (rr as unknown as { address: string }).address);
  const explained = told.endpoints.filter(({ answered }) => answered).map(({ address }) => address);
  equal(`A of ${service.name}`, [...new Set(explained)].sort(), given.sort());
}
