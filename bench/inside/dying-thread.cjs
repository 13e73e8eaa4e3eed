/**
 * Loaded before holdfast (`node --require`, which costs a new thread least), makes its first UDP answer thread throw
 * where nothing catches it, DYING_AFTER_MS after it has begun, with questions waiting in its socket.
 */
const { threadId, workerData } = require('node:worker_threads');

// It is the first of all threads, since the first answer waits for it.
if (threadId === 1 && workerData?.native !== undefined) {
  const end = performance.now() + Number(process.env.DYING_AFTER_MS);
  const { add } = Atomics;
  // The loop counts its turns, each when something has come. The TCP thread counts its own by a timer.
  Atomics.add = (...args) => {
    if (performance.now() > end && new Error().stack.includes('udp-worker')) throw new Error('thrown by the benchmark');
    return add(...args);
  };
}
