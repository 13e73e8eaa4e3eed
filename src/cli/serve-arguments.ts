/** The arguments of `serve`. */
import type { Config } from '../config/types.js';

export const DEFAULT_CONFIG_FILE = '/etc/holdfast/holdfast.yaml';

export function defaultConfigFile(env: NodeJS.ProcessEnv = process.env): string {
  return env.HOLDFAST_CONFIG || DEFAULT_CONFIG_FILE;
}

export const TRANSPORTS = ['auto', 'batched', 'portable'] as const;

export interface ServeArguments {
  readonly config: string;
  readonly lastGood: boolean;
  /** Wins over the configuration's. */
  readonly transport?: Config['transport'];
}

/**
 * `serve` with nothing but well-formed options, read without the command line's parser, which takes a tenth of the
 * time to the first answer. Undefined for everything else: the parser has the help and the errors.
 */
export function quickServeArguments(args: readonly string[]): ServeArguments | undefined {
  if (args[0] !== 'serve') return undefined;
  let config = defaultConfigFile();
  let lastGood = false;
  let transport: Config['transport'] | undefined;
  for (let i = 1; i < args.length; i++) {
    const [name, inline] = splitOption(args[i]!);
    if (name === '--last-good' && inline === undefined) {
      lastGood = true;
      continue;
    }
    const value = inline ?? args[++i];
    if (value === undefined || value === '' || value.startsWith('-')) return undefined;
    if (name === '--config' || name === '-c') config = value;
    else if (name === '--transport' && TRANSPORTS.includes(value as Config['transport'])) {
      transport = value as Config['transport'];
    } else return undefined;
  }
  return { config, lastGood, ...(transport ? { transport } : {}) };
}

function splitOption(arg: string): [string, string | undefined] {
  const equals = arg.startsWith('--') ? arg.indexOf('=') : -1;
  return equals < 0 ? [arg, undefined] : [arg.slice(0, equals), arg.slice(equals + 1)];
}
