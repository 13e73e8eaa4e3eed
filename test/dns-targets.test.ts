/** Targets of SRV records that are amiss: each is a matter of its own row. And servers that know no EDNS. */
import t, { type Test } from 'tap';
import { RCODE, TYPE } from '../src/dns/constants.js';
import type { ReadRecord } from '../src/dns/read-message.js';
import {
  a,
  aaaa,
  cname,
  dname,
  encode,
  FakeNameServer,
  ns,
  opt,
  registryOf,
  type Sections,
  soa,
  srv,
  told,
  ZONE,
} from './dns-registry-fixture.js';

t.jobs = 4;

const NAME = `_orders._tcp.${ZONE}`;
const PLACE = /127\.0\.0\.1:\d+: /g;
const at = (name: string): string => `${name}.${ZONE}`;
const failing = (rcode: number): Sections => ({ flags: 0x8400 | rcode });

/** A server whose answers a test changes, by name and type, and the registry that looks `names` up there. */
async function scene(t: Test, names: readonly string[] = [NAME]) {
  const fake = await FakeNameServer.start(t);
  const answers = new Map<string, readonly [records: readonly ReadRecord[], sections?: Sections]>();
  fake.answer = ({ id, name, type }) => {
    const [records, sections] = answers.get(`${name} ${type}`) ?? [[]];
    return [encode(id, { name, type }, records, sections)];
  };
  const say = (name: string, type: number, records: readonly ReadRecord[], sections?: Sections): void => {
    answers.set(`${name} ${type}`, sections === undefined ? [records] : [records, sections]);
  };
  say(NAME, TYPE.SRV, [srv(NAME, 80, at('w1')), srv(NAME, 80, at('w2'))]);
  say(at('w1'), TYPE.A, [a(at('w1'), 10, 0, 0, 1)]);
  say(at('w2'), TYPE.A, [a(at('w2'), 10, 0, 0, 2)]);
  const registry = registryOf(t, [fake], { names, port: 80 });
  /** Without the place of the server. */
  const read = async (): Promise<unknown> => JSON.parse(JSON.stringify(await told(registry)).replaceAll(PLACE, ''));
  const asked = (type: number): boolean => fake.count(type) > 0;
  return { say, read, asked, fake };
}

t.test('a target that is denied loses its own row, at the start and later', async (t) => {
  const lost = `${NAME}: no address is known of its target ${at('w2')}`;
  const { say, read } = await scene(t);
  say(at('w2'), TYPE.A, [], failing(RCODE.NXDOMAIN));
  t.same(await read(), ['orders=10.0.0.1', lost]);
  say(at('w2'), TYPE.A, [a(at('w2'), 10, 0, 0, 2)]);
  t.same(await read(), ['orders=10.0.0.1,10.0.0.2']);
  say(at('w2'), TYPE.A, [], failing(RCODE.NXDOMAIN));
  say(NAME, TYPE.SOA, [soa(ZONE, 2)]);
  t.same(await read(), ['orders=10.0.0.1', lost], 'as one that is no more');
});

t.test('what cannot be learnt of one target keeps no other one out, and takes nothing away', async (t) => {
  const { say, read } = await scene(t);
  const servfail = failing(RCODE.SERVFAIL);
  const doubt = (why: string): string => `${NAME}: its target ${at('w2')}: ${why}; what it gave last stands`;
  say(at('w2'), TYPE.A, [], servfail);
  t.same(await read(), ['additions only', 'orders=10.0.0.1', doubt('SERVFAIL')], 'at the start');
  say(at('w2'), TYPE.A, [a(at('w2'), 10, 0, 0, 2)]);
  t.same(await read(), ['orders=10.0.0.1,10.0.0.2']);
  say(at('w2'), TYPE.A, [], servfail);
  say(at('w3'), TYPE.A, [a(at('w3'), 10, 0, 0, 3)]);
  say(NAME, TYPE.SRV, [srv(NAME, 80, at('w2')), srv(NAME, 80, at('w3'))]);
  t.same(await read(), ['additions only', 'orders=10.0.0.1,10.0.0.2,10.0.0.3', doubt('SERVFAIL')]);
  say(NAME, TYPE.SRV, [srv(NAME, 80, at('w2'))]);
  t.equal(await read(), `unbelievable: ${doubt('SERVFAIL')}`, 'nothing of any');
  say(NAME, TYPE.SRV, [srv(NAME, 80, at('w3'))]);
  say(NAME, TYPE.SOA, [soa(ZONE, 2)]);
  t.same(await read(), ['orders=10.0.0.3'], 'whole again');
});

