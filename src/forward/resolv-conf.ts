/** Name servers out of a file in the format of resolv.conf(5). */
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';

/** A longer file is none. */
export const RESOLV_CONF_BYTES = 1024 * 1024;
const PORT = 53;
/** Of systemd-resolved: it may well be pointed to us. */
const STUBS: readonly string[] = ['127.0.0.53', '127.0.0.54'];
/** As the C library has it, and a few more. */
const MAX_SERVERS = 8;
const LINK_LOCAL = /^fe[89ab]/;

/** The servers in the order of the file, link-local ones with their scope; the local stubs are left out. */
export function readResolvConf(text: string): ListenAddress[] {
  const servers: ListenAddress[] = [];
  for (const line of text.split('\n')) {
    const [, word] = /^\s*nameserver\s+(\S+)/.exec(line) ?? [];
    const address = word === undefined ? undefined : serverAddress(word);
    if (address === undefined || STUBS.includes(address)) continue;
    if (!servers.some((server) => server.address === address)) servers.push({ address, port: PORT });
  }
  return servers.slice(0, MAX_SERVERS);
}

/** A router that tells of itself by IPv6 alone is one like `fe80::1%eth0`: without the scope nobody can be reached there. */
function serverAddress(word: string): string | undefined {
  const [, text, scope] = /^([^%]+)(%[\w.:@-]+)?$/.exec(word) ?? [];
  const address = text === undefined ? undefined : canonicalAddress(text);
  if (address === undefined || scope === undefined) return address;
  return LINK_LOCAL.test(address) ? address + scope : undefined;
}

/** Without the scope. */
export function withoutScope(address: string): string {
  const at = address.indexOf('%');
  return at < 0 ? address : address.slice(0, at);
}
