/**
 * Notices when the event loop was late or the process stood still. A timeout that fires then says nothing about
 * the endpoint (R15), and after a long pause nothing that was under way may count. A pause is seen in boot time,
 * so a suspended machine is one too. Pure: `beat` is called by timers at the rim.
 */
import type { BootMs, Ms } from '../system/clock.js';

/** How often `beat` is to be called. */
export const BEAT_MS = 100;
/** Less is noise. */
const NOTICED_MS = 50;
/** Gaps are looked up for this long: longer than any probe lasts. */
const KEPT_MS = 120_000;
const KEPT_GAPS = 256;

interface Gap {
  readonly end: BootMs;
  readonly late: Ms;
}

export class LoopWatch {
  #last: BootMs;
  #gaps: Gap[] = [];
  #worst: Ms = 0;

  constructor(now: BootMs) {
    this.#last = now;
  }

  /** Returns by how much this beat came too late. To be called by whatever runs, since anything may be the first after a pause. */
  beat(now: BootMs): Ms {
    const late = Math.max(0, now - this.#last - BEAT_MS);
    this.#last = now;
    if (late < NOTICED_MS) return 0;
    this.#worst = Math.max(this.#worst, late);
    this.#gaps = this.#gaps.filter((gap) => now - gap.end < KEPT_MS).slice(1 - KEPT_GAPS);
    this.#gaps.push({ end: now, late });
    return late;
  }

  /** The longest gap that ended after `start`, the present one included. */
  longestSince(start: BootMs, now: BootMs): Ms {
    let longest = this.#present(now);
    for (let i = this.#gaps.length; i-- > 0 && this.#gaps[i]!.end > start; )
      longest = Math.max(longest, this.#gaps[i]!.late);
    return longest;
  }

  /** All of them together. */
  totalSince(start: BootMs, now: BootMs): Ms {
    let total = this.#present(now);
    for (let i = this.#gaps.length; i-- > 0 && this.#gaps[i]!.end > start; ) total += this.#gaps[i]!.late;
    return total;
  }

  /** The gap that the next beat will notice. */
  #present(now: BootMs): Ms {
    const late = now - this.#last - BEAT_MS;
    return late < NOTICED_MS ? 0 : late;
  }

  /** The worst gap since this was last asked. */
  worstLate(): Ms {
    const worst = this.#worst;
    this.#worst = 0;
    return worst;
  }
}
