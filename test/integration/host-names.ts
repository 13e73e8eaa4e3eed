/** Names below `.moved.test` in this process, which resolve to what a test says. */
import dns, { type LookupAddress, type LookupOptions } from 'node:dns';

const addresses = new Map<string, string>();
const real = dns.lookup;
type Done = (error: Error | null, found?: string | LookupAddress[], family?: number) => void;

// What net.connect calls for a host name.
dns.lookup = ((host: string, ...rest: unknown[]) => {
  const address = addresses.get(host);
  const done = rest.at(-1) as Done;
  const options = (rest.length > 1 ? rest[0] : {}) as LookupOptions;
  if (address === undefined) return (real as (...all: unknown[]) => unknown)(host, ...rest);
  if (typeof options === 'object' && options.all) process.nextTick(done, null, [{ address, family: 4 }]);
  else process.nextTick(done, null, address, 4);
  return undefined;
}) as typeof dns.lookup;

export function resolveTo(name: string, address: string): void {
  addresses.set(name, address);
}
