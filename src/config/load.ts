/** Reads and checks the configuration. */
import { ConfigError, type KeyPath, showPath } from './errors.js';
import type { Option } from './options.js';
import { defaultPlaces, type Places } from './places.js';
import { readSource } from './read.js';
import { resolveConfig } from './resolve.js';
import { ResolveFault } from './resolve-fault.js';
import { configSection } from './schema/config.js';
import { parseSource, type Source } from './source.js';
import type { Config } from './types.js';

export interface LoadedConfig {
  readonly config: Config;
  /** The text that it was made from. */
  readonly text: string;
}

/** Reads a file. Throws a ConfigError. */
export function loadConfig(file: string, places: Places = defaultPlaces()): LoadedConfig {
  const text = readSource(file);
  return { config: parseConfig(text, file, places), text };
}

/** Checks the text of a file. Of several faults the first in the file is told. Throws a ConfigError. */
export function parseConfig(text: string, file: string, places: Places = defaultPlaces()): Config {
  return checkSource(parseSource(file, text), file, configSection, (values) => resolveConfig(values, file, places));
}

/** Checks a parsed file by `option` and then by `resolve`, which may throw a ResolveFault. Throws a ConfigError. */
export function checkSource<T, R>(source: Source, file: string, option: Option<T>, resolve: (values: T) => R): R {
  const result = option.schema.safeParse(source.value);
  if (!result.success) {
    const faults = result.error.issues.map((issue) => fault(file, source, issue.path as KeyPath, issue.message));
    throw faults.reduce((first, other) => ((other.line ?? 0) < (first.line ?? 0) ? other : first));
  }
  try {
    return resolve(result.data);
  } catch (error) {
    if (error instanceof ResolveFault) throw fault(file, source, error.path, error.problem);
    throw error;
  }
}

function fault(file: string, source: Source, path: KeyPath, problem: string): ConfigError {
  return new ConfigError(file, problem, { line: source.lineOf(path), key: showPath(path) });
}
