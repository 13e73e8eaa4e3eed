import { HeardClock } from '../catalog/heard-clock.js';
import type { BootMs, Instant, Ms } from '../system/clock.js';
import type { Log } from './events.js';

/** What a line of the log is about; with several registries, which of them. */
export interface Who {
  readonly zone: string;
  readonly registry?: string;
}

/** Whether a registry of a zone is heard, since when, and the clock that runs meanwhile (R1, R4). */
export class ZoneHearing {
  readonly clock = new HeardClock();
  heard = false;
  /** Why it is not heard. */
  reason: string | undefined = 'not asked yet';
  /** Since when it has been heard or not. */
  since: Instant;
  lastConfirmed: BootMs | undefined;
  readonly #who: Who;
  readonly #log: Log;

  constructor(who: Who, log: Log, now: Instant) {
    this.#who = who;
    this.#log = log;
    this.since = now;
  }

  /** The registry spoke and is believed. Returns whether it was not heard before. */
  again(now: Instant): boolean {
    if (this.heard) return false;
    this.#log('info', 'registry-heard', { ...this.#who, silentMs: Math.round(now.boot - this.since.boot) });
    this.heard = true;
    this.reason = undefined;
    this.since = now;
    this.clock.run(now.boot);
    return true;
  }

  /** It is silent, or not believed. `heardUntil`: when it was last heard, if that was earlier. */
  lost(reason: string, now: Instant, heardUntil: BootMs = now.boot): void {
    if (this.heard) {
      this.since = now;
      this.#log('warn', 'registry-not-heard', {
        ...this.#who,
        reason,
        frozen: 'capacity stays at its present level: new endpoints cannot be discovered',
      });
    } else if (this.reason !== reason) {
      this.#log('warn', 'registry-still-not-heard', { ...this.#who, reason });
    }
    this.heard = false;
    this.reason = reason;
    this.clock.stop(heardUntil);
  }

  /** How long ago the data was last confirmed; undefined when it never was. */
  age(now: BootMs): Ms | undefined {
    return this.lastConfirmed === undefined ? undefined : Math.max(0, now - this.lastConfirmed);
  }
}
