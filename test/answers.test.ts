/** The names that services have (R21 to R25). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { fitsForm, serviceNames } from '../src/answers/naming/rfc2782.js';
import { REVERSE_ZONE } from '../src/answers/shared.js';
import { ZoneAnswers } from '../src/answers/zone-answers.js';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery } from '../src/dns/encode-query.js';
import { nameToWire, wireToName } from '../src/dns/names.js';
import { Query } from '../src/dns/query.js';
import { type Record_, row, service, spec, World } from './answers-fixture.js';

const ZONE = 'svc.internal';

import { root } from './root.js';

/** All names that the table holds of the fixture's only zone, without the zone. */
function namesOf(world: World, zone = 0): string[] {
  const names: string[] = [];
  world.table.names(zone, (name) => names.push(wireToName(name)!));
  return names.map((name) => name.replace(new RegExp(`\\.?${ZONE}$`), '') || '@').sort();
}

function show(record: Record_): string {
  const { type, priority, weight, port, target, address, ns, domain, data } = record;
  if (type === TYPE.SRV) return `${priority} ${weight} ${port} ${target}`;
  return String(address ?? ns ?? domain ?? (Array.isArray(data) ? JSON.stringify(data) : 'SOA'));
}

const GOLDEN_SERVICES = [
  service(
    'web',
    [
      row('10.0.0.1', 8081, { portName: 'http', tags: ['Blue', 'no label'], weight: 1 }),
      row('10.0.0.1', 9091, { portName: 'grpc', tags: ['blue'], weight: 2 }),
      row('10.0.0.2', 8082, { portName: 'http', tags: ['green'], priority: 10 }),
      row('fd00::1', 8083, { protocol: 'udp', tags: ['blue'] }),
      row('10.0.0.3', 8084, { portName: 'not_a_label' }),
    ],
    { order: 'stable' },
  ),
  service('empty', []),
  service(`l${'o'.repeat(61)}ng`.slice(0, 63), [row('10.0.0.1', 80)]),
];

t.test('golden file of the names of rfc2782: every name, and what each type has there', async (t) => {
  const world = new World();
  world.zone(ZONE, GOLDEN_SERVICES);
  const golden = readFileSync(join(root, 'test/golden/names-rfc2782.txt'), 'utf8');
  const lines: string[] = [];
  // Names of IPv4 addresses stand in no list: they are made when they are asked.
  const made = ['10-0-0-1.ip', '10-0-0-2.ip', '10-0-0-3.ip'];
  for (const name of [...namesOf(world), ...made].sort()) {
    for (const type of ['A', 'AAAA', 'SRV', 'TXT', 'NS', 'SOA'] as const) {
      const full = name === '@' ? ZONE : `${name}.${ZONE}`;
      const { rcode, answers } = world.ask(full, type, { transport: 'tcp' });
      if (rcode !== 0) lines.push(`${name} ${type} rcode ${rcode}`);
      for (const answer of answers) lines.push(`${name} ${type} ${show(answer)}`);
    }
    if (!lines.at(-1)?.startsWith(`${name} `)) lines.push(`${name} -`);
  }
  t.equal(`${lines.join('\n')}\n`, golden);
  const six = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa';
  t.same(namesOf(world, REVERSE_ZONE), [six]);
  const reverse = [1, 2, 3, 4].map((n) => world.ask(`${n}.0.0.10.in-addr.arpa`, 'PTR').rcode);
  t.same([...reverse, world.ask(six, 'PTR').rcode], [0, 0, 0, 5, 0]);
});

