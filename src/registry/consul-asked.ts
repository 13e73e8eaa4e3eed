/**
 * Consul on demand (R33): only services that were asked for are known, and each is read and watched by itself. How far
 * the catalog and the checks are as a whole is told by two reads without anything in them, as for a mirror.
 */
import type { ConsulRegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Adapter, Delivery, Failure, Follower, Observation, PollContext, Presence } from './adapter.js';
import { ConsulAdapter } from './consul-adapter.js';
import { AskedReads, type Reading } from './consul-asked-reads.js';
import { type AskedPart, AskedService } from './consul-asked-service.js';
import { AskedWatches } from './consul-asked-watches.js';
import { type ConsulRegistryOptions, ConsulSource, RETRY_MS } from './consul-source.js';
import { sleep } from './consul-watch.js';
import type { LookUp, OnDemand } from './look-up.js';
import { Notes } from './notes.js';
import type { Listing, Rejected } from './registry.js';
import { within } from './within.js';

const READ_MS: Ms = 5_000;
/** Of one look-up: of the only agent, or of each of several. */
const LOOK_UP_MS: Ms = 5_000;
const LOOK_UP_OF_MANY_MS: Ms = 1_000;
const READERS = 24;
const MOST_FAILED = 3;

export class AskedConsul extends ConsulAdapter implements Adapter, Follower, OnDemand {
  readonly follower = this;
  readonly onDemand = this;
  readonly #source: ConsulSource;
  readonly #reads: AskedReads;
  /** By the name in lower case: Consul itself makes no difference. */
  readonly #known = new Map<string, AskedService>();
  /** Names under which services were reported. */
  readonly #told = new Map<AskedService, string>();
  /** Why other datacenters than the first cannot be heard. */
  readonly #unheard = new Map<string | undefined, string>();
  #watches: AskedWatches | undefined;
  #origin: string;
  #lowestRank = 0;

  constructor(config: ConsulRegistryConfig, options: ConsulRegistryOptions) {
    const source = new ConsulSource(config, options);
    super(config, source);
    this.#source = source;
    const { client, stale } = source;
    this.#reads = new AskedReads({ client, stale, maxLag: config.maxLag, seen: (dc) => source.seen(dc) });
    this.#origin = config.addresses[0]!;
  }

  protected readAnew(): void {
    this.#reads.outdated = true;
  }

  know(add: readonly string[], drop: readonly string[]): void {
    for (const name of drop) {
      const service = this.#known.get(name.toLowerCase());
      if (service === undefined) continue;
      this.#known.delete(name.toLowerCase());
      this.#told.delete(service);
    }
    for (const name of add) this.#put(name, this.#known.size);
    this.#watches?.retune();
  }

  order(services: readonly string[]): void {
    for (const [rank, name] of services.entries()) this.#put(name, rank);
    this.#lowestRank = 0;
    this.#watches?.retune();
  }

