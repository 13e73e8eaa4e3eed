/** What the host asks, by /etc/resolv.conf (resolv.conf(5)). */
import { canonicalAddress } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { readRegularLater } from '../system/regular-file.js';

export interface ResolvConf {
  /** At least one. */
  readonly nameservers: readonly ListenAddress[];
  /** Domains for short names, in order, without dots at the ends. */
  readonly search: readonly string[];
  /** A name with so many dots is taken as it is first. */
  readonly ndots: number;
}

const PORT = 53;
const MAX_BYTES = 1024 * 1024;
/** As the C library has it. */
const MAX_NAMESERVERS = 3;
const MAX_SEARCH = 6;
const MAX_NDOTS = 15;

export async function readResolvConf(file = '/etc/resolv.conf'): Promise<ResolvConf> {
  return parseResolvConf(await readRegularLater(file, MAX_BYTES).then(String, () => ''));
}

/** Lines that are not understood, and scoped addresses, are passed over. Without a server it is the local host's. */
export function parseResolvConf(text: string): ResolvConf {
  const nameservers: ListenAddress[] = [];
  let search: string[] = [];
  let ndots = 1;
  for (const line of text.split('\n')) {
    const [keyword, ...words] = line.trim().split(/\s+/);
    if (keyword === 'nameserver') {
      const address = canonicalAddress(words[0] ?? '');
      if (address !== undefined && nameservers.length < MAX_NAMESERVERS) nameservers.push({ address, port: PORT });
    } else if (keyword === 'search' || keyword === 'domain') {
      // The last of them is in force.
      search = words.map((word) => word.replace(/^\.|\.$/g, '').toLowerCase()).filter((word) => word !== '');
    } else if (keyword === 'options') {
      for (const word of words) {
        const value = /^ndots:(\d+)$/.exec(word)?.[1];
        if (value !== undefined) ndots = Math.min(MAX_NDOTS, Number(value));
      }
    }
  }
  if (nameservers.length === 0) nameservers.push({ address: '127.0.0.1', port: PORT });
  return { nameservers, search: search.slice(0, MAX_SEARCH), ndots };
}
