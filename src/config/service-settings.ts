/** Local settings of a service: by name, or by glob. */
import type { ServiceSettings, ZoneConfig } from './types.js';

/**
 * What the configuration says about one service: of several globs that match, a later one wins over an earlier one,
 * and the name itself over all. Checks are laid over each other option by option.
 */
export function serviceSettings(services: ZoneConfig['services'], name: string): ServiceSettings {
  const lower = name.toLowerCase();
  let settings: ServiceSettings = {};
  const lay = (over: ServiceSettings) => {
    const check = over.check || settings.check ? { check: { ...settings.check, ...over.check } } : {};
    settings = { ...settings, ...over, ...check };
  };
  for (const { match, settings: over } of services) {
    if (match.toLowerCase() !== lower && matchesGlob(match.toLowerCase(), lower)) lay(over);
  }
  for (const { match, settings: over } of services) if (match.toLowerCase() === lower) lay(over);
  return settings;
}

/** `*` is any text, `?` one character. Linear in time: the last star alone is tried again. */
export function matchesGlob(glob: string, text: string): boolean {
  let g = 0;
  let t = 0;
  let star = -1;
  let retry = 0;
  while (t < text.length) {
    if (g < glob.length && glob[g] === '*') {
      star = g++;
      retry = t;
    } else if (g < glob.length && (glob[g] === '?' || glob[g] === text[t])) {
      g++;
      t++;
    } else if (star >= 0) {
      g = star + 1;
      t = ++retry;
    } else return false;
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}
