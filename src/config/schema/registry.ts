/** `registry` and `registries`, one kind an entry. */
import { nameToWire } from '../../dns/names.js';
import { choice, expected, list, scalar, section, type Values, variant } from '../options.js';
import { duration, integer, keyPrefix, label, listenAddress, origin, path, text, url, zoneName } from './values.js';

const tlsOptions = {
  caFile: path('https: a PEM file with the authorities to trust, in place of those of the system.', {}),
  certFile: path('https: a PEM file with the certificate to show. Files are read again before every request.', {}),
  keyFile: path('https: a PEM file with its key.', {}),
  tlsName: scalar(
    'domain name',
    (input) =>
      typeof input === 'string' && /^[\w.-]{1,253}$/.test(input) && nameToWire(input) !== undefined
        ? input
        : expected('a domain name such as registry.example', input),
    'https: the name that the certificate of the server must have, in place of that in its address.',
    {},
  ),
};

/** Of every kind. */
export const commonOptions = {
  filter: section(
    {
      tag: text('a tag', 'Endpoints that have this tag. A service without any is not there.', {}),
      prefix: text(
        'the beginning of names',
        'Services whose name begins so. It is taken off: with `team-a-` the service `team-a-orders` is `orders`.',
        {},
      ),
      services: list(
        text('the name of a service, or a glob such as "db-*"', 'A name or glob.', {}),
        '[orders, "db-*"]',
        'Services by name or glob (`*`, `?`), without the prefix.',
        { min: 1 },
      ),
    },
    'A part of the registry, as if there were nothing else in it: for tenants that share one. All that is given must hold.',
    {},
  ),
};

/** Of a target group, in the form of Prometheus. */
function serviceLabel<const G extends { readonly default?: string; readonly defaultText?: string }>(given: G) {
  return scalar(
    'name of a label',
    (input) =>
      typeof input === 'string' && /^[a-zA-Z_][a-zA-Z0-9_]{0,254}$/.test(input)
        ? input
        : expected('the name of a label, such as job', input),
    'The label of a target group that names its service.',
    given,
  );
}

