/**
 * Host names of registries themselves (D51). They are asked of `forward` or `bootstrap`, never of resolv.conf, which
 * may name this very server; what they were last is remembered over restarts, so that a registry is found again while
 * no name server answers. Where there is nobody to ask, the host's own resolver is, as ever.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP, type LookupFunction } from 'node:net';
import { replaceFile } from '../system/atomic-file.js';
import type { Ms } from '../system/clock.js';

/** What asking brought; `nobody`: there is no server to ask; `unknown`: the family that nobody could say anything of. */
export type HostFound =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[]; readonly unknown?: 4 | 6 }
  | { readonly kind: 'failed'; readonly reason: string }
  | { readonly kind: 'nobody' };

export interface RegistryHostsOptions {
  /** Never rejects. */
  readonly ask: (host: string) => Promise<HostFound>;
  /** Where addresses are remembered, 0600. */
  readonly file: string;
}

/** So long a name server is waited for where there are addresses of last time. */
const PATIENCE_MS: Ms = 300;
const MAX_HOSTS = 256;
const MAX_ADDRESSES = 32;

export class RegistryHosts {
  readonly #options: RegistryHostsOptions;
  readonly #known: Map<string, readonly string[]>;
  readonly #flights = new Map<string, Promise<readonly string[]>>();
  #writing: Promise<void> = Promise.resolve();

  constructor(options: RegistryHostsOptions) {
    this.#options = options;
    this.#known = remembered(options.file);
  }

  /** As `dns.lookup`, for `net.connect`. */
  readonly lookup: LookupFunction = (host, { family, all }, done) => {
    this.addresses(host).then(
      (addresses) => {
        const wanted = familyOf(family);
        const found = addresses
          .map((address) => ({ address, family: isIP(address) }))
          .filter((one) => wanted === 0 || one.family === wanted);
        const [first] = found;
        if (first === undefined) done(failure(host, `no IPv${wanted} address`), '');
        else if (all) done(null, found);
        else done(null, first.address, first.family);
      },
      (error: Error) => done(failure(host, error.message), ''),
    );
  };

  /** Rejects with the reason when there is none, and none is remembered. */
  async addresses(host: string): Promise<readonly string[]> {
    const flight = this.#flight(host);
    const known = this.#known.get(host);
    if (known === undefined) return flight;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<readonly string[]>((resolve) => {
      timer = setTimeout(resolve, PATIENCE_MS, known);
    });
    try {
      return await Promise.race([flight.catch(() => known), late]);
    } finally {
      clearTimeout(timer);
    }
  }

  /** One at a time a name. */
  #flight(host: string): Promise<readonly string[]> {
    let flight = this.#flights.get(host);
    if (flight === undefined) {
      flight = this.#ask(host).finally(() => this.#flights.delete(host));
      this.#flights.set(host, flight);
      // Whoever had a remembered address does not wait for it.
      flight.catch(() => undefined);
    }
    return flight;
  }

  async #ask(host: string): Promise<readonly string[]> {
    const found = await this.#options.ask(host);
    if (found.kind === 'failed') throw new Error(found.reason);
    const addresses =
      found.kind === 'addresses'
        ? [...found.addresses, ...this.#kept(host, found.unknown)]
        : (await systemLookup(host, { all: true, verbatim: true })).map(({ address }) => address);
    this.#remember(host, addresses.slice(0, MAX_ADDRESSES));
    return addresses;
  }

  #kept(host: string, family: 4 | 6 | undefined): readonly string[] {
    return (this.#known.get(host) ?? []).filter((address) => isIP(address) === family);
  }

  #remember(host: string, addresses: readonly string[]): void {
    if (this.#known.get(host)?.join() === addresses.join()) return;
    this.#known.delete(host);
    this.#known.set(host, addresses);
    for (const name of this.#known.keys()) {
      if (this.#known.size <= MAX_HOSTS) break;
      this.#known.delete(name);
    }
    // A folder that cannot be written is told of by the snapshots.
    this.#writing = this.#writing
      .then(() => replaceFile(this.#options.file, [this.#text()], { mode: 0o600 }))
      .catch(() => undefined);
  }

  #text(): Buffer {
    return Buffer.from(`${JSON.stringify({ version: 1, hosts: Object.fromEntries(this.#known) })}\n`);
  }
}

/** What cannot be read is nothing: it is asked for again. */
function remembered(file: string): Map<string, readonly string[]> {
  const known = new Map<string, readonly string[]>();
  try {
    const { version, hosts } = JSON.parse(readFileSync(file, 'utf8')) as { version: unknown; hosts: unknown };
    if (version !== 1 || typeof hosts !== 'object' || hosts === null) return known;
    for (const [host, addresses] of Object.entries(hosts).slice(0, MAX_HOSTS)) {
      if (!Array.isArray(addresses)) continue;
      const good = addresses.filter((one): one is string => typeof one === 'string' && isIP(one) !== 0);
      if (good.length > 0) known.set(host, good.slice(0, MAX_ADDRESSES));
    }
  } catch {
    return known;
  }
  return known;
}

function familyOf(family: number | 'IPv4' | 'IPv6' | undefined): number {
  if (family === 'IPv4') return 4;
  return family === 'IPv6' ? 6 : (family ?? 0);
}

function failure(host: string, reason: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${host}: ${reason}`), { code: 'ENOTFOUND', hostname: host, syscall: 'lookup' });
}
