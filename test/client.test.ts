/** The parts of `holdfast/client` that need no sockets. */
import fc from 'fast-check';
import t from 'tap';
import { type Endpoint, endpointKey } from '../src/client/endpoint.js';
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
import { endpoint } from './client-endpoints.js';

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
