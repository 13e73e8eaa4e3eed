/**
 * Consul as a registry: the catalog of one or more datacenters, mirrored by its lists of services, checks and nodes,
 * which are watched, and reads of the services that changed. Agents are asked in turn, the last that answered first.
 * The trust domain, a name of the whole of Consul's data, is the epoch, with the lineage of the index (R7).
 */

import type { ConsulRegistryConfig } from '../config/types.js';
import type { Adapter, Delivery, Failure, Follower, Observation, PollContext, Presence, Seeker } from './adapter.js';
import { ConsulAdapter } from './consul-adapter.js';
import { ConsulDatacenter } from './consul-datacenter.js';
import { ConsulMirror } from './consul-mirror.js';
import { type ConsulRegistryOptions, ConsulSource, RETRY_MS } from './consul-source.js';
import { sleep } from './consul-watch.js';
import { isFailure } from './http-failure.js';
import { Notes } from './notes.js';
import type { ListedCheck, ListedNode, Listing, Rejected, Row } from './registry.js';
import { collapseRows, normalizeAddress } from './rows.js';
import { within } from './within.js';

export class ConsulRegistry extends ConsulAdapter implements Adapter, Follower, Seeker {
  readonly follower = this;
  readonly seeker = this;
  readonly #source: ConsulSource;
  readonly #datacenters: readonly ConsulDatacenter[];
  /** What is amiss with each service. */
  readonly #notes = new Map<string, readonly Rejected[]>();
  /** Why other datacenters than the first cannot be heard. */
  readonly #unheard = new Map<ConsulDatacenter, string>();
  #nodesVersion = '';
  #seeks: (seeking: boolean) => void = () => undefined;

