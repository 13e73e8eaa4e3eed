/** What tests of Consul as a registry have in common: a fake, an adapter of it, and a loop that runs. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { ConsulRegistryConfig, LimitsConfig } from '../src/config/types.js';
import type { Adapter, Observation } from '../src/registry/adapter.js';
import { ConsulRegistry } from '../src/registry/consul.js';
import type { ConsulRegistryOptions } from '../src/registry/consul-source.js';
import type { Report, Row } from '../src/registry/registry.js';
import type { SeenRevision } from '../src/registry/revision-memory.js';
import { SyncLoop } from '../src/registry/sync.js';
import { bootClock } from '../src/system/boot-clock.js';
import { FakeConsul, type FakeInstance } from './fake-consul.js';

export const LIMITS: LimitsConfig = {
  maxServices: 1000,
  maxEndpoints: 1000,
  maxEndpointsPerService: 50,
  maxBody: 1 << 20,
};
export const NEVER = new AbortController().signal;
const PATIENCE_MS = 20_000;

export async function fakeConsul(t: Test): Promise<FakeConsul> {
  const fake = await FakeConsul.start();
  t.teardown(() => fake.stop());
  return fake;
}

export function configOf(fake: FakeConsul): ConsulRegistryConfig {
  return {
    type: 'consul',
    addresses: [fake.origin],
    stale: true,
    maxLag: 10_000,
    kvPrefix: 'holdfast/test',
    mirror: 'all',
  };
}

export function registryOf(
  t: Test,
  fake: FakeConsul,
  options: Partial<ConsulRegistryOptions> = {},
  config: Partial<ConsulRegistryConfig> = {},
): ConsulRegistry {
  const registry = new ConsulRegistry(
    { ...configOf(fake), ...config },
    { softTtl: 20_000, limits: LIMITS, allowAddresses: [], ...options },
  );
  t.teardown(() => registry.close());
  return registry;
}

export const instance = (id: string, address: string, more: Partial<FakeInstance> = {}): FakeInstance => ({
  id,
  node: 'n1',
  address,
  status: 'passing',
  ...more,
});

/** One poll, as the loop makes it. */
export function poll(registry: ConsulRegistry): Promise<Observation> {
  return registry.poll({ signal: new AbortController().signal, fresh: true }) as Promise<Observation>;
}

/** The addresses of each service of a list, in short. */
export function addresses(observation: Observation): Record<string, string[]> {
  if (observation.kind !== 'list') throw new Error(`no list: ${JSON.stringify(observation)}`);
  return Object.fromEntries(
    [...observation.services].map(({ name, rows }) => [name, rows.map(({ address }) => address)]),
  );
}

/** A loop that runs, and what it reported of each service last. */
export function following(
  t: Test,
  adapter: Adapter,
  seen?: SeenRevision,
): { loop: SyncLoop; rows: Map<string, readonly Row[]>; reports: Report[]; renewals: (readonly string[])[] } {
  const rows = new Map<string, readonly Row[]>();
  const reports: Report[] = [];
  const renewals: (readonly string[])[] = [];
  const loop = new SyncLoop(adapter, {
    clock: bootClock(),
    random: Math.random,
    limits: LIMITS,
    emit: (report) => {
      reports.push(report);
      if (report.kind !== 'list' && report.kind !== 'change') return;
      if (report.kind === 'list') rows.clear();
      else for (const name of report.gone) rows.delete(name);
      for (const listing of report.services) rows.set(listing.name, listing.rows);
    },
    watchFailed: () => undefined,
    renewed: (files) => renewals.push(files),
    seen,
  });
  loop.start(false);
  t.teardown(() => loop.stop());
  return { loop, rows, reports, renewals };
}

export async function until(what: string, holds: () => boolean): Promise<void> {
  const start = performance.now();
  while (!holds()) {
    if (performance.now() - start > PATIENCE_MS) throw new Error(`not in time: ${what}`);
    await sleep(10);
  }
}
