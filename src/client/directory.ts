/**
 * What is known of services. Age removes nothing: a list whose TTL has run out is used while it is asked for again, and
 * for as long as no name server answers. Time and look-ups are passed in.
 */
import type { Ms } from '../system/clock.js';
import type { Outcome } from './endpoint.js';
import { NoAnswerError, NotFoundError } from './errors.js';

export type Listing = Extract<Outcome, { kind: 'found' }>;

export interface DirectoryOptions {
  /** Never rejects. */
  readonly find: (host: string, addressesOnly: boolean) => Promise<Outcome>;
  readonly now: () => Ms;
  /** Resolves after `ms`. */
  readonly wait: (ms: Ms) => Promise<void>;
  /** Told of every list that differs from the one before. */
  readonly changed?: (host: string, listing: Listing) => void;
}

/** What is known of a host, for people. */
export interface KnownService {
  readonly host: string;
  readonly listing: Listing | undefined;
  /** Milliseconds since a name server confirmed it. */
  readonly age: Ms | undefined;
  /** Why the last look-up brought nothing. */
  readonly failure: string | undefined;
}

/** A TTL below counts as this: a name is asked for so often at most. */
const MIN_TTL_MS: Ms = 500;
/** A list that ran out longer ago than this, and than its TTL, is worth waiting for. */
const OLD_MS: Ms = 10_000;
const PATIENCE_MS: Ms = 250;
/** The pause after look-ups that failed: doubled each time. */
const RETRY_MIN_MS: Ms = 500;
const RETRY_MAX_MS: Ms = 5_000;
/** The same while somebody waits for the first list of a name. */
const FIRST_RETRY_MAX_MS: Ms = 1_000;
/** How long a name that was never known is asked for before that is an error. */
const FIRST_MS: Ms = 5_000;
/** How long the word of a name server counts that there is no such name. */
const ABSENT_MS: Ms = 1_000;
/**
 * A name server that says so of a name that had endpoints may be one that does not know the zone, asked because ours
 * was away. The list stays so long.
 */
const KEEP_ABSENT_MS: Ms = 600_000;
const MAX_HOSTS = 10_000;

interface Entry {
  listing: Listing | undefined;
  confirmedAt: Ms;
  /** It is asked for again from then on. */
  dueAt: Ms;
  askedAt: Ms;
  failures: number;
  failure: string | undefined;
  absentSince: Ms | undefined;
  flight: Promise<void> | undefined;
}

export class Directory {
  readonly #options: DirectoryOptions;
  readonly #entries = new Map<string, Entry>();

  constructor(options: DirectoryOptions) {
    this.#options = options;
  }

  /**
   * The list of `host`, at once when there is one. Waits for the first, and shortly for one instead of a very old one.
   * @throws NotFoundError, NoAnswerError
   */
  async lookup(host: string, addressesOnly: boolean): Promise<Listing> {
    const { now, wait } = this.#options;
    const entry = this.#entry(host, addressesOnly);
    const started = now();
    while (entry.listing === undefined) {
      if (now() < entry.dueAt) {
        if (entry.absentSince !== undefined) throw new NotFoundError(notFound(host, entry));
        if (now() - started >= FIRST_MS) throw new NoAnswerError(`${host}: no name server answers: ${entry.failure}`);
        await wait(entry.dueAt - now());
      } else await this.#ask(host, addressesOnly, entry);
    }
    if (now() >= entry.dueAt) {
      const flight = this.#ask(host, addressesOnly, entry);
      const overdue = now() - entry.confirmedAt - entry.listing.ttl;
      if (overdue > Math.max(OLD_MS, entry.listing.ttl)) await Promise.race([flight, wait(PATIENCE_MS)]);
    }
    if (entry.listing === undefined) throw new NotFoundError(notFound(host, entry));
    return entry.listing;
  }

  /** Something that it lists failed: the name server may know better by now. */
  doubt(host: string, addressesOnly: boolean): void {
    const entry = this.#entries.get(keyOf(host, addressesOnly));
    if (entry === undefined || entry.failures > 0) return;
    entry.dueAt = Math.min(entry.dueAt, entry.askedAt + MIN_TTL_MS);
  }

  known(): KnownService[] {
    const now = this.#options.now();
    return [...this.#entries].map(([key, { listing, confirmedAt, failure }]) => ({
      host: key.slice(1),
      listing,
      age: listing === undefined ? undefined : now - confirmedAt,
      failure,
    }));
  }

  #entry(host: string, addressesOnly: boolean): Entry {
    const key = keyOf(host, addressesOnly);
    let entry = this.#entries.get(key);
    if (entry === undefined) {
      const never = Number.NEGATIVE_INFINITY;
      entry = {
        ...{ listing: undefined, confirmedAt: never, dueAt: never, askedAt: never },
        ...{ failures: 0, failure: undefined, absentSince: undefined, flight: undefined },
      };
    }
    // The one that was used longest ago goes.
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (this.#entries.size > MAX_HOSTS) this.#entries.delete(this.#entries.keys().next().value!);
    return entry;
  }

  /** One look-up of a name at a time. */
  #ask(host: string, addressesOnly: boolean, entry: Entry): Promise<void> {
    entry.flight ??= this.#find(host, addressesOnly, entry).finally(() => {
      entry.flight = undefined;
    });
    return entry.flight;
  }

  async #find(host: string, addressesOnly: boolean, entry: Entry): Promise<void> {
    const { find, now, changed } = this.#options;
    entry.askedAt = now();
    const outcome = await find(host, addressesOnly);
    const at = now();
    const before = entry.listing;
    // Addresses without a port are no news of a service that had SRV records.
    const lesser = outcome.kind === 'found' && outcome.from === 'addresses' && before?.from === 'srv';
    if (outcome.kind === 'found' && !lesser) {
      Object.assign(entry, { listing: outcome, confirmedAt: at, failures: 0, failure: undefined });
      entry.absentSince = undefined;
      entry.dueAt = at + Math.max(MIN_TTL_MS, outcome.ttl);
      if (!sameEndpoints(before, outcome)) changed?.(host, outcome);
      return;
    }
    if (outcome.kind === 'failed') {
      entry.failures++;
      entry.failure = outcome.reason;
      entry.absentSince = undefined;
      const longest = before === undefined ? FIRST_RETRY_MAX_MS : RETRY_MAX_MS;
      entry.dueAt = at + Math.min(longest, RETRY_MIN_MS * 2 ** Math.min(8, entry.failures - 1));
      return;
    }
    entry.failures = 0;
    entry.failure = outcome.kind === 'absent' ? outcome.reason : 'no SRV record any more';
    entry.absentSince ??= at;
    entry.dueAt = at + ABSENT_MS;
    if (at - entry.absentSince < KEEP_ABSENT_MS) return;
    entry.listing = outcome.kind === 'found' ? outcome : undefined;
    if (outcome.kind === 'found') changed?.(host, outcome);
  }
}

function keyOf(host: string, addressesOnly: boolean): string {
  return `${addressesOnly ? 'a' : 's'}${host}`;
}

function notFound(host: string, { failure }: Entry): string {
  return `${host}: there is no such service: ${failure}`;
}

function sameEndpoints(a: Listing | undefined, b: Listing): boolean {
  if (a === undefined || a.endpoints.length !== b.endpoints.length) return false;
  const show = (listing: Listing) => listing.endpoints.map((endpoint) => Object.values(endpoint).join(' ')).sort();
  const other = show(b);
  return show(a).every((text, i) => text === other[i]);
}
