import t from 'tap';
import { showExplanation } from '../src/cli/explain.js';
import { addressBytes, targetLabel } from '../src/dns/addresses.js';
import { Resolver } from '../src/resolver/resolver.js';
import { styleFor } from '../src/system/terminal.js';
import { read } from './config-fixture.js';
import { recordText } from './scenario-engine/client.js';
import { Addresses, parseService } from './scenario-engine/services.js';
import { settings, ZONE } from './scenario-engine/settings.js';
import { World } from './scenario-engine/world.js';

/** Names and types, what comes of them, and the endpoints that are in the answer. `@` is the zone itself, `NAME.` is absolute. */
const EXPLAINED = `
  orders                      A      answer   orders-1
  orders                      AAAA   answer   orders-2
  orders                      SRV    answer   orders-1 orders-2 orders-3 orders-4
  orders                      ANY    answer   orders-1
  orders                      TXT    nodata
  orders                      HTTPS  nodata
  ORDERS                      A      answer   orders-1
  _orders._tcp                SRV    answer   orders-1 orders-2 orders-3 orders-4
  _orders._tcp                A      nodata
  _orders._udp                SRV    nxdomain
  _http._tcp.orders           SRV    answer   orders-1
  _http._tcp.orders           AAAA   nodata
  _smtp._tcp.orders           SRV    nxdomain
  _tcp.orders                 SRV    nodata
  _udp.orders                 SRV    nxdomain
  blue.orders                 A      answer   orders-1
  blue.orders                 AAAA   nodata
  blue.orders                 SRV    answer   orders-1
  _http._tcp.blue.orders      SRV    answer   orders-1
  _tcp.blue.orders            A      nodata
  green.orders                A      answer   orders-5
  red.orders                  A      nxdomain
  six                         A      nodata
  six                         AAAA   answer   six-2
  empty                       A      nodata
  _empty._tcp                 SRV    nodata
  nothing                     A      nxdomain
  a.b.c.d.e                   A      nxdomain
  my_shop                     A      nxdomain
  shop                        A      answer   my_shop-1
  @                           A      nodata
  @                           SOA    answer
  @                           NS     answer
  @                           DS     nodata
  @                           AXFR   refused
  _status                     TXT    answer
  _status                     A      nodata
  _tcp                        A      nodata
  _udp                        A      nodata
  ip                          A      nodata
  ns.ip                       A      answer
  ns.ip                       AAAA   nodata
  10-0-1-1.ip                 A      answer
  10-0-1-1.ip                 AAAA   nodata
  fd00-0-0-0-0-0-0-2.ip       AAAA   answer
  10-0-9-9.ip                 A      nxdomain
  10-0-1-01.ip                A      nxdomain
  1.1.0.10.in-addr.arpa.      PTR    answer
  1.1.0.10.in-addr.arpa.      A      nodata
  9.9.0.10.in-addr.arpa.      PTR    refused
  example.com.                A      refused
  .                           NS     refused
  shut.test.                  SOA    answer
  x.shut.test.                A      servfail
  a.b.c.d.e.shut.test.        A      nxdomain
`;

