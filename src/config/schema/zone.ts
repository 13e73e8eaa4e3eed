/** One entry of `zones`. */
import { NEAR_PREFIXES } from '../near-prefixes.js';
import { choice, list, map, overlay, section } from '../options.js';
import { checkOptions } from './check.js';
import { registryOption } from './registry.js';
import { datacenter, duration, integer, label, listenAddress, prefix, share, size, text, zoneName } from './values.js';

const guardOptions = {
  share: share(
    'A service trips when fewer than 1 minus this share of its endpoints would remain.',
    { default: 0.5 },
    0.01,
  ),
  count: integer(1, 1_000_000, 'And when at least so many are lost.', { default: 2 }),
  window: duration('Over which losses add up.', { default: '5m', min: '1s' }),
  confirm: duration('How long what is left must look right before a held endpoint goes.', {
    default: '60s',
    min: '1s',
  }),
  maxHold: duration("How long a service's guard holds an endpoint at most.", { default: '10m', min: '1s' }),
};

const limitOptions = {
  maxServices: integer(1, 10_000_000, 'Services in the zone.', { default: 10_000 }),
  maxEndpoints: integer(1, 10_000_000, 'Endpoints in the zone.', { default: 100_000 }),
  maxEndpointsPerService: integer(1, 1_000_000, 'Endpoints of one service.', { default: 5000 }),
  maxBody: size('Of one answer of the registry, or of one file.', { default: '64MiB' }),
};

const demandOptions = {
  lookUps: integer(
    1,
    15,
    'Look-ups a second at most; twice as many may begin at once. What is asked beyond that is SERVFAIL.',
    { default: 10 },
  ),
  unknownTtl: duration("How long the registry's word that there is no such service holds.", {
    default: '5s',
    min: '1s',
    max: '5m',
  }),
  maxUnknown: integer(1, 1_000_000, 'So many of those words are kept.', { default: 10_000 }),
};

const serviceOptions = {
  check: overlay(checkOptions, 'How the endpoints of the service are probed, where it differs from the zone.'),
  order: choice(['weighted', 'stable'], 'As in the zone.', {}),
  maxAnswers: integer(1, 65535, 'As in the zone.', {}),
  alias: label('Another label under which the service is answered (R22).', {}),
};

export const zoneOptions = {
  name: zoneName('The domain that this zone answers for.', { required: true }),
  naming: choice(
    ['rfc2782', 'consul'],
    'Which names exist in it (R21): those of [rules](rules.md#r21-forms), or those of the DNS interface of Consul.',
    {
      default: 'rfc2782',
    },
  ),
  datacenters: list(
    datacenter('A datacenter.', {}),
    '[dc1, dc2]',
    'With `naming: consul`: the datacenters whose names are answered. The first is the one that is meant by names that tell none.',
    { min: 1, defaultText: '`[dc1]`, or the `datacenter` of the registry' },
  ),
  agentDns: list(
    listenAddress('A DNS port.', {}),
    '["127.0.0.1:8600"]',
    "With `naming: consul`: DNS ports of Consul's agents, asked in order, for names that the catalog does not tell of, such as those of prepared queries. Without one they are SERVFAIL.",
    { default: [] },
  ),
  registry: registryOption,
  registries: {
    ...list(
      registryOption,
      '[{ type: file, path: services.yaml }]',
      'Several, in order of belief (R32). Either this or `registry`.',
      { min: 1 },
    ),
    kind: 'list of registry sections',
  },
  merge: choice(
    ['first', 'union'],
    'Several registries: a service belongs to the `first` that lists it or did, or has the endpoints of all (`union`; R32).',
    { default: 'first' },
  ),
  softTtl: duration('After so long without a confirmation a service is called stale. It is answered as before (R1).', {
    default: '10s',
    min: '1s',
  }),
  answerTtl: duration('TTL of every positive record.', { default: '2s', min: '1s', max: '7d', whole: true }),
  negativeTtl: duration('TTL of every negative answer (R25).', { default: '2s', min: '1s', max: '1h', whole: true }),
  allow: list(
    prefix('Clients.'),
    '["127.0.0.0/8"]',
    'Clients that are answered; others are REFUSED (R31). By default loopback, private, shared and link-local ranges. Where `0.0.0.0/0` or `::/0` stands, others than those get at most three times over UDP what they sent, and TC.',
    { default: NEAR_PREFIXES },
  ),
  listen: list(
    listenAddress('An address.', {}),
    '["127.0.0.1:53"]',
    'A view: the zone exists on these of the `listen` addresses only (R31). Without it, on all.',
    { min: 1 },
  ),
  check: section(checkOptions, 'How endpoints are probed.', { default: {} }),
  guard: section(
    guardOptions,
    'Against a registry that suddenly lists much less (R8, R9). Times are those in which the registry is heard.',
    { default: {} },
  ),
  limits: section(limitOptions, 'A report beyond them is not believed (R6, R31).', { default: {} }),
  addresses: choice(
    ['fixed', 'reused'],
    'Whether an address soon belongs to another service when an endpoint has gone, as in Kubernetes (R19). With `reused`, what has failed hard does not come back by a pass that anybody may give, while the registry is not heard.',
    { default: 'fixed' },
  ),
  addressSpace: text(
    'one line of text',
    'Zones with the same word here share their addresses, so that one can claim what another still lists while its registry is not heard (R19). Each zone is on its own without it.',
    {},
  ),
  allowAddresses: list(
    prefix('Addresses.'),
    '["169.254.0.0/16"]',
    'Loopback, link-local, multicast and unspecified addresses that a registry may nevertheless list (R18). The file registry may list loopback and link-local ones anyway.',
    { default: [] },
  ),
  order: choice(
    ['weighted', 'stable'],
    'Within a priority: `weighted` spreads by weight over many answers, `stable` keeps one order (R24).',
    { default: 'weighted' },
  ),
  maxAnswers: integer(1, 65535, 'At most so many records of a service in an answer, a rotating subset (R24).', {}),
  keepTargets: duration('How long the name of an address that has left still resolves (R23).', {
    default: '24h',
    min: '0s',
  }),
  snapshotTrust: duration('A snapshot younger than this is used at once after a restart (R29).', {
    default: '24h',
    min: '0s',
  }),
  interest: duration('Endpoints of names asked within this time are probed at `check.interval` (R17).', {
    default: '15m',
    min: '1s',
  }),
  idleInterval: duration('All others are probed so often (R17).', { default: '60s', min: '1s', max: '1d' }),
  forget: duration(
    'With a registry on demand (`mirror: asked`): a service not asked for so long leaves, while the registry is heard (R33). One with `check.pinned`, or with its name in `services`, stays.',
    { default: '7d', min: '1m' },
  ),
  onDemand: section(demandOptions, 'With a registry on demand (`mirror: asked`): how services are looked up (R33).', {
    default: {},
  }),
  services: map(
    overlay(serviceOptions, 'Settings of some services.'),
    (key) => (key === '' || key.length > 255 ? 'expected the name of a service, or a glob such as "db-*"' : undefined),
    "Local settings by name or glob (`*`, `?`); they win over the registry's. Of several globs the last one wins, a name over all.",
    { default: {} },
  ),
};
