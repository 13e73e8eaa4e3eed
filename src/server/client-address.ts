/** Client addresses as the responder wants them: bytes, v4-mapped ones as IPv4. */
import { ipaddr } from '../dns/ipaddr.js';
import type { Peer } from './respond.js';

const CACHE_SIZE = 4096;
const cache = new Map<string, Peer>();

/** Text as the socket gives it, a scope allowed, or undefined when it is no address. The result may be shared: do not change it. */
export function peerFromText(text: string): Peer | undefined {
  let peer = cache.get(text);
  if (peer) return peer;
  try {
    const scope = text.indexOf('%');
    const parsed = ipaddr().process(scope < 0 ? text : text.slice(0, scope));
    peer = { family: parsed.kind() === 'ipv4' ? 4 : 6, bytes: Uint8Array.from(parsed.toByteArray()), offset: 0 };
  } catch {
    return undefined;
  }
  if (cache.size >= CACHE_SIZE) cache.clear();
  cache.set(text, peer);
  return peer;
}

/** `::ffff:192.0.2.1` as `192.0.2.1`, and without a scope. */
export function plainAddress(text: string): string {
  const scope = text.indexOf('%');
  const bare = scope < 0 ? text : text.slice(0, scope);
  return bare.startsWith('::ffff:') && bare.includes('.') ? bare.slice(7) : bare;
}
