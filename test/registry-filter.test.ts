import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { FilterConfig, LimitsConfig, RegistryConfig } from '../src/config/types.js';
import type { Adapter, Delivery, Observation } from '../src/registry/adapter.js';
import { filtered } from '../src/registry/filter.js';
import { readGroups } from '../src/registry/http-targets.js';
import { registryIdentity } from '../src/registry/identity.js';
import { openAdapter } from '../src/registry/open.js';
import type { ListedNode, Listing, Row } from '../src/registry/registry.js';
import { AddressPolicy } from '../src/registry/rows.js';

const LIMITS: LimitsConfig = { maxServices: 2, maxEndpoints: 3, maxEndpointsPerService: 3, maxBody: 1024 * 1024 };
const FILE = `
services:
  team-a-orders:
    endpoints:
      - { address: 10.0.0.1, port: 80, tags: [live] }
      - { address: 10.0.0.2, port: 80, tags: [canary] }
  team-a-jobs: { endpoints: [{ address: 10.0.0.3, port: 80, tags: [canary] }] }
  team-a-: { endpoints: [{ address: 10.0.0.4, port: 80, tags: [live] }] }
  team-b-orders: { endpoints: [{ address: 10.0.0.5, port: 80, tags: [live] }] }
release: { team-a-orders: 2031-05-04T09:30:00Z, team-b-orders: 2031-05-04T09:30:00Z, "*": 2031-05-04T09:30:00Z }
`;

async function read(folder: string, filter: FilterConfig) {
  const path = join(folder, 'services.yaml');
  writeFileSync(path, FILE);
  const adapter = openAdapter(
    { type: 'file', path, filter },
    {
      softTtl: 10_000,
      limits: LIMITS,
      allowAddresses: [],
      naming: 'rfc2782',
      datacenters: [],
    },
  );
  const seen = await adapter.poll({ signal: AbortSignal.timeout(5000), fresh: true });
  adapter.close();
  if (seen.kind !== 'list') throw new Error(JSON.stringify(seen));
  const services = Object.fromEntries(
    [...seen.services].map(({ name, rows }) => [name, rows.map(({ address }) => address)]),
  );
  return { services, releases: seen.releases.map(({ service }) => service) };
}

t.test('a filter shows a part of a registry as if it were the whole', async (t) => {
  const folder = t.testdir({});
  t.same(
    await read(folder, { prefix: 'team-a-' }),
    { services: { orders: ['10.0.0.1', '10.0.0.2'], jobs: ['10.0.0.3'] }, releases: ['orders', '*'] },
    'the prefix is taken off, of release marks too; a name that is nothing else has no name left',
  );
  t.same(
    (await read(folder, { prefix: 'team-a-', tag: 'live' })).services,
    { orders: ['10.0.0.1'] },
    'endpoints without the tag are not there, nor services without any',
  );
  t.same((await read(folder, { prefix: 'team-a-', services: ['J*'] })).services, { jobs: ['10.0.0.3'] });
  t.same(Object.keys((await read(folder, { services: ['team-?-orders'] })).services), [
    'team-a-orders',
    'team-b-orders',
  ]);
});

t.test('limits are counted after the filter: other tenants do not use them up', async (t) => {
  const { services } = await read(t.testdir({}), { services: ['team-b-*'] });
  t.same(
    services,
    { 'team-b-orders': ['10.0.0.5'] },
    'although the file has more services and endpoints than the limits',
  );
});

