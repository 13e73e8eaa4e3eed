/** `holdfast probe`: the companion process. */
import { join } from 'node:path';
import { BootClock } from '../system/boot-clock.js';
import { openLog } from '../system/log.js';
import { ServiceNotice } from '../system/service-notice.js';
import { programVersion } from '../system/version.js';
import { findConfig } from './find-config.js';
import { EXIT_OK, EXIT_USAGE } from './output.js';

/** What the events of its log say of how it stands. */
const STANDING: Readonly<Record<string, string>> = {
  'resolver-connected': 'connected to the resolver',
  'resolver-away': 'waiting for the resolver',
  'standing-by': 'standing by, a newer prober took its place',
};

export async function probe(options: { readonly config: string }): Promise<number> {
  const config = await findConfig(options.config);
  if (!config) return EXIT_USAGE;
  const clock = new BootClock();
  const { log, start, close } = openLog({ level: config.log.level, name: 'prober', now: () => clock.now().boot });
  start();
  // What should not happen must not end the probes that it has nothing to do with; the one that it has runs out.
  process.on('uncaughtException', (error) =>
    log('error', 'internal-error', { reason: error.message, stack: error.stack }),
  );
  const end = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => end.abort());
  // Targets and their settings come from the resolver, so there is nothing to read again.
  process.on('SIGHUP', () => {});
  const { runProber } = await import('../prober/prober.js');
  let standing = 'waiting for the resolver';
  const notice = new ServiceNotice({ alive: () => true, status: () => standing });
  notice.ready();
  await runProber({
    socketPath: join(config.runDir, 'prober.sock'),
    log: (level, event, fields) => {
      standing = STANDING[event] ?? standing;
      log(level, event, fields);
    },
    clock,
    version: programVersion(),
    stateDir: config.stateDir,
    signal: end.signal,
    budget: config.prober.budget,
    conntrackShare: config.prober.conntrackShare,
    source: config.prober.source,
  });
  notice.stopping();
  close();
  return EXIT_OK;
}
