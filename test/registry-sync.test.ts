import { setImmediate as immediate } from 'node:timers/promises';
import t from 'tap';
import type { Adapter, Observation, PollContext } from '../src/registry/adapter.js';
import { nextBackoff } from '../src/registry/backoff.js';
import { ChangeBatch } from '../src/registry/change-batch.js';
import { ListMemory } from '../src/registry/list-memory.js';
import { LATE, OneFlight } from '../src/registry/one-flight.js';
import { Pace, SHARED_PACE } from '../src/registry/pace.js';
import type { Listing, Report } from '../src/registry/registry.js';
import { RevisionMemory } from '../src/registry/revision-memory.js';
import { SyncLoop } from '../src/registry/sync.js';
import { brief, LIMITS, list, listing } from './registry-fixture.js';

t.test('waits after failures grow from the base to the cap, never in step', async (t) => {
  const limits = { base: 100, cap: 5000 };
  t.equal(
    nextBackoff(undefined, limits, () => 0),
    100,
  );
  t.equal(
    nextBackoff(undefined, limits, () => 0.5),
    200,
  );
  t.equal(
    nextBackoff(1000, limits, () => 0.5),
    1550,
  );
  t.equal(
    nextBackoff(4000, limits, () => 0.99),
    5000,
  );
});

t.test('an operation that never ends costs one flight, and its late result is dropped', async (t) => {
  const flight = new OneFlight();
  let release = (_value: string): void => undefined;
  const stuck = new Promise<string>((resolve) => {
    release = resolve;
  });
  let started = 0;
  t.equal(await flight.run(() => stuck, 20), LATE);
  const second = async (): Promise<string> => `run ${++started}`;
  t.equal(await flight.run(second, 20), LATE, 'none other starts before it has ended');
  t.equal(started, 0);
  release('late');
  t.equal(await flight.run(second, 1000), 'run 1');
  await t.rejects(
    flight.run(async () => {
      throw new Error('broken');
    }, 1000),
    { message: 'broken' },
  );
  t.equal(await flight.run(second, 1000), 'run 2');
});

t.test('of several that wait for one that is late, one starts at a time, in their order', async (t) => {
  const flight = new OneFlight();
  const ends: (() => void)[] = [];
  const log: string[] = [];
  const run = (name: string, ms: number) =>
    flight.run(async () => {
      log.push(`${name} begins`);
      await new Promise<void>((resolve) => ends.push(resolve));
      log.push(`${name} ends`);
    }, ms);
  t.equal(await run('first', 20), LATE);
  const both = [run('second', 10_000), run('third', 10_000)];
  for (const _ of ['first', 'second', 'third']) {
    ends.shift()!();
    await immediate();
  }
  await Promise.all(both);
  t.same(log, ['first begins', 'first ends', 'second begins', 'second ends', 'third begins', 'third ends']);
});

t.test('only what changed is passed on', async (t) => {
  const memory = new ListMemory();
  const take = (observation: Observation): unknown => {
    if (observation.kind !== 'list') return t.fail('not a list');
    const { kind, ...rest } = memory.take(observation);
    return [
      kind,
      ...('services' in rest ? [brief({ kind, ...rest } as Observation)] : []),
      ...('gone' in rest ? rest.gone : []),
    ];
  };
  const names = ['a', 'b', 'c', 'd', 'e'];
  const five = names.map((name) => listing(name, '10.0.0.1'));
  const all = names.map((name) => `${name}=10.0.0.1`);
  t.equal(memory.empty, true);
  t.same(take(list(five)), ['list', all]);
  t.equal(memory.empty, false);
  t.same(take(list([...five].reverse())), ['confirmed']);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.6')])), ['change', ['f=10.0.0.6'], 'a']);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.7')])), ['change', ['f=10.0.0.7']]);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.7')], { rejected: [{ where: 'x', reason: 'y' }] })), [
    'change',
    [],
  ]);
  t.same(take(list(five.slice(3))), ['list', all.slice(3)], 'half of them changed');
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)], 'another epoch');
  t.same(take(list(five.slice(4), { epoch: 'e2', removalsBelievable: false })), [
    'list',
    ['additions only', ...all.slice(4)],
  ]);
  t.equal(memory.empty, false);
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)], 'after additions only, a whole list');
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['confirmed']);
  memory.forget();
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)]);
});

