/** How much of a source is asked at once, and how fast, by all zones of this process together. */
import type { Ms } from '../system/clock.js';
import { type After, after as realAfter } from './timers.js';

export interface GateLimits {
  /** Requests under way at once. */
  readonly inFlight: number;
  /** So many of them are kept for what is urgent. */
  readonly reserved: number;
  /** So many, at most, wait for news. */
  readonly waiting: number;
  /** So many may begin at once. */
  readonly burst: number;
  /** After them, one each time. */
  readonly gap: Ms;
}

/**
 * Which request goes first: somebody waits for a look-up; a read is about something that happened; one that waits for
 * news is under way for long; what is later is one of many that may take their time.
 */
export const TURNS = ['look-up', 'read', 'wait', 'later'] as const;
export type Turn = (typeof TURNS)[number];

interface Member {
  /** Requests that it always has waiting. */
  readonly waits: number;
  readonly changed: () => void;
}

interface Queued {
  readonly begin: () => void;
  readonly turn: Turn;
}

/** Lets requests through one after another: by their turn, all of one turn in the order in which they came. */
export class RequestGate {
  readonly #limits: GateLimits;
  readonly #after: After;
  readonly #queues: Record<Turn, Set<Queued>> = {
    'look-up': new Set(),
    read: new Set(),
    wait: new Set(),
    later: new Set(),
  };
  readonly #members = new Set<Member>();
  #underWay = 0;
  #waiting = 0;
  /** So many may begin now. */
  #credit: number;
  #earning = false;

  constructor(limits: GateLimits, after: After = realAfter) {
    this.#limits = limits;
    this.#after = after;
    this.#credit = limits.burst;
  }

  /**
   * Somebody has so many requests waiting for news from now on.
   * @param changed is called when another one comes or goes
   * @returns what ends it
   */
  join(waits: number, changed: () => void): () => void {
    const member = { waits, changed };
    this.#members.add(member);
    this.#tell(member);
    return () => {
      if (this.#members.delete(member)) this.#tell(member);
    };
  }

  /** How many more a member may have waiting, so that there is room for all. */
  get share(): number {
    return Math.max(0, Math.floor((this.#limits.waiting - this.#waits) / Math.max(1, this.#members.size)));
  }

  /** Not all that wait have room at once: they have to take turns. */
  get crowded(): boolean {
    return this.#waits > this.#limits.waiting;
  }

  /** @param signal a request that is called off before its turn is never made: `request` is run at once, to say so */
  async run<T>(request: () => Promise<T>, turn: Turn = 'read', signal?: AbortSignal): Promise<T> {
    if (!(await this.#admitted(turn, signal))) return await request();
    try {
      return await request();
    } finally {
      this.#underWay--;
      if (turn === 'wait') this.#waiting--;
      this.#next();
    }
  }

  get #waits(): number {
    let waits = 0;
    for (const member of this.#members) waits += member.waits;
    return waits;
  }

  #tell(except: Member): void {
    for (const member of [...this.#members]) if (member !== except) member.changed();
  }

  #admitted(turn: Turn, signal: AbortSignal | undefined): Promise<boolean> {
    if (signal?.aborted) return Promise.resolve(false);
    return new Promise((resolve) => {
      const callOff = (): void => {
        this.#queues[turn].delete(queued);
        resolve(false);
      };
      const begin = (): void => {
        signal?.removeEventListener('abort', callOff);
        resolve(true);
      };
      const queued = { begin, turn };
      signal?.addEventListener('abort', callOff, { once: true });
      this.#queues[turn].add(queued);
      this.#next();
    });
  }

  #next(): void {
    while (this.#credit > 0) {
      const queued = this.#take();
      if (queued === undefined) break;
      this.#queues[queued.turn].delete(queued);
      this.#underWay++;
      if (queued.turn === 'wait') this.#waiting++;
      this.#credit--;
      queued.begin();
    }
    this.#earn();
  }

  #take(): Queued | undefined {
    const { inFlight, reserved, waiting } = this.#limits;
    const free = inFlight - this.#underWay;
    if (free <= 0) return undefined;
    const room = { 'look-up': true, read: true, wait: this.#waiting < waiting, later: free > reserved };
    for (const turn of TURNS) {
      const [queued] = this.#queues[turn];
      if (queued !== undefined && room[turn]) return queued;
    }
    return undefined;
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
