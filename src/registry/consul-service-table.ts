/** Every service of a datacenter with its instances, as they are known here, and by the nodes that these are on. */
import type { KnownCheck } from './consul-check-table.js';
import { type Answer, type Findings, keyOf, tagsText } from './consul-findings.js';
import type { Instance } from './consul-instance.js';
import type { ServiceSummary } from './consul-summary.js';

export interface KnownService {
  /** As the list of services has them, in one text. */
  tags: string;
  readonly instances: readonly Instance[] | undefined;
  /** Its last answer was not whole. */
  filtered: boolean;
  /** It is in the list. */
  listed: boolean;
}

type Held = { -readonly [Key in keyof KnownService]: KnownService[Key] };

export class ServiceTable {
  readonly #services = new Map<string, Held>();
  /** Services by node, in lower case. */
  readonly #onNode = new Map<string, Set<string>>();
  readonly #wanted: (service: string) => boolean;
  #size = 0;
  /** The list of all services, as it was last taken in whole. */
  #list: Buffer | undefined;

  /** @param wanted of the others nothing is kept but that they are there */
  constructor(wanted: (service: string) => boolean) {
    this.#wanted = wanted;
  }

  get names(): ReadonlyMap<string, KnownService> {
    return this.#services;
  }

  /** Instances of all services. */
  get size(): number {
    return this.#size;
  }

  get(name: string): KnownService | undefined {
    return this.#services.get(name);
  }

  has(name: string): boolean {
    return this.#services.has(name);
  }

  /** The list of services with their tags. Undefined when it is none. */
  takeList({ body, bytes, filtered }: Answer): Findings | undefined {
    if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
    const findings = { changed: new Set<string>(), unread: new Set<string>() };
    // It comes with every instance that comes or goes, and mostly tells nothing new of very many.
    if (bytes !== undefined && this.#list?.equals(bytes) && this.#isWhole) return findings;
    this.#list = filtered ? undefined : bytes;
    const seen = new Map(Object.entries(body).filter(([name]) => name !== '' && this.#wanted(name)));
    for (const [name, list] of seen) {
      const tags = tagsText(list);
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
        this.drop(name);
        findings.changed.add(name);
      }
    }
    return findings;
  }

  drop(name: string): void {
    const instances = this.#services.get(name)?.instances;
    this.#size -= instances?.length ?? 0;
    this.#leaveNodes(name, instances);
    this.#services.delete(name);
  }

  /** Services with instances on a node. */
  on(node: string): Iterable<string> {
    return this.#onNode.get(node.toLowerCase()) ?? [];
  }

  hasInstance(name: string, { node, serviceId }: Pick<KnownCheck, 'node' | 'serviceId'>): boolean {
    const instances = this.#services.get(name)?.instances ?? [];
    return instances.some((instance) => instance.serviceId === serviceId && instance.node === node);
  }

  /** The service whose instance has the id by now. Consul keeps the name that it had when the check was registered. */
  ofCheck(check: Pick<KnownCheck, 'node' | 'serviceId' | 'service'>): string {
    const { node, serviceId, service } = check;
    if (serviceId === '' || this.hasInstance(service, check)) return service;
    for (const name of this.on(node)) if (this.hasInstance(name, check)) return name;
    return service;
  }

  /**
   * Puts the instances of a service that an answer is about in the place of those that were known.
   * @param filtered what is missing may be hidden, and stands as it was last seen
   * @returns those that are missing
   */
  replace(name: string, before: readonly Instance[], now: readonly Instance[], filtered: boolean): readonly Instance[] {
    const service = this.#services.get(name);
    if (service === undefined) return [];
    const keys = new Set(now.map(keyOf));
    const missing = before.filter((instance) => !keys.has(keyOf(instance)));
    const others = (service.instances ?? []).filter((instance) => !before.includes(instance));
    this.#leaveNodes(name, service.instances);
    this.#size -= service.instances?.length ?? 0;
    service.instances = [...others, ...now, ...(filtered ? missing : [])];
    this.#size += service.instances.length;
    for (const { node } of service.instances) this.#put(node, name);
    return missing;
  }

  /**
   * Services that have other instances by now than those that are known, as far as summaries tell.
   * @param all of those that the summaries have to be about
   */
  differing(summaries: readonly ServiceSummary[], all: Iterable<string>): Set<string> {
    const differ = new Set<string>();
    const seen = new Set<string>();
    for (const { name, instances, nodes } of summaries) {
      seen.add(name);
      const known = this.#services.get(name);
      if (known?.instances === undefined || known.filtered) continue;
      const here = new Set(known.instances.map(({ node }) => node));
      const same = instances === known.instances.length && nodes.length === here.size;
      if (!same || !nodes.every((node) => here.has(node))) differ.add(name);
    }
    for (const name of all) {
      const { instances = [], filtered } = this.#services.get(name) ?? {};
      if (!seen.has(name) && !filtered && instances.length > 0) differ.add(name);
    }
    return differ;
  }

  /** All that are listed were read. */
  get #isWhole(): boolean {
    for (const { instances, listed } of this.#services.values()) if (instances === undefined || !listed) return false;
    return true;
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
}