t.test('a server that fails for one family, or denies a name that it has, is believed of the other', async (t) => {
  const { say, read } = await scene(t, [NAME, at('plain')]);
  say(at('plain'), TYPE.A, [a(at('plain'), 10, 0, 0, 9)]);
  for (const name of ['w1', 'w2', 'plain']) say(at(name), TYPE.AAAA, [], failing(RCODE.NXDOMAIN));
  say(at('w1'), TYPE.AAAA, [aaaa(at('w1'), 1)]);
  say(at('w1'), TYPE.A, [], failing(RCODE.NXDOMAIN));
  t.same(await read(), ['orders=10.0.0.2,fd00::1', 'plain=10.0.0.9']);
  say(at('w1'), TYPE.A, [a(at('w1'), 10, 0, 0, 1)]);
  say(at('w1'), TYPE.AAAA, [], failing(RCODE.NXDOMAIN));
  say(NAME, TYPE.SOA, [soa(ZONE, 2)]);
  t.same(await read(), ['orders=10.0.0.1,10.0.0.2', 'plain=10.0.0.9']);
  say(at('w2'), TYPE.AAAA, [], failing(RCODE.SERVFAIL));
  say(at('plain'), TYPE.AAAA, [], failing(RCODE.NOTIMP));
  t.same(await read(), [
    'additions only',
    'orders=10.0.0.1,10.0.0.2',
    'plain=10.0.0.9',
    `${NAME}: its target ${at('w2')}: SERVFAIL; what it gave last stands`,
    `${at('plain')}: NOTIMP; what it gave last stands`,
  ]);
});

t.test('a server that has no word of one family is asked for the other', async (t) => {
  const { say, read } = await scene(t);
  say(at('w1'), TYPE.A, [], failing(RCODE.REFUSED));
  say(at('w1'), TYPE.AAAA, [aaaa(at('w1'), 1)]);
  const doubt = `${NAME}: its target ${at('w1')}: REFUSED; what it gave last stands`;
  t.same(await read(), ['additions only', 'orders=10.0.0.2,fd00::1', doubt]);
});

t.test('in a transfer, a target that is an alias is the host that it leads to', async (t) => {
  const fake = await FakeNameServer.start(t);
  const records = [
    soa(ZONE, 1),
    cname(at('one'), at('two')),
    cname(at('two'), at('web')),
    cname(at('away'), 'lb.other.test'),
    cname(at('round'), at('about')),
    cname(at('about'), at('round')),
    cname(at('unused'), at('web')),
    ...['one', 'away', 'round'].map((name) => srv(`_${name}._tcp.${ZONE}`, 80, at(name))),
    a(at('web'), 10, 0, 0, 1),
    soa(ZONE, 1),
  ];
  fake.answer = ({ id, name, type, over }) => {
    if (over === 'udp') return [encode(id, { name, type }, [soa(ZONE, 1)])];
    return { end: records.map((record) => encode(id, { name, type }, [record])) };
  };
  t.same(await told(registryOf(t, [fake])), [
    'one=10.0.0.1',
    'away=lb.other.test',
    'round=',
    `_round._tcp.${ZONE}: no address is known of its target ${at('round')}`,
  ]);
});

/** What a transfer of these records gives. */
async function transferred(t: Test, records: readonly ReadRecord[]): Promise<unknown> {
  const fake = await FakeNameServer.start(t);
  fake.answer = ({ id, name, type, over }) => {
    const ends = [soa(ZONE, 1)];
    return { end: [encode(id, { name, type }, over === 'udp' ? ends : [...ends, ...records, ...ends])] };
  };
  return told(registryOf(t, [fake], { port: 80 }));
}

t.test('in a transfer, aliases of names of other zones are no word about those', async (t) => {
  const records = [
    srv(NAME, 80, 'web.other.test'),
    cname('web.other.test', at('web')),
    dname('other.test', ZONE),
    a(at('web'), 10, 0, 0, 1),
  ];
  t.same(await transferred(t, records), ['orders=web.other.test', 'web=10.0.0.1']);
});

t.test('in a transfer, a target in a zone that is delegated is a host name, as others elsewhere are', async (t) => {
  const records = [
    ns(ZONE, at('ns')),
    ns(at('dc1'), at('ns.dc1')),
    a(at('ns.dc1'), 10, 0, 0, 53),
    cname(at('lb'), at('lb.rack.dc1')),
    ...['web.dc1', 'dc1', 'lb', 'web.dc2'].map((host) => srv(NAME, 80, at(host))),
  ];
  t.same(await transferred(t, records), [
    `orders=${at('dc1')},${at('lb.rack.dc1')},${at('web.dc1')}`,
    `${NAME}: no address is known of its target ${at('web.dc2')}`,
  ]);
});

t.test('targets of one name are asked for side by side', async (t) => {
  const { say, read, fake } = await scene(t);
  const hosts = Array.from({ length: 40 }, (_, i) => at(`h${i}`));
  say(
    NAME,
    TYPE.SRV,
    hosts.map((host) => srv(NAME, 80, host)),
  );
  for (const [i, host] of hosts.entries()) say(host, TYPE.A, [a(host, 10, 1, 0, i)]);
  fake.delay = 300;
  const told = (await read()) as string[];
  t.equal(told[0]?.split(',').length, 40);
  t.ok(fake.mostUnderWay > 4, `${fake.mostUnderWay} under way`);
});

