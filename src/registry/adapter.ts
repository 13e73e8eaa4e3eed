/** The contract of adapters with the loop that runs them (sync.ts): what they are asked, and what they report. */
import type { Ms } from '../system/clock.js';
import type { OnDemand } from './look-up.js';
import type { SourcePace } from './pace.js';
import type { Report } from './registry.js';
import type { SeenRevision } from './revision-memory.js';

type WithoutTime<T> = T extends unknown ? Omit<T, 'at'> : never;
/** A report before the loop has put the time to it. */
export type Observation = WithoutTime<Report>;

/** Why a source gave nothing that can be used. */
export interface Failure {
  readonly kind: 'unreachable' | 'unbelievable';
  readonly reason: string;
  /** The source asked to be left alone so long. */
  readonly retryAfter?: Ms;
}

/** What a poll is told. */
export interface PollContext {
  /** Aborted when the loop no longer waits. */
  readonly signal: AbortSignal;
  /** True when the caller has no list, or did not believe the last one: `confirmed` and `change` would tell it nothing. */
  readonly fresh: boolean;
}

/** What a source is asked with, where that may be replaced meanwhile. Neither of them rejects. */
export interface Credentials {
  /** Before each poll: they count from now on. Returns the files that are others than at the last call. */
  take(): Promise<readonly string[]>;
  /** Whether one of them is another than at the last `take`. */
  replaced(): Promise<boolean>;
}

/**
 * A source of lists. An adapter asks once a `poll` and reports; the loop owns time: pauses, back-off, deadlines.
 * A poll may wait inside for news (a blocking query) as long as `deadline` allows for it.
 */
export interface Adapter {
  /** See `identity.ts`. */
  readonly identity: string;
  /**
   * From one good poll to the next, or, with a `follower`, from one confirmation to the next liveness read. At most
   * `softTtl / 2`, so that each confirms in time (R2).
   */
  readonly interval: Ms;
  /** A poll that takes longer counts as `unreachable`. */
  readonly deadline: Ms;
  readonly pace: SourcePace;
  /** R7: an index that went back, and stays back, is another lineage of the data, and so another epoch. */
  readonly lineage?: boolean;
  /**
   * R6: of a source whose revisions are no numbers that only grow: it judges them by itself, also by what was seen of it
   * before, which it is told before the first poll. What makes no sense is left.
   */
  seed?(seen: SeenRevision): void;
  /** Of a source that is asked with any. When they are replaced its watch is ended, and it is polled anew. */
  readonly credentials?: Credentials;
  /** Expected failures are observations. A rejection is taken as `unreachable`. */
  poll(context: PollContext): Promise<Observation | Failure>;
  /** Of a source that tells of changes by itself. Without it the source is polled. */
  readonly follower?: Follower;
  /** R3: the names of services that are asked, the most asked first, as often as they are others. */
  mostAsked?(names: readonly string[]): void;
  /** R3: of a source that tells that something changed before it tells what. */
  readonly seeker?: Seeker;
  /** R33: of a source whose lists are of what was asked for. */
  readonly onDemand?: OnDemand;
  /** Called once: `wake` asks for a poll before its time, `failed` tells why there is no such help. */
  watch?(wake: () => void, failed: (reason: string) => void): void;
  /** Ends the watch. Polls may still be under way. */
  close(): void;
}

/** What is asked while it is looked for what changed is read first: whoever asks for it has it at once. */
export interface Seeker {
  /** @param seeks is told when something changed and it is not known what, once a second at most, and when that ended */
  onSeek(seeks: (seeking: boolean) => void): void;
  /** Services that are being asked just now. */
  justAsked(names: readonly string[]): void;
}

export type Delivery = Extract<Observation, { kind: 'change' | 'confirmed' }>;

/** What a liveness read found (R2), over the address and with the credentials of the watch. */
export type Presence =
  /** All that the source has was delivered. */
  | { readonly kind: 'same' }
  /** The source has more than was delivered so far. */
  | { readonly kind: 'behind' }
  /** It cannot be told yet: what is read in turn was not read lately enough. */
  | { readonly kind: 'later' }
  /** The source is not what the watch began with: it has to be read anew. */
  | { readonly kind: 'lost' }
  | Failure;

/** The watching half of an adapter. It goes on from the last good poll; whenever it ends, the source is polled anew. */
export interface Follower {
  /** Resolves when the watch has ended, with the reason; after `signal` at once. */
  follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string>;
  /** A read without an answer after `presenceDeadline` counts as `unreachable`. */
  present(signal: AbortSignal): Promise<Presence>;
  readonly presenceDeadline: Ms;
  /** There are several watches: what one of them delivers says nothing of the others, and confirms nothing (R2). */
  readonly severalWatches?: boolean;
}