export const registryOptions = {
  file: {
    path: path(
      'A file, or a directory of `*.yaml`, `*.yml` and `*.json`. A relative path starts from the folder of the configuration.',
      { required: true },
    ),
    format: choice(
      ['services', 'targets'],
      '`services`, see the [README](../README.md), or `targets`: lists as Prometheus has them, see [registries](registries.md#http).',
      { default: 'services' },
    ),
    serviceLabel: serviceLabel({ defaultText: '`job`, with `format: targets`' }),
    port: integer(1, 65535, 'With `format: targets`: of targets that have none.', {}),
  },
  etcd: {
    endpoints: list(
      origin('A member.', {}),
      '["http://127.0.0.1:2379"]',
      'Addresses of the members, asked in turn; the last that answered is preferred.',
      { default: ['http://127.0.0.1:2379'], min: 1 },
    ),
    layout: choice(['skydns', 'plain'], 'How services lie in the keys, see [registries](registries.md).', {
      default: 'skydns',
    }),
    prefix: keyPrefix("Where they begin. With `skydns` the zone's labels follow in reverse: `/skydns/internal/svc`.", {
      defaultText: '`/skydns`, with `plain` `/holdfast`',
    }),
    port: integer(1, 65535, 'Of entries that have none.', {}),
    username: text('the name of a user', 'With authentication: the user.', {}),
    passwordFile: path("A file with the user's password, read again for every token.", {}),
    ...tlsOptions,
  },
  consul: {
    address: origin('The agent on this host, or another agent or server.', {
      defaultText: '`http://127.0.0.1:8500`',
    }),
    addresses: list(
      origin('An agent or server.', {}),
      '["http://192.0.2.1:8500"]',
      'In place of `address`, several: asked in turn; the last that answered is preferred.',
      { min: 1 },
    ),
    tokenFile: path('A file with an ACL token, read again for every request.', {}),
    datacenter: label('Whose catalog is read. By default that of the agent.', {}),
    namespace: label('With Consul Enterprise: the namespace.', {}),
    partition: label('With Consul Enterprise: the admin partition.', {}),
    stale: scalar(
      'true or false',
      (input) => (typeof input === 'boolean' ? input : expected('true or false', input)),
      'Takes answers of servers that are not the leader, too.',
      { default: true },
    ),
    maxLag: duration(
      'With `stale`: a server that has not heard of its leader for so long is not believed for what it leaves out (R6).',
      { default: '10s', min: '1s' },
    ),
    kvPrefix: scalar(
      'key',
      (input) =>
        typeof input === 'string' && /^[^/\x00-\x20\x7f]+(?:\/[^/\x00-\x20\x7f]+)*$/.test(input) && input.length <= 512
          ? input
          : expected('a key without slashes at its ends, such as holdfast/svc.internal', input),
      'Release marks (R9) are the keys below this and `/.release/`.',
      { defaultText: '`holdfast/` and the name of the zone' },
    ),
    mirror: choice(
      ['all', 'asked'],
      'Which services are followed: `all`, or on demand those that are `asked` for (R33), see [registries](registries.md#consul-on-demand). On demand it is the only registry of its zone.',
      { default: 'all' },
    ),
    ...tlsOptions,
  },
  dns: {
    servers: list(
      listenAddress('A server.', {}),
      '["192.0.2.1:53"]',
      'Name servers, asked in turn; the last that answered is preferred.',
      { required: true, min: 1 },
    ),
    transfer: choice(['axfr'], 'Takes a zone whole, when its serial has moved. Either this or `names`.', {}),
    zone: zoneName('Which zone is taken.', { defaultText: 'the name of the zone that this is the registry of' }),
    notify: listenAddress('Where NOTIFY is taken, from the addresses of `servers` only. Without it, nowhere.', {}),
    tsigKeyFile: path(
      'A file with the key that is shared with `servers` (TSIG), as `tsig-keygen` writes it, or `ALGORITHM:NAME:SECRET`. Questions are signed with it, and answers and NOTIFY without its signature not believed. Read again before each use.',
      {},
    ),
    names: list(
      zoneName('A name.', {}),
      '["_orders._tcp.example"]',
      'Looks up these names: SRV, or A and AAAA with `port`. The first label is the service.',
      { min: 1 },
    ),
    interval: duration('Time between two reads, or two looks at the serial. At most half of `softTtl` (R2).', {
      default: '5s',
      min: '1s',
      max: '1h',
    }),
    port: integer(1, 65535, 'Of names that have addresses and no SRV record. Without it they are no services.', {}),
  },
  http: {
    url: url('Answers with a list of targets, in the form of Prometheus HTTP service discovery.', { required: true }),
    interval: duration('Time between two reads. At most half of `softTtl`, since a good read confirms (R2).', {
      default: '5s',
      min: '1s',
      max: '1h',
    }),
    serviceLabel: serviceLabel({ default: 'job' }),
    port: integer(1, 65535, 'Of targets that have none.', {}),
    tokenFile: path('A file with a bearer token, read again for every request.', {}),
    username: text('the name of a user', 'Basic authentication: the user.', {}),
    passwordFile: path('Basic authentication: a file with the password, read again for every request.', {}),
    ...tlsOptions,
  },
} as const;

type Kinds = typeof registryOptions;

/** A checked registry section: `type`, and the options of that kind. */
export type RegistryValues = { [K in keyof Kinds]: { readonly type: K } & Values<Kinds[K]> }[keyof Kinds] &
  Values<typeof commonOptions>;

export const registryOption = variant<RegistryValues>(
  Object.fromEntries(
    Object.entries(registryOptions).map(([kind, options]) => [kind, { ...options, ...commonOptions }]),
  ),
  'Where the services of the zone come from.',
  '{ type: file, path: services.yaml }',
);
