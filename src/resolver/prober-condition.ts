/**
 * R15: whether the prober is late, or short of what it needs, by its own word, or leaves out endpoints, or says what
 * nobody understands. One line at the beginning and one at the end; it has to be well for a while before it is called so.
 */
import type { FromProber } from '../prober/feed.js';
import type { BootMs, Ms } from '../system/clock.js';
import type { Log } from './events.js';

type Alive = Extract<FromProber, { op: 'alive' }>;

/** Later than this, or intervals longer by more than this, is told. */
const LATE_MS: Ms = 1_000;
const STRETCHED = 1.2;
const WELL_AFTER_MS: Ms = 10_000;
/** Nonsense may come now and then. */
const SENSIBLE_AFTER_MS: Ms = 60_000;

interface Trouble {
  readonly since: BootMs;
  last: BootMs;
}

export class ProberCondition {
  readonly #log: Log;
  #late: Trouble | undefined;
  #short: Trouble | undefined;
  #partial: Trouble | undefined;
  #odd: Trouble | undefined;
  #oddity: string | undefined;
  #localErrors: number | undefined;
  #wasLate = false;
  /** The latest words, for the status. */
  stretch = 1;
  reason: string | undefined;
  /** R16: how full the host's connection tracking table is, 0 to 1; 0 when nobody says it. */
  fill = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  get isLate(): boolean {
    return this.#late !== undefined;
  }

  get isShort(): boolean {
    return this.#short !== undefined;
  }

  /** R14: it lives, and does not probe all that it was told to. What it lacks, or is late with, is told as that. */
  get isPartial(): boolean {
    return this.#partial !== undefined;
  }

  /** R36: what it said lately that makes no sense; what does make sense counts all the same. */
  get odd(): string | undefined {
    return this.#odd === undefined ? undefined : this.#oddity;
  }

  /** Something of what came makes no sense. */
  noteOdd(what: string, now: BootMs): void {
    this.#oddity = what;
    this.#turnOdd(true, now);
  }

  /** Once a second, whatever comes. */
  look(now: BootMs): void {
    this.#turnOdd(false, now);
  }

  #turnOdd(bad: boolean, now: BootMs): void {
    const fields = { what: this.#oddity, meaning: 'it is dropped: the prober may be of another version (R36)' };
    this.#odd = this.#turn(this.#odd, bad, now, 'prober-not-understood', fields, SENSIBLE_AFTER_MS);
  }

  /** Another prober: it counts from nothing. */
  begin(): void {
    this.#localErrors = undefined;
  }

  /** @param unprobed how many targets it does not probe */
  note({ late, localErrors, stretch = 1, reason }: Alive, unprobed: number, now: BootMs): void {
    this.stretch = stretch;
    this.reason = reason;
    const more = localErrors - (this.#localErrors ?? localErrors);
    this.#localErrors = localErrors;
    // Once may be a pause; it is late when it stays so.
    const isLate = late >= LATE_MS || stretch > STRETCHED;
    const stays = isLate && this.#wasLate;
    this.#wasLate = isLate;
    this.#late = this.#turn(this.#late, stays, now, 'prober-late', {
      lateMs: Math.round(late),
      stretch: Math.round(stretch * 100) / 100,
      meaning: 'intervals are longer, and all that counts them',
    });
    this.#short = this.#turn(this.#short, more > 0, now, 'prober-short', {
      localErrors: more,
      reason,
      meaning: 'probes fail by a fault of this host, which says nothing about endpoints (R15)',
    });
    const isPartial = unprobed > 0 && this.#short === undefined && this.#late === undefined;
    this.#partial = this.#turn(this.#partial, isPartial, now, 'prober-partial', {
      unprobed,
      meaning: 'it lives, and says nothing of these: dead ones among them are answered (R14)',
    });
  }

  #turn(
    trouble: Trouble | undefined,
    bad: boolean,
    now: BootMs,
    event: string,
    fields: Readonly<Record<string, unknown>>,
    wellAfter = WELL_AFTER_MS,
  ): Trouble | undefined {
    if (bad) {
      if (trouble === undefined) this.#log('warn', event, fields);
      return { since: trouble?.since ?? now, last: now };
    }
    if (trouble === undefined || now - trouble.last < wellAfter) return trouble;
    this.#log('info', `${event}-ended`, { lastedMs: Math.round(trouble.last - trouble.since) });
    return undefined;
  }
}
