/** The configuration, for commands that only want to know where the resolver is. */
import { ConfigError } from '../config/errors.js';
import { loadQuickly, readLastGood } from '../config/lastgood.js';
import type { Config } from '../config/types.js';
import { complain } from './output.js';

/**
 * The configuration in `file`; when that is bad, the one kept as last good, because a resolver may well run on it.
 * Without either, the error is said and the result is undefined: exit code 2.
 */
export async function findConfig(file: string): Promise<Config | undefined> {
  try {
    return (await loadQuickly(file)).config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    complain(error.message);
    const kept = await readLastGood(file);
    if (!kept) return undefined;
    complain('going on with the last good configuration');
    return kept.config;
  }
}
