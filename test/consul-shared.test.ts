/** Several zones that have one Consul, one etcd or one HTTP server as their registry: what it may be asked is for all of them together. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { openAdapter } from '../src/registry/open.js';
import {
  addresses,
  configOf,
  fakeConsul,
  following,
  instance,
  LIMITS,
  poll,
  registryOf,
  until,
} from './consul-fixture.js';
import { mostWithin } from './fake-consul.js';

t.jobs = 8;

t.test('two zones mirror one Consul with 50 requests under way and 50 begun a second, both together', async (t) => {
  const fake = await fakeConsul(t);
  fake.serviceDelay = 1500;
  for (let i = 0; i < 60; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`, { node: `n${i}` }));
  const lists = await Promise.all([
    poll(registryOf(t, fake)),
    poll(registryOf(t, fake, {}, { addresses: [fake.origin.toUpperCase().replace('HTTP', 'http')] })),
  ]);
  for (const list of lists) t.equal(Object.keys(addresses(list)).length, 60);
  t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
});

t.test('zones that follow one Consul share what may be watched, and none is left without', async (t) => {
  const fake = await fakeConsul(t);
  const names = Array.from({ length: 60 }, (_, i) => `s${i}`);
  for (const [i, name] of names.entries()) fake.set(name, instance(name, `10.0.0.${i + 1}`));
  const asked = openAdapter(
    { ...configOf(fake), mirror: 'asked' },
    { softTtl: 20_000, limits: LIMITS, allowAddresses: [], naming: 'rfc2782', datacenters: [] },
  );
  asked.onDemand?.order(names);
  const zones = [following(t, asked)];
  const hot = (): number => fake.count(/^health\/service.*index=/);
  await until('the first list', () => zones[0]!.rows.size === 60);
  await until('as many watches as it may have', () => hot() >= 30);
  for (let i = 0; i < 3; i++) {
    const registry = registryOf(t, fake);
    registry.mostAsked(names);
    zones.push(following(t, registry));
  }
  await until('all lists', () => zones.every(({ rows }) => rows.size === 60));
  await until('their watches', () => fake.count(/^catalog\/services.*index=/) >= 3);
  fake.set('s1', instance('s1', '10.0.0.2', { status: 'critical' }));
  await until('a change', () => zones.every(({ rows }) => rows.get('s1')?.[0]?.state === 'critical'));
  fake.set('s1', instance('more', '10.0.1.8'));
  await until('another', () => zones.every(({ rows }) => rows.get('s1')?.length === 2));
  t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
});

t.test('more zones than have room for their watches take turns, and all go on', async (t) => {
  const fake = await fakeConsul(t);
  for (let i = 0; i < 5; i++) fake.set(`s${i}`, instance(`i${i}`, `10.0.0.${i + 1}`));
  const zones = Array.from({ length: 9 }, () => following(t, registryOf(t, fake)));
  await until('all lists', () => zones.every(({ rows }) => rows.size === 5));
  fake.set('s1', instance('i1', '10.0.0.2', { status: 'critical' }));
  await until('a change', () => zones.every(({ rows }) => rows.get('s1')?.[0]?.state === 'critical'));
  fake.remove('s2', 'i2');
  await until('another', () => zones.every(({ rows }) => !rows.has('s2')));
  t.ok(fake.mostInFlight <= 50, `${fake.mostInFlight} under way`);
  t.ok(fake.mostInASecond() <= 50, `${fake.mostInASecond()} in a second`);
});

t.test('80 zones of one etcd that refuses all ask it 50 times a second at most', async (t) => {
  const at: number[] = [];
  const server = createServer((_req, res) => {
    at.push(performance.now());
    res.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const zone = { softTtl: 20_000, limits: LIMITS, allowAddresses: [], naming: 'rfc2782', datacenters: [] } as const;
  for (let i = 0; i < 80; i++) {
    const endpoints = [`http://127.0.0.1:${port}`];
    following(t, openAdapter({ type: 'etcd', endpoints, layout: 'plain', prefix: `/zone${i}/` }, zone));
  }
  await until('requests of two seconds', () => at.length > 0 && performance.now() - at[0]! > 2_000);
  const most = mostWithin(at, 1_000);
  t.ok(most <= 50 && most > 20, `${most} in a second`);
});

t.test('80 zones of one HTTP server, which are more than it may be asked for each second, are all heard', async (t) => {
  const at: number[] = [];
  const server = createServer((_req, res) => {
    at.push(performance.now());
    res.setHeader('content-type', 'application/json');
    res.end('[{"targets": ["10.0.0.1:80"], "labels": {"job": "web"}}]');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const zone = { softTtl: 20_000, limits: LIMITS, allowAddresses: [], naming: 'rfc2782', datacenters: [] } as const;
  const zones = Array.from({ length: 80 }, () => {
    const url = `http://127.0.0.1:${port}/sd`;
    return following(t, openAdapter({ type: 'http', url, interval: 1000, serviceLabel: 'job' }, zone));
  });
  await until('three reads of each', () => zones.every(({ reports }) => reports.length >= 3));
  for (const { reports } of zones)
    t.same(
      reports.filter((report) => 'reason' in report),
      [],
    );
  const most = mostWithin(at, 1_000);
  t.ok(most <= 50, `${most} in a second`);
});