t.test('explain tells what DNS answers', async (t) => {
  const world = new World(
    settings(
      {
        services: {
          my_shop: { alias: 'shop' },
          some: { maxAnswers: 2 },
          window: { maxAnswers: 2, order: 'stable' },
        },
        check: { type: 'none' },
      },
      { 'shut.test': { allow: ['192.0.2.0/24'] } },
    ),
    'never',
    () => [],
  );
  const addresses = new Addresses();
  for (const [name, text] of Object.entries({
    orders: ['1 portName=http tag=blue', '2 at=fd00::2', '3 priority=10', '4 weight=0', '5 draining tag=green'],
    six: ['1', '2 at=fd00::12', '3 priority=10 at=fd00::13'].slice(1),
    my_shop: ['1'],
    some: ['1', '2', '3'],
    window: ['1', '2', '3'],
  })) {
    world.registry(ZONE).services.set(name, parseService(name, text, addresses));
  }
  world.registry(ZONE).services.set('empty', { name: 'empty', rows: [] });
  world.list(ZONE);

  const outcomes: Record<string, string> = { NXDOMAIN: 'nxdomain', SERVFAIL: 'servfail', REFUSED: 'refused' };
  const compare = (name: string, type: string, outcome: string, ids: readonly string[]) => {
    const absolute = name === '@' ? ZONE : name.endsWith('.') ? name.slice(0, -1) : `${name}.${ZONE}`;
    const told = world.resolver.explain(absolute || '.', type, world.now);
    const said = told.endpoints.filter((one) => one.answered);
    const asked = `${name} ${type}`;
    t.same([told.outcome, ...said.map((one) => one.id)], [outcome, ...ids], asked);
    t.ok(told.because.length > 0 || told.endpoints.length > 0, `${asked}: with a reason`);
    const client = absolute.endsWith('shut.test') ? '192.0.2.1' : '127.0.0.1';
    const reply = world.ask({ name: absolute, type, bufsize: 1232, tcp: true, client, rd: true });
    const answered = reply.answers.length > 0 ? 'answer' : 'nodata';
    t.equal(reply.rcode === 'NOERROR' ? answered : outcomes[reply.rcode], outcome, `${asked} by DNS`);
    if (ids.length === 0) return;
    const records = reply.answers.map(recordText).map((text) => text.split(' ').at(-1));
    const expected = said.map(({ address }) =>
      reply.answers[0]?.type === 33 ? `${targetLabel(addressBytes(address)!)}.ip.${ZONE}` : address,
    );
    t.same(records.sort(), expected.sort(), `${asked}: the endpoints of the reply`);
  };
  for (const line of EXPLAINED.trim().split('\n')) {
    const [name = '', type = '', outcome = '', ...ids] = line.trim().split(/\s+/);
    compare(name, type, outcome, ids);
  }

  const because = (name: string, type: string) => world.resolver.explain(name, type, world.now).because;
  const whyOut = (name: string, type: string, id: string) =>
    world.resolver.explain(name, type, world.now).endpoints.find((one) => one.id === id)?.why;
  t.equal(
    whyOut(`orders.${ZONE}`, 'A', 'orders-3'),
    'not in this answer: A carries the best priority only (R24); answerable: the registry lists it, it is not probed (R10)',
  );
  t.match(whyOut(`orders.${ZONE}`, 'A', 'orders-2'), /^not in this answer: A carries IPv4 addresses only \(R24\);/);
  t.match(
    whyOut(`orders.${ZONE}`, 'A', 'orders-4'),
    /^not in this answer: its weight is 0 and others have more \(R24\);/,
  );
  t.match(whyOut(`orders.${ZONE}`, 'A', 'orders-5'), /^held back: it drains, by the registry's word/);
  t.match(whyOut(`orders.${ZONE}`, 'TXT', 'orders-1'), /^not in this answer: the name has no TXT/);
  t.same(because(`some.${ZONE}`, 'A'), ['each answer carries 2 of these 3, drawn anew each time (R24)']);
  t.same(because(`window.${ZONE}`, 'A'), [
    'each answer carries 2 of these 3, in their order from another start each time (R24)',
  ]);
  t.same(because(`10-0-1-1.ip.${ZONE}`, 'A'), ['the name of 10.0.1.1, which an endpoint of the zone has (R23)']);
  t.same(because(`_orders._tcp.${ZONE}`, 'A'), ['only tcp', 'the name has SRV only (R21)']);
  t.same(because(`ip.${ZONE}`, 'A'), [
    'reserved: names of addresses are below it (R22, R23)',
    'the name has no records of its own (R21)',
  ]);
  t.same(because(ZONE, 'AXFR'), ['zones are not transferred']);
  t.same(because('x.shut.test', 'A').slice(-1), ['the reply carries EDE 14 (R26)']);

  world.advance(1_000);
  world.setHeard(ZONE, 'unreachable', 'gone');
  compare('nothing', 'A', 'nxdomain', []);
  compare('orders', 'A', 'answer', ['orders-1']);
  t.match(because(`nothing.${ZONE}`, 'A'), [
    /^no service has this name/,
    /^the registry has not been heard for .*: gone;/,
    'the reply carries EDE 19: registry not heard (R26)',
  ]);
  t.throws(() => world.resolver.explain('a..b', 'A', world.now), 'no domain name');
  t.throws(() => world.resolver.explain('orders', 'NONSENSE', world.now), 'no record type');
});

t.test('explain tells of each view of a zone, and of a longer zone that only some addresses have (R31)', async (t) => {
  const file = (path: string) => `registry: { type: file, path: /${path}.yaml }`;
  const config = read(`version: 1
listen: ["127.0.0.1:53", "127.0.0.2:53", "127.0.0.3:53"]
zones:
  - { name: a.internal, listen: ["127.0.0.1:53"], ${file('one')} }
  - { name: a.internal, listen: ["127.0.0.2:53"], ${file('two')} }
  - { name: internal, ${file('all')} }
`);
  const nothing = (): void => undefined;
  const now = { boot: 0, wall: 1.9e12 };
  const resolver = new Resolver(config, { log: nothing, targets: nothing, probeNow: nothing }, now);
  const addresses = new Addresses();
  for (const [i, { key }] of [...resolver.zones].entries()) {
    const services = [i === 2 ? { name: 'other', rows: [] } : parseService('web', [`${i + 1}`], addresses)];
    const facts = { epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
    resolver.report(key, 0, { kind: 'list', at: 0, services, ...facts }, now);
  }
  const { others = [], ...first } = resolver.explain('web.a.internal', 'A', now);
  t.match(
    [first, ...others].map((one) => ({ ...one, endpoints: one.endpoints.map(({ id }) => id) })),
    [
      {
        zone: 'a.internal',
        view: '127.0.0.1:53',
        outcome: 'answer',
        endpoints: ['web-1'],
        because: [/127\.0\.0\.1 port 53/],
      },
      {
        zone: 'a.internal',
        view: '127.0.0.2:53',
        outcome: 'answer',
        endpoints: ['web-2'],
        because: [/127\.0\.0\.2 port 53/],
      },
      { zone: 'internal', view: undefined, outcome: 'nxdomain', endpoints: [] },
    ],
  );
  t.equal(others.length, 2);
  t.equal(resolver.explain('other.internal', 'A', now).others, undefined, 'the same everywhere');
  t.match(
    showExplanation({ ...first, others }, styleFor({ isTTY: false }, {})),
    /zone a\.internal.*127\.0\.0\.1:53[\s\S]*zone a\.internal.*127\.0\.0\.2:53/,
  );
});