class ScriptedAdapter implements Adapter {
  readonly identity = 'scripted';
  readonly interval = 1;
  readonly deadline = 100;
  readonly pace = { backoff: { base: 1, cap: 5 }, firstSpread: 0, recoverySpread: 0 };
  closed = false;
  readonly contexts: boolean[] = [];
  readonly #script: (() => Promise<Observation>)[];

  constructor(...script: (() => Promise<Observation>)[]) {
    this.#script = script;
  }

  async poll({ fresh }: PollContext): Promise<Observation> {
    this.contexts.push(fresh);
    return (this.#script.shift() ?? (() => new Promise<Observation>(() => undefined)))();
  }

  close(): void {
    this.closed = true;
  }
}

t.test('the sync loop reports what its adapter sees, and outlives what the adapter does', async (t) => {
  const a = listing('a', '10.0.0.1');
  const adapter = new ScriptedAdapter(
    async () => ({ kind: 'unreachable', reason: 'refused' }),
    async () => list([a]),
    async () => list([a]),
    async () => {
      throw new Error('a bug');
    },
    async () => list([listing('a', ...Array.from({ length: 600 }, (_, i) => `10.0.${i >> 8}.${i & 255}`))]),
    async () => list(Array.from({ length: 101 }, (_, i) => listing(`s${i}`))),
    async () =>
      list(
        Array.from({ length: 3 }, (_, s) =>
          listing(`s${s}`, ...Array.from({ length: 400 }, (_, i) => `10.${s}.${i >> 8}.${i & 255}`)),
        ),
      ),
    async () => ({ kind: 'confirmed' }),
  );
  const reports: Report[] = [];
  let boot = 0;
  await new Promise<void>((resolve) => {
    const loop: SyncLoop = new SyncLoop(adapter, {
      clock: { now: () => ({ boot: ++boot, wall: 0 }) },
      random: () => 0,
      limits: LIMITS,
      emit: (report) => {
        reports.push(report);
        if (reports.length === 8) loop.relist();
        if (reports.length < 9) return;
        loop.stop();
        resolve();
      },
      watchFailed: (reason) => t.fail(reason),
    });
    loop.start(false);
  });
  t.same(reports.map(brief), [
    'unreachable: refused',
    ['a=10.0.0.1'],
    'confirmed',
    'unreachable: a bug',
    'unbelievable: service "a" has 600 endpoints, more than limits.maxEndpointsPerService (500)',
    'unbelievable: 101 services, more than limits.maxServices (100)',
    'unbelievable: 1200 endpoints, more than limits.maxEndpoints (1000)',
    'confirmed',
    'unreachable: no answer within 0.1 s',
  ]);
  const times = reports.map(({ at }) => at);
  t.same(
    times,
    [...new Set(times)].sort((a, b) => a - b),
  );
  t.same(
    adapter.contexts,
    [true, true, false, false, false, true, true, true, true],
    'a list after one over the limits',
  );
  t.equal(adapter.closed, true);
});

t.test(
  'R31: what nobody thought of is a fault of its own source, and not the last thing that is heard of it',
  async (t) => {
    const a = listing('a', '10.0.0.1');
    const adapter = new ScriptedAdapter(
      async () => list([a], { revision: 'soon' }),
      async () => list([a]),
      async () => list([a]),
    );
    const reports: Report[] = [];
    await new Promise<void>((resolve) => {
      const loop: SyncLoop = new SyncLoop(adapter, {
        clock: { now: () => ({ boot: reports.length, wall: 0 }) },
        random: () => 0,
        limits: LIMITS,
        emit: (report) => {
          reports.push(report);
          if (reports.length === 2) throw new Error('it cannot be passed on');
          if (reports.length < 4) return;
          loop.stop();
          resolve();
        },
        watchFailed: (reason) => t.fail(reason),
      });
      loop.start(false);
    });
    t.same(reports.map(brief), [
      'unreachable: Cannot convert soon to a BigInt',
      ['a=10.0.0.1'],
      'unreachable: it cannot be passed on',
      ['a=10.0.0.1'],
    ]);
  },
);

t.test('R3: after an outage of ten minutes the reads of a fleet are spread over a minute', async (t) => {
  let seed = 1;
  const random = (): number => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const endOfOutage = 600_000;
  const firstReads: number[] = [];
  let early = 0;
  let most = 0;
  for (let host = 0; host < 200; host++) {
    const pace = new Pace(SHARED_PACE, random);
    let now = 0;
    let reads = 0;
    while (now < endOfOutage) {
      now += pace.failed(now);
      reads++;
      if (now < 10_000) early++;
    }
    firstReads.push(now - endOfOutage);
    most = Math.max(most, reads);
  }
  t.ok(most < 100, `no host knocks more than ${most} times in ten minutes`);
  t.ok(early < 200 * 15, `a host knocks ${early / 200} times in the first ten seconds`);
  firstReads.sort((a, b) => a - b);
  t.ok(firstReads[189]! - firstReads[9]! > 30_000, 'nine of ten take more than half a minute');
  for (let second = 0; second < 60; second++) {
    const within = firstReads.filter((at) => at >= second * 1000 && at < (second + 1) * 1000).length;
    t.ok(within <= 20, `${within} of 200 in second ${second}`);
  }
  t.ok(firstReads[199]! <= 60_000, 'all within a minute');
});

t.test('R3: after a short outage a source is soon asked again', async (t) => {
  const pace = new Pace(SHARED_PACE, () => 0.999);
  const waits = [0, 2000, 5000, 20_000, 100_000].map((now) => Math.round(pace.failed(now) / 100) * 100);
  t.same(waits, [1500, 1500, 1500, 4000, 12_000]);
  pace.succeeded();
  t.equal(Math.round(pace.failed(200_000) / 100) * 100, 1500);
  const local = new Pace({ backoff: { base: 100, cap: 5000 }, recoverySpread: 0 }, () => 0.999);
  t.same(
    [0, 1, 2, 3, 4].map((now) => Math.round(local.failed(now) / 100) * 100),
    [300, 900, 2700, 5000, 5000],
    'what is on this host has its own cap alone',
  );
});

t.test('R6: a revision lower than seen is believed when two reads 10 s apart agree', async (t) => {
  const memory = new RevisionMemory();
  const judge = (epoch: string, revision: number, now: number): string | number =>
    memory.judge(epoch, String(revision), now)?.retryAfter ?? 'believed';
  t.equal(judge('a', 100, 0), 'believed');
  t.equal(judge('a', 100, 1), 'believed');
  memory.passed('a', '120');
  t.same(memory.judge('a', '110', 1000), { reason: 'revision went back from 120 to 110', retryAfter: 10_000 });
  t.equal(judge('a', 110, 7000), 4000, 'too early');
  t.equal(judge('a', 130, 8000), 'believed', 'it was another member that lagged');
  t.equal(judge('a', 50, 20_000), 10_000);
  t.equal(judge('a', 40, 31_000), 10_000, 'the two do not agree');
  t.equal(judge('a', 41, 41_000), 'believed');
  t.equal(judge('a', 41, 42_000), 'believed');
  t.equal(judge('b', 3, 43_000), 'believed', 'R7: another epoch counts from its own beginning');
  t.equal(memory.judge('b', '9007199254740993', 44_000), undefined);
  t.equal(memory.judge('b', '9007199254740992', 45_000)?.retryAfter, 10_000, 'not rounded');
});

t.test(
  'R6: a revision that goes up and down again and again is read less and less often, as long as it does',
  async (t) => {
    const memory = new RevisionMemory();
    let now = 0;
    memory.judge('a', '100', now);
    const flap = (pause = 1000): number | undefined => {
      const waits = memory.judge('a', '50', (now += pause))?.retryAfter;
      t.equal(memory.judge('a', '101', (now += 1000)), undefined);
      return waits;
    };
    const waits = Array.from({ length: 8 }, () => flap());
    t.same(waits, [10_000, 10_000, 20_000, 40_000, 80_000, 160_000, 160_000, 160_000]);
    t.equal(flap(599_000), 160_000);
    t.equal(flap(601_000), 10_000, 'after a calm time as at first');
    flap();
    t.equal(memory.judge('a', '50', now + 1000)?.retryAfter, 20_000);
    t.equal(memory.judge('a', '50', now + 11_000), undefined, 'two reads that agree are believed as soon as ever');
  },
);

t.test('R6: what was seen before a restart counts, with its lineage', async (t) => {
  const after = (epoch: string, revision: string): RevisionMemory => {
    const memory = new RevisionMemory();
    memory.seed({ epoch, revision });
    return memory;
  };
  const memory = after('a+2', '100.7');
  t.equal(memory.judge('a', '100.7', 0), undefined);
  t.equal(memory.lineage, 2);
  t.equal(after('a', '100.7').judge('a', '99.8', 0)?.retryAfter, 10_000);
  t.equal(after('a', '100.7').judge('b', '1.1', 0), undefined, 'R7: another epoch');
  t.equal(after('a', '100.7').judge('a', '9', 0), undefined, 'other numbers');
  t.equal(after('a', 'x=9.9,y=9.9').judge('a', 'x=9.9,y=9.8', 0)?.retryAfter, 10_000, 'one of several datacenters');
  t.equal(after('a', 'x=9.9,y=9.9').judge('a', 'y=9.9,z=1.1', 0), undefined, 'of other datacenters');
  t.equal(after('a', 'x=9.9,y=9.9').judge('a', '1.1', 0), undefined);
  for (const text of ['nonsense', '', '9.', 'x=', '9,', 'x=9;y=9']) {
    t.equal(after('a', text).judge('a', '1', 0), undefined, text);
  }
  t.equal(after('a+b', '9').judge('a+b', '8', 0)?.retryAfter, 10_000, 'a plus of its own');
});

t.test('the first change of a quiet registry is passed on at once, those of a busy one put together', async (t) => {
  const batch = new ChangeBatch();
  const change = (services: Listing[], gone: string[] = [], revision = '1') =>
    ({ kind: 'change', epoch: 'e', revision, services, gone, releases: [], rejected: [] }) as const;
  t.equal(batch.take(0), undefined);
  batch.add(change([listing('a', '10.0.0.1')]), 1000);
  t.equal(batch.due, 1002);
  batch.add(change([listing('b', '10.0.0.2')], ['a'], '2'), 1001);
  batch.add(change([listing('b', '10.0.0.3')], [], '3'), 1002);
  t.equal(batch.due, 1002);
  t.same(batch.take(1002), change([listing('b', '10.0.0.3')], ['a'], '3'));
  t.equal(batch.due, Number.POSITIVE_INFINITY);
  batch.add(change([listing('c', '10.0.0.4')], [], '4'), 1010);
  t.equal(batch.due, 1030, 'what follows the first one goes soon, too');
  t.same(batch.take(1030), change([listing('c', '10.0.0.4')], [], '4'));
  batch.add(change([listing('a', '10.0.0.1')], [], '5'), 1100);
  t.equal(batch.due, 1530, 'and then it is a busy one');
  t.same(batch.take(1530), change([listing('a', '10.0.0.1')], [], '5'));
  batch.add(change([], ['a'], '6'), 11_530);
  t.equal(batch.due, 11_532);
});

t.test('only what is new in a change is passed on, and limits hold for the sum', async (t) => {
  const memory = new ListMemory();
  const all = list(['a', 'b', 'c'].map((name) => listing(name, '10.0.0.1')));
  if (all.kind !== 'list') return;
  memory.take(all);
  const change = (services: Listing[], gone: string[] = [], rejected: { where: string; reason: string }[] = []) =>
    ({ kind: 'change', epoch: 'e', services, gone, releases: [], rejected }) as const;
  t.same(memory.takeChange(change([listing('a', '10.0.0.1')], ['x'])), { kind: 'confirmed' });
  t.same(
    memory.takeChange(change([listing('a', '10.0.0.1'), listing('d', '10.0.0.4')], ['b', 'x'])),
    change([listing('d', '10.0.0.4')], ['b']),
  );
  const noted = change([], [], [{ where: 'k', reason: 'bad' }]);
  t.same(memory.takeChange(noted), noted, 'notes are news');
  t.same(memory.takeChange(noted), { kind: 'confirmed' });
  const limits = { ...LIMITS, maxServices: 3, maxEndpoints: 4 };
  t.equal(memory.overLimit(change([listing('a', '10.0.0.1', '10.0.0.2')]), limits), undefined);
  t.equal(memory.overLimit(change([listing('e', '10.0.0.1')]), limits), '4 services, more than limits.maxServices (3)');
  t.equal(memory.overLimit(change([listing('e', '10.0.0.1')], ['d']), limits), undefined);
  t.equal(
    memory.overLimit(change([listing('d', '10.0.0.1', '10.0.0.2', '10.0.0.3')]), limits),
    '5 endpoints, more than limits.maxEndpoints (4)',
  );
});
