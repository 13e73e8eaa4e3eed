/** Signals of whoever runs the process: stop, and read the configuration again. */

/** Resolves as `stop` does, once a signal asked for it. Reloads follow one another. */
export function awaitSignals(
  stop: (signal: NodeJS.Signals) => Promise<number>,
  reload: () => Promise<void>,
): Promise<number> {
  return new Promise((resolve, reject) => {
    let stopping = false;
    const stopOnce = (signal: NodeJS.Signals): void => {
      // A second signal does not wait for anything.
      if (stopping) process.kill(process.pid, 'SIGKILL');
      stopping = true;
      stop(signal).then(resolve, reject);
    };
    process.on('SIGTERM', stopOnce);
    process.on('SIGINT', stopOnce);
    let reloading: Promise<void> = Promise.resolve();
    process.on('SIGHUP', () => {
      reloading = reloading.then(reload);
    });
  });
}