t.test('forms', async (t) => {
  const fits = (name: string) => {
    const wire = nameToWire(name)!;
    const query = new Query();
    query.parse(encodeQuery({ name: wire, type: 1 })!, 12 + wire.length + 4);
    return fitsForm(encodeQuery({ name: wire, type: 1 })!, query.labels, query.labelCount);
  };

  t.test('every name that a service can have fits a form, in any case', async (t) => {
    const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?$/).filter((text) => text !== 'ip');
    const rows = fc.array(
      fc.record({
        portName: label,
        tags: fc.array(label, { maxLength: 2 }),
        protocol: fc.constantFrom('tcp' as const, 'udp' as const),
      }),
      { maxLength: 3 },
    );
    fc.assert(
      fc.property(label, rows, (name, rows) =>
        serviceNames(
          name,
          rows.map((more, i) => row('10.0.0.1', i + 1, more)),
        ).every(({ name }) => fits(name) && fits(name.toUpperCase())),
      ),
      { numRuns: 300 },
    );
    t.pass();
  });

  t.test('what fits and what does not', async (t) => {
    const yes = ['a', 'a-b', '0', '_tcp', '_UDP', '_a._tcp', '_tcp.a', 'b.a', '_tcp.b.a', '_p._tcp.a', '_p._udp.b.a'];
    const targets = ['10-0-0-1.ip', '0-0-0-0.ip', '255-255-255-255.ip', 'FD00-0-0-0-0-0-0-1.IP', '0-0-0-0-0-0-0-0.ip'];
    for (const name of [...yes, ...targets, 'ip.a']) t.ok(fits(name), name);
    const no = ['_a', '-a', 'a-', 'a_b', '_a.b', '_-a._tcp', 'a._tcp', '_sctp', '_p._tcp._tcp', 'c.b.a', 'x._p._tcp.a'];
    const noTargets = ['1.ip', '01-0-0-1.ip', '256-0-0-1.ip', '1-2-3-4-5.ip', 'a-0-0-1.ip', 'fd00-00-0-0-0-0-0-1.ip'];
    const long = ['fd000-0-0-0-0-0-0-1.ip', 'g-0-0-0-0-0-0-1.ip', 'x.10-0-0-1.ip', '_p._tcp.ip', '_p._tcp.c.b.a', '*'];
    for (const name of [...no, ...noTargets, ...long, '1--2-3.ip']) t.notOk(fits(name), name);
  });
});

