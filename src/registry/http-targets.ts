/**
 * Lists of targets in the form of Prometheus HTTP service discovery:
 *
 *     [{"targets": ["10.0.0.1:8080", "[fd00::1]:8080"], "labels": {"job": "orders"}}]
 *
 * The label that `serviceLabel` names gives the service. Labels below say the rest; Prometheus itself drops them.
 */
import type { FilterConfig, LimitsConfig } from '../config/types.js';
import { isShortName, quote, readRows } from './endpoint.js';
import { isOthers } from './filter.js';
import { readCheck } from './listed-check.js';
import { Notes } from './notes.js';
import type { ListedCheck, Listing, Listings, Rejected, Row } from './registry.js';
import { type AddressPolicy, collapseRows } from './rows.js';

const META = '__meta_holdfast_';
const FIELDS: Readonly<Record<string, string>> = {
  port_name: 'portName',
  protocol: 'protocol',
  weight: 'weight',
  priority: 'priority',
  state: 'state',
  zone: 'zone',
  id: 'id',
};
const CHECK: Readonly<Record<string, keyof ListedCheck>> = {
  check_type: 'type',
  check_port: 'port',
  check_path: 'path',
  check_tls_name: 'tlsName',
  check_status: 'status',
};
const DEFAULTS = { protocol: 'tcp', priority: 0, weight: 1 } as const;

export interface TargetsOptions {
  readonly serviceLabel: string;
  /** Of targets that have none. */
  readonly port: number | undefined;
  readonly policy: AddressPolicy;
  /** The name of the source in what is reported. */
  readonly where: string;
  readonly limits: LimitsConfig;
  /** Of other services nothing is read. */
  readonly filter?: FilterConfig | undefined;
}

export interface TargetsContents {
  readonly services: Listings;
  /** Those that put removals in doubt first. */
  readonly rejected: readonly Rejected[];
  /** R6: false when something could not be read: what is missing may be in it. */
  readonly removalsBelievable: boolean;
}

interface Service {
  readonly rows: Row[];
  check?: ListedCheck;
}

/** What a body says, or why it cannot be believed. */
export function readTargets(body: string, options: TargetsOptions): TargetsContents | string {
  let groups: unknown;
  try {
    groups = JSON.parse(body);
  } catch {
    return 'the body is not JSON';
  }
  return Array.isArray(groups) ? readGroups(groups, options) : 'the body is not a list of target groups';
}

/** What groups say that were read already, or why they cannot be believed. */
export function readGroups(groups: readonly unknown[], options: TargetsOptions): TargetsContents | string {
  const over = overLimit(groups, options);
  if (over !== undefined) return over;
  const notes = new Notes();
  const doubts = new Notes();
  const services = new Map<string, Service>();
  groups.forEach((group: unknown, index) => {
    const name = nameOf(group, options.serviceLabel);
    if (name !== undefined && isOthers(options.filter, name)) return;
    const where = `${options.where}: group ${index}`;
    for (const { what, reason, unread } of readGroup(group, options, services)) {
      (unread ? doubts : notes).add(what === undefined ? where : `${where}, ${what}`, reason);
    }
  });
  const unreadable = doubts.list(options.where);
  const [first] = unreadable;
  // What others have, which a filter leaves out, may be all that can be read.
  const isBare = options.filter === undefined && [...services.values()].every(({ rows }) => rows.length === 0);
  if (first !== undefined && isBare) {
    return `no endpoint can be read: ${first.where.slice(options.where.length + 2)}: ${first.reason}`;
  }
  const listings = [...services].map(([name, { rows, check }]): Listing => {
    const listing = { name, rows: collapseRows(rows) };
    return check === undefined ? listing : { ...listing, check };
  });
  return {
    services: listings,
    rejected: [...unreadable, ...notes.list(options.where)],
    removalsBelievable: first === undefined,
  };
}

/** Counted before anything is made of them: a list without measure shall not keep the lists of other zones waiting. */
function overLimit(
  groups: readonly unknown[],
  { serviceLabel, limits: { maxServices, maxEndpoints, maxEndpointsPerService } }: TargetsOptions,
): string | undefined {
  const places = new Map<string, Set<unknown>>();
  let all = 0;
  for (const group of groups) {
    const name = nameOf(group, serviceLabel);
    const { targets } = (group ?? {}) as { targets?: unknown };
    if (name === undefined || !Array.isArray(targets)) continue;
    let own = places.get(name);
    if (own === undefined) places.set(name, (own = new Set()));
    if (places.size > maxServices)
      return `${places.size} services or more, more than limits.maxServices (${maxServices})`;
    const before = own.size;
    for (const target of targets as unknown[]) own.add(target);
    all += own.size - before;
    if (own.size > maxEndpointsPerService)
      return `service ${quote(name)} has ${own.size} endpoints, more than limits.maxEndpointsPerService (${maxEndpointsPerService})`;
  }
  return all > maxEndpoints ? `${all} endpoints, more than limits.maxEndpoints (${maxEndpoints})` : undefined;
}

