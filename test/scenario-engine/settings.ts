/** The configuration under which a scenario runs: the program's defaults, and what the scenario says otherwise. */
import type {
  CheckConfig,
  Config,
  GuardConfig,
  LimitsConfig,
  OnDemandConfig,
  RegistryConfig,
  ServiceSettings,
  ZoneConfig,
} from '../../src/config/types.js';
import { duration, isDuration } from './duration.js';

const CHECK: CheckConfig = {
  type: 'tcp',
  interval: 5_000,
  // Most stories ask only at their end, and are not about who asks.
  pinned: true,
  timeout: 1_000,
  rise: 2,
  fall: 3,
  path: '/',
  method: 'GET',
  headers: {},
  drainHeader: 'X-Drain',
  status: [[200, 299]],
  minValidity: 0,
  queryType: 'SOA',
  softCap: 0.5,
  longDead: 600_000,
  failOpenWindow: 60_000,
};
const GUARD: GuardConfig = { share: 0.5, count: 2, window: 300_000, confirm: 60_000, maxHold: 600_000 };
const LIMITS: LimitsConfig = {
  maxServices: 10_000,
  maxEndpoints: 100_000,
  maxEndpointsPerService: 5_000,
  maxBody: 64 * 1024 * 1024,
};

/** The word of a registry that is asked for one service after the other (R33). */
const ON_DEMAND = 'on-demand';
const CONSUL_ON_DEMAND: RegistryConfig = {
  type: 'consul',
  addresses: ['http://127.0.0.1:8500'],
  stale: true,
  maxLag: 10_000,
  kvPrefix: 'holdfast/svc.test',
  mirror: 'asked',
};

/** Turns `10s` into 10000 wherever it stands. */
function inMs(value: unknown): unknown {
  if (isDuration(value)) return duration(value);
  if (Array.isArray(value)) return value.map(inMs);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, inMs(inner)]));
}

function zone(name: string, said: Readonly<Record<string, unknown>>): ZoneConfig {
  const over = inMs(said) as Partial<
    Omit<ZoneConfig, 'services' | 'check' | 'guard' | 'limits' | 'registries' | 'onDemand'>
  > & {
    check?: Partial<CheckConfig>;
    guard?: Partial<GuardConfig>;
    limits?: Partial<LimitsConfig>;
    onDemand?: Partial<OnDemandConfig>;
    services?: Record<string, ServiceSettings>;
    registries?: readonly (string | RegistryConfig)[];
  };
  const { check, guard, limits, services, onDemand, registries = ['services'], ...rest } = over;
  return {
    name,
    naming: 'rfc2782',
    datacenters: ['dc1'],
    agentDns: [],
    registries: registries.map((one) => {
      if (one === ON_DEMAND) return CONSUL_ON_DEMAND;
      return typeof one === 'string' ? { type: 'file', path: registryPath(one) } : one;
    }),
    merge: 'first',
    softTtl: 10_000,
    answerTtl: 2_000,
    negativeTtl: 2_000,
    allow: ['127.0.0.0/8', '::1/128'],
    addresses: 'fixed',
    allowAddresses: ['127.0.0.0/8', '::1/128'],
    order: 'weighted',
    keepTargets: 86_400_000,
    snapshotTrust: 86_400_000,
    interest: 900_000,
    idleInterval: 60_000,
    forget: 604_800_000,
    ...rest,
    onDemand: { lookUps: 10, unknownTtl: 5_000, maxUnknown: 10_000, ...onDemand },
    check: { ...CHECK, ...check },
    guard: { ...GUARD, ...guard },
    limits: { ...LIMITS, ...limits },
    services: Object.entries(services ?? {}).map(([match, settings]) => ({ match, settings })),
  };
}

/** Where a registry that a scenario calls by a word would be. */
export function registryPath(word: string): string {
  return `/etc/holdfast/${word}.yaml`;
}

export const ZONE = 'svc.test';

export function settings(
  said: Readonly<Record<string, unknown>>,
  others: Readonly<Record<string, Readonly<Record<string, unknown>>>>,
): Config {
  return {
    version: 1,
    file: '/etc/holdfast/holdfast.yaml',
    listen: [{ address: '127.0.0.1', port: 53 }],
    workers: 1,
    transport: 'auto',
    stateDir: '/var/lib/holdfast',
    runDir: '/run/holdfast',
    zones: [zone(ZONE, said), ...Object.entries(others).map(([name, over]) => zone(name, over))],
    tcp: { idleTimeout: 10_000, maxConnections: 1_024, maxConnectionsPerClient: 128 },
    register: { path: '/register.d' },
    prober: { budget: 500, conntrackShare: 0.05, source: [] },
    log: { level: 'info' },
  };
}
