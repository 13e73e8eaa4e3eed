/** R6: what is over a zone's limits is counted early, told, and takes the last good list from nobody. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { LimitsConfig } from '../src/config/types.js';
import { TYPE } from '../src/dns/constants.js';
import type { ReadRecord } from '../src/dns/read-message.js';
import type { Adapter, Observation } from '../src/registry/adapter.js';
import { ConsulMirror } from '../src/registry/consul-mirror.js';
import { zoneServices } from '../src/registry/dns-records.js';
import { EtcdRegistry } from '../src/registry/etcd.js';
import { readTargets } from '../src/registry/http-targets.js';
import { ListMemory } from '../src/registry/list-memory.js';
import { parseHere } from '../src/registry/parse.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { SyncLoop } from '../src/registry/sync.js';
import { HostTable } from '../src/resolver/host-table.js';
import { SourceHosts } from '../src/resolver/source-hosts.js';
import { bootClock } from '../src/system/boot-clock.js';
import { row } from './registry-fixture.js';

const LIMITS: LimitsConfig = { maxServices: 3, maxEndpoints: 20, maxEndpointsPerService: 10, maxBody: 1 << 20 };
const POLICY = new AddressPolicy([], false);
const NEVER = new AbortController().signal;
const ZONE = 'corp.test';

const srv = (service: string, target: string, port: number): ReadRecord => {
  return { name: `_${service}._tcp.${ZONE}`, type: TYPE.SRV, priority: 0, weight: 1, port, target };
};
const hosts = (name: string, count: number): ReadRecord[] =>
  Array.from({ length: count }, (_, i) => ({ name, type: TYPE.A, address: Uint8Array.of(10, 0, i >> 8, i & 255) }));

t.test('a zone: a target with many addresses times many records is not made rows of', async (t) => {
  const target = `many.${ZONE}`;
  const records = [...hosts(target, 3000), ...Array.from({ length: 3000 }, (_, i) => srv('orders', target, 1000 + i))];
  const over = zoneServices(ZONE, records, { port: undefined, policy: POLICY, limits: LIMITS });
  t.match(over, /service "orders" has \d\d endpoints or more, more than limits\.maxEndpointsPerService \(10\)/);
  const spread = Array.from({ length: 9 }, (_, i) => srv(`s${i}`, `few.${ZONE}`, 80));
  const all = zoneServices(ZONE, [...hosts(`few.${ZONE}`, 9), ...spread], { port: 80, policy: POLICY, limits: LIMITS });
  t.match(all, /\d\d endpoints or more, more than limits\.maxEndpoints \(20\)/);
  const twice = [...Array.from({ length: 300 }, () => srv('orders', `few.${ZONE}`, 80)), ...hosts(`few.${ZONE}`, 9)];
  t.match(zoneServices(ZONE, twice, { port: undefined, policy: POLICY, limits: LIMITS }), {
    services: [{ name: 'orders', rows: { length: 9 } }],
  });
});

t.test('etcd: it is asked for no more keys than there is room for, and how many there are is told', async (t) => {
  const asked: { limit?: string }[] = [];
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk as Buffer);
    asked.push(JSON.parse(Buffer.concat(chunks).toString()) as { limit?: string });
    res.end(JSON.stringify({ header: { cluster_id: '1', revision: '9' }, kvs: [], count: '1000000' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const config = { type: 'etcd', endpoints: [endpoint], prefix: '/svc', layout: 'plain' } as const;
  const registry = new EtcdRegistry(config, { softTtl: 60_000, limits: LIMITS, allowAddresses: [] });
  t.teardown(() => registry.close());
  t.match(await registry.poll({ signal: NEVER, fresh: true }), {
    kind: 'unbelievable',
    reason: /1000000 keys, more than limits\.maxEndpoints and limits\.maxServices have room for \(1026\)/,
  });
  t.equal(asked[0]?.limit, '1027');
});

t.test('consul: services and instances are counted before rows are made of them', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1', () => true, LIMITS);
  const answer = (body: unknown) => ({ body, index: 9, filtered: false });
  const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  const instances = (count: number) =>
    Array.from({ length: count }, (_, i) => ({ Node, Service: { ID: `i${i}`, Port: 80 + i } }));
  mirror.takeServices(answer({ a: [], b: [], c: [] }));
  t.equal(mirror.over, undefined);
  t.match(mirror.takeService('a', answer(instances(21))), /21 instances, for limits\.maxEndpointsPerService \(10\)/);
  for (const name of ['a', 'b']) mirror.takeService(name, answer(instances(20)));
  t.equal(mirror.over, undefined);
  mirror.takeService('c', answer(instances(1)));
  t.match(mirror.over, /41 instances or more, more than limits\.maxEndpoints \(20\)/);
  mirror.takeService('b', answer([]));
  t.equal(mirror.over, undefined);
  mirror.takeServices(answer({ a: [], b: [], c: [], d: [] }));
  t.match(mirror.over, /4 services, more than limits\.maxServices \(3\)/);
});

t.test('a list that was not believed is not confirmed by a source that has nothing newer', async (t) => {
  const fresh: boolean[] = [];
  const told: string[] = [];
  const rows = (count: number): Observation => ({
    kind: 'list',
    epoch: 'e',
    services: Array.from({ length: count }, (_, i) => ({ name: `s${i}`, rows: [] })),
    releases: [],
    rejected: [],
    removalsBelievable: true,
  });
  const answers = [rows(1), rows(9), rows(9), rows(2)];
  const adapter: Adapter = {
    identity: 'scripted',
    interval: 20,
    deadline: 1000,
    pace: { backoff: { base: 20, cap: 20 }, firstSpread: 0, recoverySpread: 0 },
    poll: async (context) => {
      fresh.push(context.fresh);
      return answers.shift() ?? { kind: 'confirmed' };
    },
    close: () => undefined,
  };
  const loop = new SyncLoop(adapter, {
    clock: bootClock(),
    random: Math.random,
    limits: LIMITS,
    emit: ({ kind }) => void told.push(kind),
    watchFailed: () => undefined,
  });
  loop.start(false);
  t.teardown(() => loop.stop());
  while (told.length < 5) await new Promise((resolve) => setTimeout(resolve, 10));
  t.same(told.slice(0, 5), ['list', 'unbelievable', 'unbelievable', 'list', 'confirmed']);
  t.same(fresh.slice(0, 5), [true, false, true, true, false]);
});

t.test('R28: what is found of a host name over the limits is told', async (t) => {
  const table = new HostTable();
  const hosts = new SourceHosts(table);
  hosts.configure([], false, 1000);
  const row = { id: 'a', address: 'far.example', port: 80, priority: 0, weight: 1, tags: [] };
  const services = [{ name: 'web', rows: [{ ...row, protocol: 'tcp', state: 'passing' } as const] }];
  const about = { at: 0, epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
  hosts.believe({ kind: 'list', services, ...about }, () => undefined);
  const addresses = Array.from({ length: 70 }, (_, i) => `10.0.0.${i}`);
  t.equal(hosts.take('far.example', { kind: 'addresses', addresses })[0]?.rows.length, 64);
  t.same([...hosts.problems()], ['far.example: 70 addresses, of which 64 are taken; its last addresses stand']);
  hosts.take('far.example', { kind: 'addresses', addresses: ['10.0.0.1'] });
  t.same([...hosts.problems()], []);
  hosts.refuse('far.example', '21 endpoints, more than maxEndpoints (20)');
  t.match([...hosts.problems()], [/what was found is not taken in: 21 endpoints, more than maxEndpoints/]);
  hosts.refuse('far.example', undefined);
  t.same([...hosts.problems()], []);
});

t.test('a name without measure loses its own service, and is in full in nothing that is told', async (t) => {
  const long = 'x'.repeat(100_000);
  const labels = (job: string) => ({ labels: { job }, targets: ['10.0.0.1:80'] });
  const targets = { serviceLabel: 'job', port: undefined, policy: POLICY, where: 'http://sd', limits: LIMITS };
  const list = readTargets(JSON.stringify([labels('orders'), labels(long)]), targets);
  t.match(list, { services: { length: 1 }, rejected: { length: 1 }, removalsBelievable: true });
  const endpoints = [{ address: '10.0.0.1', port: 80 }];
  const services = { orders: { endpoints }, [long]: { endpoints } };
  const release = { [long]: 'soon' };
  const options = { file: 's.json', limits: LIMITS, allowAddresses: [] };
  const bytes = Buffer.from(JSON.stringify({ release, services }));
  const file = await parseHere({ format: 'json', bytes, options });
  t.match(file, { ok: true, contents: { services: { length: 1 }, rejected: { length: 2 } } });
  const many = Array.from({ length: 11 }, (_, i) => `10.0.1.${i}:80`);
  const over = readTargets(JSON.stringify([{ ...labels(long), targets: many }]), targets);
  const memory = new ListMemory();
  const rows = many.map((_, i) => row({ address: `10.0.1.${i}` }));
  const about = { epoch: 'e', releases: [], rejected: [], removalsBelievable: true };
  const whole = memory.overLimit({ kind: 'list', services: [{ name: long, rows }], ...about }, LIMITS);
  for (const told of [over, whole]) t.match(told, /^service "x+\.\.\." has 11 endpoints, more than limits/);
  for (const told of [list, file, over, whole]) t.ok(JSON.stringify(told).length < 2000);
});
