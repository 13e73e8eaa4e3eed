/**
 * Loaded before holdfast (`node --require`, which costs a new thread least), makes its UDP answer threads throw where
 * nothing catches it, DYING_AFTER_MS after they have begun, with questions waiting in their sockets.
 */
const { isMainThread, workerData } = require('node:worker_threads');

if (!isMainThread && workerData?.native !== undefined) {
  const end = performance.now() + Number(process.env.DYING_AFTER_MS);
  const { add } = Atomics;
  // The loop counts its turns, each when something has come. The TCP thread counts its own by a timer.
  Atomics.add = (...args) => {
    if (performance.now() > end && new Error().stack.includes('udp-worker')) throw new Error('thrown by the benchmark');
    return add(...args);
  };
}
