/** R6, R7: the real program is started again, and meanwhile its registry was restored from an older backup. */
import { writeFileSync } from 'node:fs';
import t from 'tap';
import { TYPE } from '../../src/dns/constants.js';
import { a, encode, FakeNameServer, soa, ZONE as TRANSFERRED } from '../dns-registry-fixture.js';
import { FakeConsul } from '../fake-consul.js';
import { consulScene, fill } from './consul-scene.js';
import { freePort, Host, until } from './program.js';
import { zoneConfig } from './zone-config.js';

t.test('what an older backup does not have is not gone, though it was restored while nobody looked', async (t) => {
  const { fake, host } = await consulScene(t, 10);
  const running = await host.serve();
  await running.said('zone-synced');
  await until('the watches', () => fake.count(/index=/) >= 4);
  // A change has no revision of its own.
  fake.set('s3', { id: 'more', node: 'n0', address: '10.9.9.9' });
  await until('the change', async () => (await host.ask('s3 A')).answers.length === 2);
  await host.saved('10.9.9.9');
  running.kill('SIGTERM');
  await running.ended;
  fake.wipe();
  fill(fake, 9);
  const again = await host.serve();
  const there = async (): Promise<boolean> => (await host.ask('s9 A')).answers.length === 1;
  await until('an answer', there);
  await until('that it went back', () => again.output.includes('went back'));
  t.ok(await there());
  await again.said('epoch-changed');
  await until('what is new', async () => (await host.ask('s3 A')).answers.length >= 1);
  t.ok(await there());
});

t.test('so it is with a zone that is transferred, and what was believed in the end stays one epoch', async (t) => {
  const fake = await FakeNameServer.start(t);
  const zone = { serial: 200, hosts: ['web', 'shop', 'late'] };
  fake.answer = ({ id, name, type }) => {
    const hosts =
      type === TYPE.AXFR ? zone.hosts.map((host) => a(`${host}.${TRANSFERRED}`, 10, 0, 0, host.charCodeAt(0))) : [];
    const ends = [soa(TRANSFERRED, zone.serial)];
    return { end: [encode(id, { name, type }, type === TYPE.AXFR ? [...ends, ...hosts, ...ends] : ends)] };
  };
  const host = new Host();
  t.teardown(() => host.dispose());
  host.port = await freePort();
  const { address, port } = fake.server;
  const registry = `type: dns, servers: ["${address}:${port}"], transfer: axfr, zone: ${TRANSFERRED}, port: 80, interval: 1s`;
  writeFileSync(host.config, zoneConfig(host.port, registry, ['check: { type: none }']));
  const answered = async (name: string): Promise<boolean> => (await host.ask(`${name} A`)).answers.length === 1;
  const first = await host.serve();
  await first.said('zone-synced');
  await host.saved('late');
  first.kill('SIGTERM');
  await first.ended;
  Object.assign(zone, { serial: 100, hosts: ['web', 'shop', 'old'] });
  const second = await host.serve();
  await until('that it went back', () => second.output.includes('the serial went back from 200 to 100'));
  t.ok(await answered('late'));
  t.notOk(await answered('old'));
  await second.said('epoch-changed');
  await until('what the backup has', () => answered('old'));
  t.ok(await answered('late'), 'held as the first list of another epoch is (R7)');
  await host.saved('dns+1');
  second.kill('SIGTERM');
  await second.ended;
  Object.assign(zone, { serial: 101, hosts: ['web', 'shop', 'old', 'new'] });
  const third = await host.serve();
  await until('what is new', () => answered('new'));
  t.same(
    third.events().filter(({ event }) => event === 'epoch-changed'),
    [],
  );
});

t.test('nor what one of several datacenters does not have that was restored meanwhile', async (t) => {
  const { fake, host } = await consulScene(t, 5, '', ['naming: consul', 'datacenters: [dc1, dc2]']);
  const other = await FakeConsul.start();
  t.teardown(() => other.stop());
  other.datacenter = 'dc2';
  fake.elsewhere.set('dc2', other);
  fill(other, 10);
  const running = await host.serve();
  await running.said('zone-synced');
  const there = async (): Promise<boolean> => (await host.ask('s9.service.dc2 A')).answers.length === 1;
  t.ok(await there());
  await host.saved('s9');
  running.kill('SIGTERM');
  await running.ended;
  other.wipe();
  fill(other, 8);
  const again = await host.serve();
  await until('an answer', there);
  await until('that it went back', () => again.output.includes('went back'));
  t.ok(await there());
  await again.said('epoch-changed');
  t.ok(await there(), 'held by the guard (R7)');
});
