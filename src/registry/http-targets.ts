/**
 * Lists of targets in the form of Prometheus HTTP service discovery:
 *
 *     [{"targets": ["10.0.0.1:8080", "[fd00::1]:8080"], "labels": {"job": "orders"}}]
 *
 * The label that `serviceLabel` names gives the service. Labels below say the rest; Prometheus itself drops them.
 */
import { quote, readRows } from './endpoint.js';
import { readCheck } from './listed-check.js';
import { Notes } from './notes.js';
import type { ListedCheck, Listing, Rejected, Row } from './registry.js';
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
}

export interface TargetsContents {
  readonly services: readonly Listing[];
  readonly rejected: readonly Rejected[];
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
  if (!Array.isArray(groups)) return 'the body is not a list of target groups';
  const notes = new Notes();
  const services = new Map<string, Service>();
  groups.forEach((group: unknown, index) => {
    const where = `${options.where}: group ${index}`;
    const problem = readGroup(group, options, services, (target, reason) => notes.add(`${where}, ${target}`, reason));
    if (problem !== undefined) notes.add(where, problem);
  });
  const listings = [...services].map(([name, { rows, check }]): Listing => {
    const listing = { name, rows: collapseRows(rows) };
    return check === undefined ? listing : { ...listing, check };
  });
  return { services: listings, rejected: notes.list(options.where) };
}

function readGroup(
  group: unknown,
  options: TargetsOptions,
  services: Map<string, Service>,
  bad: (target: string, reason: string) => void,
): string | undefined {
  const { targets, labels = {} } = (group ?? {}) as { targets?: unknown; labels?: unknown };
  if (!Array.isArray(targets)) return 'targets must be a list such as ["10.0.0.1:8080"]';
  if (typeof labels !== 'object' || labels === null || Array.isArray(labels)) return 'labels must be a map';
  const named = new Map<string, unknown>(Object.entries(labels));
  const name = named.get(options.serviceLabel);
  if (typeof name !== 'string' || name === '') return `no label ${options.serviceLabel}, which names the service`;
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
  if (typeof check === 'string') bad('its check', check);
  else if (check !== undefined) service.check ??= check;
  for (const target of targets as unknown[]) {
    const place = typeof target === 'string' ? readPlace(target, options.port) : undefined;
    const rows =
      place === undefined
        ? 'expected an address and port'
        : readRows({ ...fields, ...place }, DEFAULTS, options.policy);
    if (typeof rows === 'string') bad(quote(target), rows);
    else service.rows.push(...rows);
  }
  return undefined;
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
