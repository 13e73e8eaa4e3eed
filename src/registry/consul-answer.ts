/** What Consul answers about one service, by itself: each instance comes with its node and all checks that count for it. */
import { CheckTable } from './consul-check-table.js';
import { CommonTest, groupKey, worst } from './consul-checks.js';
import { type ConsulNode, checkOfMeta, type Instance, readInstance, readNode, toRow } from './consul-instance.js';
import type { Notes } from './notes.js';
import type { ListedCheck, Row, RowState } from './registry.js';
import type { AddressPolicy } from './rows.js';

/** One instance. */
export interface Entry {
  readonly instance: Instance;
  readonly node: ConsulNode;
  readonly state: RowState;
  readonly test: ListedCheck | undefined;
}

export interface ServiceAnswer {
  /** As the registry spells it, which may differ in case from what was asked. Undefined without an instance. */
  readonly name: string | undefined;
  /** By node and id. */
  readonly entries: ReadonlyMap<string, Entry>;
  /** Names that differ from it in case alone and that no name is left for (R22). */
  readonly others: readonly string[];
}

/** Undefined when it is no answer of Consul's to `health/service`. */
export function readServiceAnswer(body: unknown, datacenter: string): ServiceAnswer | undefined {
  if (!Array.isArray(body)) return undefined;
  const byName = new Map<string, Map<string, Entry>>();
  for (const value of body as ({ Node?: unknown; Service?: unknown; Checks?: unknown } | null)[]) {
    const node = readNode(value?.Node, datacenter);
    const instance = node === undefined ? undefined : readInstance(value?.Service, node.name);
    const checks = new CheckTable();
    const read = checks.takeAll(value?.Checks ?? [], 0, false);
    const { Service: name } = (value?.Service ?? {}) as { Service?: unknown };
    if (node === undefined || instance === undefined || read === undefined || typeof name !== 'string')
      return undefined;
    const { serviceId } = instance;
    const state = worst(checks.state(node.name, serviceId), checks.state(node.name, ''));
    const test = checks.test(node.name, serviceId);
    const entries = byName.get(name) ?? new Map<string, Entry>();
    entries.set(groupKey(node.name, serviceId), { instance, node, state, test });
    byName.set(name, entries);
  }
  const [name, ...others] = [...byName.keys()].sort();
  return { name, entries: (name === undefined ? undefined : byName.get(name)) ?? new Map(), others };
}

/** Rows and check of a service. What is wrong with it goes to `notes`. */
export function contentsOf(
  name: string,
  entries: Iterable<Entry>,
  policy: AddressPolicy,
  notes: Notes,
): { readonly rows: readonly Row[]; readonly check: ListedCheck | undefined } {
  const rows: Row[] = [];
  let wish: ListedCheck | undefined;
  const common = new CommonTest();
  for (const { instance, node, state, test: own } of entries) {
    const where = `${name}, ${instance.serviceId} on ${instance.node}`;
    const row = toRow(instance, node, state, policy);
    if (typeof row === 'string') notes.add(where, row);
    else rows.push(row);
    const asked = checkOfMeta(instance.meta);
    if (typeof asked === 'string') notes.add(where, asked);
    else wish ??= asked;
    common.add(own, instance.port);
  }
  return { rows, check: wish ?? common.test };
}
