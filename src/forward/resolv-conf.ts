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

/** The servers in the order of the file; the local stubs are left out. Scoped addresses are not understood. */
export function readResolvConf(text: string): ListenAddress[] {
  const servers: ListenAddress[] = [];
  for (const line of text.split('\n')) {
    const [, word] = /^\s*nameserver\s+(\S+)/.exec(line) ?? [];
    const address = word === undefined ? undefined : canonicalAddress(word);
    if (address === undefined || STUBS.includes(address)) continue;
    if (!servers.some((server) => server.address === address)) servers.push({ address, port: PORT });
  }
  return servers.slice(0, MAX_SERVERS);
}
