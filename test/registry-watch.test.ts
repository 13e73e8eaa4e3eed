import t, { type Test as Tap } from 'tap';
import type { Adapter, Delivery, Failure, Follower, Observation, Presence } from '../src/registry/adapter.js';
import { SHARED_PACE } from '../src/registry/pace.js';
import type { Listing } from '../src/registry/registry.js';
import { SyncLoop } from '../src/registry/sync.js';
import { FakeTime } from './fake-time.js';
import { brief, LIMITS, list, listing } from './registry-fixture.js';

/** A registry that can be followed, as a test tells it. */
class ScriptedSource implements Adapter, Follower {
  readonly identity = 'scripted';
  readonly interval = 5000;
  readonly deadline = 4000;
  readonly presenceDeadline = 2000;
  readonly pace = SHARED_PACE;
  readonly follower = this;
  read: () => Promise<Observation | Failure> = async () => list([listing('a', '10.0.0.1')], { revision: '10' });
  alive: () => Promise<Presence> = async () => ({ kind: 'same' });
  /** When each was called. */
  readonly polls: number[] = [];
  readonly asked: number[] = [];
  watches = 0;
  deliver: (delivery: Delivery) => void = () => undefined;
  end: (reason: string) => void = () => undefined;
  closed = false;
  /** The file with a token: which was taken, and which is there. */
  file = { taken: 'one', now: 'one' };
  readonly credentials = {
    take: async (): Promise<readonly string[]> => {
      const changed = this.file.taken === this.file.now ? [] : ['/token'];
      this.file.taken = this.file.now;
      return changed;
    },
    replaced: async (): Promise<boolean> => this.file.taken !== this.file.now,
  };
  readonly #time: FakeTime;

  constructor(time: FakeTime) {
    this.#time = time;
  }

