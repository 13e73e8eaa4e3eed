/** Another name server as the registry, a real one, and a proxy that breaks in front of it. */
import t from 'tap';
import type { DnsFault } from './dns-fault-proxy.js';
import { KINDS, notHeard, observe, proxyTo, recovers, server } from './dns-stories.js';
import { missingFor } from './name-server-programs.js';

// Stories wait more than they work: they run side by side.
t.jobs = 12;
t.setTimeout(110_000);

const skip = missingFor('knotd');
if (skip !== false) console.error(`skipped: the stories of DNS registries (${skip}; Debian: knot)`);

const FAULTS: readonly [name: string, fault: DnsFault, axfr: RegExp, names?: RegExp][] = [
  ['refuses', { kind: 'refuse' }, /connection refused/],
  ['takes everything and says nothing', { kind: 'silent' }, /no answer to (SOA|SRV)/],
  ['says SERVFAIL', { kind: 'rcode', rcode: 2 }, /not believable: .*SERVFAIL/],
  ['says REFUSED', { kind: 'rcode', rcode: 5 }, /not believable: .*REFUSED/],
  ['denies everything', { kind: 'rcode', rcode: 3 }, /not believable: .*there is no zone/, /denied \(NXDOMAIN\)/],
  [
    'refers to others',
    { kind: 'referral' },
    /not believable: .*no SOA/,
    /not believable: .*a referral to other servers/,
  ],
  ['is cut over UDP and TCP', { kind: 'truncated' }, /not believable: .*truncated over TCP/],
  ['says garbage', { kind: 'garbage' }, /no answer to (SOA|SRV), but \d+ that were none/],
  ['answers with another id', { kind: 'wrong-id' }, /no answer to (SOA|SRV), but \d+ that were none/],
  ['is cut, over UDP and TCP', { kind: 'cut' }, /closed (without an answer|in the middle of the transfer)/],
  ['is cut over UDP and drips over TCP', { kind: 'drip' }, /no (whole )?answer/],
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
      await zone.until(`it says so: ${says}`, notHeard(zone, says));
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
    const zone = await observe(t, KINDS[kind](proxy.origin).replace('interval: 1s', 'interval: 2s'), '6s');
    const before = proxy.requests.length;
    const start = performance.now();
    let stale = 0;
    await zone.until('time passes', () => {
      if (zone.status.state !== 'fresh') stale++;
      return performance.now() - start > 9000;
    });
    t.equal(stale, 0);
    const rate = (proxy.requests.length - before) / 9;
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

t.test('dns, names: names that are there and have nothing any more take nothing away', { skip }, async (t) => {
  const source = await server(t);
  const proxy = await proxyTo(t, source.port);
  const zone = await observe(t, KINDS.names(proxy.origin));
  await proxy.break({ kind: 'no-data' });
  await zone.until('the guard holds', () => zone.status.guarded === 6);
  await zone.pass(1500);
  t.ok(zone.status.heard, 'it is heard all the same');
  await proxy.mend();
  await zone.until('nothing is held', () => zone.status.guarded === 0);
  await recovers(zone, source);
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
      zone.reports.some((one) => one.kind === 'list' && one.epoch === 'dns+1'),
      'a new epoch (R7)',
    );
    t.ok(zone.status.guard.services.includes('orders'), 'what is missing is held');
  },
);
