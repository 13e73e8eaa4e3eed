/** Reads and checks the configuration. */
import { ConfigError, type KeyPath, showPath } from './errors.js';
import type { LoadedConfig } from './lastgood.js';
import { defaultPlaces, type Places } from './places.js';
import { readSource } from './read.js';
import { resolveConfig } from './resolve.js';
import { ResolveFault } from './resolve-fault.js';
import { configSection } from './schema/config.js';
import { parseSource, type Source } from './source.js';
import type { Config } from './types.js';

/** Reads a file. Throws a ConfigError. */
export function loadConfig(file: string, places: Places = defaultPlaces()): LoadedConfig {
  const text = readSource(file);
  return { config: parseConfig(text, file, places), text };
}

/** Checks the text of a file. Of several faults the first in the file is told. Throws a ConfigError. */
export function parseConfig(text: string, file: string, places: Places = defaultPlaces()): Config {
  const source = parseSource(file, text);
  const result = configSection.schema.safeParse(source.value);
  if (!result.success) {
    const faults = result.error.issues.map((issue) => fault(file, source, issue.path as KeyPath, issue.message));
    throw faults.reduce((first, other) => ((other.line ?? 0) < (first.line ?? 0) ? other : first));
  }
  try {
    return resolveConfig(result.data, file, places);
  } catch (error) {
    if (error instanceof ResolveFault) throw fault(file, source, error.path, error.problem);
    throw error;
  }
}

function fault(file: string, source: Source, path: KeyPath, problem: string): ConfigError {
  return new ConfigError(file, problem, { line: source.lineOf(path), key: showPath(path) });
}
