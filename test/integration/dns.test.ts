/** Another name server as the registry, a real one, and a proxy that breaks in front of it. */
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type DnsFault, DnsFaultProxy } from './dns-fault-proxy.js';
import { DNS_ZONE, DnsServer, hasKnot } from './dns-server.js';
import { ObservedZone } from './observed-zone.js';
import { freePorts } from './ports.js';

// Stories wait more than they work: they run side by side.
t.jobs = 12;
t.setTimeout(110_000);

const missing = !hasKnot();
if (missing) console.error('skipped: the stories of DNS registries (no knotd on the PATH; Debian: knot)');
const skip = missing ? 'no knotd here' : false;

const KNOWN = { orders: ['10.0.0.1', '10.0.0.2', '10.0.0.3'], billing: ['10.0.1.1', '10.0.1.2'] };
const NAMES = [...Object.keys(KNOWN), 'late'].map((service) => `_${service}._tcp.${DNS_ZONE}`);

const KINDS = {
  axfr: (...servers: string[]) =>
    `type: dns, servers: ${JSON.stringify(servers)}, transfer: axfr, zone: ${DNS_ZONE}, interval: 1s`,
  names: (...servers: string[]) =>
    `type: dns, servers: ${JSON.stringify(servers)}, names: ${JSON.stringify(NAMES)}, interval: 1s`,
};

let folders = 0;
const root = t.testdir({});

async function server(t: Test, notify?: number): Promise<DnsServer> {
  const made = await DnsServer.start(join(root, String(++folders)), notify);
  t.teardown(() => made.stop());
  for (const [service, addresses] of Object.entries({ ...KNOWN, late: ['10.0.9.1'] }))
    await made.put(service, addresses);
  return made;
}

async function proxyTo(t: Test, port: number): Promise<DnsFaultProxy> {
  const proxy = await DnsFaultProxy.start(port);
  t.teardown(() => proxy.stop());
  return proxy;
}

async function observe(t: Test, registry: string, softTtl?: string): Promise<ObservedZone> {
  const zone = new ObservedZone(`{ ${registry} }`, softTtl);
  t.teardown(() => zone.stop());
  await zone.until('the first list', () => zone.status.state === 'fresh');
  zone.hold(KNOWN);
  return zone;
}

/** What changed at the source is answered, and nothing is amiss. */
async function recovers(zone: ObservedZone, source: DnsServer): Promise<void> {
  await source.put('late', ['10.0.9.9', '10.0.9.1']);
  await zone.until('the new endpoint', () => zone.addresses('late').includes('10.0.9.9'));
  await zone.until('all is well', () => zone.status.heard && zone.status.state === 'fresh');
}

const FAULTS: readonly [name: string, fault: DnsFault, axfr: RegExp, names?: RegExp][] = [
  ['refuses', { kind: 'refuse' }, /connection refused/],
  ['takes everything and says nothing', { kind: 'silent' }, /no answer to (SOA|SRV)/],
  ['says SERVFAIL', { kind: 'rcode', rcode: 2 }, /not believable: .*SERVFAIL/],
  ['says REFUSED', { kind: 'rcode', rcode: 5 }, /not believable: .*REFUSED/],
  ['denies everything', { kind: 'rcode', rcode: 3 }, /not believable: .*there is no zone/, /denied \(NXDOMAIN\)/],
  ['says garbage', { kind: 'garbage' }, /no answer to (SOA|SRV), but \d+ that were none/],
  ['answers with another id', { kind: 'wrong-id' }, /no answer to (SOA|SRV), but \d+ that were none/],
  ['is cut, over UDP and TCP', { kind: 'cut' }, /closed (without an answer|in the middle of the transfer)/],
  ['is cut over UDP and freezes over TCP', { kind: 'freeze' }, /no (whole )?answer/],
];

