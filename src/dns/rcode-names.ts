/** Response codes by the names that people know. */
import { RCODE } from './constants.js';

const NAMES = new Map<number, string>(Object.entries(RCODE).map(([name, number]) => [number, name]));

export function rcodeName(rcode: number): string {
  return NAMES.get(rcode) ?? `response code ${rcode}`;
}
