/** How much of a source is asked at once, and how fast. */
import { setImmediate as settle } from 'node:timers/promises';
import t from 'tap';
import { RequestGate, TURNS, type Turn } from '../src/registry/request-gate.js';
import { gateOf, SOURCE_LIMITS } from '../src/registry/source-gates.js';
import { mostWithin } from './fake-consul.js';
import { FakeTime } from './fake-time.js';

t.test('a gate lets requests through in their order, so many at once and so many a second', async (t) => {
  const timers: (() => void)[] = [];
  const gate = new RequestGate({ inFlight: 2, reserved: 0, waiting: 2, burst: 3, gap: 100 }, (_, run) => {
    timers.push(run);
    return () => undefined;
  });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    void gate.run(() => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  }
  await settle();
  t.same(begun, ['a', 'b']);
  ends.get('a')!();
  await settle();
  t.same(begun, ['a', 'b', 'c']);
  ends.get('b')!();
  await settle();
  t.same(begun, ['a', 'b', 'c'], 'three at once');
  t.equal(timers.length, 1);
  timers.shift()!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd']);
  timers.shift()!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd'], 'two are under way');
  ends.get('c')!();
  await settle();
  t.same(begun, ['a', 'b', 'c', 'd', 'e']);
});

t.test('what is urgent is let through first, and has room when much is under way', async (t) => {
  const gate = new RequestGate({ inFlight: 3, reserved: 1, waiting: 2, burst: 100, gap: 100 }, () => () => undefined);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, turn: Turn): void => {
    void gate.run(() => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    }, turn);
  };
  for (const name of ['a', 'b', 'c', 'd']) run(name, 'later');
  await settle();
  t.same(begun, ['a', 'b']);
  run('now', 'read');
  run('soon', 'read');
  await settle();
  t.same(begun, ['a', 'b', 'now']);
  ends.get('a')!();
  await settle();
  t.same(begun, ['a', 'b', 'now', 'soon']);
  for (const name of ['b', 'now']) ends.get(name)!();
  await settle();
  t.same(begun, ['a', 'b', 'now', 'soon', 'c']);
});

t.test('those that wait for news leave room for the others, and share what there is', async (t) => {
  const gate = new RequestGate({ inFlight: 4, reserved: 1, waiting: 3, burst: 100, gap: 100 }, () => () => undefined);
  const begun: string[] = [];
  const begin = (name: string, turn: Turn, signal?: AbortSignal): void => {
    const request = (): Promise<void> => {
      begun.push(signal?.aborted ? `${name}, called off` : name);
      return new Promise((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }));
    };
    void gate.run(request, turn, signal);
  };
  const [first, fourth] = [new AbortController(), new AbortController()];
  begin('w1', 'wait', first.signal);
  for (const name of ['w2', 'w3']) begin(name, 'wait');
  begin('w4', 'wait', fourth.signal);
  begin('w5', 'wait');
  begin('read', 'read');
  await settle();
  t.same(begun, ['w1', 'w2', 'w3', 'read'], 'as many wait as may, and there is room for a read');
  begin('look-up', 'look-up');
  fourth.abort();
  await settle();
  t.same(begun.slice(4), ['w4, called off'], 'one that is called off before its turn takes no place');
  first.abort();
  await settle();
  t.same(begun.slice(5), ['look-up'], 'a look-up goes first');

  const told: string[] = [];
  const leave = gate.join(1, () => told.push('first'));
  t.equal(gate.share, 2);
  t.equal(gate.crowded, false);
  const leaveToo = gate.join(1, () => told.push('second'));
  t.equal(gate.share, 0);
  const more = gate.join(2, () => told.push('third'));
  t.equal(gate.crowded, true, 'more than have room');
  more();
  more();
  leaveToo();
  t.equal(gate.share, 2);
  leave();
  t.same(told, ['first', 'first', 'second', 'first', 'second', 'first']);
});

t.test('one server has one gate, however it is written', (t) => {
  const gate = gateOf('http://127.0.0.1:18500');
  t.equal(gateOf('HTTP://127.0.0.1:18500/v1/health/state/any?stale'), gate);
  t.not(gateOf('http://127.0.0.1:18501'), gate);
  t.not(gateOf('https://127.0.0.1:18500'), gate);
  t.end();
});

/** A second, and as much as requests may be held up on their way and arrive together. */
const WINDOW_MS = 1_100;
const HISTORIES = 8;

t.test('of one server at most 50 requests begin within any second, and at most 50 are under way', async (t) => {
  let [most, mostUnderWay] = [0, 0];
  for (let history = 0; history < HISTORIES; history++) {
    const time = new FakeTime();
    const begun: number[] = [];
    let underWay = 0;
    const random = randomFrom(history + 1);
    const request = (ms: number) => (): Promise<void> => {
      begun.push(time.now);
      mostUnderWay = Math.max(mostUnderWay, ++underWay);
      return new Promise((resolve) => {
        time.after(ms, () => {
          underWay--;
          resolve();
        });
      });
    };
    const gate = new RequestGate(SOURCE_LIMITS, time.after);
    // Some at once, then a rest in which what may begin at once comes back, then more than may.
    for (let turn = 0; turn < 12; turn++) {
      const longest = [1, 50, 20_000][Math.floor(random() * 3)]!;
      const count = Math.floor(random() * 160);
      for (let i = 0; i < count; i++)
        void gate.run(request(random() * longest), TURNS[Math.floor(random() * TURNS.length)]);
      await time.pass(random() * 1_500);
    }
    await time.pass(60_000);
    most = Math.max(most, mostWithin(begun, WINDOW_MS));
  }
  t.ok(most <= 50 && most >= 40, `${most} within ${WINDOW_MS} ms`);
  t.ok(mostUnderWay <= 50 && mostUnderWay >= 40, `${mostUnderWay} under way`);
});

/** The same numbers for the same seed, in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
