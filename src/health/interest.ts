/** R17: which services are asked, so that their rows are probed at the full rate. Pure. */
import type { BootMs, Ms } from '../system/clock.js';

/** How often marks of what was asked are taken in: the first question after a quiet time brings a probe within 1 s. */
export const LOOK_MS: Ms = 500;

export class Interest<Service> {
  /** Until when each counts as asked, the earliest first: those that were asked, and those that are new. */
  readonly #asked = new Map<Service, BootMs>();
  readonly #fresh = new Map<Service, BootMs>();
  #interest: Ms;

  constructor(interest: Ms) {
    this.#interest = interest;
  }

  /** Holds from the next question on. */
  configure(interest: Ms): void {
    this.#interest = interest;
  }

  /** A service that is new counts as asked for `grace`, so that its first verdicts do not take minutes. */
  add(service: Service, grace: Ms, now: BootMs): void {
    this.#fresh.set(service, now + grace);
  }

  remove(service: Service): void {
    this.#fresh.delete(service);
    this.#asked.delete(service);
  }

  /** Returns whether it did not count as asked before. */
  ask(service: Service, now: BootMs): boolean {
    const before = this.has(service);
    this.#fresh.delete(service);
    this.#asked.delete(service);
    this.#asked.set(service, now + this.#interest);
    return !before;
  }

  has(service: Service): boolean {
    return this.#asked.has(service) || this.#fresh.has(service);
  }

  /** Lets go of those that nobody has asked for too long, up to `most` at once, and returns them. */
  expire(now: BootMs, most: number): Service[] {
    const gone: Service[] = [];
    for (const map of [this.#asked, this.#fresh]) {
      for (const [service, until] of map) {
        if (until > now || gone.length >= most) break;
        map.delete(service);
        gone.push(service);
      }
    }
    return gone;
  }

  /** When `expire` has something; Infinity when it never will. */
  nextExpiry(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const map of [this.#asked, this.#fresh]) {
      const head = map.values().next();
      if (!head.done) next = Math.min(next, head.value);
    }
    return next;
  }
}
