/** What must hold between `forward` and the rest of the file. */
import { showListen } from './addresses.js';
import type { KeyPath } from './errors.js';
import { ResolveFault } from './resolve-fault.js';
import type { ConfigValues } from './schema/config.js';
import type { ForwardConfig, ListenAddress } from './types.js';

/** Throws a ResolveFault. `absolute` makes a path absolute. */
export function resolveForward(values: ConfigValues, absolute: (path: string) => string): ForwardConfig | undefined {
  const { forward, listen, zones } = values;
  if (forward === undefined) return undefined;
  const { upstreams, resolvConf } = forward;
  if (upstreams !== undefined && resolvConf !== undefined) {
    throw new ResolveFault(['forward', 'resolvConf'], 'expected either upstreams or resolvConf, not both');
  }
  if (upstreams === undefined && resolvConf === undefined) {
    throw new ResolveFault(['forward', 'upstreams'], 'missing, expected a list such as ["192.0.2.53:53"]');
  }
  checkServers(upstreams ?? [], ['forward', 'upstreams'], listen);
  const names = zones.map((zone) => zone.name);
  const domains = Object.entries(forward.domains).map(([key, servers]) => {
    const at = ['forward', 'domains', key];
    const domain = key.toLowerCase().replace(/\.$/, '');
    const zone = names.find((name) => domain === name || domain.endsWith(`.${name}`));
    if (zone !== undefined) throw new ResolveFault(at, `lies in the zone ${zone}, whose names are never forwarded`);
    // RFC 6761 s.6.3: whatever a server said of it, programs would take it for this host.
    if (/(?:^|\.)localhost$/.test(domain)) throw new ResolveFault(at, 'is this host, whose name is never forwarded');
    checkServers(servers, at, listen);
    return { domain, upstreams: servers };
  });
  return {
    upstreams: upstreams ?? [],
    ...(resolvConf === undefined ? {} : { resolvConf: absolute(resolvConf) }),
    domains,
    ...(forward.hosts === 'none' ? {} : { hosts: absolute(forward.hosts) }),
    allow: forward.allow,
    cacheSize: forward.cacheSize,
    maxStale: forward.maxStale,
  };
}

/** Throws a ResolveFault when one of them is there twice, or is this server itself. */
export function checkServers(servers: readonly ListenAddress[], at: KeyPath, listen: readonly ListenAddress[]): void {
  for (const [i, server] of servers.entries()) {
    if (servers.slice(0, i).some((other) => other.address === server.address && other.port === server.port)) {
      throw new ResolveFault([...at, i], `${showListen(server)} is there twice`);
    }
    const own = listen.find((address) => address.port === server.port && takes(address.address, server.address));
    if (own) {
      throw new ResolveFault([...at, i], `${showListen(server)} is this server itself (listen: ${showListen(own)})`);
    }
  }
}

/** Whether a question to `address` comes to who listens on `listen`, as far as the file can tell. */
function takes(listen: string, address: string): boolean {
  const loopback = address.startsWith('127.') || address === '::1';
  const wildcard = listen === '0.0.0.0' || listen === '::';
  return listen === address || (wildcard && (loopback || address === '0.0.0.0' || address === '::'));
}
