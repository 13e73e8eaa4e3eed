/** `holdfast serve`: the resolver. */
import { ConfigError } from '../config/errors.js';
import { keepLastGood, loadQuickly, readLastGood, setLastGoodAside } from '../config/lastgood.js';
import type { LoadedConfig } from '../config/load.js';
import { defaultPlaces } from '../config/places.js';
import type { Config } from '../config/types.js';
import { runDaemon } from '../resolver/daemon.js';
import { startThreads } from '../server/early-threads.js';
import { complain, EXIT_USAGE } from './output.js';
import type { ServeArguments } from './serve-arguments.js';

const NONE_KEPT = 'no last good configuration is kept';

export async function serve(args: ServeArguments): Promise<number> {
  const threads = startThreads(args.transport);
  const found = await findStart(args);
  if (!found) {
    await threads.server.stop();
    return EXIT_USAGE;
  }
  /** Texts of what may come into force, to be kept then (R35). */
  const texts = new WeakMap<Config, LoadedConfig>();
  const take = (loaded: LoadedConfig): Config => {
    const config = args.transport ? { ...loaded.config, transport: args.transport } : loaded.config;
    texts.set(config, loaded);
    return config;
  };
  return runDaemon({
    threads,
    config: take(found.loaded),
    lastGood: found.error !== undefined,
    ...(found.error === undefined ? {} : { configError: found.error }),
    reload: async () => take(await loadQuickly(args.config)),
    inForce: async (config) => {
      const loaded = texts.get(config);
      if (loaded) await keepLastGood(loaded);
    },
  });
}

async function findStart(args: ServeArguments): Promise<{ loaded: LoadedConfig; error?: string } | undefined> {
  try {
    return { loaded: await loadQuickly(args.config) };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    complain(error.message);
    if (!args.lastGood) return undefined;
    const faults: string[] = [];
    const kept = await readLastGood(args.config, defaultPlaces(), (stateDir, reason) =>
      faults.push(`is damaged (${reason}; ${setLastGoodAside(stateDir)})`),
    );
    if (!kept) {
      const state = faults.length > 0 ? `the last good configuration ${faults.join(', ')}` : NONE_KEPT;
      complain(`${state}, so --last-good has nothing to fall back to`);
      return undefined;
    }
    complain('THE CONFIGURATION IS BAD: serving by the last good one. Mend the file, then reload (SIGHUP).');
    return { loaded: kept, error: error.message };
  }
}
