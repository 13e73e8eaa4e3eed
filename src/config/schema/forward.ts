/** `forward`: names outside the zones. */
import { NEAR_PREFIXES } from '../near-prefixes.js';
import { list, map, type Option } from '../options.js';
import { duration, listenAddress, path, prefix, size, zoneName } from './values.js';

const domain = zoneName('A domain.', {});
const servers = (description: string) =>
  list(listenAddress('A server.', {}), '["192.0.2.53:53"]', description, { min: 1 });

/** A path, or the word that there is none. */
function hostsFile(description: string): Option<string, 'always'> {
  const option = path(description, { default: '/etc/hosts' });
  return { ...option, kind: 'path, `none`' };
}

export const forwardOptions = {
  upstreams: servers(
    'Recursive name servers, asked in this order. One that does not answer is passed over for a while, never the last. Either this or `resolvConf`.',
  ),
  resolvConf: path(
    'A file in the format of resolv.conf(5) whose name servers are asked in place of `upstreams`, read again when it changes. `127.0.0.53` and addresses of `listen` in it are left out.',
    {},
  ),
  domains: map(
    servers('Servers of the domain.'),
    (key) => (domain.schema.safeParse(key).success ? undefined : 'expected a domain name such as corp.example'),
    'Domains with servers of their own, such as `corp.example: ["10.0.0.53:53"]`. The longest that fits wins. None may lie in a zone; special names such as `local` may stand here, `localhost` may not.',
    { default: {} },
  ),
  hosts: hostsFile(
    'A file in the format of hosts(5) whose names and addresses are answered before anybody is asked, watched for changes; `none` for no such file. Names of zones, `localhost`, `invalid` and `onion` are not taken from it.',
  ),
  allow: list(
    prefix('Clients.'),
    '["127.0.0.0/8"]',
    'Clients whose names are forwarded; others are REFUSED. By default loopback, private, shared and link-local ranges. Wider than your own network, it is an open resolver.',
    { default: NEAR_PREFIXES },
  ),
  cacheSize: size('Memory for answers of upstreams.', { default: '16MiB' }),
  maxStale: duration(
    'How long after its TTL an answer may still be given while no upstream answers (RFC 8767), with a TTL of at most 30 s and EDE 3 or 19.',
    { default: '1d', min: '1s' },
  ),
};
