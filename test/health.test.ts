import t from 'tap';
import { History } from '../src/health/history.js';
import { Interest } from '../src/health/interest.js';
import { networkOf } from '../src/health/networks.js';
import { type SuspectEvent, Suspicion, type Witness } from '../src/health/suspect.js';
import { demandsIdentity, TargetSet, targetOf } from '../src/health/targets.js';
import type { FailureKind } from '../src/prober/feed.js';
import { readToProber } from '../src/prober/messages.js';
import { settings } from './scenario-engine/settings.js';

class Subject implements Witness {
  stance: Witness['stance'];

  constructor(readonly key: string) {}
}

/** Keys are `SERVICE ADDRESS`. */
class Suspected {
  readonly suspicion = new Suspicion<Subject>(({ key }) => [key.split(' ')[0]!]);
  readonly events: SuspectEvent<Subject>[] = [];
  readonly #subjects = new Map<string, Subject>();

  of(key: string): Subject {
    const subject = this.#subjects.get(key) ?? new Subject(key);
    this.#subjects.set(key, subject);
    return subject;
  }

  note(keys: readonly string[], failure: FailureKind | undefined, at: number, interval = 5_000): void {
    for (const key of keys)
      this.events.push(...this.suspicion.note(this.of(key), key.split(' ')[1]!, failure, at, interval));
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
    one.note(spread.slice(9), undefined, 10_000);
    one.note(['a 10.0.0.2'], 'unroutable', 10_001);
    t.same(one.take(), [], 'what failed more than an interval ago does not count any more');
    one.note(['b 10.0.1.2', 'c 10.0.2.2'], 'timeout', 10_002);
    t.same(one.take(), ['began IPv4'], '3 of the 9 that had passed');
    t.equal(one.suspicion.voids('10.9.9.9', 'timeout'), true);
    t.equal(one.suspicion.voids('10.9.9.9', 'refused'), false, 'a refusal proves the path');
    t.equal(one.suspicion.voids('fd00::1', 'timeout'), false);
    t.equal(one.suspicion.voids('127.0.0.1', 'timeout'), false, 'no network leads to oneself');
  });

  t.test('two services, or one network, are not enough, whatever failed and passed before', async (t) => {
    const one = new Suspected();
    const two = ['a 10.0.0.1', 'a 10.0.1.2', 'b 10.0.2.3', 'b 10.0.3.4'];
    one.note([...two, ...spread.slice(4)], undefined, 0);
    one.note(two, 'timeout', 5_000);
    t.same(one.take(), []);
    const other = new Suspected();
    other.note(spread, undefined, 0);
    const three = ['a 10.0.0.1', 'b 10.0.1.1', 'c 10.0.2.1'];
    other.note(three, 'timeout', 5_000);
    other.note(three, undefined, 6_000);
    other.note(spread.slice(0, 4), 'timeout', 7_000);
    t.same(other.take(), []);
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
    other.note(fifth.slice(1), 'timeout', 5_000);
    t.same(other.take(), [], 'one of it passes');
    other.note(fifth.slice(0, 1), 'timeout', 5_000);
    t.same(other.take(), ['began IPv6']);
    other.note(spread.slice(0, 3), 'timeout', 6_000);
    t.same(other.take(), []);
    t.equal(other.suspicion.since(4), undefined);
  });

  t.test('a family in which hardly anything fails is not suspected with the other', async (t) => {
    const one = new Suspected();
    const many = fifth.concat(fifth.map((key) => `${key}0`));
    one.note([...spread, ...many], undefined, 0);
    one.note([fifth[0]!, ...spread], 'timeout', 5_000);
    t.same(one.take(), ['began IPv4']);
    t.equal(one.suspicion.some, true);
    t.equal(one.suspicion.voids('fd00::1', 'timeout'), false);
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
    one.note(spread, undefined, 11_000);
    one.note(spread, 'timeout', 12_000);
    one.note(spread.slice(0, 11), 'refused', 13_000);
    t.same(one.take(), ['began IPv4', 'ended IPv4, recovered'], 'refusals prove the path as passes do');
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
    const silent = (keys: readonly string[], at: number): void => {
      for (const key of keys) one.events.push(...one.suspicion.silent(one.of(key), at));
    };
    silent(spread.slice(0, 10), 20_000);
    t.same(one.take(), ['began IPv4'], 'there are two left that fail');
    silent(spread.slice(10), 20_000);
    t.same(one.take(), ['ended IPv4, silence']);
    one.note(spread, 'timeout', 60_000);
    t.same(one.take(), ['began IPv4']);
    for (const key of spread) one.events.push(...one.suspicion.forget(one.of(key), 61_000));
    t.same(one.take(), ['ended IPv4, silence'], 'nothing is probed any more');
    one.note(spread, 'timeout', 70_000);
    t.same(one.take(), []);
  });

  t.test('one that failed and fell silent is no witness, unless it failed under suspicion', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    const three = ['a 10.0.0.1', 'b 10.0.1.1', 'c 10.0.2.1'];
    one.note(three, 'timeout', 4_000);
    for (const key of three) one.events.push(...one.suspicion.silent(one.of(key), 5_000));
    one.note([...three, 'a 10.0.0.2'], 'timeout', 6_000);
    t.same(one.take(), [], 'one of the nine that passed at last');
  });

  t.test('a key whose settings changed goes on where the old one stood', async (t) => {
    const one = new Suspected();
    one.note(spread, undefined, 0);
    for (const key of spread) {
      one.suspicion.rename(one.of(key), one.of(`${key} new`));
      one.suspicion.forget(one.of(key), 1_000);
    }
    one.note(
      spread.map((key) => `${key} new`),
      'timeout',
      5_000,
    );
    t.same(one.take(), ['began IPv4']);
    for (const key of spread) one.suspicion.rename(one.of(`${key} new`), one.of(`${key} newer`));
    for (const key of spread) one.events.push(...one.suspicion.forget(one.of(`${key} new`), 6_000));
    one.note([`${spread[0]} newer`], undefined, 10_000);
    t.same(one.take(), [], 'those that failed by their old settings fail');
  });

  t.test('a family stays suspected when the other comes to be, however much later', async (t) => {
    const one = new Suspected();
    one.note([...spread, ...fifth], undefined, 0);
    one.note(spread, 'timeout', 5_000);
    one.note(fifth, 'timeout', 60_000);
    t.same(one.take(), ['began IPv4', 'began IPv6']);
    one.note(spread.slice(0, 10), undefined, 65_000);
    t.same(one.take(), [], 'two of twelve still fail');
    one.note(fifth, undefined, 70_000);
    t.match(one.events, [{ kind: 'ended', family: 6, lasted: 10_000 }]);
  });

  t.equal(networkOf('10.1.2.3'), '10.1.2');
  t.equal(networkOf('fd00:0:0:5::1'), networkOf('fd00:0:0:5:9::1'));
  t.not(networkOf('fd00:0:0:5::1'), networkOf('fd00:0:0:6::1'));
});

