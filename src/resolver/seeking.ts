/** R3: while a registry finds out what changed, it is told what is being asked, which it then reads first. */
import type { Ms } from '../system/clock.js';

const LOOK_MS: Ms = 20;
/** The longer it takes, the less often: a look takes so much of the time that it has taken already. */
const LOOK_SHARE = 1 / 20;
/** A registry that has not said by then that it knows, will not. */
const MOST_MS: Ms = 60_000;

export interface SeekingOptions {
  /** The services that were asked since the last call, by zone. */
  readonly asked: () => ReadonlyMap<string, readonly string[]>;
  readonly tell: (zone: string, services: readonly string[]) => void;
}

export class Seeking {
  readonly #options: SeekingOptions;
  /** What seeks: its zone, and since when. */
  readonly #seekers = new Map<number, { readonly zone: string; readonly since: Ms }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: SeekingOptions) {
    this.#options = options;
  }

  /** @param zone of what seeks; undefined: it seeks no more */
  set(seeker: number, zone: string | undefined): void {
    if (zone === undefined) this.#seekers.delete(seeker);
    else this.#seekers.set(seeker, { zone, since: performance.now() });
    clearTimeout(this.#timer);
    this.#look();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#seekers.clear();
  }

  #look(): void {
    const now = performance.now();
    for (const [seeker, { since }] of this.#seekers) if (now - since > MOST_MS) this.#seekers.delete(seeker);
    if (this.#seekers.size === 0) return;
    const asked = this.#options.asked();
    let wait = MOST_MS;
    for (const { zone, since } of this.#seekers.values()) {
      const services = asked.get(zone);
      if (services !== undefined) this.#options.tell(zone, services);
      wait = Math.min(wait, Math.max(LOOK_MS, (now - since) * LOOK_SHARE));
    }
    this.#timer = setTimeout(() => this.#look(), wait);
  }
}