  poll(): Promise<Observation | Failure> {
    this.polls.push(this.#time.now);
    return this.read();
  }

  follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string> {
    this.watches++;
    this.deliver = deliver;
    return new Promise((resolve) => {
      this.end = resolve;
      signal.addEventListener('abort', () => resolve('aborted'));
    });
  }

  present(): Promise<Presence> {
    this.asked.push(this.#time.now);
    return this.alive();
  }

  close(): void {
    this.closed = true;
  }
}

function follow(t: Tap, restored = false): Followed {
  const time = new FakeTime();
  const source = new ScriptedSource(time);
  const told: [at: number, what: unknown][] = [];
  const loop = new SyncLoop(source, {
    clock: time.clock,
    random: () => 0.5,
    limits: LIMITS,
    emit: (report) => void told.push([report.at, 'gone' in report ? [brief(report), report.gone] : brief(report)]),
    watchFailed: (reason) => told.push([time.now, `watch failed: ${reason}`]),
    renewed: (files) => told.push([time.now, `renewed: ${files.join()}`]),
    after: time.after,
  });
  t.teardown(() => loop.stop());
  loop.start(restored);
  return { time, source, told, loop, news: () => told.splice(0) };
}

interface Followed {
  readonly time: FakeTime;
  readonly source: ScriptedSource;
  readonly told: [at: number, what: unknown][];
  readonly loop: SyncLoop;
  readonly news: () => [at: number, what: unknown][];
}

const changed = (listings: Listing[], more: { revision?: string; gone?: string[] } = {}): Delivery => {
  return { kind: 'change', epoch: 'e', services: listings, gone: [], releases: [], rejected: [], ...more };
};

t.test('R2: a quiet watch is confirmed by liveness reads, a busy one by what it delivers', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(0);
  t.same(news(), [[1000, ['a=10.0.0.1']]]);
  await time.pass(15_000);
  t.same(news(), [
    [6000, 'confirmed'],
    [11_000, 'confirmed'],
    [16_000, 'confirmed'],
  ]);
  t.same(source.asked, [6000, 11_000, 16_000]);
  source.deliver(changed([listing('b', '10.0.0.2')], { revision: '11' }));
  await time.pass(100);
  source.deliver(changed([listing('b', '10.0.0.3')], { revision: '12' }));
  source.deliver(changed([], { revision: '13', gone: ['a'] }));
  await time.pass(900);
  t.same(news(), [
    [16_002, [['b=10.0.0.2'], []]],
    [16_120, [['b=10.0.0.3'], ['a']]],
  ]);
  source.deliver({ kind: 'confirmed' });
  await time.pass(4900);
  t.same(news(), [[17_000, 'confirmed']]);
  t.same(source.asked.length, 3, 'a progress notice is as good as a read');
  t.same([source.polls, source.watches], [[1000], 1]);
});

t.test('R3: a source whose watch breaks as soon as it told something is listed less and less often', async (t) => {
  const { time, source, told } = follow(t);
  let broken = 0;
  const breakIt = async (after: number): Promise<void> => {
    const { watches } = source;
    while (source.watches === watches) await time.pass(50);
    source.deliver(changed([listing('b', `10.0.1.${++broken}`)]));
    await time.pass(after);
    source.end('the index went back');
  };
  for (const until = time.now + 120_000; time.now < until; ) await breakIt(50);
  t.ok(source.polls.length <= 60, `${source.polls.length} lists in two minutes`);
  t.ok(
    told.every(([at], i) => i === 0 || at - told[i - 1]![0] <= 2 * source.interval),
    'it is confirmed in time all the same',
  );
  await breakIt(15_000);
  const before = time.now;
  await breakIt(50);
  t.ok(source.polls.at(-1)! - before <= 1_500, 'one that lasted is begun again soon');
});

t.test('R3: a quiet watch that lasted is begun again soon, however often it ends', async (t) => {
  const { time, source } = follow(t);
  // As where another datacenter is tried again and again: nothing is confirmed meanwhile.
  source.alive = async () => ({ kind: 'later' });
  for (let i = 0; i < 12; i++) {
    const { watches } = source;
    while (source.watches === watches) await time.pass(50);
    await time.pass(30_000);
    source.end('another datacenter is away');
  }
  const gaps = source.polls.slice(1).map((at, i) => at - source.polls[i]!);
  t.ok(Math.max(...gaps) <= 31_550, `${gaps}`);
});

t.test('R2: a watch that does not deliver what the registry has is given up within softTtl', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'behind' });
  source.read = async () => list([listing('a', '10.0.0.9')], { revision: '11' });
  await time.pass(9000);
  t.same(source.asked, [6000, 11_000]);
  t.same(source.polls, [1000], 'not at once: every host would list together');
  await time.pass(1000);
  t.same(source.polls, [1000, 12_000]);
  t.same(news(), [
    [11_000, 'watch failed: the watch does not deliver what the registry has'],
    [12_000, ['a=10.0.0.9']],
  ]);
  t.equal(source.watches, 2);
  source.alive = async () => ({ kind: 'lost' });
  await time.pass(7000);
  t.same(source.polls, [1000, 12_000, 18_500]);
});

t.test(
  'a watch is ended when its credentials are replaced, whatever it delivers, and what is seen is listed',
  async (t) => {
    const { time, source, news } = follow(t);
    await time.pass(1000);
    news();
    source.file = { ...source.file, now: 'two' };
    source.read = async () => list([listing('a', '10.0.0.1'), listing('hidden', '10.0.0.2')], { revision: '10' });
    // So busy that no liveness read is ever due.
    for (let i = 0; i < 5; i++) {
      source.deliver({ kind: 'confirmed' });
      await time.pass(1000);
    }
    t.same(source.asked, []);
    t.same(source.polls, [1000, 7000]);
    t.equal(source.watches, 2);
    t.same(
      news().filter(([, what]) => what !== 'confirmed'),
      [
        [7000, 'renewed: /token'],
        [7000, ['a=10.0.0.1', 'hidden=10.0.0.2']],
      ],
    );
    await time.pass(30_000);
    t.same(source.polls, [1000, 7000], 'once');
  },
);

t.test('credentials that are replaced in an outage are told of, and count with the next try', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  const down = async (): Promise<Failure> => ({ kind: 'unreachable', reason: 'status 403 (forbidden)' });
  source.alive = down;
  source.read = down;
  await time.pass(5000);
  news();
  source.file = { ...source.file, now: 'two' };
  source.read = async () => list([listing('a', '10.0.0.3')], { revision: '10' });
  await time.pass(3000);
  t.same(
    news().map(([, what]) => what),
    ['renewed: /token', ['a=10.0.0.3']],
  );
});

