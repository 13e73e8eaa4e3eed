/** One service that is known on demand (R33): what Consul answered about it last, in each datacenter, and when. */
import { contentsOf, type Entry, readServiceAnswer, type ServiceAnswer } from './consul-answer.js';
import type { ConsulReply } from './consul-client.js';
import type { TableIndexes } from './consul-progress.js';
import { Notes } from './notes.js';
import type { Listing, Rejected } from './registry.js';
import { type AddressPolicy, collapseRows } from './rows.js';

/** What is known of the service in one datacenter. */
export class AskedPart {
  readonly service: AskedService;
  /** Undefined: the agent's own. */
  readonly dc: string | undefined;
  entries: ReadonlyMap<string, Entry> = new Map();
  others: readonly string[] = [];
  name: string | undefined;
  read = false;
  /** The token does not see all of it. */
  filtered = false;
  /** Why it could not be read the last time. */
  fault: string | undefined;
  /** `X-Consul-Index` of the last answer. */
  index: bigint | undefined;
  /** When it was last known to be as it is here, by `performance.now()`. */
  checkedAt = Number.NEGATIVE_INFINITY;
  /** Nothing in the registry was newer than these when it was last read. */
  asOf: TableIndexes | undefined;
  /** A read in turn is under way. */
  busy = false;

  constructor(service: AskedService, dc: string | undefined) {
    this.service = service;
    this.dc = dc;
  }

  /** Takes an answer in. False when it is none of Consul's. */
  take(reply: ConsulReply, asOf: TableIndexes | undefined): boolean {
    const answer = readServiceAnswer(reply.body, this.dc ?? '');
    if (answer === undefined) return false;
    const { filtered, index } = reply;
    // What is hidden stands as it was last seen (R6).
    this.entries = filtered ? new Map([...this.entries, ...answer.entries]) : answer.entries;
    this.name = answer.name ?? this.name;
    this.others = answer.others;
    this.filtered = filtered;
    this.read = true;
    this.fault = undefined;
    this.index = index;
    this.asOf = asOf;
    return true;
  }
}

export class AskedService {
  /** How it was asked for first. */
  readonly asked: string;
  readonly parts: readonly AskedPart[];
  /** The lower, the more recently it was asked. */
  rank: number;
  /** What is amiss with it, after `listing`. */
  notes: readonly Rejected[] = [];
  #told = '';

  constructor(asked: string, datacenters: readonly (string | undefined)[], rank: number) {
    this.asked = asked;
    this.rank = rank;
    this.parts = datacenters.map((dc) => new AskedPart(this, dc));
  }

  /** As the registry spells it, the first datacenter first. */
  get name(): string {
    return this.parts.find(({ name }) => name !== undefined)?.name ?? this.asked;
  }

  /** What the registry has of it; undefined: nothing. */
  listing(policy: AddressPolicy): Listing | undefined {
    const notes = new Notes();
    const { name } = this;
    for (const { filtered, others, fault } of this.parts) {
      if (fault !== undefined) notes.add(name, `it cannot be read: ${fault}`);
      if (filtered) notes.add(name, 'the token does not see all of it: nothing that is missing is taken away');
      for (const other of others) notes.add(other, `it has no name: ${name} is the same in other letters (R22)`);
    }
    const entries = this.parts.flatMap((part) => [...part.entries.values()]);
    const { rows, check } = contentsOf(name, entries, policy, notes);
    this.notes = notes.list(name);
    if (entries.length === 0) return undefined;
    const listing = { name, rows: collapseRows(rows) };
    return check === undefined ? listing : { ...listing, check };
  }

  /** Whether what `listing` gave and what is amiss is another than at the last call. */
  isNews(listing: Listing | undefined): boolean {
    const text = JSON.stringify([listing, this.notes]);
    const news = text !== this.#told;
    this.#told = text;
    return news;
  }
}

export type { ServiceAnswer };
