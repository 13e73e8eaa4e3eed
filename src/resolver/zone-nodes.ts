/** The hosts of a zone (R21, `naming: consul`): those that are listed, and those that the rows of services are on. */
import type { Service } from '../catalog/service.js';
import type { ListedNode } from '../registry/registry.js';
import { sameNode } from '../registry/registry.js';
import type { BootMs, Ms } from '../system/clock.js';

/** Where their names go, and those of their addresses. */
export interface NodeSink {
  put(node: ListedNode): void;
  remove(node: ListedNode): void;
  hold(address: string): void;
  drop(address: string, now: BootMs): void;
}

interface Known {
  node: ListedNode;
  /** Registries that have it in their lists of nodes. */
  readonly listed: Set<string>;
  /** Services with a row on it. */
  readonly services: Set<string>;
}

/** A node is kept for `keepTargets` after it left, since its name is a target (R23). */
export class ZoneNodes {
  #keep: Ms;
  readonly #sink: NodeSink;
  readonly #nodes = new Map<string, Known>();
  readonly #byService = new Map<string, readonly string[]>();
  /** Those that left, with when they go, soonest first. */
  readonly #leaving = new Map<string, BootMs>();

  constructor(keep: Ms, sink: NodeSink) {
    this.#keep = keep;
    this.#sink = sink;
  }

  /** `registries`: those that the zone has now. */
  configure(keep: Ms, registries: readonly string[], now: BootMs): void {
    this.#keep = keep;
    for (const [key, known] of this.#nodes) {
      for (const registry of known.listed) if (!registries.includes(registry)) known.listed.delete(registry);
      this.#leave(key, known, now);
    }
  }

  /** A registry's list. `whole` false: what is not among them may be there all the same (R6). */
  list(registry: string, nodes: readonly ListedNode[], whole: boolean, now: BootMs): void {
    const listed = new Set<string>();
    for (const node of nodes) {
      const key = keyOf(node);
      listed.add(key);
      const known = this.#know(key, node);
      known.listed.add(registry);
      this.#replace(known, node, now);
    }
    if (!whole) return;
    for (const [key, known] of this.#nodes) {
      if (listed.has(key) || !known.listed.delete(registry)) continue;
      this.#leave(key, known, now);
    }
  }

  /** The rows of a service may be on other nodes now. */
  of(service: Service, now: BootMs): void {
    const found = new Map<string, ListedNode>();
    for (const row of service.rows.values()) {
      if (row.node === undefined || !(row.listed || row.hold !== undefined)) continue;
      const key = keyOf(row.node);
      if (row.listed || !found.has(key)) found.set(key, row.node);
    }
    const before = this.#byService.get(service.name) ?? [];
    if (found.size === 0) this.#byService.delete(service.name);
    else this.#byService.set(service.name, [...found.keys()]);
    for (const [key, node] of found) {
      const known = this.#know(key, node);
      known.services.add(service.name);
      if (known.listed.size === 0) this.#replace(known, node, now);
    }
    for (const key of before) if (!found.has(key)) this.#unserve(key, service.name, now);
  }

  forget(service: Service, now: BootMs): void {
    for (const key of this.#byService.get(service.name) ?? []) this.#unserve(key, service.name, now);
    this.#byService.delete(service.name);
  }

  /** From a snapshot: nodes that were listed, and such as had left, with when they go. */
  restore(
    listed: readonly (readonly [registry: string, nodes: readonly ListedNode[]])[],
    leaving: readonly (readonly [ListedNode, BootMs])[],
    now: BootMs,
  ): void {
    for (const [registry, nodes] of listed) this.list(registry, nodes, false, now);
    for (const [node, until] of leaving) {
      const key = keyOf(node);
      if (this.#nodes.has(key)) continue;
      this.#nodes.set(key, { node, listed: new Set<string>(), services: new Set<string>() });
      this.#sink.put(node);
      this.#leaving.set(key, until);
    }
  }

  expire(now: BootMs): void {
    for (const [key, until] of this.#leaving) {
      if (until > now) break;
      this.#leaving.delete(key);
      const known = this.#nodes.get(key);
      this.#nodes.delete(key);
      if (known !== undefined) this.#sink.remove(known.node);
    }
  }

  nextExpiry(): BootMs {
    const head = this.#leaving.values().next();
    return head.done ? Number.POSITIVE_INFINITY : head.value;
  }

  get size(): number {
    return this.#nodes.size;
  }

  /** Datacenters of nodes that are none of these. */
  otherDatacenters(known: readonly string[]): string[] {
    const others = new Set<string>();
    for (const { node } of this.#nodes.values()) {
      if (node.datacenter !== undefined && !known.includes(node.datacenter)) others.add(node.datacenter);
    }
    return [...others].sort();
  }

  *all(): Iterable<ListedNode> {
    for (const { node } of this.#nodes.values()) yield node;
  }

  *listed(registry: string): Iterable<ListedNode> {
    for (const { node, listed } of this.#nodes.values()) if (listed.has(registry)) yield node;
  }

  *leaving(): Iterable<readonly [ListedNode, BootMs]> {
    for (const [key, until] of this.#leaving) yield [this.#nodes.get(key)!.node, until];
  }

  /** A node is there, perhaps again. */
  #know(key: string, node: ListedNode): Known {
    let known = this.#nodes.get(key);
    if (known === undefined) {
      known = { node, listed: new Set<string>(), services: new Set<string>() };
      this.#nodes.set(key, known);
      this.#sink.put(node);
      this.#sink.hold(node.address);
    } else if (this.#leaving.delete(key)) this.#sink.hold(known.node.address);
    return known;
  }

  #replace(known: Known, node: ListedNode, now: BootMs): void {
    const before = known.node;
    if (sameNode(before, node)) return;
    known.node = node;
    if (before.address !== node.address || before.name !== node.name) this.#sink.remove(before);
    this.#sink.put(node);
    if (before.address === node.address) return;
    this.#sink.hold(node.address);
    this.#sink.drop(before.address, now);
  }

  #unserve(key: string, service: string, now: BootMs): void {
    const known = this.#nodes.get(key);
    known?.services.delete(service);
    if (known !== undefined) this.#leave(key, known, now);
  }

  #leave(key: string, known: Known, now: BootMs): void {
    if (known.listed.size > 0 || known.services.size > 0 || this.#leaving.has(key)) return;
    this.#sink.drop(known.node.address, now);
    this.#leaving.set(key, now + this.#keep);
  }
}

function keyOf({ name, datacenter }: ListedNode): string {
  return `${name.toLowerCase()} ${datacenter ?? ''}`;
}
