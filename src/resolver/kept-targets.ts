import { AddressCounts } from '../catalog/address-counts.js';
import type { BootMs, Ms } from '../system/clock.js';

/** Addresses whose target names exist: of the zone's rows, and for `keepTargets` after the last row that had them (R23). */
export class KeptTargets {
  #keep: Ms;
  readonly #rows = new AddressCounts();
  /** Addresses without a row, with when they go, soonest first. */
  readonly #leaving = new Map<string, BootMs>();

  constructor(keep: Ms) {
    this.#keep = keep;
  }

  configure(keep: Ms): void {
    this.#keep = keep;
  }

  /** A row has the address. Returns true when its name did not exist. */
  hold(address: string): boolean {
    const rows = this.#rows.add(address, 1);
    return rows === 0 && !this.#leaving.delete(address);
  }

  drop(address: string, now: BootMs): void {
    if (this.#rows.add(address, -1) === 1) this.#leaving.set(address, now + this.#keep);
  }

  /** From a snapshot: an address without a row. Returns true when its name did not exist. */
  restore(address: string, until: BootMs): boolean {
    if (this.#rows.get(address) > 0 || this.#leaving.has(address)) return false;
    this.#leaving.set(address, until);
    return true;
  }

  /** Addresses whose time is over. */
  expire(now: BootMs): string[] {
    const gone: string[] = [];
    for (const [address, until] of this.#leaving) {
      if (until > now) break;
      this.#leaving.delete(address);
      gone.push(address);
    }
    return gone;
  }

  nextExpiry(): BootMs {
    const head = this.#leaving.values().next();
    return head.done ? Number.POSITIVE_INFINITY : head.value;
  }

  has(address: string): boolean {
    return this.#rows.get(address) > 0 || this.#leaving.has(address);
  }

  *addresses(): Iterable<string> {
    yield* this.#rows.addresses();
    yield* this.#leaving.keys();
  }

  leaving(): Iterable<readonly [string, BootMs]> {
    return this.#leaving;
  }
}
