/**
 * What a watch of etcd told, put together. A service is made anew as a whole, which costs as much as it is large: when
 * the leases of thousands of its endpoints end one after the other that may not be done for each of them.
 */
import type { Ms } from '../system/clock.js';

/** For so many times what the last delivery cost, the next one is gathered. */
const REST = 4;
const MOST_MS: Ms = 500;

export class EtcdChanges {
  readonly #deliver: (services: ReadonlySet<string>) => void;
  #services = new Set<string>();
  #any = false;
  #rest: Ms = 0;
  #timer: NodeJS.Immediate | NodeJS.Timeout | undefined;

  /** @param deliver makes these services anew and passes them on */
  constructor(deliver: (services: ReadonlySet<string>) => void) {
    this.#deliver = deliver;
  }

  /** Something happened to these services, or to what is none: a mark, or a key that is wrong. */
  add(services: Iterable<string>): void {
    this.#any = true;
    for (const service of services) this.#services.add(service);
    // All that came in one turn goes together.
    this.#timer ??=
      this.#rest < 1 ? setImmediate(() => this.flush()) : setTimeout(() => this.flush(), Math.min(MOST_MS, this.#rest));
  }

  /** Passes on what is gathered. */
  flush(): void {
    const timer = this.#timer;
    this.#timer = undefined;
    clearTimeout(timer as NodeJS.Timeout);
    clearImmediate(timer as NodeJS.Immediate);
    if (!this.#any) return;
    const services = this.#services;
    this.#services = new Set();
    this.#any = false;
    const begun = performance.now();
    this.#deliver(services);
    this.#rest = REST * (performance.now() - begun);
  }
}