t.test('interest (R17)', async (t) => {
  const interest = new Interest<string>(900_000);
  interest.add('new', 60_000, 0);
  t.equal(interest.ask('old', 0), true);
  t.equal(interest.ask('old', 100_000), false);
  t.same([interest.has('new'), interest.nextExpiry()], [true, 60_000]);
  t.same(interest.expire(60_000, 9), ['new']);
  t.same(interest.expire(999_999, 9), [], 'it was asked again at 100 s');
  t.same(interest.expire(1_000_000, 9), ['old']);
  t.same([interest.has('old'), interest.nextExpiry()], [false, Number.POSITIVE_INFINITY]);
  t.equal(interest.ask('new', 1_000_000), true);
  interest.remove('new');
  t.equal(interest.has('new'), false);
  for (const name of ['a', 'b', 'c']) interest.add(name, 1, 0);
  t.same(interest.expire(1, 2), ['a', 'b'], 'not all at once');
  t.equal(interest.nextExpiry(), 1);
  t.same(interest.expire(1, 2), ['c']);
  interest.ask('a', 0);
  interest.ask('b', 1);
  interest.ask('a', 2);
  t.same([interest.nextExpiry(), interest.expire(900_001, 9)], [900_001, ['b']], 'the last question counts');
  interest.configure(10);
  interest.ask('a', 3);
  t.equal(interest.nextExpiry(), 13);
  interest.add('d', 5, 4);
  interest.remove('d');
  t.same([interest.has('d'), interest.expire(13, 9)], [false, ['a']]);
});

