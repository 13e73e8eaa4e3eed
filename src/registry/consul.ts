/**
 * Consul as a registry: the catalog of one or more datacenters, mirrored by its lists of services, checks and nodes,
 * which are watched, and reads of the services that changed. Agents are asked in turn, the last that answered first.
 * The trust domain, a name of the whole of Consul's data, is the epoch, with the lineage of the index (R7).
 */

import { setMaxListeners } from 'node:events';
import type { LookupFunction } from 'node:net';
import type { Cidr, ConsulRegistryConfig, LimitsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import { ConsulClient } from './consul-client.js';
import { ConsulDatacenter } from './consul-datacenter.js';
import { readTrustDomain } from './consul-epoch.js';
import { CONSUL_LIMITS } from './consul-limits.js';
import { ConsulMarks } from './consul-marks.js';
import { ConsulMirror } from './consul-mirror.js';
import { sleep } from './consul-watch.js';
import { HttpClient } from './http-client.js';
import { isFailure } from './http-failure.js';
import { registryIdentity } from './identity.js';
import { Notes } from './notes.js';
import type { ListedCheck, ListedNode, Listing, Rejected, Row } from './registry.js';
import { RequestGate } from './request-gate.js';
import { AddressPolicy, collapseRows, normalizeAddress } from './rows.js';
import type { Adapter, Delivery, Failure, Follower, Observation, PollContext, Presence } from './sync.js';

export interface ConsulRegistryOptions {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  /** In place of the one of the registry, where nodes have names in answers: those that are answered, the first first. */
  readonly datacenters?: readonly string[];
  /** Services that are read. */
  readonly wanted?: (service: string) => boolean;
  /** Of host names of the registry itself, see registry-hosts.ts. */
  readonly lookup?: LookupFunction | undefined;
}

const LIVENESS_MS: Ms = 5_000;
const MAX_INTERVAL_MS: Ms = 60_000;
/** Every read has a deadline of its own; a first list of many services takes as long as it takes. */
const POLL_MS: Ms = 900_000;
/** Another datacenter that failed is tried again after so long. */
const RETRY_MS: Ms = 30_000;
/** So many of the most asked services are watched each by itself. */
const HOT_WATCHES = 16;

export class ConsulRegistry implements Adapter, Follower {
  readonly identity: string;
  readonly interval: Ms;
  readonly deadline = POLL_MS;
  readonly presenceDeadline: Ms;
  readonly backoff = { base: 500, cap: 60_000 };
  readonly firstSpread: Ms = 10_000;
  readonly recoverySpread: Ms = 60_000;
  readonly lineage = true;
  readonly severalWatches = true;
  readonly follower = this;
  readonly #config: ConsulRegistryConfig;
  readonly #http: HttpClient;
  readonly #client: ConsulClient;
  readonly #gate = new RequestGate(CONSUL_LIMITS);
  readonly #datacenters: readonly ConsulDatacenter[];
  readonly #marks: ConsulMarks;
  readonly #policy: AddressPolicy;
  readonly #withNodes: boolean;
  /** What is amiss with each service. */
  readonly #notes = new Map<string, readonly Rejected[]>();
  /** Why other datacenters than the first cannot be heard. */
  readonly #unheard = new Map<ConsulDatacenter, string>();
  #first = 0;
  #epoch = 'consul';
  #nodesVersion = '';

  constructor(config: ConsulRegistryConfig, options: ConsulRegistryOptions) {
    const { softTtl, limits, allowAddresses, datacenters = [], wanted, lookup } = options;
    this.identity = registryIdentity(config);
    this.interval = Math.min(MAX_INTERVAL_MS, softTtl / 2);
    this.presenceDeadline = Math.min(LIVENESS_MS, this.interval);
    this.#config = config;
    this.#withNodes = datacenters.length > 0;
    this.#policy = new AddressPolicy(allowAddresses, false, datacenters.length > 0);
    this.#http = new HttpClient(config, lookup, CONSUL_LIMITS.inFlight);
    this.#client = new ConsulClient(config, this.#http, limits.maxBody);
    const { stale, maxLag } = config;
    const given = datacenters.length > 0 ? datacenters : [config.datacenter];
    this.#datacenters = given.map(
      (dc) =>
        new ConsulDatacenter({
          dc,
          client: this.#client,
          gate: this.#gate,
          stale,
          maxLag,
          hotWatches: Math.floor(HOT_WATCHES / given.length),
          newMirror: () => new ConsulMirror(this.#policy, dc ?? '', wanted, limits),
        }),
    );
    this.#marks = new ConsulMarks(this.#client, this.#gate, config.kvPrefix);
  }

  close(): void {
    this.#http.close();
  }

  mostAsked(names: readonly string[]): void {
    for (const datacenter of this.#datacenters) datacenter.asked = names;
  }

  async poll(context: PollContext): Promise<Observation | Failure> {
    const { signal } = within(context.signal);
    const { addresses } = this.#config;
    const failures: (Failure | undefined)[] = addresses.map(() => undefined);
    for (let turn = 0; turn < addresses.length && !signal.aborted; turn++) {
      const index = (this.#first + turn) % addresses.length;
      const failure = await this.#refresh(addresses[index]!, signal);
      if (failure === undefined) {
        this.#first = index;
        return this.#list();
      }
      failures[index] = failure;
    }
    // The next round begins elsewhere: an agent may accept everything and answer nothing.
    this.#first = (this.#first + 1) % addresses.length;
    return this.#together(failures);
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
    void this.#marks.follow(origin, this.#config.stale, whole.signal, () => deliver(this.#marksAlone()));
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
    await Promise.all([this.#readEpoch(origin, signal), this.#marks.refresh(origin, this.#config.stale, signal)]);
    return undefined;
  }

  /** Where there is no trust domain (Consul without its mesh), or it cannot be read now, the last word stands. */
  async #readEpoch(origin: string, signal: AbortSignal): Promise<void> {
    this.#epoch = (await readTrustDomain(this.#client, this.#gate, origin, this.#config.stale, signal)) ?? this.#epoch;
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
      epoch: this.#epoch,
      revision: this.#datacenters.map((datacenter) => datacenter.revision ?? '0').join('.'),
      services,
      ...(this.#withNodes ? { nodes: this.#nodes() } : {}),
      releases: this.#marks.releases,
      rejected: this.#rejected(),
      removalsBelievable: partial === undefined,
    };
  }

  /** What changed since the last report; undefined when nothing did. */
  #change(): Delivery | undefined {
    const names = new Set(this.#datacenters.flatMap((datacenter) => [...datacenter.takeChanged()]));
    const version = this.#currentNodes();
    const nodesChanged = this.#withNodes && version !== this.#nodesVersion;
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

  #marksAlone(): Extract<Delivery, { kind: 'change' }> {
    return {
      kind: 'change',
      epoch: this.#epoch,
      services: [],
      gone: [],
      releases: this.#marks.releases,
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
      return address === undefined || this.#policy.fault(address) !== undefined ? undefined : address;
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
    for (const { where, reason } of this.#marks.rejected) notes.add(where, reason);
    for (const told of this.#notes.values()) for (const { where, reason } of told) notes.add(where, reason);
    return notes.list('the catalog');
  }

  /** Why what a datacenter does not list is not known to have left (R6). */
  #partial(datacenter: ConsulDatacenter): string | undefined {
    const unheard = datacenter.revision === undefined ? this.#unheard.get(datacenter) : undefined;
    return unheard ?? datacenter.partial;
  }

  /** The same failures give the same words, in whatever order the agents were asked. */
  #together(failures: readonly (Failure | undefined)[]): Failure {
    const { addresses } = this.#config;
    const told = failures.flatMap((failure, index) => {
      return failure === undefined ? [] : [{ ...failure, reason: `${addresses[index]}: ${failure.reason}` }];
    });
    const retryAfter = Math.min(...told.map((failure) => failure.retryAfter ?? 0));
    const kind = told.some((failure) => failure.kind === 'unbelievable') ? 'unbelievable' : 'unreachable';
    const reason = told.map((failure) => failure.reason).join('; ');
    return retryAfter > 0 && Number.isFinite(retryAfter) ? { kind, reason, retryAfter } : { kind, reason };
  }
}

/** Ends with `signal`. Many requests listen to it. */
function within(signal: AbortSignal): AbortController {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  if (signal.aborted) controller.abort();
  else signal.addEventListener('abort', () => controller.abort(), { once: true });
  return controller;
}
