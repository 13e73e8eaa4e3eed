/** Timers as they are passed in, so that a schedule can be run on a fake clock. */
import type { Ms } from '../system/clock.js';

/** Runs something once after `ms`. Returns what calls it off. */
export type After = (ms: Ms, run: () => void) => () => void;

export const after: After = (ms, run) => {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
};
