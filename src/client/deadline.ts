/** Timers that give the network its chance: in a process that was busy or stopped, what has arrived meanwhile is read first. */
import type { Ms } from '../system/clock.js';

/** Runs `late` after `ms`, unless what is returned is called before. */
export function deadline(ms: Ms, late: () => void): () => void {
  let immediate: NodeJS.Immediate | undefined;
  const timer = setTimeout(() => {
    // Between timers and this the event loop polls for input.
    immediate = setImmediate(late);
  }, ms);
  return () => {
    clearTimeout(timer);
    clearImmediate(immediate);
  };
}
