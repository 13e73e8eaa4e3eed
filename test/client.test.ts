/** The parts of `holdfast/client` that need no socket: order, holds, what is known and for how long, replies, names. */
import fc from 'fast-check';
import t from 'tap';
import { Directory, type Listing } from '../src/client/directory.js';
import { type Endpoint, endpointKey, type Outcome } from '../src/client/endpoint.js';
import { UnreachableError } from '../src/client/errors.js';
import { candidates } from '../src/client/find.js';
import { Holds, MAX_HOLD_MS } from '../src/client/holds.js';
import { isService } from '../src/client/hosts.js';
import { readReply } from '../src/client/message.js';
import { type ClientOptions, settle } from '../src/client/options.js';
import { nextEndpoint } from '../src/client/order.js';
import { ReplayBody } from '../src/client/replay-body.js';
import { parseResolvConf } from '../src/client/resolv-conf.js';
import { RetryBudget } from '../src/client/retry-budget.js';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';

const endpoint = (port: number, priority = 0, weight = 1): Endpoint => ({
  address: '10.0.0.1',
  port,
  priority,
  weight,
});
const none: ReadonlySet<string> = new Set();

/** Numbers in [0, 1) that repeat from run to run. */
function numbers(seed = 1): () => number {
  let state = seed;
  return () => (state = (state * 48271) % 2147483647) / 2147483647;
}

/** All endpoints in the order in which they would be tried. */
function inOrder(endpoints: readonly Endpoint[], held: (key: string) => boolean, random = numbers()): number[] {
  const tried = new Set<string>();
  const ports: number[] = [];
  for (;;) {
    const next = nextEndpoint(endpoints, tried, held, random);
    if (next === undefined) return ports;
    tried.add(endpointKey(next));
    ports.push(next.port);
  }
}

t.test('the order is by priority, then by weight, and those held back come last (RFC 2782)', async (t) => {
  const endpoints = [endpoint(1, 20), endpoint(2, 10), endpoint(3, 10), endpoint(4, 0)];
  const free = () => false;
  const order = inOrder(endpoints, free);
  t.equal(order[0], 4);
  t.same([...order.slice(1, 3)].sort(), [2, 3]);
  t.equal(order[3], 1);
  t.equal(inOrder(endpoints, (key) => key === '10.0.0.1 4')[3], 4, 'one that is held back is tried when all else was');
  t.same(inOrder(endpoints, () => true).length, 4, 'holding back all of them takes none away');

  const shares = new Map<number, number>();
  const random = numbers(7);
  const weighted = [endpoint(1, 0, 30), endpoint(2, 0, 10), endpoint(3, 0, 0)];
  for (let i = 0; i < 10_000; i++) {
    const { port } = nextEndpoint(weighted, none, free, random)!;
    shares.set(port, (shares.get(port) ?? 0) + 1);
  }
  t.ok(Math.abs(shares.get(1)! / shares.get(2)! - 3) < 0.3, 'three times the weight, three times the share');
  t.ok(shares.get(3)! > 50 && shares.get(3)! < 500, 'weight 0 has a very small chance');

  const idle = new Set(
    Array.from({ length: 100 }, () => nextEndpoint([endpoint(1, 0, 0), endpoint(2, 0, 0)], none, free, random)!.port),
  );
  t.equal(idle.size, 2, 'where all weigh nothing all are drawn');
  t.equal(nextEndpoint([], none, free, random), undefined);
});

t.test('every endpoint is tried once, whatever their priorities, weights and holds', async (t) => {
  const some = fc.array(fc.tuple(fc.nat(3), fc.nat(100), fc.boolean()), { maxLength: 30 });
  fc.assert(
    fc.property(some, fc.integer({ min: 1, max: 1e6 }), (rows, seed) => {
      const endpoints = rows.map(([priority, weight], i) => endpoint(i + 1, priority, weight));
      const held = (key: string) => rows[Number(key.split(' ')[1]) - 1]![2];
      const order = inOrder(endpoints, held, numbers(seed));
      if (new Set(order).size !== rows.length) return false;
      const ranks = order.map((port) => (rows[port - 1]![2] ? 10 : 0) + rows[port - 1]![0]);
      return ranks.every((rank, i) => i === 0 || ranks[i - 1]! <= rank);
    }),
  );
  t.pass();
});