  constructor(config: ConsulRegistryConfig, options: ConsulRegistryOptions) {
    const source = new ConsulSource(config, options);
    super(config, source);
    this.#source = source;
    const { client, policy, datacenters } = source;
    const { stale, maxLag } = config;
    const seeks = (): void => this.#seeks(this.#datacenters.some(({ seeking }) => seeking));
    this.#datacenters = datacenters.map((dc) => {
      const newMirror = (): ConsulMirror => new ConsulMirror(policy, dc ?? '', options.wanted, options.limits);
      return new ConsulDatacenter({ dc, client, stale, maxLag, newMirror, seeks, seen: source.seen(dc) });
    });
  }

  protected readAnew(): void {
    for (const one of this.#datacenters) one.readAnew();
  }

  mostAsked(names: readonly string[]): void {
    for (const datacenter of this.#datacenters) datacenter.asked = names;
  }

  onSeek(seeks: (seeking: boolean) => void): void {
    this.#seeks = seeks;
  }

  justAsked(names: readonly string[]): void {
    for (const datacenter of this.#datacenters) datacenter.justAsked(names);
  }

  poll(context: PollContext): Promise<Observation | Failure> {
    return this.#source.poll(
      context,
      (origin, signal) => this.#refresh(origin, signal),
      () => this.#list(),
    );
  }

  async follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string> {
    const heard = this.#datacenters.filter((datacenter) => !this.#unheard.has(datacenter));
    const doubt = heard.find((datacenter) => datacenter.doubt !== undefined)?.doubt;
    // Nothing would be believed for removals: until it is mended there are lists alone.
    if (doubt !== undefined) return doubt;
    const whole = within(signal);
    const news = (): void => {
      const change = whole.signal.aborted ? undefined : this.#change();
      if (change !== undefined) deliver(change);
    };
    const { origin } = heard[0]!;
    const ends = heard.map((datacenter) => datacenter.follow(whole.signal, news));
    const [unheard] = this.#unheard.values();
    if (unheard !== undefined) ends.push(sleep(RETRY_MS, whole.signal).then(() => unheard));
    const { marks, stale } = this.#source;
    ends.push(marks.follow(origin, stale, whole.signal, () => deliver(this.#marksAlone())).then(() => 'stopped'));
    const reason = await Promise.race(ends);
    whole.abort();
    return `${origin}: ${reason}`;
  }

  async present(signal: AbortSignal): Promise<Presence> {
    const heard = this.#datacenters.filter((datacenter) => !this.#unheard.has(datacenter));
    const found = await Promise.all(heard.map((datacenter) => datacenter.present(signal, this.presenceDeadline)));
    const failure = found.find((presence) => isFailure(presence));
    if (failure !== undefined) return { ...failure, reason: `${heard[0]!.origin}: ${failure.reason}` };
    for (const kind of ['lost', 'behind'] as const)
      if (found.some((presence) => presence.kind === kind)) return { kind };
    return { kind: 'same' };
  }

  /** The first datacenter has to be heard. Of another one that is not, what is known stands. */
  async #refresh(origin: string, signal: AbortSignal): Promise<Failure | undefined> {
    const [first, ...others] = await Promise.all(
      this.#datacenters.map((datacenter) => datacenter.refresh(origin, signal)),
    );
    if (first !== undefined) return first;
    this.#unheard.clear();
    for (const [i, failure] of others.entries()) {
      if (failure !== undefined) this.#unheard.set(this.#datacenters[i + 1]!, failure.reason);
    }
    await this.#source.readEpochAndMarks(origin, signal);
    return undefined;
  }

  #list(): Observation {
    const partial = this.#datacenters.find((datacenter) => this.#partial(datacenter) !== undefined);
    const names = new Set(this.#datacenters.flatMap((datacenter) => [...datacenter.mirror.names.keys()]));
    for (const datacenter of this.#datacenters) datacenter.takeChanged();
    this.#notes.clear();
    const services = [...names].flatMap((name) => this.#listing(name) ?? []);
    this.#nodesVersion = this.#currentNodes();
    return {
      kind: 'list',
      epoch: this.#source.epoch,
      revision: this.#revision,
      services,
      ...(this.#source.namesNodes ? { nodes: this.#nodes() } : {}),
      releases: this.#source.marks.releases,
      rejected: this.#rejected(),
      removalsBelievable: partial === undefined,
    };
  }

  /** What changed since the last report; undefined when nothing did. */
  #change(): Delivery | undefined {
    const names = new Set(this.#datacenters.flatMap((datacenter) => [...datacenter.takeChanged()]));
    const version = this.#currentNodes();
    const nodesChanged = this.#source.namesNodes && version !== this.#nodesVersion;
    if (names.size === 0 && !nodesChanged) return undefined;
    this.#nodesVersion = version;
    const services: Listing[] = [];
    const gone: string[] = [];
    for (const name of names) {
      const listing = this.#listing(name);
      if (listing !== undefined) services.push(listing);
      else if (!this.#datacenters.some(({ mirror }) => mirror.has(name))) gone.push(name);
    }
    return { ...this.#marksAlone(), services, gone, ...(nodesChanged ? { nodes: this.#nodes() } : {}) };
  }

  /** How far it was taken in: in changes, too, so that a backup from before them is seen to be one (R6). */
  get #revision(): string {
    return this.#source.revision((dc) => this.#datacenters.find((datacenter) => datacenter.dc === dc)?.revision);
  }

  #marksAlone(): Extract<Delivery, { kind: 'change' }> {
    return {
      kind: 'change',
      epoch: this.#source.epoch,
      revision: this.#revision,
      services: [],
      gone: [],
      releases: this.#source.marks.releases,
      rejected: this.#rejected(),
    };
  }

  #listing(name: string): Listing | undefined {
    const notes = new Notes();
    const rows: Row[] = [];
    let check: ListedCheck | undefined;
    let listed = false;
    for (const { mirror } of this.#datacenters) {
      const contents = mirror.contents(name, notes);
      if (contents === undefined) continue;
      listed = true;
      rows.push(...contents.rows);
      check ??= contents.check;
    }
    const told = notes.list(name);
    if (told.length > 0) this.#notes.set(name, told);
    else this.#notes.delete(name);
    if (!listed) return undefined;
    const listing = { name, rows: collapseRows(rows) };
    return check === undefined ? listing : { ...listing, check };
  }

  #nodes(): ListedNode[] {
    const valid = (text: string): string | undefined => {
      const address = normalizeAddress(text);
      return address === undefined || this.#source.policy.fault(address) !== undefined ? undefined : address;
    };
    return this.#datacenters.flatMap(({ mirror }) => mirror.listedNodes(valid));
  }

  #currentNodes(): string {
    return this.#datacenters.map(({ mirror }) => mirror.nodesVersion).join();
  }

  /** What is amiss, the reason why nothing is taken away first. */
  #rejected(): Rejected[] {
    const notes = new Notes();
    for (const datacenter of this.#datacenters) {
      const unheard = this.#unheard.get(datacenter);
      if (unheard !== undefined) notes.add('another datacenter', `${unheard}: what was known of it stands`);
      const partial = this.#partial(datacenter);
      if (partial !== undefined) notes.add(datacenter.origin, partial);
    }
    for (const datacenter of this.#datacenters) {
      for (const [name, reason] of datacenter.failed) notes.add(name, `it cannot be read: ${reason}`);
    }
    for (const { where, reason } of this.#source.marks.rejected) notes.add(where, reason);
    for (const told of this.#notes.values()) for (const { where, reason } of told) notes.add(where, reason);
    return notes.list('the catalog');
  }

  /** Why what a datacenter does not list is not known to have left (R6). */
  #partial(datacenter: ConsulDatacenter): string | undefined {
    const unheard = datacenter.isRead ? undefined : this.#unheard.get(datacenter);
    return unheard ?? datacenter.partial;
  }
}
