/** Words in the order of their ages, a chain an interval, so that the oldest of each is at its front. */
import type { Ms } from '../system/clock.js';
import { Chain, type Linked } from './chain.js';

/** What can stand in a queue. Its interval may not change while it does. */
export interface Aging<T> extends Linked<T> {
  readonly interval: Ms;
  queued: boolean;
}

export class AgeQueues<T extends Aging<T>> {
  readonly #queues = new Map<Ms, Chain<T>>();

  /** To the end of the queue of its interval. */
  put(one: T): void {
    this.remove(one);
    let queue = this.#queues.get(one.interval);
    if (queue === undefined) this.#queues.set(one.interval, (queue = new Chain()));
    queue.add(one);
    one.queued = true;
  }

  /** Out of its queue, if it stands in one. */
  remove(one: T): void {
    if (!one.queued) return;
    one.queued = false;
    const queue = this.#queues.get(one.interval)!;
    queue.remove(one);
    // A queue lives only while it is in use.
    if (queue.size === 0) this.#queues.delete(one.interval);
  }

  /** Each interval's, the oldest first. */
  queues(): Iterable<Chain<T>> {
    return this.#queues.values();
  }
}
