/**
 * What a watch of etcd told, put together. A service is made anew as a whole, which costs as much as it is large: when
 * the leases of thousands of its endpoints end one after the other that may not be done for each of them.
 */
import type { Ms } from '../system/clock.js';

/** After a delivery the next one is gathered for so many times what that took. */
const REST = 4;
const MOST_MS: Ms = 500;

export class EtcdChanges {
  readonly #deliver: (services: ReadonlySet<string>) => void;
  readonly #failed: (error: unknown) => void;
  #services = new Set<string>();
  #any = false;
  /** Until then the next one is gathered. */
  #until: Ms = 0;
  #timer: NodeJS.Immediate | NodeJS.Timeout | undefined;

  /**
   * @param deliver makes these services anew and passes them on
   * @param failed is told what that threw: it was not passed on
   */
  constructor(deliver: (services: ReadonlySet<string>) => void, failed: (error: unknown) => void) {
    this.#deliver = deliver;
    this.#failed = failed;
  }

  /** Something happened to these services, or to what is none: a mark, or a key that is wrong. */
  add(services: Iterable<string>): void {
    this.#any = true;
    for (const service of services) this.#services.add(service);
    if (this.#timer !== undefined) return;
    const rest = this.#until - performance.now();
    // All that came in one turn goes together.
    this.#timer = rest > 0 ? setTimeout(() => this.flush(), rest) : setImmediate(() => this.flush());
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
    try {
      this.#deliver(services);
    } catch (error) {
      this.#failed(error);
    }
    const ended = performance.now();
    this.#until = ended + Math.min(MOST_MS, REST * (ended - begun));
  }
}
