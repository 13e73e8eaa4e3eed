import { COUNTER, latencyCounter } from './counters.js';

/** Counts answers that left `ms` after their queries had been taken from the kernel. */
export function countLatency(counters: Uint32Array, ms: number, answers: number): void {
  const us = ms * 1000;
  counters[latencyCounter(us)]! += answers;
  counters[COUNTER.latencySum]! += us * answers;
}