t.test('the history of an endpoint', async (t) => {
  const history = new History();
  const say = (at: number, failure?: FailureKind, detail?: string, isVoid = false) =>
    history.note(
      { key: 'k', at, interval: 5_000, took: at / 1_000, ...(failure && { failure }), ...(detail && { detail }) },
      isVoid,
      () => ({ isVoid: false, count: 7, first: -30_000, last: 0, took: 0 }),
    );
  say(1_000);
  t.equal(history.of('k'), undefined, 'what never failed has none');
  say(2_000, 'refused', 'ECONNREFUSED');
  say(3_000, 'refused', 'ECONNREFUSED');
  say(4_000, 'timeout', 'no answer', true);
  say(5_000);
  t.same(history.of('k'), [
    { isVoid: false, count: 7, first: -30_000, last: 0, took: 0 },
    { failure: 'refused', detail: 'ECONNREFUSED', isVoid: false, count: 2, first: 2_000, last: 3_000, took: 3 },
    { failure: 'timeout', detail: 'no answer', isVoid: true, count: 1, first: 4_000, last: 4_000, took: 4 },
    { isVoid: false, count: 1, first: 5_000, last: 5_000, took: 5 },
  ]);
  for (let at = 6_000; at < 200_000; at += 1_000) say(at);
  say(200_000, 'reset');
  t.same(
    history.of('k')?.map(({ failure, count }) => [failure, count]),
    [
      ['refused', 2],
      ['timeout', 1],
      [undefined, 195],
      ['reset', 1],
    ],
    'of what is older than 100 results the failures stay',
  );
  for (let n = 0; n < 1_000; n++) say(300_000 + n, n % 2 === 0 ? 'reset' : undefined);
  t.equal(history.of('k')?.length, 120);
  history.forget('k');
  t.equal(history.of('k'), undefined);

  const fail = (n: number): void => {
    history.note({ key: `k${n}`, at: n, interval: 5_000, took: 1, failure: 'refused' }, false, () => undefined);
  };
  for (let n = 0; n < 2_000; n++) fail(n);
  fail(0);
  t.equal(history.of('k1')?.length, 1);
  fail(2_000);
  t.same(
    [0, 1, 200, 201, 2_000].map((n) => history.of(`k${n}`) !== undefined),
    [true, false, false, true, true],
    'of very many, those that failed last have one',
  );
});

t.test('a target is probed as often as the most demanding of its holders asks (R13, R17)', async (t) => {
  const set = new TargetSet<string>({ of: (holder) => holder });
  const hold = (holder: string, interval: number): boolean =>
    set.hold(
      { key: 'k', address: '10.0.0.1', port: 80, type: 'tcp', interval, timeout: 1_000 },
      { rise: 2, fall: 3, longDead: 600_000 },
      holder,
    );
  const told = () => set.takeChanges().add.map(({ interval, group }) => [interval, group]);
  t.same([hold('a', 60_000), hold('b', 5_000), hold('c', 5_000)], [true, false, false]);
  t.same(told(), [[5_000, 'a']]);
  t.same([set.drop('k', 'c'), set.interval('k')], [false, 5_000], 'b still asks for it');
  t.same([set.drop('k', 'c'), set.drop('other', 'c')], [false, false], 'who holds nothing drops nothing');
  hold('b', 30_000);
  t.same([set.interval('k'), [...set.holders('k')]], [30_000, ['a', 'b']]);
  told();
  t.equal(set.drop('k', 'a'), false, 'the next one takes its place');
  t.same(told(), [[30_000, 'b']]);
  hold('c', 5_000);
  hold('b', 2_000);
  t.equal(set.interval('k'), 2_000);
  told();
  t.equal(set.drop('k', 'c'), false);
  t.same([told(), set.size], [[[2_000, 'b']], 1]);
  t.equal(set.drop('k', 'b'), true, 'the last');
  t.same([set.takeChanges(), set.size, set.interval('k')], [{ add: [], remove: ['k'] }, 0, undefined]);
});

