/** How much of a source is asked at once, and how fast. */
import type { Ms } from '../system/clock.js';
import { type After, after as realAfter } from './timers.js';

export interface GateLimits {
  /** Requests under way at once. */
  readonly inFlight: number;
  /** So many may begin at once. */
  readonly burst: number;
  /** After them, one each time. */
  readonly gap: Ms;
}

/** Lets requests through one after another, in the order in which they came. */
export class RequestGate {
  readonly #limits: GateLimits;
  readonly #after: After;
  readonly #waiting: (() => void)[] = [];
  #underWay = 0;
  /** So many may begin now. */
  #credit: number;
  #earning = false;

  constructor(limits: GateLimits, after: After = realAfter) {
    this.#limits = limits;
    this.#after = after;
    this.#credit = limits.burst;
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
    while (this.#underWay < this.#limits.inFlight && this.#credit > 0) {
      const begin = this.#waiting.shift();
      if (begin === undefined) break;
      this.#underWay++;
      this.#credit--;
      begin();
    }
    this.#earn();
  }

  /** A process that was late does not make up for it. */
  #earn(): void {
    if (this.#earning || this.#credit >= this.#limits.burst) return;
    this.#earning = true;
    this.#after(this.#limits.gap, () => {
      this.#earning = false;
      this.#credit++;
      this.#next();
    });
  }
}
