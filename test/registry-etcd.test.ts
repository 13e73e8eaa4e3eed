import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { EtcdRegistry } from '../src/registry/etcd.js';
import type { Layout } from '../src/registry/etcd-layout.js';
import { EtcdMirror } from '../src/registry/etcd-mirror.js';
import { plainLayout } from '../src/registry/etcd-plain.js';
import { skydnsLayout } from '../src/registry/etcd-skydns.js';
import type { Listing, Row } from '../src/registry/registry.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { brief, LIMITS, NEVER, row } from './registry-fixture.js';

function mirrorOf(
  layout: Layout,
  keys: Record<string, unknown>,
): { services: unknown; rejected: unknown; releases: unknown } {
  const mirror = new EtcdMirror('/p/', layout);
  for (const [key, value] of Object.entries(keys)) {
    mirror.put(`/p/${key}`, typeof value === 'string' ? value : JSON.stringify(value));
  }
  const { services, rejected, releases } = mirror.contents();
  return { services, rejected: rejected.map(({ where, reason }) => `${where}: ${reason}`), releases };
}

t.test('etcd, plain layout: instances, settings and release marks are keys', async (t) => {
  const layout = plainLayout(new AddressPolicy([], false), undefined);
  const seen = mirrorOf(layout, {
    'web/1': { address: '10.0.0.1', port: 80, weight: 5, tags: ['b', 'a'], state: 'draining', zone: 'az-a' },
    'web/two/parts': { address: 'fd00::2', ports: { HTTP: 80, grpc: 90 }, protocol: 'tcp', priority: 3, 'x-note': 1 },
    web: { check: { type: 'http', path: '/healthz' }, 'x-owner': 'me' },
    idle: {},
    dns: '{"check": {"type": "exec"}}',
    'dns/1': { address: '10.0.0.3', port: 53, protocol: 'udp', portName: 'dns' },
    '.release/web': '2031-05-04T09:30:00Z',
    '.release/*': '"2031-05-04T09:30:01Z"',
    '.release/dns': 'now',
    'bad/1': { address: '10.0.0.1', port: 70000 },
    'bad/2': { address: '10.0.0.256', port: 1 },
    'bad/3': { address: '127.0.0.1', port: 1 },
    'bad/4': '{"address": "10.0.0.1"',
    'bad/5': '[]',
    'bad/6': { address: '10.0.0.1', port: 1, adress: 'x' },
    'bad/7': { address: '10.0.0.1' },
    '/8': { address: '10.0.0.1', port: 1 },
  });
  t.same(seen.services, [
    {
      name: 'web',
      rows: [
        row({ id: '1', weight: 5, tags: ['a', 'b'], state: 'draining', zone: 'az-a' }),
        row({ id: 'two/parts', address: 'fd00::2', port: 80, priority: 3, portName: 'http' }),
        row({ id: 'two/parts', address: 'fd00::2', port: 90, priority: 3, portName: 'grpc' }),
      ],
      check: { type: 'http', path: '/healthz' },
    },
    { name: 'idle', rows: [] },
    { name: 'dns', rows: [row({ id: '1', address: '10.0.0.3', port: 53, protocol: 'udp', portName: 'dns' })] },
    { name: 'bad', rows: [] },
  ]);
  t.same(seen.releases, [
    { service: '*', wall: 1935653401000 },
    { service: 'web', wall: 1935653400000 },
  ]);
  t.same(seen.rejected, [
    '/p/.release/dns: a release mark must be a time such as 2031-05-04T09:30:00Z',
    '/p//8: no service in the key',
    '/p/bad/1: port must be 1 to 65535, not "70000"',
    '/p/bad/2: address must be an IP address or a host name, not "10.0.0.256"',
    '/p/bad/3: address 127.0.0.1 is loopback (allowAddresses would permit it)',
    '/p/bad/4: the value is not JSON',
    '/p/bad/5: the value is not a JSON object',
    '/p/bad/6: unknown field "adress"',
    '/p/bad/7: port must be 1 to 65535, not "nothing"',
    '/p/dns: check.type must be one of tcp, http, https, grpc, none',
  ]);
  t.match(mirrorOf(plainLayout(new AddressPolicy([], false), 8080), { 'a/1': { address: '10.0.0.1' } }).services, [
    { rows: [{ port: 8080 }] },
  ]);
});