for (const kind of ['axfr', 'names'] as const) {
  for (const [name, fault, axfr, names] of FAULTS) {
    t.test(`dns, ${kind}: a server that ${name}`, { skip }, async (t) => {
      const source = await server(t);
      const proxy = await proxyTo(t, source.port);
      const zone = await observe(t, KINDS[kind](proxy.origin));
      await proxy.break(fault);
      const says = kind === 'names' ? (names ?? axfr) : axfr;
      await zone.until(`it says so: ${says}`, () => !zone.status.heard && says.test(zone.status.reason ?? ''));
      const before = proxy.requests.length;
      await zone.pass(3000);
      t.ok(proxy.requests.length - before <= 40, `${proxy.requests.length - before} requests in 3 s are no storm`);
      await proxy.mend();
      await recovers(zone, source);
    });
  }

  t.test(`dns, ${kind}: a change comes, and a quiet zone is never stale`, { skip }, async (t) => {
    const source = await server(t);
    const proxy = await proxyTo(t, source.port);
    const zone = await observe(t, KINDS[kind](proxy.origin));
    const before = proxy.requests.length;
    const start = performance.now();
    let stale = 0;
    await zone.until('time passes', () => {
      if (zone.status.state !== 'fresh') stale++;
      return performance.now() - start > 6000;
    });
    t.equal(stale, 0);
    const rate = (proxy.requests.length - before) / 6;
    t.ok(rate < 50, `${rate.toFixed(1)} requests a second`);
    await recovers(zone, source);
  });

  t.test(`dns, ${kind}: the first of two servers is dead`, { skip }, async (t) => {
    const source = await server(t);
    const proxy = await proxyTo(t, source.port);
    const zone = await observe(t, KINDS[kind](proxy.origin, `127.0.0.1:${source.port}`));
    await proxy.break({ kind: 'silent' });
    await recovers(zone, source);
  });
}

t.test('dns, axfr: a zone that comes back empty takes nothing away', { skip }, async (t) => {
  const source = await server(t);
  const zone = await observe(t, KINDS.axfr(`127.0.0.1:${source.port}`));
  for (const service of [...source.services.keys()]) source.services.delete(service);
  await source.put('other', ['10.0.7.7']);
  await zone.until('the new list', () => zone.addresses('other')[0] === '10.0.7.7');
  t.ok(zone.status.guard.services.includes('orders'), 'the guard holds it');
  t.ok(zone.status.heard);
});

t.test('dns, axfr: no SOA in the answer', { skip }, async (t) => {
  const source = await server(t);
  const proxy = await proxyTo(t, source.port);
  const zone = await observe(t, KINDS.axfr(proxy.origin));
  await proxy.break({ kind: 'no-data' });
  await zone.until('it says so', () => /no SOA/.test(zone.status.reason ?? ''));
  await proxy.mend();
  await recovers(zone, source);
});

t.test(
  'dns, axfr: a server restored from an old copy is doubted, then believed with all that it lost held',
  { skip },
  async (t) => {
    const source = await server(t);
    const zone = await observe(t, KINDS.axfr(`127.0.0.1:${source.port}`));
    await source.stop();
    source.serial = 0;
    source.services.delete('orders');
    await source.restart();
    await zone.until('it says so', () => /serial went back/.test(zone.status.reason ?? ''));
    await zone.until('it is believed', () => zone.status.heard);
    t.ok(
      zone.reports.some((one) => one.kind === 'list' && one.epoch.startsWith('dns from serial')),
      'a new epoch (R7)',
    );
    t.ok(zone.status.guard.services.includes('orders'), 'what is missing is held');
  },
);

t.test('dns, axfr: NOTIFY brings a change long before the timer does', { skip }, async (t) => {
  const [port] = await freePorts(1);
  const source = await server(t, port);
  const registry = KINDS.axfr(`127.0.0.1:${source.port}`).replace('1s', `5m, notify: "127.0.0.1:${port}"`);
  const zone = await observe(t, registry, '10m');
  await recovers(zone, source);
});
