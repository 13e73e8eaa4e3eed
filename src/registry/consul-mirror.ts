/**
 * One datacenter's catalog as it is known here: the names of its services, its checks and nodes from lists, the
 * instances of each service from reads of their own. It says what has to be read, and what changed.
 */
import { type CheckGroup, groupChecks, groupKey, worst } from './consul-checks.js';
import { type ConsulNode, checkOfMeta, type Instance, readInstance, readNode, toRow } from './consul-instance.js';
import type { Notes } from './notes.js';
import type { ListedCheck, ListedNode, Row } from './registry.js';
import type { AddressPolicy } from './rows.js';

/** An answer about all of something, or about one service. */
export interface Answer {
  readonly body: unknown;
  /** R6: the token does not see all of it: what is missing is not known to be gone. */
  readonly filtered: boolean;
}

/** What an answer changed. */
export interface Findings {
  /** Services whose rows may be others now. */
  readonly changed: ReadonlySet<string>;
  /** Services that have to be read. */
  readonly unread: ReadonlySet<string>;
  /** An instance of the service that was read is not there any more. */
  readonly lost?: boolean;
}

interface Service {
  /** As the list of services has them, in one text. */
  tags: string;
  instances: readonly Instance[] | undefined;
  /** Its last answer was not whole. */
  filtered: boolean;
  /** It is in the list. */
  listed: boolean;
}

const NONE: Findings = { changed: new Set(), unread: new Set() };

export class ConsulMirror {
  readonly #policy: AddressPolicy;
  readonly #datacenter: string;
  readonly #wanted: (service: string) => boolean;
  readonly #services = new Map<string, Service>();
  #nodes = new Map<string, ConsulNode>();
  /** Another number, other nodes. */
  nodesVersion = 0;
  #groups = new Map<string, CheckGroup>();
  /** Of the list of checks, and of the list of nodes. */
  #checksIndex = -1;
  #nodesIndex = -1;
  /** Services by node. */
  readonly #onNode = new Map<string, Set<string>>();

  /** @param wanted of the others nothing is kept but that they are there */
  constructor(policy: AddressPolicy, datacenter: string, wanted: (service: string) => boolean = () => true) {
    this.#policy = policy;
    this.#datacenter = datacenter;
    this.#wanted = wanted;
  }

  /** Services that have rows here, or are listed without. */
  get names(): IterableIterator<string> {
    return this.#services.keys();
  }

