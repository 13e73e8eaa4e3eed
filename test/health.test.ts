import t from 'tap';
import { networkOf } from '../src/health/networks.js';
import { type SuspectEvent, Suspicion } from '../src/health/suspect.js';
import type { FailureKind } from '../src/prober/feed.js';

/** Keys are `SERVICE ADDRESS`. */
class Suspected {
  readonly suspicion = new Suspicion<string>((key) => [key.split(' ')[0]!]);
  readonly events: SuspectEvent[] = [];

  note(keys: readonly string[], failure: FailureKind | undefined, at: number, interval = 5_000): void {
    for (const key of keys) this.events.push(...this.suspicion.note(key, key.split(' ')[1]!, failure, at, interval));
  }

  take(): string[] {
    return this.events
      .splice(0)
      .map((event) => `${event.kind} IPv${event.family}${event.kind === 'ended' ? `, ${event.why}` : ''}`);
  }
}

const spread = ['a', 'b', 'c'].flatMap((service, i) => [1, 2, 3, 4].map((n) => `${service} 10.0.${i}.${n}`));
const fifth = [5, 6, 7, 8, 9].map((n) => `v fd00:0:0:${n}::1`).concat('w fd00:0:0:1::1');

t.test('suspect-self (R16)', async (t) => {
  t.test('begins above 30 % in one interval, over three services and three networks', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    one.note(['a 10.0.0.1', 'b 10.0.1.1', 'c 10.0.2.1'], 'timeout', 4_000);
    t.same(one.take(), [], 'a quarter is not enough');
    one.note(['a 10.0.0.2'], 'unroutable', 10_001);
    t.same(one.take(), [], 'what failed more than an interval ago does not count any more');
    one.note(['b 10.0.1.2', 'c 10.0.2.2'], 'timeout', 10_002);
    t.same(one.take(), ['began IPv4'], '3 of the 9 that had passed');
    t.equal(one.suspicion.voids('10.9.9.9', 'timeout'), true);
    t.equal(one.suspicion.voids('10.9.9.9', 'refused'), false, 'a refusal proves the path');
    t.equal(one.suspicion.voids('fd00::1', 'timeout'), false);
    t.equal(one.suspicion.voids('127.0.0.1', 'timeout'), false, 'no network leads to oneself');
  });

  t.test('what never passed does not count, neither among the failing nor among all', async (t) => {
    const one = new Suspected();
    one.note(spread, 'timeout', 0);
    one.note(spread, 'timeout', 5_000);
    t.same(one.take(), []);
  });

  t.test('those that are refused count among all, not among the failing', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    one.note(spread.slice(0, 6), 'refused', 5_000);
    one.note(['b 10.0.1.3', 'b 10.0.1.4', 'c 10.0.2.1'], 'timeout', 5_000);
    t.same(one.take(), []);
  });

  t.test('endpoints of this host itself are no witnesses', async (t) => {
    const one = new Suspected();
    const own = ['x 127.0.0.1', 'y 127.0.1.1', 'z 127.0.2.1', 'z ::1'];
    one.note(own, undefined, 0);
    one.note(own, 'timeout', 5_000);
    t.same(one.take(), []);
    one.note(spread, undefined, 5_000);
    one.note(spread, 'timeout', 10_000);
    one.note(own, undefined, 200_000);
    t.same(one.take(), ['began IPv4'], 'and do not end it');
  });

  t.test('a family that fails as a whole is suspected alone, unless it is one service or one network', async (t) => {
    const one = new Suspected();
    one.note([...spread, ...fifth.slice(0, 5)], undefined, 0);
    one.note(fifth.slice(0, 5), 'timeout', 5_000);
    t.same(one.take(), [], 'one service');
    const other = new Suspected();
    other.note([...spread, ...spread.map((key) => `${key}0`), ...fifth], undefined, 0);
    other.note(fifth, 'timeout', 5_000);
    t.same(other.take(), ['began IPv6']);
    other.note(spread.slice(0, 3), 'timeout', 6_000);
    t.same(other.take(), []);
    t.equal(other.suspicion.since(4), undefined);
  });

  t.test('ends below 10 %, or when anything passes after two minutes, and does not begin anew by itself', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    one.note(spread, 'timeout', 5_000);
    t.same(one.take(), ['began IPv4']);
    one.note(spread.slice(0, 10), undefined, 10_000);
    t.same(one.take(), [], 'two of twelve still fail');
    one.note(spread.slice(10, 11), undefined, 10_000);
    t.same(one.take(), ['ended IPv4, recovered']);
    one.note(spread, undefined, 15_000);
    one.note(spread, 'timeout', 20_000);
    one.note(spread.slice(0, 1), undefined, 139_999);
    one.note(spread.slice(0, 1), undefined, 140_000);
    t.same(one.take(), ['began IPv4', 'ended IPv4, trusted']);
    one.note(spread.slice(1), 'timeout', 145_000);
    t.same(one.take(), [], 'what fails by now failed before');
  });

  t.test('ends when no word is left, and what failed for nothing is a witness again', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    one.note(spread, 'timeout', 5_000);
    for (const key of spread) one.events.push(...one.suspicion.silent(key, 20_000));
    t.same(one.take(), ['began IPv4', 'ended IPv4, silence']);
    one.note(spread, 'timeout', 60_000);
    t.same(one.take(), ['began IPv4']);
    for (const key of spread) one.events.push(...one.suspicion.forget(key, 61_000));
    t.same(one.take(), ['ended IPv4, silence'], 'nothing is probed any more');
    one.note(spread, 'timeout', 70_000);
    t.same(one.take(), []);
  });

  t.test('a key whose settings changed goes on where the old one stood', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    for (const key of spread) {
      one.suspicion.rename(key, `${key} new`);
      one.suspicion.forget(key, 1_000);
    }
    one.note(
      spread.map((key) => `${key} new`),
      'timeout',
      5_000,
    );
    t.same(one.take(), ['began IPv4']);
  });

  t.equal(networkOf('10.1.2.3'), '10.1.2');
  t.equal(networkOf('fd00:0:0:5::1'), networkOf('fd00:0:0:5:9::1'));
  t.not(networkOf('fd00:0:0:5::1'), networkOf('fd00:0:0:6::1'));
});