/** Of a group that may be none. */
function nameOf(group: unknown, serviceLabel: string): string | undefined {
  const { labels } = (group ?? {}) as { labels?: Record<string, unknown> | null };
  const name = labels?.[serviceLabel];
  return typeof name === 'string' && name !== '' ? name : undefined;
}

interface Fault {
  readonly reason: string;
  /** The part of the group that it is about. */
  readonly what?: string;
  /** It is not understood: what it means to say may be anything. Otherwise it is understood, and left out. */
  readonly unread?: true;
}

/** Adds what a group says to `services`. Returns what is wrong with it. */
function readGroup(group: unknown, options: TargetsOptions, services: Map<string, Service>): Fault[] {
  const given = (group ?? {}) as { targets?: unknown; labels?: unknown };
  // An empty list or map of Go is `null` in JSON, and Prometheus takes it for one.
  const targets = given.targets === null ? [] : given.targets;
  const labels = given.labels ?? {};
  if (!Array.isArray(targets)) return [{ reason: 'targets must be a list such as ["10.0.0.1:8080"]', unread: true }];
  if (typeof labels !== 'object' || labels === null || Array.isArray(labels))
    return [{ reason: 'labels must be a map', unread: true }];
  const named = new Map<string, unknown>(Object.entries(labels));
  const name = named.get(options.serviceLabel);
  if (name === undefined || name === '')
    return [{ reason: `no label ${options.serviceLabel}, which names the service` }];
  if (typeof name !== 'string') return [{ reason: `label ${options.serviceLabel} must be text`, unread: true }];
  if (!isShortName(name)) return [{ reason: `label ${options.serviceLabel} must be a short text, not ${quote(name)}` }];
  const faults: Fault[] = [];
  const fields: Record<string, unknown> = {};
  for (const [label, field] of Object.entries(FIELDS)) {
    const value = named.get(META + label);
    if (value !== undefined) fields[field] = value;
  }
  const tags = named.get(`${META}tags`);
  if (typeof tags === 'string') {
    const words = tags.split(',').map((tag) => tag.trim());
    fields.tags = words.filter((tag) => tag !== '');
  }
  let service = services.get(name);
  if (service === undefined) services.set(name, (service = { rows: [] }));
  const check = checkOf(named);
  if (typeof check === 'string') faults.push({ reason: check, what: 'its check' });
  else if (check !== undefined) service.check = firstOf(service.check, check);
  // The same text twice in a group is the same endpoint: only as many are made as were counted.
  for (const target of new Set(targets as unknown[])) {
    if (typeof target !== 'string') {
      faults.push({ reason: 'expected text such as "10.0.0.1:8080"', what: quote(target), unread: true });
      continue;
    }
    const place = readPlace(target, options.port);
    const rows =
      place === undefined
        ? 'expected an address and port'
        : readRows({ ...fields, ...place }, DEFAULTS, options.policy);
    if (typeof rows === 'string') faults.push({ reason: rows, what: quote(target) });
    else service.rows.push(...rows);
  }
  return faults;
}

/** Of checks that differ always the same one, in whatever order the groups come. */
function firstOf(a: ListedCheck | undefined, b: ListedCheck): ListedCheck {
  return a === undefined || JSON.stringify(b) < JSON.stringify(a) ? b : a;
}

/** `10.0.0.1:8080`, `[fd00::1]:8080`, or without a port where one is given for all. */
function readPlace(target: string, port: number | undefined): { address: string; port: string | number } | undefined {
  const match = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d{1,5}))?$/.exec(target);
  const given = match?.[2] ?? port;
  return match === null || given === undefined ? undefined : { address: match[1]!, port: given };
}

function checkOf(labels: ReadonlyMap<string, unknown>): ListedCheck | string | undefined {
  const given = Object.entries(CHECK).flatMap(([label, key]) => {
    const value = labels.get(META + label);
    if (value === undefined) return [];
    return [[key, key === 'status' && typeof value === 'string' ? value.split(/\s*,\s*/) : value] as const];
  });
  return given.length === 0 ? undefined : readCheck(Object.fromEntries(given));
}
