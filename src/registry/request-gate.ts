/** How much of a source is asked at once, and how fast. */
import type { Ms } from '../system/clock.js';
import { type After, after as realAfter } from './timers.js';

export interface GateLimits {
  /** Requests under way at once. */
  readonly inFlight: number;
  /** Requests that begin within a second, whichever. */
  readonly perSecond: number;
}

const SECOND_MS: Ms = 1000;

/** Lets requests through one after another, in the order in which they came. */
export class RequestGate {
  readonly #limits: GateLimits;
  readonly #after: After;
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;
  /** Requests that began within the last second. */
  #recent = 0;

  constructor(limits: GateLimits, after: After = realAfter) {
    this.#limits = limits;
    this.#after = after;
  }

  async run<T>(request: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      this.#next();
    });
    try {
      return await request();
    } finally {
      this.#underWay--;
      this.#next();
    }
  }

  #next(): void {
    while (this.#underWay < this.#limits.inFlight && this.#recent < this.#limits.perSecond) {
      const begin = this.#waiting.shift();
      if (begin === undefined) return;
      this.#underWay++;
      this.#recent++;
      this.#after(SECOND_MS, () => {
        this.#recent--;
        this.#next();
      });
      begin();
    }
  }
}
