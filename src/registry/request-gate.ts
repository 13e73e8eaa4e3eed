/** How much of a source is asked at once, and how fast. */
import type { Ms } from '../system/clock.js';
import { type After, after as realAfter } from './timers.js';

export interface GateLimits {
  /** Requests under way at once. */
  readonly inFlight: number;
  /** So many of them are kept for what is urgent. */
  readonly reserved?: number;
  /** So many may begin at once. */
  readonly burst: number;
  /** After them, one each time. */
  readonly gap: Ms;
}

/** Lets requests through one after another: the urgent ones first, all in the order in which they came. */
export class RequestGate {
  readonly #limits: GateLimits;
  readonly #after: After;
  readonly #urgent: (() => void)[] = [];
  readonly #others: (() => void)[] = [];
  #underWay = 0;
  /** So many may begin now. */
  #credit: number;
  #earning = false;

  constructor(limits: GateLimits, after: After = realAfter) {
    this.#limits = limits;
    this.#after = after;
    this.#credit = limits.burst;
  }

  /** @param urgent false for one of many that may take their time */
  async run<T>(request: () => Promise<T>, urgent = true): Promise<T> {
    await new Promise<void>((resolve) => {
      (urgent ? this.#urgent : this.#others).push(resolve);
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
    while (this.#credit > 0) {
      const begin = this.#take();
      if (begin === undefined) break;
      this.#underWay++;
      this.#credit--;
      begin();
    }
    this.#earn();
  }

  #take(): (() => void) | undefined {
    const free = this.#limits.inFlight - this.#underWay;
    if (free <= 0) return undefined;
    const urgent = this.#urgent.shift();
    return urgent ?? (free > (this.#limits.reserved ?? 0) ? this.#others.shift() : undefined);
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
