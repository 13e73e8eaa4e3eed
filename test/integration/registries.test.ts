/** What every registry adapter has to bear, against the real server and a proxy that breaks in front of it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeCertificates } from './certificates.js';
import { type Fault, FaultProxy } from './fault-proxy.js';
import { resolveTo } from './host-names.js';
import {
  consul,
  etcd,
  http,
  httpSource,
  KNOWN,
  known,
  noStorm,
  notHeard,
  onDemand,
  open,
  ready,
  recovers,
} from './registry-stories.js';
import { TargetsServer } from './targets-server.js';

// Stories wait more than they work: they run side by side.
t.jobs = 16;
t.setTimeout(110_000);

const FAULTS: readonly [name: string, fault: Fault, says: RegExp][] = [
  ['refuses connections', { kind: 'refuse' }, /connection refused/],
  ['is half open: takes everything, says nothing', { kind: 'silent' }, /no (whole )?answer/],
  ['freezes in the middle of a body', { kind: 'freeze' }, /no (whole )?answer/],
  ['drips', { kind: 'drip' }, /no (whole )?answer/],
  ['cuts bodies', { kind: 'cut' }, /closed in the middle|reset|cut/],
  ['answers 500', { kind: 'status', status: 500 }, /status 500 \(server error\)/],
  ['answers 403', { kind: 'status', status: 403 }, /status 403 \(forbidden\)/],
  ['answers garbage', { kind: 'garbage' }, /not believable: .*not (the )?JSON/],
];

for (const kind of [etcd, consul, onDemand, http]) {
  const { own = 0, asks = 1, settles = 2000 } = kind;
  const skip = kind.missing ?? false;
  for (const [name, fault, says] of FAULTS) {
    t.test(`${kind.name}: it ${name}`, { buffered: true, skip }, async (t) => {
      const source = await kind.source(t);
      const { zone, proxy } = await ready(t, source);
      const before = proxy.requests.length;
      const start = performance.now();
      await proxy.break(fault);
      await zone.until('the outage is told', notHeard(zone, says));
      await zone.until('the zone is stale', () => zone.status.state === 'stale');
      await zone.pass(1500);
      noStorm(t, zone, proxy.requests.length - before, (performance.now() - start) / 1000);
      await proxy.mend();
      await recovers(zone, source);
    });
  }

  t.test(`${kind.name}: it asks to be left alone`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone, proxy } = await ready(t, source);
    await proxy.break({ kind: 'status', status: 429, retryAfter: '4' });
    await zone.until('the outage is told', notHeard(zone, /status 429 \(too many requests\)/));
    await zone.pass(300);
    const before = proxy.requests.length;
    await zone.pass(3000);
    t.ok(proxy.requests.length - before <= 1, 'it is');
    await proxy.mend();
    await recovers(zone, source);
  });

  t.test(`${kind.name}: the first list comes late`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const proxy = await FaultProxy.start(source.port);
    t.teardown(() => proxy.stop());
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    await proxy.break({ kind: 'refuse' });
    const zone = open(t, `{ ${source.registry(proxy.origin)} }`);
    await zone.until('the outage is told', notHeard(zone, /connection refused/));
    await zone.until('it is no answer', () => zone.addresses('orders')[0] === 'SERVFAIL');
    t.same(zone.status.state, 'never-synced');
    await proxy.mend();
    await known(zone);
  });

  t.test(`${kind.name}: it lists nothing all at once, and the guard holds`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone } = await ready(t, source);
    await source.empty();
    await zone.until('the guard holds', () => zone.status.guarded === 5);
    await zone.pass(1500);
    await zone.until('it is heard all the same', () => zone.status.heard && zone.status.state === 'fresh');
    t.equal(zone.status.guarded, 5);
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    await zone.until('nothing is held', () => zone.status.guarded === 0);
  });

  t.test(`${kind.name}: changes come in, one by one and many at once`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone, proxy } = await ready(t, source, '', '4s');
    for (let i = 1; i <= 30; i++) await source.put(`s${i}`, [`10.1.0.${i}`]);
    await zone.until('all services', () => {
      for (let i = 1; i <= 30; i++) zone.addresses(`s${i}`);
      return zone.status.services === 32 + own;
    });
    t.same(zone.addresses('s17'), ['10.1.0.17']);
    await source.put('s17', ['10.1.0.17', '10.2.0.17']);
    await zone.until('another endpoint', () => zone.addresses('s17').length === 2);
    await source.put('s17', ['10.1.0.17']);
    await zone.until('one endpoint less', () => zone.addresses('s17').length === 1);
    // Reads that the changes brought are spaced: they come to their end first.
    await zone.pass(settles);
    const before = proxy.requests.length;
    await zone.pass(5000);
    const requests = proxy.requests.slice(before);
    t.ok(requests.length <= 1 + 5 * asks, `a quiet registry is asked rarely: ${requests.join(' ')}`);
    t.same([zone.status.state, zone.status.heard], ['fresh', true], 'R2: and is never stale');
    t.notOk(zone.reports.some((report) => report.kind === 'unreachable' || report.kind === 'unbelievable'));
  });

  t.test(`${kind.name}: bad data loses its row and nothing else`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const { zone } = await ready(t, source);
    await source.put('mixed', ['10.3.0.1', 'non sense', '224.0.0.1']);
    await zone.until('the good endpoint', () => zone.addresses('mixed')[0] === '10.3.0.1');
    await zone.until('both bad ones are told', () => zone.status.rejected.length === 2);
    t.match(zone.status.rejected.map(({ reason }) => reason).join(), /IP address.*not "non sense".*is multicast/);
  });

  t.test(`${kind.name}: its host name resolves elsewhere`, { buffered: true, skip }, async (t) => {
    const source = await kind.source(t);
    const first = await FaultProxy.start(source.port);
    const second = await FaultProxy.start(source.port, undefined, { host: '127.0.0.2', port: first.port });
    t.teardown(() => Promise.all([first.stop(), second.stop()]));
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const name = `${kind.name.replaceAll(' ', '-')}.moved.test`;
    resolveTo(name, '127.0.0.1');
    const zone = open(t, `{ ${source.registry(`http://${name}:${first.port}`)} }`);
    await known(zone);
    t.equal(second.requests.length, 0);
    resolveTo(name, '127.0.0.2');
    await zone.pass(1500);
    await first.break({ kind: 'refuse' });
    await recovers(zone, source);
    t.ok(second.requests.length > 0, 'the other place is asked');
  });

  t.test(`${kind.name}: the certificate expires`, { buffered: true, skip }, async (t) => {
    const certificates = makeCertificates(t.testdir({}));
    if (certificates === undefined) return t.pass('skipped: no openssl here', { skip: 'no openssl' });
    const source = await kind.source(t);
    for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
    const proxy = await FaultProxy.start(source.port, certificates.good);
    t.teardown(() => proxy.stop());
    proxy.askers = 2;
    const stranger = open(t, `{ ${source.registry(proxy.origin)} }`);
    const zone = open(t, `{ ${source.registry(proxy.origin)}, caFile: ${certificates.caFile} }`);
    await known(zone);
    await stranger.until('another authority is not trusted', notHeard(stranger, /not signed by a known authority/));
    proxy.certify(certificates.expired);
    await zone.until('the outage is told', notHeard(zone, /the certificate has expired/));
    await zone.pass(1000);
    proxy.certify(certificates.good);
    await recovers(zone, source);
  });
}

t.test('http: the bearer token is revoked, and replaced', { buffered: true }, async (t) => {
  const server = await TargetsServer.start();
  t.teardown(() => server.stop());
  const dir = t.testdir({ token: 'first-secret\n' });
  server.authorization = 'Bearer first-secret';
  const source = httpSource(server);
  const { zone } = await ready(t, source, `, tokenFile: ${join(dir, 'token')}`);
  server.authorization = 'Bearer second-secret';
  await zone.until('the outage is told', notHeard(zone, /status 401 \(not authorized\)/));
  await zone.pass(1000);
  writeFileSync(join(dir, 'token'), 'second-secret\n');
  await recovers(zone, source);
  server.authorization = `Basic ${Buffer.from('me:pass-secret').toString('base64')}`;
  writeFileSync(join(dir, 'password'), 'pass-secret');
  const other = open(
    t,
    `{ ${source.registry(`http://127.0.0.1:${server.port}`)}, username: me, passwordFile: ${join(dir, 'password')} }`,
  );
  await known(other);
  t.notMatch(JSON.stringify([zone.reports, zone.logged, zone.status, other.status]), /secret/);
});

t.test('http: what is no list is not believed', { buffered: true }, async (t) => {
  const source = await http.source(t);
  const { zone, proxy } = await ready(t, source);
  await proxy.break({ kind: 'rewrite', path: /sd/, rewrite: () => '{"targets": []}' });
  await zone.until('the outage is told', notHeard(zone, /not believable: .*not a list of target groups/));
  await proxy.mend();
  await recovers(zone, source);
});
