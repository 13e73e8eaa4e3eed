/** Where an address lies, as far as suspect-self asks (R16). */
import { addressBytes } from '../dns/addresses.js';

export type Family = 4 | 6;

export function familyOf(address: string): Family {
  return address.includes(':') ? 6 : 4;
}

/** 127.0.0.0/8 and ::1: on the way to these there is no network. */
export function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

/** The /24 of an IPv4 address, the /64 of an IPv6 one, as text. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address.slice(0, address.lastIndexOf('.'));
  const bytes = addressBytes(address);
  return bytes === undefined ? address : bytes.subarray(0, 8).join('.');
}