t.test('a watch that only lags is left alone', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'behind' });
  await time.pass(4500);
  source.deliver(changed([listing('a', '10.0.0.2')], { revision: '11' }));
  source.alive = async () => ({ kind: 'same' });
  await time.pass(20_000);
  t.same(source.polls, [1000]);
  t.same(news().slice(0, 2), [
    [6502, [['a=10.0.0.2'], []]],
    [11_500, 'confirmed'],
  ]);
});

t.test('R3, R4: a source that fails is said to, left alone for longer and longer, and followed again', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  const down = async (): Promise<Failure> => ({ kind: 'unreachable', reason: 'refused' });
  source.alive = down;
  source.read = down;
  await time.pass(60_000);
  t.same(news().slice(0, 3), [
    [6000, 'unreachable: refused'],
    [7000, 'unreachable: refused'],
    [8500, 'unreachable: refused'],
  ]);
  t.ok(source.polls.length < 25, `${source.polls.length} tries in a minute`);
  source.alive = async () => ({ kind: 'same' });
  source.read = async () => list([listing('a', '10.0.0.1')], { revision: '10' });
  const before = source.polls.length;
  await time.pass(12_000);
  t.equal(source.polls.length, before + 1);
  t.equal(news()[0]?.[1], 'confirmed', 'there was nothing new');
  t.equal(source.watches, 2);
});

t.test('a source that is frozen is given up after its deadlines, and a request to wait is heeded', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = () => new Promise(() => undefined);
  source.read = async () => ({ kind: 'unreachable', reason: 'too many requests (429)', retryAfter: 30_000 });
  await time.pass(30_000);
  t.same(
    news().map(([, what]) => what),
    ['unreachable: no answer within 2 s', 'unreachable: too many requests (429)'],
  );
  t.same(source.polls, [1000, 9000]);
});

t.test('a watch that ends is no outage while lists are read', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(6000);
  news();
  source.end('the stream ended');
  await time.pass(1100);
  t.same(news(), [[8000, 'confirmed']], 'listed again and compared');
  t.equal(source.watches, 2);
  for (let i = 0; i < 20; i++) {
    source.end('watching is forbidden');
    await time.pass(5000);
  }
  const seen = news();
  t.same(seen[0]?.[1], 'watch failed: watching is forbidden', 'said once');
  t.same([...new Set(seen.slice(1).map(([, what]) => what))], ['confirmed']);
  t.ok(seen.length >= 20 && seen.length <= 24, 'a list confirms in time where no watch does');
});

t.test('R6: what goes back is not believed before it is read a second time, 10 s later', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'lost' });
  source.read = async () => list([], { revision: '4' });
  await time.pass(9000);
  t.same(news(), [[7000, 'unbelievable: revision went back from 10 to 4']]);
  source.alive = async () => ({ kind: 'same' });
  await time.pass(7000);
  t.same(news(), [[17_000, []]]);
  t.same(source.polls, [1000, 7000, 17_000]);
});

t.test('a change over a limit is not believed, and what was good before it stands', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.deliver(changed(Array.from({ length: 101 }, (_, i) => listing(`s${i}`))));
  await time.pass(900);
  t.same(news(), [[2002, 'unbelievable: 102 services, more than limits.maxServices (100)']]);
});

t.test('R3, R30: a restarted or suspended host waits its turn', async (t) => {
  const { time, source, news, loop } = follow(t, true);
  await time.pass(4900);
  t.same(source.polls, []);
  await time.pass(200);
  t.same(source.polls, [6000], 'a snapshot answers, so the first read is spread over 10 s');
  news();
  loop.relist();
  await time.pass(900);
  t.same(source.polls, [6000]);
  await time.pass(200);
  t.equal(source.polls.length, 2);
  t.match(news(), [[/\d/, ['a=10.0.0.1']]], 'the whole list');
  loop.stop();
  await time.pass(60_000);
  t.same([source.polls.length, source.closed, news()], [2, true, []]);
});