t.test('names follow their service', async (t) => {
  const world = new World();
  const zone = world.zone(ZONE);
  const base = ['@', '_status', 'ip', 'ns.ip'];
  t.same(namesOf(world), base);

  zone.putService(service('web', [row('10.0.0.1', 80, { portName: 'http', tags: ['blue'] })]));
  const web = ['web', '_web._tcp', '_tcp', '_tcp.web', '_http._tcp.web'];
  const blue = ['blue.web', '_tcp.blue.web', '_http._tcp.blue.web'];
  t.same(namesOf(world), [...base, ...web, ...blue].sort());

  t.test('a tag, a port name and a protocol that left take their names along', async (t) => {
    zone.putService(service('web', [row('10.0.0.1', 80, { protocol: 'udp' })]));
    t.same(namesOf(world), [...base, 'web', '_web._udp', '_udp'].sort());
  });

  t.test('an empty non-terminal stays while any service needs it', async (t) => {
    zone.putService(service('web', [row('10.0.0.1', 80)]));
    zone.putService(service('api', [row('10.0.0.2', 80)]));
    zone.removeService('web');
    t.same(namesOf(world), [...base, 'api', '_api._tcp', '_tcp'].sort());
    zone.removeService('api');
    zone.removeService('api');
    t.same(namesOf(world), base);
  });

  t.test('a held-back row keeps its names, as NODATA', async (t) => {
    const rows = [row('10.0.0.1', 80, { tags: ['blue'] }), row('10.0.0.2', 80)];
    zone.putService(
      service('web', rows, { answer: (subset) => subset.filter(({ address }) => address !== '10.0.0.1') }),
    );
    t.match(world.ask(`blue.web.${ZONE}`, 'SRV'), { rcode: 0, answers: [], authorities: [{ type: TYPE.SOA }] });
    t.match(world.ask(`web.${ZONE}`, 'SRV').answers, [{ target: `10-0-0-2.ip.${ZONE}` }]);
  });

  t.test('each narrowed set is asked for by itself', async (t) => {
    const asked: string[] = [];
    const rows = [row('10.0.0.1', 80, { tags: ['blue'] }), row('10.0.0.2', 80, { portName: 'http' })];
    const answer = (subset: readonly { address: string }[]) => {
      asked.push(subset.map(({ address }) => address).join());
      return subset as typeof rows;
    };
    zone.putService(service('web', rows, { answer }));
    t.same(asked.sort(), ['10.0.0.1', '10.0.0.1,10.0.0.2', '10.0.0.2']);
  });

  t.test('targets come and go with their reverse names', async (t) => {
    zone.putTarget('10.0.0.5');
    zone.putTarget('not an address');
    t.equal(world.ask(`10-0-0-5.ip.${ZONE}`, 'A').answers.length, 1);
    zone.removeTarget('10.0.0.5');
    zone.removeTarget('10.0.0.5');
    t.equal(world.ask(`10-0-0-5.ip.${ZONE}`, 'A').rcode, 3);
    t.equal(world.ask('5.0.0.10.in-addr.arpa', 'PTR').rcode, 5);
  });

  t.test('thousands of addresses come and go, of two zones, each found exactly while it is there', async (t) => {
    const world = new World();
    const zones = [world.zone('one.test'), world.zone('two.test')];
    const there = [new Set<number>(), new Set<number>()];
    const address = (n: number) => `10.${n >> 8}.${n & 255}.7`;
    let seed = 1;
    const random = (below: number) => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below;
    for (let i = 0; i < 20_000; i++) {
      const which = random(2);
      const n = random(3000);
      if (random(5) < 3) {
        zones[which]!.putTarget(address(n));
        there[which]!.add(n);
      } else {
        zones[which]!.removeTarget(address(n));
        there[which]!.delete(n);
      }
    }
    for (let n = 0; n < 3000; n++) {
      const found = ['one', 'two'].map(
        (zone) => world.ask(`10-${n >> 8}-${n & 255}-7.ip.${zone}.test`, 'A').rcode === 0,
      );
      const reverse = world.ask(`7.${n & 255}.${n >> 8}.10.IN-ADDR.arpa`, 'PTR');
      const first = found[0] ? 'one' : found[1] ? 'two' : undefined;
      if (found[0] === there[0]!.has(n) && found[1] === there[1]!.has(n)) {
        if (first === undefined && reverse.rcode === 5) continue;
        const { domain } = (reverse.answers[0] ?? {}) as { domain?: string };
        if (domain === `10-${n >> 8}-${n & 255}-7.ip.${first}.test`) continue;
      }
      t.fail(
        `${n}: ${found.join()} where ${there.map((set) => set.has(n)).join()}, ${JSON.stringify(reverse.answers)}`,
      );
    }
    zones[0]!.dispose();
    t.equal(world.table.size.names - 2 * there[1]!.size < 20, true, 'a zone that is gone leaves none behind');
  });

  t.test('only the canonical name of an address is one', async (t) => {
    const world = new World();
    world.zone(ZONE, [service('a', [row('10.0.0.1', 80)])]);
    for (const name of [
      '10-0-0-01',
      '010-0-0-1',
      '10-0-0-1-',
      '10-0-0',
      '10-0-0-1-1',
      '10-0-0-256',
      '10-0--1',
      'x0-0-0-1',
    ])
      t.equal(world.ask(`${name}.ip.${ZONE}`, 'A').rcode, 3, name);
    for (const name of ['01.0.0.10', '1.0.0', '1.0.0.0.10', 'x.0.0.10'])
      t.equal(world.ask(`${name}.in-addr.arpa`, 'PTR').rcode, 5, name);
    t.equal(world.ask('1.0.0.10.in-addrs.arpa', 'PTR').rcode, 5);
    t.same(world.ask(`10-0-0-1.ip.${ZONE}`, 'AAAA').rcode, 0, 'NODATA');
    t.equal(world.ask(`10-0-0-1.ip.${ZONE}`, 'AAAA').authorities.length, 1);
  });

  t.test('an address of two zones keeps the other zone its reverse name', async (t) => {
    const world = new World();
    const one = world.zone('one.test', [service('a', [row('10.0.0.1', 80)])]);
    world.zone('two.test', [service('a', [row('10.0.0.1', 80)])]);
    t.match(world.ask('1.0.0.10.in-addr.arpa', 'PTR').answers, [{ domain: '10-0-0-1.ip.one.test' }]);
    one.removeTarget('10.0.0.1');
    t.match(world.ask('1.0.0.10.in-addr.arpa', 'PTR').answers, [{ domain: '10-0-0-1.ip.two.test' }]);
  });
});

t.test('names over 255 octets get no record (R22)', async (t) => {
  const world = new World();
  const long = Array.from({ length: 4 }, (_, i) => String(i).repeat(58)).join('.');
  const rows = [row('10.0.0.1', 80, { portName: 'http' }), row('fd11:1111:1111:1111:1111:1111:1111:1111', 80)];
  world.zone(long, [service('w', rows)]);
  const names: number[] = [];
  world.table.names(0, (name) => names.push(name.length));
  t.ok(Math.max(...names) <= 255);
  const { answers, errors } = world.ask(`w.${long}`, 'SRV', { transport: 'tcp' });
  t.same([answers.length, errors.length], [1, 0], 'the target that has a name');
  t.equal(world.ask(`w.${long}`, 'A').answers.length, 1);
  t.equal(world.ask(`nope.${long}`, 'A').flags.tc, 1, 'an SOA that does not fit into 512 bytes');
  t.equal(world.ask(`nope.${long}`, 'A', { transport: 'tcp' }).authorities.length, 1);
  t.throws(() => new ZoneAnswers(world.table, 9, spec('')), /no wire form/);
  t.throws(() => new ZoneAnswers(world.table, 9, spec('x'.repeat(64))), /no wire form/);
});
