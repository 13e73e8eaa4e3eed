/** What both ways to read Consul have in common: its agents, times and limits, the epoch and the release marks. */
import type { LookupFunction } from 'node:net';
import type { Cidr, ConsulRegistryConfig, LimitsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Failure, Observation, PollContext } from './adapter.js';
import { ConsulClient } from './consul-client.js';
import { readTrustDomain } from './consul-epoch.js';
import { ConsulMarks } from './consul-marks.js';
import { HttpClient } from './http-client.js';
import { registryIdentity } from './identity.js';
import { Members } from './members.js';
import { type Revision, readRevision, type SeenRevision, showRevision } from './revision-memory.js';
import { AddressPolicy } from './rows.js';
import { SOURCE_LIMITS } from './source-gates.js';
import { within } from './within.js';

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
  /** R6: what it was known to have come to before. */
  readonly seen?: SeenRevision | undefined;
}

/** Every read has a deadline of its own; a first list of many services takes as long as it takes. */
export const POLL_MS: Ms = 900_000;
/** Another datacenter that failed is tried again after so long. */
export const RETRY_MS: Ms = 30_000;
const LIVENESS_MS: Ms = 5_000;
const MAX_INTERVAL_MS: Ms = 60_000;

export class ConsulSource {
  readonly identity: string;
  readonly interval: Ms;
  readonly presenceDeadline: Ms;
  readonly addresses: readonly string[];
  readonly members: Members;
  readonly client: ConsulClient;
  readonly policy: AddressPolicy;
  readonly marks: ConsulMarks;
  /** Those that are read. Undefined: the agent's own. */
  readonly datacenters: readonly (string | undefined)[];
  /** Whether nodes have names in answers. */
  readonly namesNodes: boolean;
  readonly stale: boolean;
  /** The trust domain, as it was last read. */
  epoch = 'consul';
  readonly #http: HttpClient;
  readonly #seen: Revision;

  constructor(config: ConsulRegistryConfig, options: ConsulRegistryOptions) {
    const { softTtl, allowAddresses, datacenters = [], lookup, seen } = options;
    this.identity = registryIdentity(config);
    this.interval = Math.min(MAX_INTERVAL_MS, softTtl / 2);
    this.presenceDeadline = Math.min(LIVENESS_MS, this.interval);
    this.addresses = config.addresses;
    this.members = new Members(config.addresses);
    this.namesNodes = datacenters.length > 0;
    this.datacenters = this.namesNodes ? datacenters : [config.datacenter];
    this.stale = config.stale;
    this.#seen = readRevision(seen?.revision ?? '') ?? new Map();
    this.policy = new AddressPolicy(allowAddresses, false, this.namesNodes);
    this.#http = new HttpClient(config, lookup, SOURCE_LIMITS.inFlight);
    this.client = new ConsulClient(config, this.#http, options.limits.maxBody);
    this.marks = new ConsulMarks(this.client, config.kvPrefix);
  }

  /** R6: how far a datacenter was known to be before anything was read. */
  seen(dc: string | undefined): readonly bigint[] | undefined {
    return this.#seen.get(dc ?? '');
  }

  /** R6: of all datacenters. @param of one; undefined: nothing is known of it */
  revision(of: (dc: string | undefined) => readonly bigint[] | undefined): string {
    const parts = this.datacenters.map((dc) => [dc ?? '', of(dc)] as const);
    return showRevision(new Map(parts.filter((part): part is [string, readonly bigint[]] => part[1] !== undefined)));
  }

  close(): void {
    this.#http.close();
  }

  /** One poll: of the agents in turn, until one has told all. */
  poll(
    context: PollContext,
    refresh: (origin: string, signal: AbortSignal) => Promise<Failure | undefined>,
    list: () => Observation,
  ): Promise<Observation | Failure> {
    const { signal } = within(context.signal);
    return this.members.ask(signal, async (index) => (await refresh(this.addresses[index]!, signal)) ?? list());
  }

  /** Where there is no trust domain (Consul without its mesh), or it cannot be read now, the last word stands. */
  async readEpochAndMarks(origin: string, signal: AbortSignal): Promise<void> {
    const [epoch] = await Promise.all([
      readTrustDomain(this.client, origin, this.stale, signal),
      this.marks.refresh(origin, this.stale, signal),
    ]);
    this.epoch = epoch ?? this.epoch;
  }
}