t.test('in a transfer, wildcards are no services', async (t) => {
  const records = [
    srv(`*._tcp.${ZONE}`, 80, at('web')),
    srv(`_a._tcp.*.${ZONE}`, 80, at('web')),
    a(at('*'), 10, 0, 0, 2),
  ];
  const form = 'fits none of _SERVICE._tcp, _PORT._tcp.SERVICE, SERVICE';
  t.same(await transferred(t, records), [
    `*._tcp.${ZONE}: ${form}`,
    `_a._tcp.*.${ZONE}: ${form}`,
    `${at('*')}: a wildcard is no service`,
  ]);
});

t.test('in a transfer, what is an alias in the place of services is told', async (t) => {
  const records = [
    dname(at('rack'), 'other.test'),
    srv(NAME, 80, at('w1.rack')),
    cname(`_billing._tcp.${ZONE}`, NAME),
    cname(at('shop'), at('web')),
    cname(at('deep.below'), at('web')),
    a(at('web'), 10, 0, 0, 1),
  ];
  t.same(await transferred(t, records), [
    'orders=',
    'web=10.0.0.1',
    `${NAME}: no address is known of its target ${at('w1.rack')}`,
    `_billing._tcp.${ZONE}: an alias (CNAME) is no service in a transfer`,
    `${at('shop')}: an alias (CNAME) is no service in a transfer`,
    `${at('rack')}: an alias of all names below it (DNAME), which is not followed`,
  ]);
});

t.test('of what comes with an answer, addresses of its targets count, and no others', async (t) => {
  const { say, read } = await scene(t);
  const additionals = [
    a(at('w1'), 10, 0, 0, 1),
    aaaa(at('w1'), 1),
    a(at('stranger'), 10, 6, 6, 6),
    cname(at('w2'), at('stranger')),
  ];
  say(NAME, TYPE.SRV, [srv(NAME, 80, at('w1')), srv(NAME, 80, at('w2'))], { additionals });
  t.same(await read(), ['orders=10.0.0.1,10.0.0.2,fd00::1'], 'the alias is asked for');
});

t.test('an address of one family that comes with an answer may not be all of its target', async (t) => {
  const { say, read, asked, fake } = await scene(t);
  say(at('w1'), TYPE.AAAA, [aaaa(at('w1'), 1)]);
  const one = [srv(NAME, 80, at('w1'))];
  say(NAME, TYPE.SRV, one, { additionals: [a(at('w1'), 10, 0, 0, 1)] });
  t.same(await read(), ['orders=10.0.0.1'], 'by the word of the zone itself it is');
  t.notOk(asked(TYPE.AAAA));
  say(NAME, TYPE.SRV, one, { flags: 0x8180, additionals: [a(at('w1'), 10, 0, 0, 1)] });
  say(NAME, TYPE.SOA, [soa(ZONE, 2)]);
  t.same(await read(), ['orders=10.0.0.1,fd00::1'], 'a cache gives what it happens to have');
  t.notOk(asked(TYPE.A));
  say(at('w1'), TYPE.AAAA, [], failing(RCODE.SERVFAIL));
  t.match(await read(), { 0: 'additions only', 1: 'orders=10.0.0.1,fd00::1' });
  say(at('w1'), TYPE.AAAA, [aaaa(at('w1'), 1)]);
  const many = Array.from({ length: 12 }, (_, i) => srv(NAME, 80 + i, at('w1')));
  say(NAME, TYPE.SRV, many, { additionals: [a(at('w1'), 10, 0, 0, 1)] });
  t.match(await read(), [/^orders=10\.0\.0\.1,.*fd00::1/], 'an answer that is long may have had no room');
  say(NAME, TYPE.SRV, many, { additionals: [a(at('w1'), 10, 0, 0, 1), opt(0)] });
  const before = fake.count(TYPE.AAAA);
  await read();
  t.equal(fake.count(TYPE.AAAA), before, 'with EDNS it had');
});

t.test('a server that knows no EDNS is asked without it (RFC 6891 s.7)', async (t) => {
  for (const [rcode, called] of [
    [RCODE.FORMERR, 'FORMERR'],
    [RCODE.NOTIMP, 'NOTIMP'],
    [RCODE.BADVERS, 'BADVERS'],
  ] as const) {
    const refusal: Sections = { flags: 0x8400 | (rcode & 15), additionals: [opt(rcode)] };
    const fake = await FakeNameServer.start(t);
    const registry = registryOf(t, [fake], { port: 80 });
    fake.answer = ({ id, name, type, over, edns }) => {
      if (edns) return [encode(id, { name, type }, [], refusal)];
      const zone = [soa(ZONE, 1), a(at('web'), 10, 0, 0, 1), soa(ZONE, 1)];
      return { end: [encode(id, { name, type }, over === 'udp' ? [soa(ZONE, 1)] : zone)] };
    };
    t.same(await told(registry), ['web=10.0.0.1']);
    fake.answer = ({ id, name, type }) => [encode(id, { name, type }, [], refusal)];
    t.equal(await told(registry), `unbelievable: ${called}`);
  }
});
