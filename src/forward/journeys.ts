/** Questions that are on their way to upstreams, by what tells them apart, the oldest first. There is room for so many. */
import type { ReplyForeign } from '../server/handover-desk.js';
import type { Ms } from '../system/clock.js';
import type { ForwardCache } from './cache.js';
import type { Flight } from './flight.js';
import type { Question } from './question.js';
import type { UpstreamGroup } from './upstreams.js';

const MOST = 512;
/** One that has been out for longer gives way when there is no room: what is slow does not shut out what is not. */
const YIELD_MS: Ms = 400;

export interface Waiter {
  readonly question: Question;
  readonly limit: number;
  readonly reply: ReplyForeign;
  /** When its patience ends: what it gets then. */
  readonly timer: NodeJS.Timeout;
}

export interface Journey {
  readonly key: string;
  readonly group: UpstreamGroup;
  /** Counted in the group's renewals: nobody waited for it when it began. */
  readonly renewal: boolean;
  /** Of the settings then: what threads keep has been forgotten since, if it is another now. */
  readonly generation: number;
  /** Boot time. */
  readonly beganAt: Ms;
  /** Where its answer is kept: not in one that has taken its place meanwhile. */
  readonly cache: ForwardCache;
  readonly waiters: Set<Waiter>;
  flight: Flight | undefined;
}

export class Journeys extends Map<string, Journey> {
  get full(): boolean {
    return this.size >= MOST;
  }

  /** Ends the oldest, if it has had its time, and gives it out; undefined when all have begun lately. */
  endOldest(now: Ms): Journey | undefined {
    const [oldest] = this.values();
    if (oldest === undefined || now - oldest.beganAt < YIELD_MS) return undefined;
    this.delete(oldest.key);
    oldest.flight?.cancel();
    if (oldest.renewal) oldest.group.renewals--;
    return oldest;
  }
}
