/** How much of a source is asked at once, and how fast. */
import { setImmediate as settle } from 'node:timers/promises';
import t from 'tap';
import { CONSUL_LIMITS, CONSUL_LOOK_UP_LIMITS, CONSUL_READ_LIMITS } from '../src/registry/consul-limits.js';
import { RequestGate } from '../src/registry/request-gate.js';
import { mostWithin } from './fake-consul.js';
import { FakeTime } from './fake-time.js';

t.test('a gate lets requests through in their order, so many at once and so many a second', async (t) => {
  const timers: (() => void)[] = [];
  const gate = new RequestGate({ inFlight: 2, burst: 3, gap: 100 }, (_, run) => {
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
  const gate = new RequestGate({ inFlight: 3, reserved: 1, burst: 100, gap: 100 }, () => () => undefined);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, urgent: boolean): void => {
    void gate.run(() => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    }, urgent);
  };
  for (const name of ['a', 'b', 'c', 'd']) run(name, false);
  await settle();
  t.same(begun, ['a', 'b']);
  run('now', true);
  run('soon', true);
  await settle();
  t.same(begun, ['a', 'b', 'now']);
  ends.get('a')!();
  await settle();
  t.same(begun, ['a', 'b', 'now', 'soon']);
  for (const name of ['b', 'now']) ends.get(name)!();
  await settle();
  t.same(begun, ['a', 'b', 'now', 'soon', 'c']);
});

/** A second, and as much as requests may be held up on their way and arrive together. */
const WINDOW_MS = 1_100;
const HISTORIES = 8;

t.test('of one Consul at most 50 requests begin within any second, and at most 50 are under way', async (t) => {
  for (const kinds of [[CONSUL_LIMITS], [CONSUL_READ_LIMITS, CONSUL_LOOK_UP_LIMITS]]) {
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
      const gates = kinds.map((limits) => new RequestGate(limits, time.after));
      // Some at once, then a rest in which what may begin at once comes back, then more than may.
      for (let turn = 0; turn < 12; turn++) {
        const longest = [1, 50, 20_000][Math.floor(random() * 3)]!;
        for (const gate of gates) {
          const count = Math.floor(random() * 80);
          for (let i = 0; i < count; i++) void gate.run(request(random() * longest), random() < 0.5);
        }
        await time.pass(random() * 1_500);
      }
      await time.pass(60_000);
      most = Math.max(most, mostWithin(begun, WINDOW_MS));
    }
    t.ok(most <= 50 && most >= 40, `${most} within ${WINDOW_MS} ms`);
    t.ok(mostUnderWay <= 50 && mostUnderWay >= 40, `${mostUnderWay} under way`);
  }
});

/** The same numbers for the same seed, in [0, 1). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}
