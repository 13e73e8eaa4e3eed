import t from 'tap';
import { addressBytes } from '../src/dns/addresses.js';
import { RCODE, TYPE } from '../src/dns/constants.js';
import { nameToWire } from '../src/dns/names.js';
import { plainLayout } from '../src/registry/etcd-plain.js';
import { skydnsLayout } from '../src/registry/etcd-skydns.js';
import { readTargets } from '../src/registry/http-targets.js';
import { parseHere } from '../src/registry/parse.js';
import { AddressPolicy, isHostName, normalizeHost } from '../src/registry/rows.js';
import { HostLookup } from '../src/resolver/host-lookup.js';
import { type HostResult, HostTable } from '../src/resolver/host-table.js';
import { a, type Behaviour, FakeUpstream, type Rec } from './forward-fixture.js';

function alias(owner: string, target: string): Rec {
  return { owner, type: TYPE.CNAME, rdata: nameToWire(target)! };
}

function at(owner: string, address: string): Rec {
  return { ...a(address), owner };
}

/** Looks a name up at an upstream of the test. */
async function look(test: Parameters<FakeUpstream['start']>[0], behave: Behaviour, host = 'db.example.com') {
  const server = await new FakeUpstream(behave).start(test);
  const result = await new Promise<HostResult>((resolve) => {
    const lookup = new HostLookup({
      forward: () => undefined,
      now: () => performance.now(),
      isOurs: () => false,
      found: (_, found) => {
        lookup.stop();
        resolve(found);
      },
    });
    lookup.configure([server.at], ['svc.internal']);
    lookup.look([host]);
  });
  return { result, heard: server.heard };
}

t.test('what is a host name', async (t) => {
  const good = ['db.example.com', 'DB.Example.COM.', 'localhost', 'a-b.c_d.e1', '1and1.example', '10.0.0.1.example'];
  for (const name of good) t.equal(normalizeHost(name), name.toLowerCase().replace(/\.$/, ''), name);
  const bad = ['', '.', 'a..b', '-a.b', 'a-.b', 'a b', '10.0.0.256', '1.2.3', 'host.5', '0x7f', 'x.0x1', 'é.example'];
  for (const name of [...bad, 'a/b', 'a:80', `${'a'.repeat(64)}.b`, `${'a.'.repeat(126)}ab`]) {
    t.equal(normalizeHost(name), undefined, name);
  }
  t.same(['10.0.0.1', 'fd00::1', 'db.example.com', 'localhost'].map(isHostName), [false, false, true, true]);
});

t.test('a look-up asks for both families and follows aliases', async (t) => {
  const both = await look(t, ({ type }) =>
    type === TYPE.A
      ? { answers: [a('192.0.2.1'), a('192.0.2.2')] }
      : { answers: [{ type: TYPE.AAAA, rdata: addressBytes('2001:db8::1')! }] },
  );
  t.same(both.result, { kind: 'addresses', addresses: ['192.0.2.1', '192.0.2.2', '2001:db8::1'] });
  const chain = await look(t, ({ type }) => ({
    answers:
      type === TYPE.A
        ? [alias('db.example.com', 'x.example'), alias('x.example', 'Y.example'), at('y.example', '192.0.2.7')]
        : [alias('db.example.com', 'x.example')],
  }));
  t.match(chain.result, { kind: 'addresses', addresses: ['192.0.2.7'] }, 'what follows in the answer');
  t.ok(
    chain.heard.some(({ name, type }) => name === 'x.example' && type === TYPE.AAAA),
    'and what has to be asked for',
  );
  const other = await look(t, () => ({ answers: [at('other.example', '192.0.2.66')] }));
  t.match(other.result, { kind: 'failed', reason: 'it has no address' }, 'records of another name are not its own');
});

