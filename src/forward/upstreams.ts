/** Which upstream is asked first, and which are passed over for a while. No sockets and no timers here. */
import type { ListenAddress } from '../config/types.js';
import type { Ms } from '../system/clock.js';

/** Tries in a row without an answer after which an upstream is asked last. */
const DOWN_AFTER = 2;
const RECHECK_FIRST_MS: Ms = 1_000;
const RECHECK_LONGEST_MS: Ms = 30_000;
/** So long an upstream that stumbled over EDNS is asked without. */
const PLAIN_MS: Ms = 600_000;

/** Servers that are there and answer nothing are not tried by a client's question more often. */
const RECOVERY_MS: Ms = 10_000;

let epochs = 0;

export class Upstream {
  readonly address: ListenAddress;
  /** Questions, tries that brought nothing usable, and messages that were not a reply to what was asked. */
  queries = 0;
  failures = 0;
  forged = 0;
  /** Why the last try failed; undefined after a success. */
  lastError: string | undefined;
  /** Told whenever `down` or `loop` may be another. */
  changed: () => void = () => {};
  #loop = false;
  #inARow = 0;
  #downUntil: Ms = 0;
  #wait: Ms = RECHECK_FIRST_MS;
  #plainUntil: Ms = 0;

  constructor(address: ListenAddress) {
    this.address = address;
  }

  /** It passes questions on to us: it is never asked. */
  get loop(): boolean {
    return this.#loop;
  }

  set loop(loop: boolean) {
    this.#loop = loop;
    this.changed();
  }

  get down(): boolean {
    return this.#inARow >= DOWN_AFTER;
  }

  get downUntil(): Ms {
    return this.#downUntil;
  }

  succeeded(): void {
    this.#inARow = 0;
    this.#wait = RECHECK_FIRST_MS;
    this.lastError = undefined;
    this.changed();
  }

  /** `hard`: it cannot be there at all, such as a refused port. */
  failed(reason: string, hard: boolean, now: Ms): void {
    this.failures++;
    this.lastError = reason;
    const was = this.down;
    this.#inARow = hard ? Math.max(this.#inARow + 1, DOWN_AFTER) : this.#inARow + 1;
    if (this.down && !(was && now < this.#downUntil)) this.postpone(now);
    this.changed();
  }

  /** It is down and is being asked again, or has failed again: the next time comes later. */
  postpone(now: Ms): void {
    this.#downUntil = now + this.#wait;
    this.#wait = Math.min(this.#wait * 2, RECHECK_LONGEST_MS);
  }

  /** Whether EDNS is left out for now; `avoidEdns` makes it so. */
  isPlain(now: Ms): boolean {
    return now < this.#plainUntil;
  }

  avoidEdns(now: Ms): void {
    this.#plainUntil = now + PLAIN_MS;
  }
}

/** Servers that know the same names, in order of preference. The last one is never passed over. */
export class UpstreamGroup {
  readonly upstreams: readonly Upstream[];
  /** Another number whenever it comes back after all were down, and for each group: failures of before say nothing any more. */
  epoch = ++epochs;
  /** Told whenever `failing` is another. */
  changed: () => void = () => {};
  /** Where answer threads see whether it fails: index of a word of shared memory. */
  word = 0;
  /** Flights that nobody waits for. */
  renewals = 0;
  #failed = false;
  #checkAt: Ms = 0;
  #alive = false;
  #recoveryAt: Ms = 0;

  constructor(addresses: readonly ListenAddress[]) {
    this.upstreams = addresses.map((address) => new Upstream(address));
    this.#failed = this.failing;
    for (const upstream of this.upstreams) {
      upstream.changed = () => {
        if (this.failing === this.#failed) return;
        this.#failed = !this.#failed;
        this.changed();
      };
    }
  }

  /** None has answered lately. */
  get failing(): boolean {
    return this.upstreams.every((upstream) => upstream.down || upstream.loop);
  }

  /** Whom to ask, in turn: those that answer, then the others, the soonest due first. */
  order(): Upstream[] {
    const usable = this.upstreams.filter((upstream) => !upstream.loop);
    const down = usable.filter((upstream) => upstream.down).sort((a, b) => a.downUntil - b.downUntil);
    return [...usable.filter((upstream) => !upstream.down), ...down];
  }

  /** One that is down and due to be asked again, beside the one that answers. Takes its turn. */
  due(now: Ms): Upstream | undefined {
    if (this.failing) return undefined;
    const due = this.upstreams.find(({ down, loop, downUntil }) => down && !loop && downUntil <= now);
    due?.postpone(now);
    return due;
  }

  /** While failing: may a stale name be asked for again? Only now and then, since somebody has to find out. */
  takeCheck(now: Ms, every: Ms): boolean {
    if (now < this.#checkAt) return false;
    this.#checkAt = now + every;
    return true;
  }

  /** While failing: one of them is there again, for all that is known. */
  noteAlive(): void {
    this.#alive = true;
  }

  /** May a question go out to see whether that is so? Not again soon after one that did not come back. */
  takeRecovery(now: Ms): boolean {
    if (!this.#alive || now < this.#recoveryAt) return false;
    this.#alive = false;
    this.#recoveryAt = now + RECOVERY_MS;
    return true;
  }

  succeeded(upstream: Upstream): void {
    this.#alive = false;
    this.#recoveryAt = 0;
    const failing = this.failing;
    upstream.succeeded();
    if (failing) this.epoch = ++epochs;
  }
}
