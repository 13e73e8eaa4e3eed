/** Which hosts of URLs are services. */
import { isIP } from 'node:net';
import { nameToWire } from '../dns/names.js';
import { isBelow } from './find.js';

/** `host`: as URLs have it, IPv6 in brackets. */
export function isService(host: string, zone: string | undefined): boolean {
  const name = host.toLowerCase().replace(/\.$/, '');
  if (name === '' || name.startsWith('[') || isIP(name) !== 0 || nameToWire(name) === undefined) return false;
  if (name === 'localhost' || name.endsWith('.localhost')) return false;
  return zone === undefined || !name.includes('.') || isBelow(name, zone);
}