t.test('etcd, SkyDNS layout: as CoreDNS reads it', async (t) => {
  const layout = skydnsLayout(new AddressPolicy([], false), undefined);
  const seen = mirrorOf(layout, {
    'web/x1': { host: '10.0.0.1', port: 80 },
    'web/blue/x2': { host: '10.0.0.2', port: 80, priority: 20, weight: 7, text: 'hi', ttl: 60 },
    'web/_tcp/_http/x3': { host: 'fd00::3', port: 80 },
    one: { host: '10.0.0.4', port: 5 },
    'dns/_udp/x': { host: '10.0.0.5', port: 53 },
    'bad/1': { host: '10.0.0', port: 80 },
    'bad/2': { text: 'only text' },
    'bad/3': { host: '10.0.0.1' },
    '.release/web': '2031-05-04T09:30:00Z',
  });
  const sky = (fields: Partial<Row>): Row => row({ priority: 10, weight: 100, ...fields });
  t.same(seen.services, [
    {
      name: 'web',
      rows: [
        sky({ id: 'x1', tags: ['x1'] }),
        sky({ id: 'blue/x2', address: '10.0.0.2', priority: 20, weight: 7, tags: ['blue', 'x2'] }),
        sky({ id: '_tcp/_http/x3', address: 'fd00::3', portName: 'http', tags: ['x3'] }),
      ],
    },
    { name: 'one', rows: [sky({ id: 'one', address: '10.0.0.4', port: 5 })] },
    { name: 'dns', rows: [sky({ id: '_udp/x', address: '10.0.0.5', port: 53, protocol: 'udp', tags: ['x'] })] },
    { name: 'bad', rows: [] },
  ]);
  t.same(seen.rejected, [
    '/p/bad/1: host must be an IP address or a host name, not "10.0.0"',
    '/p/bad/2: no host',
    '/p/bad/3: port must be 1 to 65535, not "nothing"',
  ]);
  t.same(seen.releases, [{ service: 'web', wall: 1935653400000 }]);
  const addresses = (keys: Record<string, unknown>): unknown =>
    (mirrorOf(layout, keys).services as Listing[])[0]?.rows.map(({ address }) => address);
  const group = (host: string, name?: string) => ({ host, port: 1, group: name });
  t.same(
    addresses({ 's/a': group('10.0.0.1', 'g'), 's/b': group('10.0.0.2'), 's/c/d': group('10.0.0.3', 'h') }),
    ['10.0.0.1', '10.0.0.2'],
    'the highest record gives the group',
  );
  t.same(addresses({ 's/a': group('10.0.0.1', 'g'), 's/b': group('10.0.0.2', 'h') }), ['10.0.0.1', '10.0.0.2']);
});

t.test('a mirror of keys tells what a write or a delete changes', async (t) => {
  const mirror = new EtcdMirror('/p/', plainLayout(new AddressPolicy([], false), undefined));
  const at = (address: string): string => JSON.stringify({ address, port: 80 });
  t.same(mirror.put('/p/a/1', at('10.0.0.1')), ['a']);
  t.same(mirror.put('/p/a/2', 'junk'), ['a']);
  t.same(mirror.put('/p/b/1', at('10.0.0.3')), ['b']);
  t.match(mirror.changes(['a', 'b', 'c']), {
    services: [
      { name: 'a', rows: [{ address: '10.0.0.1' }] },
      { name: 'b', rows: [{ address: '10.0.0.3' }] },
    ],
    gone: ['c'],
    rejected: [{ where: '/p/a/2', reason: 'the value is not JSON' }],
  });
  t.same(mirror.put('/p/a/2', at('10.0.0.2')), ['a', 'a']);
  t.same(mirror.delete('/p/b/1'), ['b']);
  t.same(mirror.delete('/p/b/1'), []);
  t.same(brief({ kind: 'list', epoch: '', removalsBelievable: true, ...mirror.contents() }), ['a=10.0.0.1,10.0.0.2']);
  t.same(mirror.changes(['b']).gone, ['b']);
  t.equal(mirror.size, 2);
});

t.test('R4, R6: a key of etcd that cannot be read takes nothing away', async (t) => {
  const layout = plainLayout(new AddressPolicy([], false), undefined);
  const good = { 'web/1': '{"address":"10.0.0.1","port":80}', web: '{"check":{"type":"tcp"}}' };
  const list = (keys: Record<string, string>, before?: EtcdMirror): EtcdMirror => {
    const mirror = new EtcdMirror('/p/', layout);
    for (const [key, value] of Object.entries(keys)) mirror.list(`/p/${key}`, value, before);
    return mirror;
  };
  const web = { name: 'web', rows: [row({ id: '1' })], check: { type: 'tcp' } };
  const told = ['/p/web', '/p/web/1'].map((where) => {
    return { where, reason: 'the value is not JSON; its last good value stands' };
  });
  const first = list(good);
  t.same(
    [first.put('/p/web/1', 'junk'), first.put('/p/web', 'junk')],
    [
      ['web', 'web'],
      ['web', 'web'],
    ],
  );
  const watched = { services: [web], gone: [], releases: [], rejected: told };
  t.same(first.changes(['web']), watched, 'the row and the check stand');
  first.put('/p/web/1', 'other junk');
  t.same(first.changes(['web']), watched, 'however often it is written');
  first.put('/p/new/1', 'junk');
  t.equal(first.doubt, undefined, 'a new key held nothing before');
  const second = list({ 'web/1': 'junk', web: '[', 'new/1': 'junk' }, first);
  t.match(second.contents(), { services: [web, { name: 'new', rows: [] }] }, 'over a new list, too');
  t.equal(second.doubt, undefined);
  second.put('/p/web/1', good['web/1']);
  second.put('/p/web', '{}');
  t.match(second.changes(['web']), { services: [{ rows: [{}], check: undefined }], rejected: [{ where: '/p/new/1' }] });
  second.put('/p/web/1', 'junk');
  second.delete('/p/web/1');
  t.match(
    second.changes(['web']),
    { services: [{ rows: [] }], rejected: [{ where: '/p/new/1' }] },
    'a delete is a word',
  );

  const restarted = list({ ...good, 'web/2': 'junk', 'bad/1': '{"address":"x"}' });
  t.equal(restarted.doubt, '/p/web/2: the value is not JSON', 'nothing is known of what it held');
  t.match(restarted.contents().rejected[0], { where: '/p/web/2' }, 'the reason comes first');
  t.equal(list({ 'web/2': 'junk' }, restarted).doubt, '/p/web/2: the value is not JSON', 'until it is mended');
  t.equal(list({ ...good, 'web/2': good['web/1'] }, restarted).doubt, undefined);
  t.equal(list(good, restarted).doubt, undefined);
  t.equal(list({ 'bad/1': '{"address":"x"}' }).doubt, undefined, 'what says something wrong loses its own row only');
});

