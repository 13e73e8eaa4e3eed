import { createRequire } from 'node:module';

/** By require: to import a CommonJS package from a module costs a thread 25 ms of its start, and an answer waits for that. */
export const ipaddr = createRequire(import.meta.url)('ipaddr.js') as typeof import('ipaddr.js');
