/** Many hosts and one registry, on simulated time: the real loops with the numbers of every adapter. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { parseConfig } from '../src/config/load.js';
import type { Adapter, Failure, Follower, Observation } from '../src/registry/adapter.js';
import { openAdapter } from '../src/registry/open.js';
import { SyncLoop } from '../src/registry/sync.js';
import type { Ms } from '../src/system/clock.js';
import { FakeTime } from './fake-time.js';

const HOSTS = 200;
const OUTAGE_MS = 600_000;
const LIMITS = { maxServices: 10, maxEndpoints: 10, maxEndpointsPerService: 10, maxBody: 1000 };
const KINDS = {
  etcd: 'type: etcd, endpoints: ["http://127.0.0.1:9"]',
  consul: 'type: consul, address: "http://127.0.0.1:9"',
  onDemand: 'type: consul, address: "http://127.0.0.1:9", mirror: asked',
  http: 'type: http, url: "http://127.0.0.1:9/"',
  dns: 'type: dns, servers: ["127.0.0.1:9"], transfer: axfr',
};

/** The registry of all: it answers or refuses, and notes when it was read. */
class Registry {
  down = false;
  /** What it asks for while it refuses. */
  retryAfter: Ms | undefined;
  readonly reads: { readonly host: number; readonly at: number }[] = [];
  readonly #time: FakeTime;
  readonly #watches = new Set<(reason: string) => void>();

  constructor(time: FakeTime) {
    this.#time = time;
  }

  fail(): void {
    this.down = true;
    for (const end of [...this.#watches]) end('closed in the middle');
  }

  /** When each host read first since then. */
  firstReads(from: number): number[] {
    const first = new Map<number, number>();
    for (const { host, at } of this.reads) if (at >= from && !first.has(host)) first.set(host, at);
    return [...first.values()];
  }

  async read(host: number): Promise<Observation | Failure> {
    this.reads.push({ host, at: this.#time.now });
    const wait = this.retryAfter === undefined ? {} : { retryAfter: this.retryAfter };
    if (this.down) return { kind: 'unreachable', reason: 'status 503 (not available)', ...wait };
    return { kind: 'list', epoch: 'e', services: [], releases: [], rejected: [], removalsBelievable: true };
  }

  watch(signal: AbortSignal): Promise<string> {
    return new Promise((resolve) => {
      const end = (reason: string): void => {
        this.#watches.delete(end);
        resolve(reason);
      };
      this.#watches.add(end);
      signal.addEventListener('abort', () => end('stopped'));
    });
  }
}

/** An adapter's numbers, with this registry behind them. */
function hostOf(numbers: Adapter, registry: Registry, host: number): Adapter {
  const { identity, interval, deadline, pace } = numbers;
  const follower: Follower = {
    presenceDeadline: numbers.follower?.presenceDeadline ?? 0,
    follow: (signal) => registry.watch(signal),
    present: async () => (registry.down ? { kind: 'unreachable', reason: 'status 503' } : { kind: 'same' }),
  };
  return {
    ...{ identity, interval, deadline, pace },
    poll: () => registry.read(host),
    ...(numbers.follower === undefined ? {} : { follower }),
    close: () => undefined,
  };
}

function fleet(t: Test, kind: keyof typeof KINDS, restored: boolean): { time: FakeTime; registry: Registry } {
  const text = `version: 1\nzones: [{ name: svc.test, registry: { ${KINDS[kind]} } }]\n`;
  const zone = parseConfig(text, join(t.testdirName, 'holdfast.yaml')).zones[0]!;
  const numbers = openAdapter(zone.registries[0]!, zone);
  t.teardown(() => numbers.close());
  const time = new FakeTime();
  const registry = new Registry(time);
  let seed = 7;
  const random = (): number => (seed = (seed * 16807) % 2147483647) / 2147483647;
  for (let host = 0; host < HOSTS; host++) {
    const loop = new SyncLoop(hostOf(numbers, registry, host), {
      ...{ clock: time.clock, after: time.after, random, limits: LIMITS },
      emit: () => undefined,
      watchFailed: () => undefined,
    });
    loop.start(restored);
    t.teardown(() => loop.stop());
  }
  return { time, registry };
}

/** Reads in each second. */
function bySecond(reads: readonly number[], from: number): number[] {
  const seconds: number[] = [];
  for (const at of reads) {
    const second = Math.floor((at - from) / 1000);
    seconds[second] = (seconds[second] ?? 0) + 1;
  }
  return Array.from(seconds, (count) => count ?? 0);
}

for (const kind of Object.keys(KINDS) as (keyof typeof KINDS)[]) {
  t.test(`R3: ${kind}: ${HOSTS} hosts come back from an outage of ten minutes over half a minute`, async (t) => {
    const { time, registry } = fleet(t, kind, true);
    await time.pass(30_000);
    registry.fail();
    await time.pass(OUTAGE_MS);
    const knocks = registry.reads.filter(({ at }) => at > time.now - 60_000).length;
    t.ok(knocks <= 10 * HOSTS, `${knocks} knocks in the last minute of the outage`);
    registry.down = false;
    const up = time.now;
    await time.pass(60_000);
    const first = registry.firstReads(up);
    const seconds = bySecond(first, up);
    const all = first.length;
    t.ok(all >= 0.95 * HOSTS, `${all} hosts`);
    t.ok(seconds.length >= 30, `over ${seconds.length} s`);
    t.ok(Math.max(...seconds) <= 0.1 * all, `at most ${Math.max(...seconds)} of ${all} in a second`);

    registry.fail();
    await time.pass(60_000);
    const knocked = registry.reads.map(({ at }) => at).filter((at) => at >= time.now - 58_000);
    const wave = Math.max(...bySecond(knocked, time.now - 58_000));
    t.ok(
      wave <= 0.1 * knocked.length,
      `a second failure soon after makes no wave in step: ${wave} of ${knocked.length}`,
    );
  });

  t.test(`R3: ${kind}: a restarted fleet with snapshots reads first over ten seconds`, async (t) => {
    const { time, registry } = fleet(t, kind, true);
    const start = time.now;
    await time.pass(10_000);
    const seconds = bySecond(registry.firstReads(start), start);
    t.equal(seconds.length, 10);
    t.ok(Math.max(...seconds) <= 0.2 * HOSTS, `at most ${Math.max(...seconds)} in a second`);
    t.ok(Math.min(...seconds) > 0);
  });
}

t.test('R3: hosts that are told the same Retry-After, all at once, do not come back all at once', async (t) => {
  const { time, registry } = fleet(t, 'etcd', true);
  await time.pass(30_000);
  registry.retryAfter = 120_000;
  registry.fail();
  await time.pass(OUTAGE_MS);
  const knocks = registry.reads.filter(({ at }) => at > time.now - OUTAGE_MS + 10_000).length;
  t.ok(knocks <= (HOSTS * OUTAGE_MS) / registry.retryAfter, `${knocks} knocks: it is heeded`);
  registry.down = false;
  const up = time.now;
  await time.pass(200_000);
  const first = registry.firstReads(up);
  const seconds = bySecond(first, up);
  t.equal(first.length, HOSTS);
  t.ok(Math.max(...seconds) <= 0.1 * HOSTS, `at most ${Math.max(...seconds)} of ${HOSTS} in a second`);
});
