/** Waits after failures (R3): decorrelated jitter, so that many hosts never ask a hurt registry in step. */
import type { Ms } from '../system/clock.js';

export interface BackoffLimits {
  /** The least wait. */
  readonly base: Ms;
  /** The greatest wait. */
  readonly cap: Ms;
}

/**
 * The wait after one more failure. `previous` is the wait before it, undefined for a first failure;
 * `random` returns a number in [0, 1).
 */
export function nextBackoff(previous: Ms | undefined, limits: BackoffLimits, random: () => number): Ms {
  const from = limits.base;
  const to = Math.max(from, (previous ?? from) * 3);
  return Math.min(limits.cap, from + random() * (to - from));
}