t.test(
  'R31: what others who share an etcd have written there, right or wrong, is no matter of this part',
  async (t) => {
    const base64 = (text: string): string => Buffer.from(text).toString('base64');
    const keys: Record<string, string> = {
      'team-a-orders/1': '{"address":"10.0.0.1","port":80}',
      'team-b-orders/1': 'junk',
      'team-b-jobs/1': '{"address":"nowhere at all","port":80}',
      'team-b-jobs': 'junk',
      '.release/team-b-jobs': 'soon',
      '.release/*': '2031-05-04T09:30:00Z',
    };
    const server = createServer((_req, res) => {
      const kvs = Object.entries(keys).map(([key, value]) => {
        return { key: base64(`/p/${key}`), value: base64(value), mod_revision: '5' };
      });
      res.end(JSON.stringify({ header: { cluster_id: '1', revision: '7' }, kvs, count: String(kvs.length) }));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const endpoints = [`http://127.0.0.1:${(server.address() as AddressInfo).port}`];
    const options = {
      softTtl: 10_000,
      limits: LIMITS,
      allowAddresses: [],
      naming: 'rfc2782',
      datacenters: [],
    } as const;
    const adapter = openAdapter(
      { type: 'etcd', endpoints, layout: 'plain', prefix: '/p', filter: { prefix: 'team-a-' } },
      options,
    );
    t.teardown(() => {
      adapter.close();
      server.close();
      server.closeAllConnections();
    });
    const read = (): Promise<Observation> =>
      adapter.poll({ signal: AbortSignal.timeout(5000), fresh: true }) as Promise<Observation>;
    t.match(await read(), {
      kind: 'list',
      services: [{ name: 'orders', rows: [{ address: '10.0.0.1' }] }],
      releases: [{ service: '*' }],
      rejected: [],
      removalsBelievable: true,
    });
    keys['team-a-jobs/1'] = 'junk';
    t.match((await read()) as object, { rejected: [{ where: '/p/team-a-jobs/1' }] }, 'its own is');
  },
);

t.test('R31: the same holds of files, of lists of targets, and of those over HTTP', async (t) => {
  const dir = t.testdir({});
  const services = { 'team-a-orders': { endpoints: [{ address: '10.0.0.1', port: 80 }] }, 'team-b-orders': 'junk' };
  const labels = (job: string) => ({ job });
  const groups = [
    { targets: ['10.0.0.1:80'], labels: labels('team-a-orders') },
    { targets: 'junk', labels: labels('team-b-orders') },
    { targets: ['nowhere at all'], labels: labels('team-b-jobs') },
  ];
  const files = { 'services.json': services, 'targets.json': groups } as Record<string, unknown>;
  for (const [name, value] of Object.entries(files)) {
    writeFileSync(join(dir, name), JSON.stringify(name === 'services.json' ? { services: value } : value));
  }
  writeFileSync(join(dir, 'services.yaml'), FILE.replace(/team-b-orders: \{.*\}\n/, 'team-b-orders: junk\n'));
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(groups));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const filter = { prefix: 'team-a-', services: ['orders'] };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const configs: RegistryConfig[] = [
    { type: 'file', path: join(dir, 'services.json'), filter },
    { type: 'file', path: join(dir, 'services.yaml'), filter },
    { type: 'file', path: join(dir, 'targets.json'), targets: { serviceLabel: 'job' }, filter },
    { type: 'http', url, interval: 1000, serviceLabel: 'job', filter },
  ];
  const options = { softTtl: 10_000, limits: LIMITS, allowAddresses: [], naming: 'rfc2782', datacenters: [] } as const;
  for (const config of configs) {
    const adapter = openAdapter(config, options);
    const seen = await adapter.poll({ signal: AbortSignal.timeout(5000), fresh: true });
    adapter.close();
    if (seen.kind !== 'list') throw new Error(JSON.stringify(seen));
    const addresses = [...seen.services].map(({ name, rows }) => [name, rows[0]?.address]);
    t.same([addresses, seen.rejected, seen.removalsBelievable], [[['orders', '10.0.0.1']], [], true], config.type);
  }
});

t.test('a part without endpoints is empty, whatever else cannot be read', async (t) => {
  const options = {
    serviceLabel: 'job',
    port: undefined,
    policy: new AddressPolicy([], false),
    where: 'x',
    limits: LIMITS,
  };
  const groups = [{ targets: ['10.0.0.1:80'], labels: { job: 'team-b-orders' } }, {}];
  const seen = readGroups(groups, { ...options, filter: { prefix: 'team-a-' } });
  t.match(seen, { services: [], removalsBelievable: false });
  t.match(readGroups([{}], options), /no endpoint can be read/);
});

t.test('parts of one registry are different registries', async (t) => {
  const base = { type: 'file', path: '/x' } as const;
  t.equal(registryIdentity(base), 'file:/x');
  t.equal(registryIdentity({ ...base, filter: { tag: 'live', prefix: 'a-' } }), 'file:/x[tag=live prefix=a-]');
});

t.test('of what is watched only the changes of the part are told', async (t) => {
  const row = (address: string, ...tags: string[]): Row => {
    return { id: address, address, port: 80, protocol: 'tcp', priority: 0, weight: 1, tags, state: 'passing' };
  };
  const change = (services: Listing[], gone: string[], nodes?: ListedNode[]): Delivery => {
    const told = { kind: 'change', epoch: 'e', services, gone, releases: [], rejected: [] } as const;
    return nodes === undefined ? told : { ...told, nodes };
  };
  const deliveries: Delivery[] = [
    { kind: 'confirmed' },
    change([{ name: 'a-orders', rows: [row('10.0.0.1', 'live'), row('10.0.0.2')] }], ['b-jobs', 'a-jobs']),
    change([{ name: 'a-orders', rows: [row('10.0.0.2')] }], []),
    change([{ name: 'b-orders', rows: [row('10.0.0.3', 'live')] }], [], [{ name: 'n', address: '10.0.0.3' }]),
  ];
  const failure: Observation = { kind: 'unreachable', reason: 'gone' };
  const whole = {
    identity: 'test',
    interval: 1,
    deadline: 1,
    pace: { backoff: { base: 1, cap: 1 }, firstSpread: 0, recoverySpread: 0 },
    credentials: { take: async () => [], replaced: async () => false },
    poll: async () => failure,
    close: () => undefined,
    follower: {
      presenceDeadline: 1,
      present: async () => ({ kind: 'same' }) as const,
      follow: async (_signal: AbortSignal, deliver: (delivery: Delivery) => void) => {
        for (const delivery of deliveries) deliver(delivery);
        return 'the end';
      },
    },
  } satisfies Adapter;
  const part = filtered(whole, { prefix: 'a-', tag: 'live' });
  t.equal(part.credentials, whole.credentials);
  t.same(
    await part.poll({ signal: AbortSignal.timeout(1000), fresh: true }),
    failure,
    'failures are those of the whole',
  );
  const told: Delivery[] = [];
  t.equal(await part.follower!.follow(AbortSignal.timeout(1000), (one) => told.push(one)), 'the end');
  t.same(told, [
    { kind: 'confirmed' },
    change([{ name: 'orders', rows: [row('10.0.0.1', 'live')] }], ['jobs']),
    change([], ['orders']),
    change([], []),
  ]);
  t.notMatch(JSON.stringify(told), /10\.0\.0\.3/, 'nor the host that another part alone is on');
});
