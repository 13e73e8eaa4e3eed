import { createRequire } from 'node:module';

let loaded: typeof import('ipaddr.js') | undefined;

/**
 * The package, when it is first needed, and by require: to import a CommonJS package from a module costs a thread 25 ms
 * of its start, and the first answer waits for that.
 */
export function ipaddr(): typeof import('ipaddr.js') {
  loaded ??= createRequire(import.meta.url)('ipaddr.js') as typeof import('ipaddr.js');
  return loaded;
}