t.test('targets carry what their type of check knows, and cross the socket', async (t) => {
  const { check } = settings({}, {}).zones[0]!;
  const row = { id: 'a', address: '127.0.0.1', port: 53, priority: 0, weight: 1, tags: [], state: 'passing' } as const;
  const made = (over: Partial<typeof check>, protocol: 'tcp' | 'udp' = 'tcp') =>
    targetOf({ ...row, protocol }, { ...check, ...over });
  t.equal(made({ type: 'tcp' }, 'udp'), undefined, 'a check of a zone is for TCP services (R17)');
  t.equal(made({ type: 'none' }), undefined);
  t.equal(made({})?.key, 'tcp|127.0.0.1|53|1000|2|3|600000', 'nothing is added to the usual key');
  const all = [
    made({ expect: '220', farewell: 'QUIT\r\n', query: 'ignored.test' }),
    made({ type: 'https', tlsName: 'a.test', body: 'x', identityHeader: ['X-A', 'b'], identityBody: 'y' }),
    made({ type: 'tls', tlsName: 'a.test', minValidity: 1 }),
    made({ type: 'grpc', grpcService: 'orders' }),
    made({ type: 'dns', query: 'svc.test' }, 'udp'),
    made({ type: 'udp', send: '\xff', expect: 'x' }, 'udp'),
    made({ type: 'exec', command: ['/bin/true'] }, 'udp'),
  ];
  t.match(all[0], { expect: '220', farewell: 'QUIT\r\n' });
  t.equal(all[0]?.query, undefined);
  t.match(all[4], { protocol: 'udp', query: 'svc.test', queryType: 6 });
  t.equal(new Set(all.map((one) => one?.key)).size, all.length);
  t.match(made({ farewell: 'QUIT\r\n' }), { farewell: 'QUIT\r\n' });
  t.equal(made({ type: 'http', tlsName: 'a.test' })?.tlsName, undefined, 'there is no certificate');
  t.equal(made({ type: 'dns', query: 'svc.test' })?.protocol, undefined, 'over TCP');
  t.match(made({ port: 9_000 }), { port: 9_000, address: '127.0.0.1' });
  t.not(made({ type: 'grpc', grpcService: 'a' })?.key, made({ type: 'grpc', grpcService: 'b' })?.key);
  const line = JSON.stringify({ op: 'targets', targets: all });
  t.same(readToProber(line), { message: { op: 'targets', targets: all }, dropped: 0 });
  const broken = [{ command: 'rm' }, { identityHeader: ['a'] }, { expect: 1 }, { protocol: 'sctp' }, { type: 'none' }];
  t.equal(
    readToProber(JSON.stringify({ op: 'targets', targets: broken.map((over) => ({ ...all[0], ...over })) })).dropped,
    broken.length,
  );
});

t.test('what a pass has to show before it says who answered (R19)', async (t) => {
  const { check } = settings({}, {}).zones[0]!;
  const demands: readonly (readonly [boolean, Partial<typeof check>])[] = [
    [false, { type: 'http' }],
    [true, { type: 'http', identityHeader: ['X-Service', 'orders'] }],
    [true, { type: 'https', identityBody: 'orders' }],
    [true, { type: 'https', tlsName: 'orders.test' }],
    [false, { type: 'http', tlsName: 'orders.test' }],
    [true, { type: 'tls', tlsName: 'orders.test' }],
    [false, { type: 'tls' }],
    [true, { type: 'grpc', grpcService: 'orders' }],
    [true, { type: 'grpc', tlsName: 'orders.test' }],
    [false, { type: 'grpc' }],
    [false, { type: 'tcp', tlsName: 'orders.test', grpcService: 'orders', identityBody: 'orders' }],
  ];
  for (const [expected, over] of demands)
    t.equal(demandsIdentity({ ...check, ...over }), expected, JSON.stringify(over));
});