t.test('what fails says why, and half an answer is told as half', async (t) => {
  const reasons = async (behave: Behaviour, host?: string): Promise<unknown> => {
    const { result } = await look(t, behave, host);
    return result.kind === 'failed' ? result.reason : result;
  };
  t.equal(await reasons(() => ({ rcode: RCODE.NXDOMAIN })), 'the name does not exist');
  t.equal(await reasons(() => ({})), 'it has no address');
  t.equal(await reasons(() => ({ rcode: RCODE.SERVFAIL })), 'no server could answer');
  t.equal(
    await reasons(() => ({ answers: [alias('db.example.com', 'x.example'), alias('x.example', 'db.example.com')] })),
    'its CNAME records go in a circle',
  );
  let hops = 0;
  t.equal(
    await reasons(({ name }) => ({ answers: [alias(name, `h${++hops}.example`)] })),
    'more than 8 CNAME records in a row',
  );
  t.ok(hops <= 16, `${hops} questions for two families`);
  t.equal(
    await reasons(() => ({ answers: [a('192.0.2.1')] }), 'web.svc.internal'),
    'refused: a name of a zone of this server, or of nobody',
  );
  t.same(await reasons(({ type }) => (type === TYPE.A ? { answers: [a('192.0.2.1')] } : { rcode: RCODE.SERVFAIL })), {
    kind: 'addresses',
    addresses: ['192.0.2.1'],
    unknown: 6,
  });
  const none = await new Promise<HostResult>((resolve) => {
    const options = { forward: () => undefined, now: () => 0, isOurs: () => false };
    new HostLookup({ ...options, found: (_, found) => resolve(found) }).look(['db.example.com']);
  });
  t.same(none, { kind: 'failed', reason: 'there is neither forward nor bootstrap to ask' });
});

t.test('a name is looked up at once, then every soft TTL, and later and later while that fails', async (t) => {
  const table = new HostTable();
  const who = {};
  const other = {};
  table.want('db.example.com', who, 10_000);
  table.want('db.example.com', other, 8_000);
  t.same(table.takeDue(0), ['db.example.com']);
  t.same(table.takeDue(1), [], 'one flight');
  t.equal(table.nextDue(), 30_000, 'one that is lost is made again');
  table.heard('db.example.com', { kind: 'addresses', addresses: ['192.0.2.1'] }, 100);
  t.equal(table.nextDue(), 8_100, 'for whoever wants it soonest');
  const waits: number[] = [];
  for (let i = 0, now = 0; i < 8; i++) {
    table.heard('db.example.com', { kind: 'failed', reason: 'x' }, now);
    waits.push(table.nextDue() - now);
    now = table.nextDue();
  }
  t.same(waits, [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
  t.equal(table.reason('db.example.com'), 'x');
  table.heard('db.example.com', { kind: 'addresses', addresses: ['192.0.2.1'] }, 0);
  t.same([table.reason('db.example.com'), table.nextDue()], [undefined, 8_000]);
  table.unwant('db.example.com', other);
  table.unwant('db.example.com', who);
  t.equal(table.nextDue(), Number.POSITIVE_INFINITY);
  t.equal(table.heard('db.example.com', { kind: 'failed', reason: 'x' }, 0), false, 'nobody wants it any more');
});

t.test('every kind of registry may list host names', async (t) => {
  const policy = new AddressPolicy([], false);
  const limits = { maxServices: 10, maxEndpoints: 10, maxEndpointsPerService: 10, maxBody: 1 << 20 };
  const text = 'services: { db: { endpoints: [{ address: DB.Example.com., port: 5432 }] } }';
  const options = { file: 's.yaml', allowAddresses: [], limits };
  const file = await parseHere({ format: 'yaml', bytes: Buffer.from(text), options });
  t.match(file, {
    ok: true,
    contents: { services: [{ rows: [{ id: 'db.example.com:5432', address: 'db.example.com' }] }] },
  });
  const bytes = (value: object): string => JSON.stringify(value);
  const plain = plainLayout(policy, undefined)('db/1', bytes({ address: 'db.example.com', port: 5432 }));
  t.match(plain, { kind: 'rows', rows: [{ address: 'db.example.com' }] });
  const skydns = skydnsLayout(policy, undefined)('db/1', bytes({ host: 'db.example.com', port: 5432 }));
  t.match(skydns, { kind: 'rows', rows: [{ address: 'db.example.com', port: 5432 }] });
  const groups = [{ targets: ['db.example.com:5432'], labels: { job: 'db' } }];
  const http = readTargets(bytes(groups), {
    where: 'http://sd',
    serviceLabel: 'job',
    port: undefined,
    policy,
    limits: { maxServices: 10, maxEndpoints: 10, maxEndpointsPerService: 10, maxBody: 1000 },
  });
  t.match(http, { services: [{ name: 'db', rows: [{ address: 'db.example.com', port: 5432 }] }] });
});