t.test('a failed endpoint is held back longer each time, then tried by one request at a time', async (t) => {
  const holds = new Holds(5_000, () => 0.5);
  holds.failed('a', 0);
  t.ok(holds.isHeld('a', 4_999));
  holds.failed('a', 3_000);
  t.notOk(holds.isHeld('a', 5_000), 'failures while it is held back anyway do not lengthen that');
  t.ok(holds.tried('a', 5_000), 'the first one is the trial');
  t.ok(holds.isHeld('a', 5_000), 'for the others it stays held back');
  t.notOk(holds.tried('a', 5_001));
  holds.abandoned('a');
  t.notOk(holds.isHeld('a', 5_002), 'a trial without an end leaves it to the next one');
  holds.tried('a', 5_002);
  t.notOk(holds.isHeld('a', 65_002), 'a trial that nobody ends runs out');
  holds.failed('a', 6_000);
  t.ok(holds.isHeld('a', 15_999));
  t.notOk(holds.isHeld('a', 16_000), 'twice as long');
  let now = 16_000;
  for (let i = 0; i < 10; i++) {
    holds.failed('a', now);
    now += MAX_HOLD_MS;
    t.notOk(holds.isHeld('a', now), 'a minute at most');
  }
  holds.failed('a', now);
  t.same([...holds.list(now).keys()], ['a']);
  holds.succeeded('a');
  t.notOk(holds.isHeld('a', now), 'a success ends it');
  t.equal(holds.list(now).size, 0);
  holds.failed('b', 0);
  holds.reached('b', 100);
  t.ok(holds.isHeld('b', 100), 'a mere connection does not, while it is held back');
  holds.reached('b', 5_000);
  holds.failed('b', 5_000);
  t.notOk(holds.isHeld('b', 10_000), 'afterwards it does: it counts as new');
});

t.test('second copies are a fifth of the requests, ten a second, and a reserve', async (t) => {
  const budget = new RetryBudget(0);
  let taken = 0;
  while (budget.take(0)) taken++;
  t.equal(taken, 100);
  for (let i = 0; i < 11; i++) budget.asked();
  t.same([budget.take(0), budget.take(0), budget.take(0)], [true, true, false]);
  taken = 0;
  while (budget.take(2_000)) taken++;
  t.equal(taken, 20, 'so that nobody waits for ever');
});

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
const failed: Outcome = { kind: 'failed', reason: 'SERVFAIL' };
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

t.test('resolv.conf is read as the C library reads it', async (t) => {
  const conf = parseResolvConf(
    ['# nameserver 192.0.2.1', 'nameserver 127.0.0.53', ' nameserver ::1', 'nameserver fe80::1%eth0', 'nameserver x']
      .concat(['domain old.test', 'search svc.test. Corp.TEST', 'options edns0 ndots:2 timeout:1', 'sortlist 10.0.0.0'])
      .join('\n'),
  );
  t.same(conf, {
    nameservers: [
      { address: '127.0.0.53', port: 53 },
      { address: '::1', port: 53 },
    ],
    search: ['svc.test', 'corp.test'],
    ndots: 2,
  });
  t.same(parseResolvConf(''), { nameservers: [{ address: '127.0.0.1', port: 53 }], search: [], ndots: 1 });
});

t.test('what a host name may stand for', async (t) => {
  const conf = { nameservers: [], search: ['a.test', 'b.test'], ndots: 1 };
  const names = (host: string, zone?: string, ndots = 1) =>
    candidates(host, { zone, portName: undefined, conf: { ...conf, ndots } });
  t.same(names('orders', 'svc.test'), ['orders.svc.test']);
  t.same(names('Orders.SVC.test', 'svc.test'), ['orders.svc.test']);
  t.same(names('orders'), ['orders.a.test', 'orders.b.test', 'orders']);
  t.same(names('blue.orders'), ['blue.orders', 'blue.orders.a.test', 'blue.orders.b.test']);
  t.same(names('blue.orders', undefined, 2), ['blue.orders.a.test', 'blue.orders.b.test', 'blue.orders']);
  t.same(names('orders.'), ['orders']);
  t.same(names(`${'x'.repeat(64)}`), []);

  t.ok(isService('orders', 'svc.test'));
  t.ok(isService('orders.svc.test', 'svc.test'));
  t.ok(isService('example.org', undefined));
  for (const host of ['localhost', 'x.localhost', '10.0.0.1', '[::1]', 'example.org', '']) {
    t.notOk(isService(host, 'svc.test'), host);
  }
});

