/** The lists of endpoints that `holdfast/client` keeps. */
import t from 'tap';
import { Directory, type Listing } from '../src/client/directory.js';
import type { Outcome } from '../src/client/endpoint.js';
import { endpoint } from './client-endpoints.js';

const failed: Outcome = { kind: 'failed', reason: 'SERVFAIL' };

/** A directory with a clock and a name server that does as it is told. */
class Desk {
  now = 0;
  asked = 0;
  next: Outcome | Promise<Outcome> = { kind: 'failed', reason: 'nothing set' };
  readonly changes: number[] = [];
  readonly directory = new Directory({
    find: async () => {
      this.asked++;
      return this.next;
    },
    now: () => this.now,
    wait: async (ms) => {
      this.now += ms;
    },
    changed: (_, { endpoints }) => this.changes.push(endpoints.length),
  });

  async ports(): Promise<number[]> {
    return (await this.directory.lookup('orders', false)).endpoints.map(({ port }) => port);
  }

  /** Lets a look-up that nobody waits for come to its end. */
  settle(): Promise<void> {
    return new Promise((done) => setImmediate(done));
  }
}

const found = (ports: readonly number[], ttl = 2_000, from: Listing['from'] = 'srv'): Listing => ({
  kind: 'found',
  name: 'orders.svc.test',
  from,
  endpoints: ports.map((port) => endpoint(port)),
  ttl,
});

const absent: Outcome = { kind: 'absent', reason: 'NXDOMAIN' };

t.test('a list is asked for again when its TTL has run out, once, and used meanwhile', async (t) => {
  const desk = new Desk();
  desk.next = found([1]);
  t.same(await Promise.all([desk.ports(), desk.ports(), desk.ports()]), [[1], [1], [1]]);
  t.equal(desk.asked, 1, 'one flight for all');
  desk.now = 1_999;
  await desk.ports();
  t.equal(desk.asked, 1);
  desk.now = 2_000;
  let answer: (outcome: Outcome) => void = () => {};
  desk.next = new Promise((done) => (answer = done));
  t.same(await Promise.all([desk.ports(), desk.ports()]), [[1], [1]], 'nobody waits');
  t.equal(desk.asked, 2);
  answer(found([1, 2]));
  await desk.settle();
  t.same(await desk.ports(), [1, 2]);
  t.same(desk.changes, [1, 2]);
  desk.next = found([2, 1]);
  desk.now = 4_000;
  await desk.ports();
  await desk.settle();
  t.same(desk.changes, [1, 2], 'another order is no change');
});

t.test('a TTL of 0 is half a second, and an hour is an hour', async (t) => {
  const desk = new Desk();
  desk.next = found([1], 0);
  for (desk.now = 0; desk.now < 2_000; desk.now += 10) {
    await desk.ports();
    await desk.settle();
  }
  t.equal(desk.asked, 4);
  desk.next = found([1], 3_600_000);
  desk.now = 2_000;
  for (; desk.now < 3_600_000; desk.now += 60_000) {
    await desk.ports();
    await desk.settle();
  }
  t.equal(desk.asked, 5);
});

t.test(
  'while no name server answers the last list stays, for ever, and they are asked at growing intervals',
  async (t) => {
    const desk = new Desk();
    desk.next = found([1]);
    await desk.ports();
    desk.next = failed;
    for (desk.now = 0; desk.now < 60_000; desk.now += 100) {
      t.same(await desk.ports(), [1]);
      await desk.settle();
    }
    t.ok(desk.asked > 10 && desk.asked < 18, `asked ${desk.asked} times in a minute`);
    desk.now = 365 * 86_400_000;
    t.same(await desk.ports(), [1], 'a year later');
    t.match(desk.directory.known(), [{ host: 'orders', failure: 'SERVFAIL' }]);
    await desk.settle();
    desk.next = found([2]);
    desk.now += 5_000;
    t.same(await desk.ports(), [2], 'a very old list is worth a moment, when the answer comes in it');
  },
);

t.test('NXDOMAIN does not take a list away until it has been the answer for ten minutes', async (t) => {
  const desk = new Desk();
  desk.next = found([1]);
  await desk.ports();
  desk.next = absent;
  const pass = async (from: number, to: number): Promise<void> => {
    let whole = true;
    for (desk.now = from; desk.now < to; desk.now += 1_000) {
      whole &&= String(await desk.ports()) === '1';
      await desk.settle();
    }
    t.ok(whole, `from ${from} to ${to}`);
  };
  await pass(2_000, 400_000);
  desk.next = failed;
  await pass(400_000, 410_000);
  desk.next = absent;
  await pass(410_000, 1_000_000);
  for (; desk.now < 1_020_000; desk.now += 1_000) {
    await desk.ports().catch(() => {});
    await desk.settle();
  }
  await t.rejects(desk.ports(), { code: 'HOLDFAST_NOT_FOUND', message: /orders: there is no such service: NXDOMAIN/ });
});

t.test('addresses alone are no news of a service that had SRV records', async (t) => {
  const desk = new Desk();
  desk.next = found([1]);
  await desk.ports();
  desk.next = found([0], 2_000, 'addresses');
  desk.now = 3_000;
  await desk.ports();
  await desk.settle();
  t.same(await desk.ports(), [1]);
});

t.test('a name that was never known is waited for, and the error says why', async (t) => {
  const desk = new Desk();
  desk.next = failed;
  const asked = desk.ports();
  await t.rejects(asked, { code: 'HOLDFAST_NO_ANSWER', message: 'orders: no name server answers: SERVFAIL' });
  t.ok(desk.now >= 5_000 && desk.asked > 2, 'it was asked for again and again');
  t.ok(desk.now <= 5_500, `${desk.now} ms are about 5 s`);
  desk.next = found([1]);
  desk.now += 60_000;
  t.same(await desk.ports(), [1]);

  const other = new Desk();
  other.next = absent;
  await t.rejects(other.ports(), { code: 'HOLDFAST_NOT_FOUND' });
  await t.rejects(other.ports(), { code: 'HOLDFAST_NOT_FOUND' });
  t.equal(other.asked, 1, 'a negative answer counts for a second');
  other.now = 1_000;
  other.next = found([1]);
  t.same(await other.ports(), [1]);
});

t.test('after a failure the name server is asked early, but not more than twice a second', async (t) => {
  const desk = new Desk();
  desk.next = found([1], 60_000);
  await desk.ports();
  for (desk.now = 0; desk.now < 2_000; desk.now += 10) {
    desk.directory.doubt('orders', false);
    await desk.ports();
    await desk.settle();
  }
  t.ok(desk.asked >= 4 && desk.asked <= 5, `asked ${desk.asked} times`);
  desk.directory.doubt('nobody', false);
});
