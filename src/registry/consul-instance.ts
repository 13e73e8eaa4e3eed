/** One instance of a service, as Consul lists it: its row, or why it has none. */

import { indexOf } from './consul-checks.js';
import { type Defaults, readRows } from './endpoint.js';
import { readCheck } from './listed-check.js';
import type { ListedCheck, ListedNode, Row, RowState } from './registry.js';
import type { AddressPolicy } from './rows.js';

export interface ConsulNode extends ListedNode {
  readonly datacenter: string;
  readonly newest: number;
}

export interface Instance {
  readonly node: string;
  readonly serviceId: string;
  readonly address: string;
  readonly port: unknown;
  readonly tags: unknown;
  readonly meta: Readonly<Record<string, unknown>>;
  readonly weights: { readonly Passing?: unknown; readonly Warning?: unknown };
  /** The index of its last change; 0 when it has none. */
  readonly newest: number;
}

/** The priority is the one that an agent's SRV records have. */
const DEFAULTS: Defaults = { protocol: 'tcp', priority: 1, weight: 1 };
/** Keys of a service's metadata that say what Consul has no place for. */
const META = 'holdfast-';
const FIELDS = { 'port-name': 'portName', protocol: 'protocol', priority: 'priority', zone: 'zone' } as const;
const CHECK = { type: 'type', port: 'port', path: 'path', 'tls-name': 'tlsName', status: 'status' } as const;
const MAX_WEIGHT = 65_535;

/** A node in an answer; undefined when it is none of Consul's. */
export function readNode(value: unknown, datacenter: string): ConsulNode | undefined {
  const { Node, Address, Meta, Datacenter, ModifyIndex = 0 } = (value ?? {}) as Record<string, unknown>;
  if (typeof Node !== 'string' || Node === '' || typeof Address !== 'string') return undefined;
  const meta = textsOf(Meta);
  return {
    name: Node,
    address: Address,
    datacenter: typeof Datacenter === 'string' && Datacenter !== '' ? Datacenter : datacenter,
    ...(meta === undefined ? {} : { meta }),
    newest: indexOf(ModifyIndex),
  };
}

/** An instance in an answer about a service or a node; undefined when it is none of Consul's. */
export function readInstance(service: unknown, node: string): Instance | undefined {
  const { ID, Address, Port, Tags, Meta, Weights, ModifyIndex } = (service ?? {}) as Record<string, unknown>;
  if (typeof ID !== 'string' || (Address != null && typeof Address !== 'string')) return undefined;
  return {
    node,
    serviceId: ID,
    address: (Address as string | null | undefined) ?? '',
    // Consul leaves 0 out.
    port: Port ?? 0,
    tags: Tags,
    meta: typeof Meta === 'object' && Meta !== null ? (Meta as Record<string, unknown>) : {},
    weights: typeof Weights === 'object' && Weights !== null ? Weights : {},
    newest: indexOf(ModifyIndex),
  };
}

/** @param node of the instance, as it is known now */
export function toRow(instance: Instance, node: ConsulNode, given: RowState, policy: AddressPolicy): Row | string {
  const { meta } = instance;
  const weight = readWeight(instance.weights, given);
  const fields: Record<string, unknown> = {
    id: instance.serviceId === '' ? undefined : instance.serviceId,
    address: instance.address === '' ? node.address : instance.address,
    port: instance.port,
    tags: Array.isArray(instance.tags) ? instance.tags.filter((tag) => tag !== '') : instance.tags,
    weight,
    // R5: no share of the load is left to it.
    state: weight === 0 && given === 'passing' ? 'draining' : given,
  };
  for (const [key, field] of Object.entries(FIELDS)) {
    const value = meta[META + key];
    if (typeof value === 'string' && value !== '') fields[field] = value;
  }
  const rows = readRows(fields, DEFAULTS, policy);
  if (typeof rows === 'string') return rows;
  const { newest: _, ...listed } = node;
  return { ...rows[0]!, node: listed, ...(instance.address === '' ? { atNode: true } : {}) };
}

/** The check that a service's metadata asks for (R18); a text says what is wrong with it. */
export function checkOfMeta(meta: Instance['meta']): ListedCheck | string | undefined {
  const given = Object.entries(CHECK).flatMap(([key, field]) => {
    const value = meta[`${META}check-${key}`];
    if (typeof value !== 'string') return [];
    return [[field, field === 'status' ? value.split(/\s*,\s*/) : value] as const];
  });
  return given.length === 0 ? undefined : readCheck(Object.fromEntries(given));
}

/** Consul's weights have no upper bound; where there are none, each is 1. */
function readWeight({ Passing, Warning }: Instance['weights'], state: RowState): number {
  const weight = state === 'warning' ? Warning : Passing;
  if (typeof weight !== 'number' || !Number.isInteger(weight) || weight < 0) return 1;
  return Math.min(weight, MAX_WEIGHT);
}

function textsOf(value: unknown): Record<string, string> | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const texts = Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return texts.length === 0 ? undefined : Object.fromEntries(texts.sort(([a], [b]) => (a < b ? -1 : 1)));
}