t.test('bytes that are no reply are none, and none makes the reader throw', async (t) => {
  const query = encodeQuery({ id: 7, name: 'orders.svc.test', type: TYPE.SRV })!;
  t.equal(readReply(query, 7, 'orders.svc.test', TYPE.SRV), undefined, 'a question');
  const reply = Uint8Array.from(query);
  reply[2]! |= 0x80;
  t.match(readReply(reply, 7, 'Orders.svc.test', TYPE.SRV), { rcode: 0, answers: [] });
  t.equal(readReply(reply, 8, 'orders.svc.test', TYPE.SRV), undefined, 'of another id');
  t.equal(readReply(reply, 7, 'orders.svc.test', TYPE.A), undefined, 'to another type');
  t.equal(readReply(reply, 7, 'billing.svc.test', TYPE.SRV), undefined, 'to another name');
  const loop = Uint8Array.from([...reply.subarray(0, 6), 0, 1, 0, 0, 0, 0, ...reply.subarray(12), 0xc0, 33, 0, 33]);
  t.equal(readReply(loop, 7, 'orders.svc.test', TYPE.SRV), undefined, 'with a pointer to itself');
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 120 }), fc.nat(40), (noise, at) => {
      const bytes = Uint8Array.from([...reply.subarray(0, 6), 0, 3, 0, 1, 0, 1, ...reply.subarray(12), ...noise]);
      bytes.set(noise.subarray(0, 8), Math.min(at + 4, bytes.length - 8));
      readReply(bytes, 7, 'orders.svc.test', TYPE.SRV);
    }),
    { numRuns: 2_000 },
  );
});

t.test('a body that can be read once is kept for another try, up to a limit', async (t) => {
  const text = async (body: ReplayBody): Promise<string> => {
    let all = '';
    for await (const chunk of body.read() as unknown as AsyncIterable<string>) all += chunk;
    return all;
  };
  async function* source(): AsyncGenerator<string> {
    yield* ['one ', 'two ', 'three'];
  }
  const body = new ReplayBody(source(), 100);
  t.ok(body.replayable && !body.complete);
  t.same(await Promise.all([text(body), text(body)]), ['one two three', 'one two three'], 'by two at a time');
  t.ok(body.complete);
  t.equal(await text(body), 'one two three');
  const long = new ReplayBody(source(), 5);
  t.equal(await text(long), 'one two three');
  t.notOk(long.replayable);
  await t.rejects(text(long), /beginning of the body is gone/);
  const bytes = new ReplayBody('text', 0);
  t.ok(bytes.replayable && bytes.complete);
  t.equal(bytes.read(), 'text');
  async function* broken(): AsyncGenerator<string> {
    yield 'one';
    throw new Error('the disk is gone');
  }
  const bad = new ReplayBody(broken(), 100);
  await t.rejects(text(bad), /disk is gone/);
  t.notOk(bad.replayable, 'a source that failed is not read again');
});

t.test('options that are none are refused by name', async (t) => {
  const wrong: [ClientOptions, RegExp][] = [
    [{ zon: 'x' } as never, /unknown option: zon/],
    [{ zone: 'a..b' }, /zone: expected a name/],
    [{ nameserver: 'localhost' }, /nameserver: expected ADDRESS/],
    [{ nameserver: [] }, /nameserver: expected at least one/],
    [{ attempts: 0 }, /attempts: expected a whole number of at least 1/],
    [{ timeout: Number.NaN }, /timeout/],
    [{ hedgeAfter: 2 ** 31 }, /hedgeAfter/],
    [{ portName: 'a b' }, /portName/],
    [{ retryMethods: ['get'] }, /retryMethods: "get" is no method/],
  ];
  for (const [options, message] of wrong) t.throws(() => settle(options), { name: 'TypeError', message });
  t.match(settle({ nameserver: ['[::1]:5300', '127.0.0.1'], zone: '.SVC.test.' }), {
    zone: 'svc.test',
    nameservers: [
      { address: '::1', port: 5300 },
      { address: '127.0.0.1', port: 53 },
    ],
  });
});

t.test('an error lists what was tried', async (t) => {
  const attempts = [
    { address: '10.0.0.1', port: 80, failure: 'refused', reason: 'ECONNREFUSED' },
    { address: 'fd00::1', port: 80, failure: 'timeout', reason: 'ETIMEDOUT' },
  ] as const;
  t.equal(
    new UnreachableError('orders.svc.test', attempts, 'every try failed').message,
    'orders.svc.test: every try failed: 10.0.0.1:80 refused (ECONNREFUSED); [fd00::1]:80 timeout (ETIMEDOUT)',
  );
});
