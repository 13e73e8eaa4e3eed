import t from 'tap';
import type { Target } from '../src/prober/feed.js';
import type { Row } from '../src/registry/registry.js';
import { JudgingPace } from '../src/resolver/judging-pace.js';
import { Resolver } from '../src/resolver/resolver.js';
import { read } from './config-fixture.js';

const INTERVAL = 5_000;
/** The longest that a change may wait: R17's 20 % less what the schedule plays with. */
const LONGEST = INTERVAL * 0.05;

interface Thing {
  readonly name: string;
  readonly rows: { readonly size: number };
}

function thing(name: string, size: number): Thing {
  return { name, rows: { size } };
}

/** What is judged at which time, when each of these changes at its time and `take` is called whenever it is due. */
function run(changes: readonly (readonly [at: number, one: Thing, interval?: number])[]): [number, string][] {
  const pace = new JudgingPace<Thing>();
  const judged: [number, string][] = [];
  const take = (now: number): void => {
    for (const { name } of pace.take(now)) judged.push([now, name]);
  };
  const wait = (until: number): void => {
    for (let due = pace.nextDue(); due <= until; due = pace.nextDue()) take(due);
  };
  for (const [at, one, interval = INTERVAL] of changes) {
    wait(at);
    pace.add(one, interval, at);
    take(at);
  }
  wait(1e6);
  return judged;
}

t.test('what is judged when (R13)', async (t) => {
  await t.test('the first change after a quiet time at once, further ones together', async (t) => {
    const large = thing('large', 10_000);
    const judged = run([0, 10, 50, 60, 1_000].map((at) => [at, large] as const));
    t.equal(judged.length, 3);
    t.equal(judged[0]![0], 0);
    t.ok(judged[1]![0] > 60 && judged[1]![0] <= 10 + LONGEST, `judged at ${judged[1]![0]}`);
    t.equal(judged[2]![0], 1_000);
  });

  await t.test('what is small does not wait, however often it changes', async (t) => {
    const small = thing('small', 20);
    const times = Array.from({ length: 100 }, (_, i) => i * 2);
    t.same(
      run(times.map((at) => [at, small] as const)).map(([at]) => at),
      times,
    );
  });

  await t.test('a change waits no longer than a twentieth of its interval, behind whatever is large', async (t) => {
    const crowd = Array.from({ length: 100 }, (_, i) => thing(`large ${i}`, 20_000));
    for (const interval of [200, INTERVAL, 15_000]) {
      const small = thing('small', 1);
      const judged = run([...crowd.map((one) => [0, one, 1e6] as const), [10, small, interval]]);
      const at = judged.find(([, name]) => name === 'small')![0];
      t.equal(at, 10 + interval * 0.05);
    }
  });

  await t.test('what has to be is judged at once', async (t) => {
    const large = thing('large', 1e6);
    t.same(run([0, 1, 2].map((at) => [at, large, 0] as const)), [
      [0, 'large'],
      [1, 'large'],
      [2, 'large'],
    ]);
  });

  await t.test('however much was judged, no more than a second is waited for it', async (t) => {
    const large = thing('large', 1e7);
    const judged = run([0, 1].map((at) => [at, large, 1e9] as const));
    t.equal(judged.length, 2);
    t.ok(judged[1]![0] <= 1_000, `judged at ${judged[1]![0]}`);
  });
});

t.test('what clients report is out within 300 ms, whatever large was judged before (R20)', async (t) => {
  const check = '{ type: tcp, fall: 1, interval: 30s }';
  const limits = '{ maxEndpointsPerService: 10000 }';
  const zone = `{ name: a.test, registry: { type: file, path: /s.yaml }, check: ${check}, limits: ${limits} }`;
  const targets = new Map<string, Target>();
  let boot = 1_000;
  const now = () => ({ boot, wall: 1.9e12 + boot });
  const resolver = new Resolver(
    read(`version: 1\nzones: [${zone}]\n`),
    {
      log: () => undefined,
      probeNow: () => undefined,
      targets: (add) => {
        for (const target of add) targets.set(target.key, target);
      },
    },
    now(),
  );
  const usual = { port: 80, protocol: 'tcp', priority: 0, weight: 1, tags: [], state: 'passing' } as const;
  const rows = (count: number, network: string): Row[] =>
    Array.from({ length: count }, (_, i) => {
      const address = `10.${network}.${i >> 8}.${i & 255}`;
      return { ...usual, id: address, address };
    });
  const large = ['1', '2', '3', '4'].map((network) => ({ name: `large-${network}`, rows: rows(10_000, network) }));
  const services = [...large, { name: 'small', rows: rows(3, '9') }];
  const about = { epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
  resolver.report('a.test', 0, { kind: 'list', at: boot, services, ...about }, now());
  const wait = (ms: number): void => {
    for (const end = boot + ms; boot < end; resolver.tick(now()))
      boot = Math.min(end, Math.max(boot + 1, resolver.nextWake(now())));
  };
  const probed = { interval: 30_000, took: 1 };
  resolver.results(
    [...targets.keys()].map((key) => ({ key, at: boot, ...probed })),
    now(),
  );
  wait(5_000);
  const answered = (): number => {
    const { rows } = resolver.zone('a.test')!.catalog.services.get('small')!;
    return [...rows.values()].filter((row) => row.answered).length;
  };
  t.equal(answered(), 3);
  const [first, second, third] = large.map(
    ({ rows: [row] }) => [...targets.values()].find(({ address }) => address === row!.address)!.key,
  );
  resolver.results(
    [first!, second!, third!].map((key) => ({ key, at: boot, ...probed, failure: 'refused' })),
    now(),
  );
  wait(1);
  const report = { address: '10.9.0.1', port: 80, protocol: 'tcp', failure: 'timeout' } as const;
  resolver.reported([report, report], now());
  wait(300);
  t.equal(answered(), 2);
});