  #put(name: string, rank: number): void {
    const known = this.#known.get(name.toLowerCase());
    if (known === undefined)
      this.#known.set(name.toLowerCase(), new AskedService(name, this.#source.datacenters, rank));
    else known.rank = rank;
  }

  async lookUp(name: string, signal: AbortSignal): Promise<LookUp> {
    const service = new AskedService(name, this.#source.datacenters, --this.#lowestRank);
    const failures = await Promise.all(service.parts.map((part) => this.#lookUpPart(part, signal)));
    const listing = service.listing(this.#source.policy);
    if (listing !== undefined) {
      const known = this.#known.get(name.toLowerCase());
      if (known === undefined) {
        this.#known.set(name.toLowerCase(), service);
        this.#told.set(service, listing.name);
        // What is amiss with it goes with the first change that is delivered.
        if (service.notes.length === 0) service.isNews(listing);
      } else for (const part of known.parts) part.checkedAt = Number.NEGATIVE_INFINITY;
      this.#watches?.retune();
      return { kind: 'found', listing };
    }
    const failure = failures.find((one) => one !== undefined);
    if (failure !== undefined) return { kind: 'failed', reason: failure.reason };
    if (service.parts.some(({ filtered }) => filtered)) {
      return { kind: 'failed', reason: `the token may not see ${name}, or the answer is not the leader's word (R6)` };
    }
    return { kind: 'unknown' };
  }

  /** Of the agents in turn, the last that answered first. */
  async #lookUpPart(part: AskedPart, signal: AbortSignal): Promise<Failure | undefined> {
    const { addresses, members } = this.#source;
    const deadline = addresses.length === 1 ? LOOK_UP_MS : LOOK_UP_OF_MANY_MS;
    let failure: Failure | undefined;
    for (const index of members.inTurn()) {
      if (signal.aborted) break;
      const origin = addresses[index]!;
      failure = await this.#reads.read(part, { origin, turn: 'look-up', signal, deadline });
      if (failure === undefined) return undefined;
    }
    return failure ?? { kind: 'unreachable', reason: 'no answer in time' };
  }

  poll(context: PollContext): Promise<Observation | Failure> {
    return this.#source.poll(
      context,
      (origin, signal) => this.#refresh(origin, signal),
      () => this.#list(),
    );
  }

  /** Looks how far the registry is, and reads what is known unless it is known as of now: most recently asked first. */
  async #refresh(origin: string, signal: AbortSignal): Promise<Failure | undefined> {
    const reading = { origin, signal, deadline: READ_MS };
    this.#reads.doubt = undefined;
    const [first, ...others] = this.#source.datacenters;
    const looked = await this.#reads.look(first, reading);
    if (typeof looked !== 'string') return looked;
    this.#unheard.clear();
    await Promise.all(
      others.map(async (dc) => {
        const other = await this.#reads.look(dc, reading);
        if (typeof other !== 'string') this.#unheard.set(dc, other.reason);
      }),
    );
    this.#origin = origin;
    await this.#source.readEpochAndMarks(origin, signal);
    const parts = this.#parts().sort((a, b) => a.service.rank - b.service.rank);
    const unread = parts.filter((part) => this.#reads.outdated || !this.#reads.isAsOfNow(part));
    // Whatever their indexes are now: whether the lineage is another one, the list as a whole tells.
    for (const part of unread) part.index = undefined;
    const failure = await this.#readAll(unread, reading);
    if (failure === undefined) this.#reads.outdated = false;
    return failure;
  }

  /** A failure when more than a few cannot be read. */
  async #readAll(parts: readonly AskedPart[], reading: Reading): Promise<Failure | undefined> {
    const queue = parts.values();
    const failures: Failure[] = [];
    const reader = async (): Promise<void> => {
      for (const part of queue) {
        if (reading.signal.aborted || failures.length >= MOST_FAILED) return;
        const failure = await this.#reads.read(part, reading);
        if (failure !== undefined) failures.push(failure);
      }
    };
    await Promise.all(Array.from({ length: Math.min(READERS, parts.length) }, reader));
    return failures.length >= MOST_FAILED ? failures[0] : undefined;
  }

  async follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string> {
    // Nothing would be believed for removals: until it is mended there are lists alone.
    if (this.#reads.doubt !== undefined) return this.#reads.doubt;
    const whole = within(signal);
    const origin = this.#origin;
    const watches = new AskedWatches(
      {
        reads: this.#reads,
        reading: { origin },
        interval: this.interval,
        parts: () => this.#parts(),
        news: ({ service }) => {
          const change = whole.signal.aborted ? undefined : this.#change(service);
          if (change !== undefined) deliver(change);
        },
      },
      whole.signal,
    );
    this.#watches = watches;
    const ends = [watches.run()];
    const [unheard] = this.#unheard.values();
    if (unheard !== undefined) ends.push(sleep(RETRY_MS, whole.signal).then(() => unheard));
    const { marks, stale } = this.#source;
    ends.push(marks.follow(origin, stale, whole.signal, () => deliver(this.#changed([], []))).then(() => 'stopped'));
    const reason = await Promise.race(ends);
    this.#watches = undefined;
    whole.abort();
    return `${origin}: ${reason}`;
  }

  /** Confirms when each service was read in time, or nothing in the registry is newer than what was read. */
  async present(signal: AbortSignal): Promise<Presence> {
    const reading = { origin: this.#origin, signal, deadline: this.presenceDeadline };
    const heard = this.#source.datacenters.filter((dc) => !this.#unheard.has(dc));
    const looked = await Promise.all(heard.map((dc) => this.#reads.look(dc, reading)));
    const failure = looked.find((one) => typeof one !== 'string');
    if (failure !== undefined) return { ...failure, reason: `${this.#origin}: ${failure.reason}` };
    if (looked.includes('lower') || this.#reads.doubt !== undefined) return { kind: 'lost' };
    const latest = performance.now() - this.interval * 1.5;
    const late = this.#parts().some((part) => {
      return part.fault === undefined && part.checkedAt < latest && !this.#reads.isAsOfNow(part);
    });
    return { kind: late ? 'later' : 'same' };
  }

  /** Of datacenters that are heard. */
  #parts(): AskedPart[] {
    return [...this.#known.values()].flatMap(({ parts }) => parts.filter(({ dc }) => !this.#unheard.has(dc)));
  }

  /** How far each datacenter was seen to be: in changes, too, so that a backup from before them is seen to be one (R6). */
  get #revision(): string {
    return this.#source.revision((dc) => this.#reads.revision(dc));
  }

  #list(): Observation {
    this.#told.clear();
    const services: Listing[] = [];
    for (const service of this.#known.values()) {
      const listing = service.listing(this.#source.policy);
      service.isNews(listing);
      if (listing === undefined) continue;
      this.#told.set(service, listing.name);
      services.push(listing);
    }
    return {
      kind: 'list',
      epoch: this.#source.epoch,
      revision: this.#revision,
      services,
      releases: this.#source.marks.releases,
      rejected: this.#rejected(),
      removalsBelievable: this.#partial() === undefined,
    };
  }

  /** What changed of a service since it was last told; undefined when nothing did. */
  #change(service: AskedService): Delivery | undefined {
    // What has not been read everywhere is not known to be gone.
    if (this.#known.get(service.asked.toLowerCase()) !== service || service.parts.some(({ read }) => !read))
      return undefined;
    const listing = service.listing(this.#source.policy);
    if (!service.isNews(listing)) return undefined;
    const told = this.#told.get(service);
    if (listing === undefined) this.#told.delete(service);
    else this.#told.set(service, listing.name);
    const gone = told === undefined || told === listing?.name ? [] : [told];
    return this.#changed(listing === undefined ? [] : [listing], gone);
  }

  #changed(services: readonly Listing[], gone: readonly string[]): Extract<Delivery, { kind: 'change' }> {
    return {
      kind: 'change',
      epoch: this.#source.epoch,
      revision: this.#revision,
      services,
      gone,
      releases: this.#source.marks.releases,
      rejected: this.#rejected(),
    };
  }

  /** What is amiss, the reason why nothing is taken away first. */
  #rejected(): Rejected[] {
    const notes = new Notes();
    const partial = this.#partial();
    if (partial !== undefined) notes.add(this.#origin, partial);
    for (const [dc, reason] of this.#unheard) notes.add(`datacenter ${dc}`, `${reason}: what was known of it stands`);
    for (const { where, reason } of this.#source.marks.rejected) notes.add(where, reason);
    for (const { notes: told } of this.#known.values()) for (const { where, reason } of told) notes.add(where, reason);
    return notes.list('what is asked for');
  }

  /** Why what is left out is not known to have left (R6). */
  #partial(): string | undefined {
    if (this.#reads.doubt !== undefined) return this.#reads.doubt;
    for (const { asked, parts } of this.#known.values()) {
      const unread = parts.find(({ read }) => !read);
      if (unread === undefined) continue;
      return `service ${asked} cannot be read: ${unread.fault ?? this.#unheard.get(unread.dc) ?? 'it was not read yet'}`;
    }
    return undefined;
  }
}