  /** The list of services with their tags. Undefined when it is none. */
  takeServices({ body, filtered }: Answer): Findings | undefined {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
    const findings = { changed: new Set<string>(), unread: new Set<string>() };
    const seen = new Map(Object.entries(body).filter(([name]) => name !== '' && this.#wanted(name)));
    for (const [name, list] of seen) {
      const tags = JSON.stringify(Array.isArray(list) ? [...list].sort() : list);
      const known = this.#services.get(name);
      if (known === undefined) this.#services.set(name, { tags, instances: undefined, filtered: false, listed: true });
      else if (known.tags === tags && known.instances !== undefined && known.listed) continue;
      else Object.assign(known, { tags, listed: true });
      findings.unread.add(name);
    }
    for (const [name, service] of this.#services) {
      if (seen.has(name)) continue;
      if (filtered) {
        // Hidden, or gone: its own answer tells, once.
        if (service.listed) findings.unread.add(name);
        service.listed = false;
      } else {
        this.#drop(name);
        findings.changed.add(name);
      }
    }
    return findings;
  }

  /** The list of all checks. @param index of it */
  takeChecks({ body, filtered }: Answer, index: number): Findings | undefined {
    const groups = groupChecks(body);
    if (groups === undefined) return undefined;
    const before = this.#groups;
    const findings = { changed: new Set<string>(), unread: new Set<string>() };
    // What a service's own answer told is newer than the list.
    for (const [key, group] of before) {
      if (group.newest > index || (filtered && !groups.has(key))) groups.set(key, group);
    }
    for (const [key, group] of groups) {
      const known = before.get(key);
      if (known?.state === group.state && (known.newest === group.newest || sameTest(known, group))) continue;
      this.#touch(group, findings.changed);
      if (known === undefined && group.serviceId !== '' && !this.#has(group)) findings.unread.add(group.service);
    }
    for (const [key, group] of before) {
      if (groups.has(key)) continue;
      this.#touch(group, findings.changed);
      // The check went, or the instance with it.
      if (group.serviceId !== '') findings.unread.add(group.service);
    }
    this.#groups = groups;
    this.#checksIndex = index;
    for (const name of findings.unread) if (!this.#services.has(name)) findings.unread.delete(name);
    return findings;
  }

  /** The list of all nodes. @param index of it */
  takeNodes({ body, filtered }: Answer, index: number): Findings | undefined {
    if (!Array.isArray(body)) return undefined;
    const before = this.#nodes;
    const nodes = new Map<string, ConsulNode>();
    for (const value of body) {
      const node = readNode(value, this.#datacenter);
      if (node === undefined) return undefined;
      nodes.set(node.name.toLowerCase(), node);
    }
    for (const [key, node] of before) if (node.newest > index || (filtered && !nodes.has(key))) nodes.set(key, node);
    const changed = new Set<string>();
    for (const key of before.keys()) {
      if (nodes.has(key)) continue;
      this.nodesVersion++;
      this.#touchNode(key, changed);
    }
    for (const [key, node] of nodes) {
      if (sameNode(before.get(key), node)) continue;
      this.nodesVersion++;
      this.#touchNode(key, changed);
    }
    this.#nodes = nodes;
    this.#nodesIndex = index;
    return { changed, unread: NONE.unread };
  }

  /** The answer about one service. */
  takeService(name: string, { body, filtered }: Answer): Findings | undefined {
    if (!Array.isArray(body)) return undefined;
    const service = this.#services.get(name);
    if (service === undefined) return NONE;
    const changed = new Set([name]);
    const checks: unknown[] = [];
    const instances: Instance[] = [];
    for (const entry of body as ({ Node?: unknown; Service?: unknown; Checks?: unknown } | null)[]) {
      const node = readNode(entry?.Node, this.#datacenter);
      const instance = node === undefined ? undefined : readInstance(entry?.Service, node.name);
      if (node === undefined || instance === undefined) return undefined;
      instances.push(instance);
      if (Array.isArray(entry?.Checks)) checks.push(...entry.Checks);
      this.#meetNode(node, changed);
    }
    const groups = groupChecks(checks);
    if (groups === undefined) return undefined;
    for (const [key, group] of groups) {
      if (group.newest <= this.#checksIndex) continue;
      const known = this.#groups.get(key);
      this.#groups.set(key, group);
      if (known?.state !== group.state) this.#touch(group, changed);
    }
    this.#leaveNodes(name, service.instances);
    const keys = new Set(instances.map(keyOf));
    const lost = service.instances?.some((instance) => !keys.has(keyOf(instance))) === true;
    service.instances = filtered ? union(service.instances ?? [], instances) : instances;
    service.filtered = filtered;
    for (const { node } of service.instances) this.#put(node, name);
    // It is not in the list any more, and nothing of it is hidden: it has gone.
    if (!service.listed && !filtered && instances.length === 0) this.#drop(name);
    return { changed, unread: NONE.unread, lost };
  }

  has(name: string): boolean {
    return this.#services.has(name);
  }

  hasRead(name: string): boolean {
    return this.#services.get(name)?.instances !== undefined;
  }

  /** Its rows and its check, or undefined when it is not listed. What is wrong with it goes to `notes`. */
  contents(name: string, notes: Notes): { readonly rows: readonly Row[]; readonly check?: ListedCheck } | undefined {
    const service = this.#services.get(name);
    if (service?.instances === undefined) return undefined;
    const rows: Row[] = [];
    let wish: ListedCheck | undefined;
    let test: ListedCheck | undefined;
    if (service.filtered) notes.add(name, 'the token does not see all of it: nothing that is missing is taken away');
    for (const instance of service.instances) {
      const node = this.#nodes.get(instance.node.toLowerCase());
      if (node === undefined) continue;
      const own = this.#groups.get(groupKey(instance.node, instance.serviceId));
      const whole = this.#groups.get(groupKey(instance.node, ''));
      const row = toRow(instance, node, worst(own?.state ?? 'passing', whole?.state ?? 'passing'), this.#policy);
      const where = (): string => `${name}, ${instance.serviceId} on ${instance.node}`;
      if (typeof row === 'string') notes.add(where(), row);
      else rows.push(row);
      const asked = checkOfMeta(instance.meta);
      if (typeof asked === 'string') notes.add(where(), asked);
      else wish ??= asked;
      test ??= own?.test;
    }
    const check = wish ?? test;
    return check === undefined ? { rows } : { rows, check };
  }

  /** Every node with an address that can be answered. */
  listedNodes(valid: (address: string) => string | undefined): ListedNode[] {
    return [...this.#nodes.values()].flatMap(({ newest: _, ...node }) => {
      const address = valid(node.address);
      return address === undefined ? [] : [{ ...node, address }];
    });
  }

  #has({ node, serviceId, service }: CheckGroup): boolean {
    const instances = this.#services.get(service)?.instances ?? [];
    return instances.some((instance) => instance.serviceId === serviceId && instance.node === node);
  }

  #touch(group: CheckGroup, changed: Set<string>): void {
    if (group.serviceId === '') this.#touchNode(group.node.toLowerCase(), changed);
    else if (this.#services.has(group.service)) changed.add(group.service);
  }

  #touchNode(key: string, changed: Set<string>): void {
    for (const name of this.#onNode.get(key) ?? []) changed.add(name);
  }

  #meetNode(node: ConsulNode, changed: Set<string>): void {
    const key = node.name.toLowerCase();
    const known = this.#nodes.get(key);
    if (known !== undefined && (node.newest <= this.#nodesIndex || node.newest < known.newest)) return;
    if (!sameNode(known, node)) {
      this.nodesVersion++;
      this.#touchNode(key, changed);
    }
    this.#nodes.set(key, node);
  }

  #put(node: string, name: string): void {
    const key = node.toLowerCase();
    const names = this.#onNode.get(key);
    if (names === undefined) this.#onNode.set(key, new Set([name]));
    else names.add(name);
  }

  #leaveNodes(name: string, instances: readonly Instance[] | undefined): void {
    for (const { node } of instances ?? []) this.#onNode.get(node.toLowerCase())?.delete(name);
  }

  #drop(name: string): void {
    this.#leaveNodes(name, this.#services.get(name)?.instances);
    this.#services.delete(name);
  }
}

/** What is hidden stands as it was last seen. */
function union(before: readonly Instance[], now: readonly Instance[]): Instance[] {
  const keys = new Set(now.map(keyOf));
  return [...now, ...before.filter((instance) => !keys.has(keyOf(instance)))];
}

function keyOf({ node, serviceId }: Instance): string {
  return groupKey(node, serviceId);
}

function sameTest(a: CheckGroup | undefined, b: CheckGroup): boolean {
  return a?.test === b.test || JSON.stringify(a?.test) === JSON.stringify(b.test);
}

function sameNode(a: ConsulNode | undefined, b: ConsulNode): boolean {
  return a !== undefined && a.address === b.address && JSON.stringify(a.meta) === JSON.stringify(b.meta);
}
