import { spawnSync } from 'node:child_process';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import type { Adapter, Observation } from '../src/registry/adapter.js';
import { HttpRegistry } from '../src/registry/http.js';
import { requestFailure, statusFailure } from '../src/registry/http-failure.js';
import { readTargets } from '../src/registry/http-targets.js';
import { openAdapter } from '../src/registry/open.js';
import { PackedListings } from '../src/registry/packed-listings.js';
import { AddressPolicy } from '../src/registry/rows.js';
import { brief, LIMITS, NEVER, row } from './registry-fixture.js';

const ZONE = { softTtl: 10_000, naming: 'rfc2782', datacenters: [] } as const;
const { parse } = JSON;

t.test('targets of HTTP service discovery: the labels say the rest', async (t) => {
  const options = {
    serviceLabel: 'job',
    port: undefined,
    policy: new AddressPolicy([], false),
    where: 'http://sd',
    limits: LIMITS,
  };
  const read = (groups: unknown): ReturnType<typeof readTargets> => readTargets(JSON.stringify(groups), options);
  t.same(
    read([
      { targets: ['10.0.0.1:80', '[fd00::1]:81'], labels: { job: 'web', other: 'x' } },
      {
        targets: ['10.0.0.2:80'],
        labels: {
          job: 'web',
          __meta_holdfast_port_name: 'HTTP',
          __meta_holdfast_weight: '7',
          __meta_holdfast_priority: '2',
          __meta_holdfast_state: 'draining',
          __meta_holdfast_zone: 'az-a',
          __meta_holdfast_tags: 'blue, canary,',
          __meta_holdfast_id: 'two',
          __meta_holdfast_check_type: 'http',
          __meta_holdfast_check_path: '/healthz',
          __meta_holdfast_check_port: '9000',
          __meta_holdfast_check_status: '200, 204-206',
        },
      },
      { targets: [], labels: { job: 'idle' } },
      { targets: ['10.0.0.3:53'], labels: { job: 'dns', __meta_holdfast_protocol: 'udp' } },
    ]),
    {
      services: [
        {
          name: 'web',
          rows: [
            row({ id: '10.0.0.1:80' }),
            row({
              id: 'two',
              address: '10.0.0.2',
              weight: 7,
              priority: 2,
              state: 'draining',
              zone: 'az-a',
              tags: ['blue', 'canary'],
              portName: 'http',
            }),
            row({ id: '[fd00::1]:81', address: 'fd00::1', port: 81 }),
          ],
          check: {
            type: 'http',
            path: '/healthz',
            port: 9000,
            status: [
              [200, 200],
              [204, 206],
            ],
          },
        },
        { name: 'idle', rows: [] },
        { name: 'dns', rows: [row({ id: '10.0.0.3:53', address: '10.0.0.3', port: 53, protocol: 'udp' })] },
      ],
      rejected: [],
      removalsBelievable: true,
    },
  );
  t.same(read([]), { services: [], rejected: [], removalsBelievable: true }, 'none at all is legal');
  const bad = read([
    { targets: ['10.0.0.1:70000', '10.0.0.256:80', '10.0.0.1', 5, '::1:80', '10.0.0.9:9'], labels: { job: 'web' } },
    { targets: ['10.0.0.1:1'] },
    { targets: 'x', labels: { job: 'web' } },
    null,
    { targets: ['10.0.0.1:1'], labels: { job: 'c', __meta_holdfast_check_type: 'exec' } },
  ]);
  t.same(typeof bad === 'string' ? bad : bad.rejected.map(({ where, reason }) => `${where}: ${reason}`), [
    'http://sd: group 0, "5": expected text such as "10.0.0.1:8080"',
    'http://sd: group 2: targets must be a list such as ["10.0.0.1:8080"]',
    'http://sd: group 3: targets must be a list such as ["10.0.0.1:8080"]',
    'http://sd: group 0, "10.0.0.1:70000": port must be 1 to 65535, not "70000"',
    'http://sd: group 0, "10.0.0.256:80": address must be an IP address or a host name, not "10.0.0.256"',
    'http://sd: group 0, "10.0.0.1": expected an address and port',
    'http://sd: group 0, "::1:80": expected an address and port',
    'http://sd: group 1: no label job, which names the service',
    'http://sd: group 4, its check: check.type must be one of tcp, http, https, grpc, none',
  ]);
  t.match(bad, {
    services: [
      { name: 'web', rows: [{ address: '10.0.0.9' }] },
      { name: 'c', rows: [{ port: 1 }] },
    ],
    removalsBelievable: false,
  });
  const twice = { targets: ['10.0.0.1:80', '10.0.0.256:80', '10.0.0.1:80', '10.0.0.256:80'], labels: { job: 'web' } };
  t.match(
    read([twice]),
    { services: [{ rows: { length: 1 } }], rejected: { length: 1 } },
    'what is there a million times is read once',
  );
  const checked = (port: number) => {
    return { targets: [`10.0.0.${port}:80`], labels: { job: 'web', __meta_holdfast_check_path: `/${port}` } };
  };
  t.same(read([checked(1), checked(2)]), read([checked(2), checked(1)]), 'groups that are shuffled change nothing');
  const good = { targets: ['10.0.0.1:80', '10.0.0.256:80'], labels: { job: 'web' } };
  t.match(
    read([good, { targets: ['10.0.0.2:80'] }]),
    { removalsBelievable: true },
    'what says nothing of us is a note',
  );
  t.match(
    read([good, { targets: null, labels: { job: 'idle' } }, { targets: ['10.0.0.2:80'], labels: null }]),
    { services: [{ name: 'web' }, { name: 'idle', rows: [] }], removalsBelievable: true },
    'the empty lists and maps of Go are null, to Prometheus as to us',
  );
  t.equal(
    read(Array.from({ length: 200 }, (_, n) => ({ targets: [], labels: { job: `s${n}` } }))),
    '101 services or more, more than limits.maxServices (100)',
    'before anything is made of them',
  );
  for (const unread of [
    null,
    7,
    [],
    {},
    { targets: {} },
    { targets: [], labels: [] },
    { targets: [7], labels: good.labels },
  ]) {
    const web = { name: 'web', rows: [{ address: '10.0.0.1' }] };
    t.match(read([good, unread]), { services: [web], removalsBelievable: false }, JSON.stringify(unread));
  }
  t.match(read([{ targets: ['10.0.0.1:80'], labels: { job: 7 } }, good]), { removalsBelievable: false });
  t.equal(
    read([{ targets: 'x' }, null, { targets: [], labels: { job: 'web' } }]),
    'no endpoint can be read: group 0: targets must be a list such as ["10.0.0.1:8080"]',
    'which is another thing than an empty list',
  );
  t.equal(readTargets('{"targets": []}', options), 'the body is not a list of target groups');
  t.equal(readTargets('<html>', options), 'the body is not JSON');
  t.match(readTargets('[{"targets": ["10.0.0.1"], "labels": {"job": "a"}}]', { ...options, port: 9100 }), {
    services: [{ rows: [{ port: 9100 }] }],
  });
});

