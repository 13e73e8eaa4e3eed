/** What the format has a place for and this version does not do: refused, so that nobody believes that it works. */
import type { KeyPath } from '../errors.js';
import type { ConfigValues } from './config.js';

export const NOT_AVAILABLE = 'not available in this version';
export const UNBUILT_REGISTRIES: readonly string[] = ['dns'];

/** The first such thing in a configuration. */
export function firstUnavailable(
  values: ConfigValues,
): { readonly path: KeyPath; readonly problem: string } | undefined {
  const say = (path: KeyPath, what: string) => ({ path, problem: `${what} is ${NOT_AVAILABLE}` });
  for (const [i, zone] of values.zones.entries()) {
    const at = ['zones', i] as const;
    const registries = (zone.registries ?? []).map((registry, j) => [[...at, 'registries', j], registry] as const);
    for (const [path, registry] of [[[...at, 'registry'], zone.registry] as const, ...registries]) {
      if (registry && UNBUILT_REGISTRIES.includes(registry.type))
        return say([...path, 'type'], `registry type ${registry.type}`);
    }
  }
  return undefined;
}
