/** The local check of a registration: a probe as the prober has them, and `rise` and `fall` over its results. */
import type { CheckConfig } from '../config/types.js';
import type { Target as ProbeTarget } from '../prober/feed.js';
import type { Probe } from '../prober/probes/attempt.js';
import { type After, after as realAfter } from '../registry/timers.js';

export interface LocalCheckOptions {
  readonly check: Pick<CheckConfig, 'interval' | 'rise' | 'fall'>;
  /** What to probe now; undefined: nothing can be probed. */
  readonly target: () => ProbeTarget | undefined;
  readonly probe: Probe;
  /** Told when it changes from well to ill and back, with what the probe said. */
  readonly onChange: (healthy: boolean, detail: string) => void;
  readonly after?: After;
}

export class LocalCheck {
  readonly #options: LocalCheckOptions;
  readonly #after: After;
  readonly #abort = new AbortController();
  #healthy: boolean | undefined;
  /** Results in a row that say the other thing. */
  #against = 0;
  #callOff: (() => void) | undefined;

  constructor(options: LocalCheckOptions) {
    this.#options = options;
    this.#after = options.after ?? realAfter;
  }

  /** Undefined before the first result. */
  get healthy(): boolean | undefined {
    return this.#healthy;
  }

  start(): void {
    void this.#turn();
  }

  stop(): void {
    this.#callOff?.();
    this.#abort.abort();
  }

  async #turn(): Promise<void> {
    const target = this.#options.target();
    if (target !== undefined) {
      const outcome = await this.#options.probe(target, this.#abort.signal);
      if (this.#abort.signal.aborted) return;
      // A fault on this side says nothing about the service (R15).
      if (outcome.kind !== 'local') this.#judge(outcome.kind === 'pass', outcome.kind === 'pass' ? '' : outcome.detail);
    }
    this.#callOff = this.#after(this.#options.check.interval, () => void this.#turn());
  }

  /** The first result counts at once (R13). */
  #judge(passed: boolean, detail: string): void {
    const { rise, fall } = this.#options.check;
    if (passed === this.#healthy) this.#against = 0;
    else if (this.#healthy === undefined || ++this.#against >= (passed ? rise : fall)) {
      this.#healthy = passed;
      this.#against = 0;
      this.#options.onChange(passed, detail);
    }
  }
}