t.test('a registry behind HTTP: what is a list, and what is not believed', async (t) => {
  let answer: { status?: number; type?: string; body?: string | Buffer; headers?: Record<string, string> } = {};
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((req, res) => {
    seen.push(req.headers);
    res.writeHead(answer.status ?? 200, { 'content-type': answer.type ?? 'application/json', ...answer.headers });
    res.end(answer.body ?? '[{"targets": ["10.0.0.1:80"], "labels": {"job": "a"}}]');
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const dir = t.testdir({ token: ' a-secret \n', empty: '\n', odd: 'a\nb' });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/sd?x=1`;
  const base = { type: 'http', url, interval: 5000, serviceLabel: 'job', tokenFile: join(dir, 'token') } as const;
  const zone = { limits: { ...LIMITS, maxBody: 2000 }, allowAddresses: [] };
  const registry = new HttpRegistry(base, zone);
  t.teardown(() => {
    registry.close();
    server.close();
    server.closeAllConnections();
  });
  const ask = async (next: typeof answer, from = registry): Promise<unknown> => {
    answer = next;
    const result = await from.poll({ signal: NEVER, fresh: true });
    return 'reason' in result
      ? `${result.kind} ${result.reason.replace(/http:\S+\/sd\?[0-9a-f]{8}:/, 'URL:')}`
      : brief(result);
  };
  t.same(await ask({}), ['a=10.0.0.1']);
  t.match(seen[0], {
    accept: 'application/json',
    authorization: 'Bearer a-secret',
    'x-prometheus-refresh-interval-seconds': '5',
  });
  t.same(await ask({ type: 'Application/JSON; charset=utf-8' }), ['a=10.0.0.1']);
  t.same(await ask({ body: '[]' }), []);
  t.same(await ask({ body: '\ufeff[]' }), [], 'a mark of the byte order');
  t.same(
    await ask({ body: '[7, {"targets": ["10.0.0.1:80"], "labels": {"job": "a"}}]' }),
    ['additions only', 'a=10.0.0.1'],
    'R6: a group that cannot be read takes no endpoint away',
  );
  t.equal(await ask({ type: 'text/html' }), 'unbelievable URL: the content type is not application/json');
  t.equal(await ask({ body: '' }), 'unbelievable URL: the body is not JSON');
  t.equal(await ask({ body: Buffer.from([0xff]) }), 'unbelievable URL: the body is not UTF-8');
  t.equal(await ask({ body: ' '.repeat(2001) }), 'unbelievable URL: more than limits.maxBody (2000 bytes)');
  t.equal(await ask({ status: 302, headers: { location: url } }), 'unreachable URL: status 302', 'not followed');
  t.equal(await ask({ status: 204 }), 'unreachable URL: status 204');
  const failing = async (file: string): Promise<unknown> => {
    const other = new HttpRegistry({ ...base, tokenFile: join(dir, file) }, zone);
    t.teardown(() => other.close());
    return String(await ask({}, other)).replace(dir, 'DIR');
  };
  const before = seen.length;
  t.equal(await failing('none'), 'unreachable URL: DIR/none cannot be used: no such file or directory (ENOENT)');
  t.equal(await failing('empty'), 'unreachable URL: DIR/empty cannot be used: it is empty');
  t.equal(await failing('odd'), 'unreachable URL: DIR/odd cannot be used: it is not one line of printable ASCII');
  t.equal(await failing('.'), 'unreachable URL: DIR cannot be used: it is not a regular file');
  spawnSync('mkfifo', [join(dir, 'pipe')]);
  t.equal(await failing('pipe'), 'unreachable URL: DIR/pipe cannot be used: it is not a regular file');
  t.equal(seen.length, before, 'nobody is asked without the secret');
});

t.test('R31: a large list is read in a thread of its own, and what no registry says is not parsed', async (t) => {
  let body = '';
  let type = '';
  const server = createServer((_req, res) => {
    res.writeHead(200, { 'content-type': type });
    res.end(body);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const zone = { limits: { ...LIMITS, maxBody: 16 << 20 }, allowAddresses: ['127.0.0.2/32'] };
  const registry = new HttpRegistry({ type: 'http', url: `${origin}/sd`, interval: 60_000, serviceLabel: 'job' }, zone);
  const etcd = { type: 'etcd', layout: 'plain', prefix: '/p' } as const;
  const consul = { type: 'consul', stale: true, maxLag: 10_000, kvPrefix: 'p', mirror: 'all' } as const;
  const others = [
    openAdapter({ ...etcd, endpoints: [origin] }, { ...zone, ...ZONE }),
    openAdapter({ ...consul, addresses: [origin] }, { ...zone, ...ZONE }),
  ];
  t.teardown(() => {
    for (const one of [registry, ...others]) one.close();
    server.close();
    server.closeAllConnections();
  });
  const ask = (of: Adapter = registry) => of.poll({ signal: NEVER, fresh: true });
  const large = (groups: unknown): string => JSON.stringify(groups).padEnd(3 << 20);
  type = 'application/json';
  body = large([
    { targets: ['10.0.0.1:80', '127.0.0.1:80', '127.0.0.2:80'], labels: { job: 'a' } },
    { targets: 7, labels: { job: 'b' } },
  ]);
  const list = (await ask()) as Extract<Observation, { kind: 'list' }>;
  t.same(brief(list), ['additions only', 'a=10.0.0.1,127.0.0.2']);
  t.ok(list.services instanceof PackedListings, 'it came from another thread');
  t.match(
    list.rejected.map(({ reason }) => reason),
    [/^targets must be a list/, /loopback/],
  );
  const reason = async (text: string, of?: Adapter): Promise<string> => {
    body = text;
    const seen = await ask(of);
    return 'reason' in seen ? `${seen.kind} ${seen.reason.replaceAll(origin, '')}` : seen.kind;
  };
  t.equal(await reason(large([]).replace(']', ' ')), 'unbelievable /sd: the body is not JSON');
  t.equal(await reason(large({})), 'unbelievable /sd: the body is not a list of target groups');
  t.equal(await reason(`[${' '.repeat(3 << 20)}]`), 'list');
  const deep = 'unbelievable /sd: the body is not a list of target groups: it is nested too deeply';
  t.equal(await reason('['.repeat(9 << 20)), deep);
  t.equal(await reason('{"a":'.repeat((9 << 20) / 5)), deep);
  const dense = `[${'{},'.repeat(3 << 20)}{}]`;
  t.equal(await reason(dense), deep.replace('nested too deeply', 'mostly brackets'));
  const brackets = { job: 'a', x: '[{'.repeat(5 << 20), y: '\\"["[' };
  t.equal(await reason(JSON.stringify([{ targets: [], labels: brackets }])), 'list', 'texts are not looked into');
  const parsed = parse;
  t.teardown(() => {
    JSON.parse = parsed;
  });
  let longest = 0;
  JSON.parse = (text: string, ...more) => {
    longest = Math.max(longest, text.length);
    return parsed(text, ...more);
  };
  for (const one of others)
    for (const body of ['['.repeat(9 << 20), dense])
      t.match(await reason(body, one), /^unbelievable .*the answer is not /);
  t.ok(longest < 1 << 20, 'nobody tried');
});

t.test('failures in words that stay the same', async (t) => {
  const coded = (code: string): Error => Object.assign(new Error(`${code} 127.0.0.1:2379`), { code });
  t.same(requestFailure(coded('ECONNREFUSED')), { kind: 'unreachable', reason: 'connection refused' });
  t.equal(requestFailure(new AggregateError([coded('ENETUNREACH'), coded('X')])).reason, 'no route to the network');
  t.equal(
    requestFailure(new Error('fetch failed', { cause: coded('CERT_HAS_EXPIRED') })).reason,
    'the certificate has expired',
  );
  t.equal(requestFailure(coded('HPE_INVALID_CONSTANT')).reason, 'the answer is not HTTP');
  t.equal(requestFailure(new Error('odd\n\u001b[31mthing')).reason, 'odd [31mthing');
  t.equal(requestFailure(new Error('x'.repeat(500))).reason, `${'x'.repeat(200)}...`);
  t.equal(requestFailure(undefined).reason, 'undefined');
  const status = (code: number, after?: string): unknown => statusFailure(code, after).retryAfter;
  t.equal(status(429, '7'), 7000);
  t.equal(status(503, '100000'), 300_000, 'at most five minutes');
  t.same(
    [status(500, '7'), status(429, 'Fri, 31 Dec 1999 23:59:59 GMT'), status(429)],
    [undefined, undefined, undefined],
  );
  t.equal(
    statusFailure(400, undefined, 'etcdserver: permission denied').reason,
    'status 400 (etcdserver: permission denied)',
  );
});
