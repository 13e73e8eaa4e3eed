/** Several zones that have one name server as their registry: what it may be asked is for all of them together. */
import t from 'tap';
import { RCODE, TYPE } from '../src/dns/constants.js';
import { DnsRegistry } from '../src/registry/dns.js';
import { following, until } from './consul-fixture.js';
import {
  type Asked,
  a,
  encode,
  FakeNameServer,
  LIMITS,
  type Reply,
  registryOf,
  soa,
  srv,
  ZONE,
} from './dns-registry-fixture.js';
import { mostWithin } from './fake-consul.js';
import { NEVER } from './registry-fixture.js';

t.jobs = 4;

function mostInASecond(fake: FakeNameServer): number {
  return mostWithin(
    fake.asked.map(({ at }) => at),
    1000,
  );
}

/** Every name has an endpoint, whose address comes with it. */
function answerNames({ id, name, type }: Asked): Reply {
  const question = { name, type };
  if (type !== TYPE.SRV) return [encode(id, question, type === TYPE.SOA ? [soa(ZONE, 1)] : [])];
  const target = `host.${ZONE}`;
  return [encode(id, question, [srv(name, 80, target)], { additionals: [a(target, 10, 0, 0, 1)] })];
}

const namesOf = (zone: string): string[] => Array.from({ length: 150 }, (_, i) => `_${zone}${i}._tcp.${ZONE}`);

t.test('names of two zones are looked up at one server with 50 questions a second, both together', async (t) => {
  const fake = await FakeNameServer.start(t);
  fake.answer = answerNames;
  fake.delay = 1500;
  const zones = ['one', 'two'].map((zone) => registryOf(t, [fake], { names: namesOf(zone) }));
  const lists = await Promise.all(zones.map((zone) => zone.poll({ signal: NEVER, fresh: true })));
  for (const list of lists) t.match(list, { kind: 'list', removalsBelievable: true, services: { length: 150 } });
  t.ok(mostInASecond(fake) <= 50, `${mostInASecond(fake)} in a second`);
  t.ok(fake.mostUnderWay <= 50, `${fake.mostUnderWay} under way`);
});

t.test('a server that says nothing is asked no more for that, and is not asked for every name', async (t) => {
  const fake = await FakeNameServer.start(t);
  const zones = ['one', 'two', 'three'].map((zone) => registryOf(t, [fake], { names: namesOf(zone) }));
  const lists = await Promise.all(zones.map((zone) => zone.poll({ signal: NEVER, fresh: true })));
  for (const list of lists) t.match(list, { kind: 'unreachable', reason: /: no answer to SRV$/ });
  t.ok(mostInASecond(fake) <= 50, `${mostInASecond(fake)} in a second`);
  t.ok(fake.count() <= 300, `${fake.count()} questions`);
});

t.test('80 zones of one server are transferred with 50 requests a second, and questions go first', async (t) => {
  const fake = await FakeNameServer.start(t);
  const zones = Array.from({ length: 80 }, (_, i) => `z${i}.test`);
  fake.answer = ({ id, name, type, over }) => {
    const known = zones.includes(name);
    const records = over === 'udp' ? [soa(name, 1)] : [soa(name, 1), a(`web.${name}`, 10, 0, 0, 1), soa(name, 1)];
    return { end: [encode(id, { name, type }, known ? records : [], known ? {} : { flags: 0x8400 | RCODE.REFUSED })] };
  };
  fake.delay = 500;
  const registries = zones.map((zone) => registryOf(t, [fake], { zone, port: 80 }));
  const lists = await Promise.all(registries.map((zone) => zone.poll({ signal: NEVER, fresh: true })));
  for (const list of lists) t.match(list, { kind: 'list', services: { length: 1 } });
  t.ok(mostInASecond(fake) <= 50, `${mostInASecond(fake)} in a second`);
  t.ok(fake.mostUnderWay <= 50, `${fake.mostUnderWay} under way`);
  const last = fake.asked.findLastIndex(({ type }) => type === TYPE.SOA);
  t.equal(last, 79, 'no zone is transferred before all serials are known');
});

t.test('names of a server that takes its time for each question are heard', async (t) => {
  const fake = await FakeNameServer.start(t);
  fake.answer = (asked) => {
    const { id, name, type } = asked;
    if (type === TYPE.SRV) return [encode(id, { name, type }, [srv(name, 80, `web.${ZONE}`)])];
    return type === TYPE.A ? [encode(id, { name, type }, [a(name, 10, 0, 0, 1)])] : answerNames(asked);
  };
  fake.delay = 2_800;
  const { rows, reports } = following(t, registryOf(t, [fake], { names: namesOf('slow').slice(0, 1) }));
  await until('an answer', () => reports.length > 0);
  t.match(reports, [{ kind: 'list' }]);
  t.match(rows.get('slow0'), [{ address: '10.0.0.1' }]);
});

t.test('a read of names may take as long as its zone has time: many may share the server', async (t) => {
  const places = { servers: [{ address: '127.0.0.1', port: 53 }], zone: ZONE, names: [`_a._tcp.${ZONE}`] };
  const config = { type: 'dns', interval: 5000, ...places } as const;
  const registry = new DnsRegistry(config, { softTtl: 900_000, limits: LIMITS, allowAddresses: [] });
  t.ok(registry.deadline >= 900_000);
});

t.test('a name with more targets than there is time for keeps no other one from being heard', async (t) => {
  const fake = await FakeNameServer.start(t);
  const many = Array.from({ length: 300 }, (_, i) => `slow${i}.${ZONE}`);
  fake.answer = (asked) => {
    const { id, name, type } = asked;
    if (many.includes(name)) return [];
    if (!name.startsWith('_many')) return answerNames(asked);
    const targets = many.map((target) => srv(name, 80, target));
    return [
      encode(id, { name, type }, asked.over === 'udp' ? [] : targets, asked.over === 'udp' ? { flags: 0x8600 } : {}),
    ];
  };
  const registry = registryOf(t, [fake], { names: [`_many._tcp.${ZONE}`, `_few._tcp.${ZONE}`] });
  const { rows, reports } = following(t, Object.assign(registry, { deadline: 5_000 }));
  await until('an answer', () => reports.length > 0);
  t.match(reports, [{ kind: 'list', removalsBelievable: false }]);
  t.match(rows.get('few'), [{ address: '10.0.0.1' }]);
});
