/**
 * From files and options to registrations. The parser and the schema are large, so this runs in a process of its own
 * that ends with its answer (`plan-process.ts`); the registrar itself keeps the answer only.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { ConfigError } from '../config/errors.js';
import { loadQuickly } from '../config/lastgood.js';
import { checkSource } from '../config/load.js';
import { readSource } from '../config/read.js';
import { registrationSection } from '../config/schema/registration.js';
import { parseSource, type Source } from '../config/source.js';
import type { Config } from '../config/types.js';
import { systemReason } from '../registry/settled-file.js';
import type { LogLevel } from '../system/log.js';
import type { Registration } from './entry.js';
import { registrationKey } from './open-target.js';
import { resolveRegistration } from './resolve-registration.js';

export interface PlanRequest {
  /** The configuration. */
  readonly config: string;
  /** A registration by options in place of files: option names (`--port`) in place of keys in what is wrong. */
  readonly options?: Readonly<Record<string, unknown>>;
}

/** One file, or all options together. */
export type PlannedItem =
  | { readonly name: string; readonly ok: true; readonly registration: Registration }
  /** With the file, the line and the key. */
  | { readonly name: string; readonly ok: false; readonly reason: string };

export type Plan =
  | {
      readonly ok: true;
      readonly runDir: string;
      readonly level: LogLevel;
      /** The directory of registrations. */
      readonly folder: string;
      readonly items: readonly PlannedItem[];
      /** Why the directory could not be read: nothing is known of its files. */
      readonly unread?: string;
    }
  | { readonly ok: false; readonly reason: string };

/** Never rejects for what is wrong with a file. */
export async function makePlan({ config: file, options }: PlanRequest): Promise<Plan> {
  let config: Config;
  try {
    ({ config } = await loadQuickly(file));
  } catch (error) {
    if (error instanceof ConfigError) return { ok: false, reason: error.message };
    throw error;
  }
  const folder = config.register.path;
  const about = { ok: true as const, runDir: config.runDir, level: config.log.level, folder };
  if (options !== undefined) return { ...about, items: [planOptions(options, config)] };
  try {
    const names = readdirSync(folder).filter((name) => /^[^.].*\.(?:yaml|yml|json)$/.test(name));
    return { ...about, items: withoutDoubles(names.sort().map((name) => planFile(join(folder, name), config))) };
  } catch (error) {
    return { ...about, items: [], unread: `${folder}: ${systemReason(error)}` };
  }
}

function planFile(path: string, config: Config): PlannedItem {
  return planned(
    path,
    () => parseSource(path, readSource(path)),
    path,
    config,
    (error) => error.message,
  );
}

function planOptions(options: Readonly<Record<string, unknown>>, config: Config): PlannedItem {
  const source: Source = { value: options, lineOf: () => 0 };
  return planned(
    'options',
    () => source,
    '',
    config,
    ({ key, message }) => {
      const problem = message.slice(message.indexOf(`${key}: `) + key.length + 2);
      return key === '' ? problem : `${optionOf(key)}: ${problem}`;
    },
  );
}

/** `--port-name` for `portName`, `--tag` for `tags[0]`, `--check` for `check.path`. */
function optionOf(key: string): string {
  const [first = '', ...rest] = key.split(/[.[]/);
  const name = first === 'tags' ? 'tag' : first.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return rest.length === 0 || first === 'tags' ? `--${name}` : `--${name} (${rest.join('.')})`;
}

function planned(
  name: string,
  read: () => Source,
  file: string,
  config: Config,
  tell: (error: ConfigError) => string,
): PlannedItem {
  try {
    const resolve = (values: Parameters<typeof resolveRegistration>[0]) => resolveRegistration(values, config);
    return { name, ok: true, registration: checkSource(read(), file, registrationSection, resolve) };
  } catch (error) {
    if (error instanceof ConfigError) return { name, ok: false, reason: tell(error) };
    throw error;
  }
}

/** Two files cannot have one id: the first stands. */
function withoutDoubles(items: readonly PlannedItem[]): PlannedItem[] {
  const first = new Map<string, string>();
  return items.map((item) => {
    if (!item.ok) return item;
    const key = registrationKey(item.registration);
    const other = first.get(key);
    if (other === undefined) {
      first.set(key, item.name);
      return item;
    }
    const { service, id } = item.registration.entry;
    return {
      name: item.name,
      ok: false,
      reason: `${item.name}: id: ${id} of ${service} is registered by ${other} already`,
    };
  });
}