t.test('R6: etcd with a key that could never be read is listed again, not watched', async (t) => {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  let value = 'junk';
  const paths: unknown[] = [];
  const server = createServer((req, res) => {
    paths.push(req.url);
    const kvs = [
      { key: '/p/web/1', value: '{"address":"10.0.0.1","port":80}' },
      { key: '/p/web/2', value },
    ].map((kv) => ({ key: base64(kv.key), value: base64(kv.value), mod_revision: '5' }));
    res.end(JSON.stringify({ header: { cluster_id: '1', revision: '7' }, kvs, count: '2' }));
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const registry = new EtcdRegistry(
    { type: 'etcd', endpoints: [endpoint], prefix: '/p', layout: 'plain' },
    { softTtl: 10_000, limits: LIMITS, allowAddresses: [] },
  );
  t.teardown(() => {
    registry.close();
    server.close();
    server.closeAllConnections();
  });
  const poll = async (): Promise<unknown> => {
    const result = await registry.poll({ signal: NEVER, fresh: true });
    return 'reason' in result ? result.reason : brief(result);
  };
  t.same(await poll(), ['additions only', 'web=10.0.0.1']);
  t.equal(await registry.follow(NEVER, () => t.fail('nothing is delivered')), '/p/web/2: the value is not JSON');
  t.same(paths, ['/v3/kv/range'], 'no watch is opened');
  value = '{"address":"10.0.0.2","port":80}';
  t.same(await poll(), ['web=10.0.0.1,10.0.0.2'], 'mended');
  value = 'junk';
  t.same(await poll(), ['web=10.0.0.1,10.0.0.2'], 'its last good value stands, and the list is believed');
});

t.test(
  'R6: a key that nobody asked for, or that is none, makes the answer one that is not believed, whole',
  async (t) => {
    const base64 = (text: string): string => Buffer.from(text).toString('base64');
    const good = { key: base64('/p/web/1'), value: base64('{"address":"10.0.0.1","port":80}'), mod_revision: '5' };
    const header = { cluster_id: '1', revision: '7' };
    let kvs: unknown[] = [good];
    let events: unknown[] = [];
    let canceled = {};
    const server = createServer((req, res) => {
      if (req.url === '/v3/kv/range') res.end(JSON.stringify({ header, kvs, count: String(kvs.length) }));
      else res.end(`${JSON.stringify({ result: { header: { ...header, revision: '9' }, events, ...canceled } })}\n`);
    });
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const registry = new EtcdRegistry(
      {
        type: 'etcd',
        endpoints: [`http://127.0.0.1:${(server.address() as AddressInfo).port}`],
        prefix: '/p',
        layout: 'plain',
      },
      { softTtl: 10_000, limits: LIMITS, allowAddresses: [] },
    );
    t.teardown(() => {
      registry.close();
      server.close();
      server.closeAllConnections();
    });
    const bad = [
      { ...good, key: base64('/q/web/2') },
      { ...good, key: base64('/pp/web/2') },
      { ...good, value: 7 },
      { ...good, value: [1, 2] },
      { ...good, mod_revision: 5 },
      null,
      'text',
    ];
    for (const kv of bad) {
      kvs = [good, kv];
      const refused = await registry.poll({ signal: NEVER, fresh: true });
      t.match(refused, { kind: 'unbelievable', reason: /not the JSON of etcd/ }, JSON.stringify(kv));
      kvs = [good];
      const list = await registry.poll({ signal: NEVER, fresh: true });
      t.same('services' in list && brief(list), ['web=10.0.0.1']);
      // What came before it in the same message is not taken in either.
      events = [{ type: 'DELETE', kv: good }, { kv }];
      const end = await registry.follow(NEVER, () => t.fail('nothing is delivered'));
      t.match(end, /the watch is not that of etcd/, JSON.stringify(kv));
    }
    for (const [odd, says] of [
      [{ compact_revision: 9 }, /revisions before 9 are gone$/],
      [{ cancel_reason: 7 }, /the watch was canceled: 7$/],
    ] as const) {
      canceled = { canceled: true, ...odd };
      t.match(await registry.follow(NEVER, () => t.fail('nothing is delivered')), says);
    }
  },
);
