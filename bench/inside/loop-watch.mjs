/**
 * Loaded before a program (`node --import`), tells on SIGUSR2 how long its main thread did not come to its event loop at
 * most since the last time, as `loop-blocked MS` on standard error.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const RESOLUTION_MS = 5;

if (isMainThread) {
  const delays = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delays.enable();
  process.on('SIGUSR2', () => {
    // A delay is from timer to timer.
    process.stderr.write(`loop-blocked ${Math.max(0, delays.max / 1e6 - RESOLUTION_MS).toFixed(1)}\n`);
    delays.reset();
  });
}
