/**
 * One datacenter's catalog as it is known here: the names of its services, its checks and nodes from lists, the
 * instances from reads of services, or of nodes. It says what has to be read, and what changed.
 */
import type { LimitsConfig } from '../config/types.js';
import type { ChangedPart } from './changed-part.js';
import { type BadStatus, type CheckNews, CheckTable, type KnownCheck } from './consul-check-table.js';
import { CommonTest, type ConsulCheck, groupKey, isCheck, type WholeCheck, worst } from './consul-checks.js';
import {
  type Answer,
  type BadFindings,
  type Findings,
  isOlder,
  newestOf,
  sameInstances,
  sameNode,
} from './consul-findings.js';
import { type ConsulNode, checkOfMeta, type Instance, readInstance, readNode, toRow } from './consul-instance.js';
import { type KnownService, ServiceTable } from './consul-service-table.js';
import type { ServiceSummary } from './consul-summary.js';
import type { Notes } from './notes.js';
import type { ListedCheck, ListedNode, Row } from './registry.js';
import type { AddressPolicy } from './rows.js';

const STRANGE = 'the answer is not that of Consul';
/** R6: of another lineage, which a list tells, or from a server that lags. */
const OLDER = 'the answer is older than what is known';
const NO_LIMITS = {
  maxServices: Number.POSITIVE_INFINITY,
  maxEndpoints: Number.POSITIVE_INFINITY,
  maxEndpointsPerService: Number.POSITIVE_INFINITY,
};
const NONE: Findings = { changed: new Set(), unread: new Set() };

export class ConsulMirror {
  readonly #policy: AddressPolicy;
  readonly #datacenter: string;
  readonly #limits: LimitsConfig | undefined;
  readonly #services: ServiceTable;
  #nodes = new Map<string, ConsulNode>();
  /** Another number, other nodes. */
  nodesVersion = 0;
  readonly #checks = new CheckTable();
  /** Of the list of nodes. */
  #nodesIndex = -1;

  /**
   * @param wanted of the others nothing is kept but that they are there
   * @param limits absent: whoever takes the rows counts them
   */
  constructor(
    policy: AddressPolicy,
    datacenter: string,
    wanted: (service: string) => boolean = () => true,
    limits?: LimitsConfig,
  ) {
    this.#policy = policy;
    this.#limits = limits;
    this.#datacenter = datacenter;
    this.#services = new ServiceTable(wanted);
  }

  /** Services that have rows here, or are listed without. */
  get names(): ReadonlyMap<string, unknown> {
    return this.#services.names;
  }

  /** R6: why it is over the limits, counted before anything is made of it. An endpoint may be listed twice. */
  get over(): string | undefined {
    const { maxServices, maxEndpoints } = this.#limits ?? NO_LIMITS;
    const { names, size } = this.#services;
    if (names.size > maxServices) {
      return `${names.size} services, more than limits.maxServices (${maxServices})`;
    }
    if (size <= 2 * maxEndpoints) return undefined;
    return `${size} instances or more, more than limits.maxEndpoints (${maxEndpoints}) has room for`;
  }

  /** Instances of all services. */
  get size(): number {
    return this.#services.size;
  }

  get nodes(): ReadonlyMap<string, ConsulNode> {
    return this.#nodes;
  }

  /** The list of services with their tags. Undefined when it is none. */
  takeServices(answer: Answer): Findings | undefined {
    return this.#services.takeList(answer);
  }

  /** The list of all checks. */
  takeChecks({ body, index, filtered }: Answer): Findings | undefined {
    const news = this.#checks.takeAll(body, index, filtered);
    return news && this.#found(news);
  }

  /** The list of the checks in one bad state. What left it stands until it is known whether it passed or went. */
  takeBadChecks(status: BadStatus, { body, index }: Answer): BadFindings | undefined {
    const news = this.#checks.takeBad(status, body, index);
    if (news === undefined) return undefined;
    const services = new Set<string>();
    let others = false;
    for (const check of news.left) {
      const { node, serviceId, service } = check;
      const name = this.#services.ofCheck(check);
      const known = serviceId === '' ? this.#nodes.has(node.toLowerCase()) : this.#services.has(name);
      if (!known) this.#checks.drop(node, serviceId, service);
      else if (serviceId === '') others = true;
      else services.add(name);
    }
    return { ...this.#found(news), left: { services, others } };
  }

  /** Whether a list of a bad state is the one that was taken last. Undefined when it is none. */
  hasBadChecks(status: BadStatus, { body }: Pick<Answer, 'body'>): boolean | undefined {
    return this.#checks.agrees(status, body);
  }

  /** Checks that left a list of a bad state, and of which it is not known whether they passed or went. */
  get doubted(): readonly KnownCheck[] {
    return this.#checks.doubted();
  }

  /** The list of all nodes. */
  takeNodes({ body, index, filtered }: Answer): Findings | undefined {
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
      this.#checks.drop(key, '', '');
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

  /** Services that other checks are about than before. Undefined when some are of a node, or none of Consul's. */
  servicesOf({ before, now }: ChangedPart): Set<string> | undefined {
    const services = new Set<string>();
    const gone = new Map<string, WholeCheck>();
    const keyOf = ({ Node, CheckID }: WholeCheck): string => groupKey(Node, CheckID);
    for (const check of before as (ConsulCheck | null)[]) {
      if (!isCheck(check)) return undefined;
      gone.set(keyOf(check), check);
    }
    const others: WholeCheck[] = [];
    for (const check of now as (ConsulCheck | null)[]) {
      if (!isCheck(check)) return undefined;
      gone.delete(keyOf(check));
      if (this.#checks.differs(check)) others.push(check);
    }
    for (const check of gone.values()) if (this.#checks.has(check)) others.push(check);
    for (const { Node: node, ServiceID: serviceId = '', ServiceName: service = '' } of others) {
      if (serviceId === '') return undefined;
      const name = this.#services.ofCheck({ node, serviceId, service });
      if (this.#services.has(name)) services.add(name);
    }
    return services;
  }

  /**
   * Services that have other instances by now than those that are known, as far as summaries tell.
   * @param all of those that the summaries have to be about
   */
  differing(summaries: readonly ServiceSummary[], all: Iterable<string> = this.names.keys()): Set<string> {
    return this.#services.differing(summaries, all);
  }

  /** The answer about one service. A text says why it is not taken in. */
  takeService(name: string, { body, index, filtered }: Answer): Findings | string {
    if (!Array.isArray(body)) return STRANGE;
    const service = this.#services.get(name);
    if (service === undefined) return NONE;
    const { maxEndpointsPerService: most } = this.#limits ?? NO_LIMITS;
    if (body.length > 2 * most) return `${body.length} instances, for limits.maxEndpointsPerService (${most})`;
    const changed = new Set<string>();
    const checks: unknown[] = [];
    const groups = new Set<string>();
    const instances: Instance[] = [];
    for (const entry of body as ({ Node?: unknown; Service?: unknown; Checks?: unknown } | null)[]) {
      const node = readNode(entry?.Node, this.#datacenter);
      const instance = node === undefined ? undefined : readInstance(entry?.Service, node.name);
      if (node === undefined || instance === undefined) return STRANGE;
      // Consul asks for a service in any letters: it is another one, whose name differs in case alone.
      const { Service: other = name } = (entry?.Service ?? {}) as { Service?: unknown };
      if (other !== name) continue;
      instances.push(instance);
      groups.add(groupKey(node.name, instance.serviceId)).add(groupKey(node.name, ''));
      if (Array.isArray(entry?.Checks)) checks.push(...entry.Checks);
      this.#meetNode(node, changed);
    }
    if (isOlder(service.instances ?? [], instances, index)) return OLDER;
    const news = this.#checks.takeGroups(groups, checks, index);
    if (news === undefined) return STRANGE;
    if (service.filtered !== filtered || !sameInstances(service.instances, instances)) changed.add(name);
    for (const check of [...news.changed, ...news.gone]) this.#touch(check, changed);
    const lost = this.#services.replace(name, service.instances ?? [], instances, filtered);
    if (!filtered) {
      this.#dropChecks(name, lost);
      this.#settleDoubts(name, groups);
    }
    service.filtered = filtered;
    // It is not in the list any more, and nothing of it is hidden: it has gone.
    if (!service.listed && !filtered && instances.length === 0) {
      this.#services.drop(name);
      changed.add(name);
    }
    return { changed, unread: NONE.unread, lost: lost.length > 0, newest: newestOf(instances) };
  }

  /**
   * The answer about the services of one node. A text says why it is not taken in.
   * @param first true while all nodes are read one after another: services of which nothing is known come together so
   */
  takeNode({ body, index, filtered }: Answer, first: boolean): Findings | string {
    const { Node, Services } = (body ?? {}) as { Node?: unknown; Services?: unknown };
    // A node that went meanwhile, or is hidden: the list of nodes tells.
    if (Node === null) return NONE;
    const node = readNode(Node, this.#datacenter);
    if (node === undefined || (Services != null && !Array.isArray(Services))) return STRANGE;
    const here = new Map<string, Instance[]>();
    for (const name of this.#services.on(node.name)) here.set(name, []);
    for (const value of (Services ?? []) as ({ Service?: unknown } | null)[]) {
      const instance = readInstance(value, node.name);
      const name = value?.Service;
      if (instance === undefined || typeof name !== 'string') return STRANGE;
      const others = here.get(name);
      if (others === undefined) here.set(name, [instance]);
      else others.push(instance);
    }
    const onNode = ({ instances }: KnownService): readonly Instance[] =>
      (instances ?? []).filter((instance) => instance.node.toLowerCase() === node.name.toLowerCase());
    for (const [name, instances] of here) {
      const service = this.#services.get(name);
      if (service !== undefined && isOlder(onNode(service), instances, index)) return OLDER;
    }
    const changed = new Set<string>();
    const unread = new Set<string>();
    const lost = new Map<string, readonly Instance[]>();
    this.#meetNode(node, changed);
    for (const [name, instances] of here) {
      const service = this.#services.get(name);
      if (service === undefined) continue;
      if (service.instances === undefined && !first) unread.add(name);
      else {
        const old = onNode(service);
        if (sameInstances(old, instances)) continue;
        const missing = this.#services.replace(name, old, instances, filtered);
        lost.set(name, missing);
        changed.add(name);
        if (!filtered || missing.length === 0 || service.filtered) continue;
        // Hidden, or gone: its own answer tells, once.
        service.filtered = true;
        unread.add(name);
      }
    }
    // An instance that is another service's now has to be known there before.
    if (!filtered) for (const [name, instances] of lost) this.#dropChecks(name, instances);
    const some = [...lost.values()].some(({ length }) => length > 0);
    return { changed, unread, lost: some, newest: newestOf([...here.values()].flat()) };
  }

  has(name: string): boolean {
    return this.#services.has(name);
  }

  hasRead(name: string): boolean {
    return this.#services.get(name)?.instances !== undefined;
  }

  /** It is listed and was read, and nothing of it was hidden. */
  hasWhole(name: string): boolean {
    const { instances, filtered = true, listed = false } = this.#services.get(name) ?? {};
    return instances !== undefined && !filtered && listed;
  }

  /** Its rows and its check, or undefined when it is not listed. What is wrong with it goes to `notes`. */
  contents(name: string, notes: Notes): { readonly rows: readonly Row[]; readonly check?: ListedCheck } | undefined {
    const service = this.#services.get(name);
    if (service?.instances === undefined) return undefined;
    const rows: Row[] = [];
    let wish: ListedCheck | undefined;
    const common = new CommonTest();
    if (service.filtered) notes.add(name, 'the token does not see all of it: nothing that is missing is taken away');
    for (const instance of service.instances) {
      const node = this.#nodes.get(instance.node.toLowerCase());
      if (node === undefined) continue;
      const own = this.#checks.state(instance.node, instance.serviceId);
      const row = toRow(instance, node, worst(own, this.#checks.state(instance.node, '')), this.#policy);
      const where = (): string => `${name}, ${instance.serviceId} on ${instance.node}`;
      if (typeof row === 'string') notes.add(where(), row);
      else rows.push(row);
      const asked = checkOfMeta(instance.meta);
      if (typeof asked === 'string') notes.add(where(), asked);
      else wish ??= asked;
      common.add(this.#checks.test(instance.node, instance.serviceId), instance.port);
    }
    const check = wish ?? common.test;
    return check === undefined ? { rows } : { rows, check };
  }

  /** Every node with an address that can be answered. */
  listedNodes(valid: (address: string) => string | undefined): ListedNode[] {
    return [...this.#nodes.values()].flatMap(({ newest: _, ...node }) => {
      const address = valid(node.address);
      return address === undefined ? [] : [{ ...node, address }];
    });
  }

  /** Services that news of checks is about; those have to be read of whose instances a check is the first sign, or the last. */
  #found({ changed: checks, gone }: CheckNews): Findings {
    const changed = new Set<string>();
    const unread = new Set<string>();
    for (const check of checks) {
      const name = this.#services.ofCheck(check);
      if (check.serviceId === '' || this.#services.hasInstance(name, check)) this.#touch(check, changed);
      else if (this.#services.has(name)) unread.add(name);
    }
    for (const check of gone) {
      const name = this.#services.ofCheck(check);
      // The check went, or the instance with it: there is nothing to tell before that is known.
      if (check.serviceId === '') this.#touch(check, changed);
      else if (this.#services.has(name)) unread.add(name);
    }
    return { changed, unread };
  }

  /** Checks go with their instance, unless it is another service's by now. */
  #dropChecks(name: string, lost: readonly Instance[]): void {
    for (const { node, serviceId } of lost) {
      const service = this.#services.ofCheck({ node, serviceId, service: name });
      if (service === name) this.#checks.drop(node, serviceId, name);
    }
  }

  /** What is doubted of a service, and no check of an instance that it has, went with its instance. */
  #settleDoubts(name: string, groups: ReadonlySet<string>): void {
    for (const { node, serviceId, service } of this.doubted) {
      if (service === name && !groups.has(groupKey(node, serviceId))) this.#checks.drop(node, serviceId, name);
    }
  }

  #touch(check: KnownCheck, changed: Set<string>): void {
    const name = this.#services.ofCheck(check);
    if (check.serviceId === '') this.#touchNode(check.node.toLowerCase(), changed);
    else if (this.#services.has(name)) changed.add(name);
  }

  #touchNode(key: string, changed: Set<string>): void {
    for (const name of this.#services.on(key)) changed.add(name);
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
}
