import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import t, { type Test as Tap } from 'tap';
import type { LimitsConfig, ZoneConfig } from '../src/config/types.js';
import { nextBackoff } from '../src/registry/backoff.js';
import { ChangeBatch } from '../src/registry/change-batch.js';
import { EtcdRegistry } from '../src/registry/etcd.js';
import type { Layout } from '../src/registry/etcd-layout.js';
import { EtcdMirror } from '../src/registry/etcd-mirror.js';
import { plainLayout } from '../src/registry/etcd-plain.js';
import { skydnsLayout } from '../src/registry/etcd-skydns.js';
import { FileRegistry } from '../src/registry/file.js';
import { HttpRegistry } from '../src/registry/http.js';
import { requestFailure, statusFailure } from '../src/registry/http-failure.js';
import { readTargets } from '../src/registry/http-targets.js';
import { ListMemory } from '../src/registry/list-memory.js';
import { LATE, OneFlight } from '../src/registry/one-flight.js';
import { Pace } from '../src/registry/pace.js';
import { parseHere, parseServices } from '../src/registry/parse.js';
import type { Listing, Report, Row } from '../src/registry/registry.js';
import { RevisionMemory } from '../src/registry/revision-memory.js';
import { AddressPolicy, collapseRows, isPort, isUint16, normalizeAddress } from '../src/registry/rows.js';
import type { FileContents } from '../src/registry/services-file.js';
import { isSettled, type Signature } from '../src/registry/settled-file.js';
import {
  type Adapter,
  type Delivery,
  type Failure,
  type Follower,
  type Observation,
  type PollContext,
  type Presence,
  SyncLoop,
} from '../src/registry/sync.js';
import { SyncLink, type SyncLinkOptions } from '../src/resolver/sync-link.js';
import { FakeTime } from './fake-time.js';

const LIMITS: LimitsConfig = { maxServices: 100, maxEndpoints: 1000, maxEndpointsPerService: 500, maxBody: 1 << 20 };
const NEVER = new AbortController().signal;

function row(fields: Partial<Row> = {}): Row {
  const base = { id: 'a', address: '10.0.0.1', port: 80, protocol: 'tcp', priority: 0, weight: 1 } as const;
  return { ...base, tags: [], state: 'passing', ...fields };
}

t.test('addresses are brought to one text, and what is no address is refused', async (t) => {
  const known: [string, string | undefined][] = [
    ['10.0.0.1', '10.0.0.1'],
    ['::1', '::1'],
    ['[::1]', '::1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['FD00:0:0::00A', 'fd00::a'],
    ['2001:db8:0:0:1:0:0:1', '2001:db8::1:0:0:1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::ffff:a00:1', '10.0.0.1'],
    ['fe80::1', 'fe80::1'],
    ['fe80::1%eth0', undefined],
    ['[10.0.0.1]', undefined],
    ['010.0.0.1', undefined],
    ['10.1', undefined],
    ['0x7f000001', undefined],
    ['167772161', undefined],
    [' 10.0.0.1', undefined],
    ['10.0.0.1:80', undefined],
    ['localhost', undefined],
    ['', undefined],
  ];
  for (const [text, canonical] of known) t.equal(normalizeAddress(text), canonical, JSON.stringify(text));
});

t.test('R18: addresses that can be no endpoint of another host lose the row, unless they are allowed', async (t) => {
  const remote = new AddressPolicy([], false);
  const local = new AddressPolicy([], true);
  const allowing = new AddressPolicy(['224.0.0.0/4', 'ff00::/8', '127.0.0.53', 'nonsense', '10.0.0.0/99'], false);
  const cases: [string, string | undefined, string | undefined, string | undefined][] = [
    ['10.0.0.1', undefined, undefined, undefined],
    ['2001:db8::1', undefined, undefined, undefined],
    ['127.0.0.1', 'loopback', undefined, 'loopback'],
    ['127.0.0.53', 'loopback', undefined, undefined],
    ['::1', 'loopback', undefined, 'loopback'],
    ['169.254.1.1', 'link-local', undefined, 'link-local'],
    ['fe80::1', 'link-local', undefined, 'link-local'],
    ['febf::1', 'link-local', undefined, 'link-local'],
    ['fec0::1', undefined, undefined, undefined],
    ['0.0.0.0', 'unspecified', 'unspecified', 'unspecified'],
    ['0.1.2.3', 'in 0.0.0.0/8', 'in 0.0.0.0/8', 'in 0.0.0.0/8'],
    ['::', 'unspecified', 'unspecified', 'unspecified'],
    ['224.0.0.251', 'multicast', 'multicast', undefined],
    ['ff02::fb', 'multicast', 'multicast', undefined],
    ['255.255.255.255', 'broadcast', 'broadcast', 'broadcast'],
  ];
  for (const [address, fromRemote, fromLocal, whenAllowed] of cases) {
    t.equal(remote.fault(address), fromRemote, `${address} from a remote registry`);
    t.equal(local.fault(address), fromLocal, `${address} from a local one`);
    t.equal(allowing.fault(address), whenAllowed, `${address} with allowAddresses`);
  }
  t.same([0, 1, 65535, 65536, 1.5, Number.NaN].map(isPort), [false, true, true, false, false, false]);
  t.same([-1, 0, 65535, 65536].map(isUint16), [false, true, true, false]);
});

t.test('R5: duplicates collapse to the best of each', async (t) => {
  const rows = [
    row({ id: 'b', state: 'critical', priority: 5, weight: 3, tags: ['x', 'a'], zone: 'z1' }),
    row({ id: 'c', state: 'warning', priority: 9, weight: 7, tags: ['b', 'a'], portName: 'http' }),
    row({ id: 'd', state: 'draining', priority: 2, weight: 1 }),
    row({ port: 81 }),
    row({ protocol: 'udp' }),
  ];
  t.same(collapseRows(rows), [
    row({ id: 'c', state: 'warning', priority: 2, weight: 7, tags: ['a', 'b', 'x'], portName: 'http', zone: 'z1' }),
    row({ port: 81 }),
    row({ protocol: 'udp' }),
  ]);
  const anyRow = fc.record({
    id: fc.constantFrom('a', 'b', 'c'),
    address: fc.constantFrom('10.0.0.1', '10.0.0.2'),
    port: fc.constantFrom(80, 81),
    protocol: fc.constantFrom('tcp' as const, 'udp' as const),
    priority: fc.nat(3),
    weight: fc.nat(3),
    tags: fc.array(fc.constantFrom('x', 'y'), { maxLength: 3 }),
    state: fc.constantFrom('passing' as const, 'warning' as const, 'critical' as const, 'draining' as const),
  });
  fc.assert(
    fc.property(fc.array(anyRow, { maxLength: 8 }), (list) => {
      const once = collapseRows(list);
      // A second time changes nothing, nor does the order of the list.
      assert.deepEqual(collapseRows(once), once);
      assert.deepEqual(collapseRows([...list].reverse()), once);
    }),
    { numRuns: 100 },
  );
});

t.test('waits after failures grow from the base to the cap, never in step', async (t) => {
  const limits = { base: 100, cap: 5000 };
  t.equal(
    nextBackoff(undefined, limits, () => 0),
    100,
  );
  t.equal(
    nextBackoff(undefined, limits, () => 0.5),
    200,
  );
  t.equal(
    nextBackoff(1000, limits, () => 0.5),
    1550,
  );
  t.equal(
    nextBackoff(4000, limits, () => 0.99),
    5000,
  );
});

async function parse(
  text: string,
  limits: Partial<LimitsConfig> = {},
  file = 's.yaml',
): Promise<FileContents | string> {
  const format = file.endsWith('.json') ? 'json' : 'yaml';
  const options = { file, allowAddresses: [], limits: { ...LIMITS, ...limits } };
  const result = await parseHere({ format, bytes: Buffer.from(text), options });
  return result.ok ? result.contents : result.reason;
}

t.test('a registry file says all that a row can have', async (t) => {
  const text = `
x-team: shop
services:
  orders:
    portName: HTTP
    priority: 1
    weight: 5
    check: { type: http, path: /healthz, status: [200, 300-399], port: 9000 }
    endpoints:
      - { id: orders-1, address: "[::1]", port: 8081, weight: 10, tags: [blue, 1.10, blue], zone: az-a }
      - { address: 10.0.0.7, port: "8082", priority: 10, state: draining, portName: ~ }
  billing:
    protocol: udp
    endpoints:
      - { id: 7, address: 10.0.0.7, ports: { http: 8081, gRPC: 9090 }, protocol: tcp, x-note: hi }
  none: { endpoints: [] }
release:
  orders: 2031-05-04T09:30:00Z
  "*": 2031-05-04
`;
  const orders = { protocol: 'tcp', priority: 1, weight: 5, portName: 'http', state: 'passing', tags: [] } as const;
  const billing = { address: '10.0.0.7', protocol: 'tcp', priority: 0, weight: 1, tags: [], state: 'passing' } as const;
  const expected: FileContents = {
    services: [
      {
        name: 'orders',
        check: {
          type: 'http',
          path: '/healthz',
          status: [
            [200, 200],
            [300, 399],
          ],
          port: 9000,
        },
        rows: [
          { ...orders, id: '10.0.0.7:8082', address: '10.0.0.7', port: 8082, priority: 10, state: 'draining' },
          { ...orders, id: 'orders-1', address: '::1', port: 8081, weight: 10, tags: ['1.10', 'blue'], zone: 'az-a' },
        ],
      },
      {
        name: 'billing',
        rows: [
          { ...billing, id: '7', port: 8081, portName: 'http' },
          { ...billing, id: '7', port: 9090, portName: 'grpc' },
        ],
      },
      { name: 'none', rows: [] },
    ],
    releases: [
      { service: 'orders', wall: Date.UTC(2031, 4, 4, 9, 30) },
      { service: '*', wall: Date.UTC(2031, 4, 4) },
    ],
    rejected: [],
  };
  t.strictSame(await parse(text), expected);
  const json = JSON.stringify({
    services: { s: { endpoints: [{ address: '10.0.0.1', port: 80, id: null, tags: ['a'] }] } },
  });
  t.strictSame(await parse(json, {}, 's.json'), {
    services: [{ name: 's', rows: [row({ id: '10.0.0.1:80', tags: ['a'] })] }],
    releases: [],
    rejected: [],
  });
  t.strictSame(await parse('services: {}'), { services: [], releases: [], rejected: [] });
});

t.test('a bad endpoint loses its own row, and it is said where and why', async (t) => {
  const contents = await parse(`services:
  s:
    check: { type: exec, path: /bin/sh }
    colour: red
    endpoints:
      - { address: 10.0.0.1, port: 80 }
      - { address: 10.0.0.1, port: 70000 }
      - { address: 10.0.0.1, port: 0 }
      - { address: 10.0.0.256, port: 80 }
      - { address: 224.0.0.1, port: 80 }
      - { address: 10.0.0.2, port: 80, wieght: 3 }
      - { address: 10.0.0.3, port: 80, weight: 65536 }
      - { address: 10.0.0.3, port: 80, priority: -1 }
      - { address: 10.0.0.3, port: 80, state: drainning }
      - { address: 10.0.0.3, port: 80, protocol: sctp }
      - { address: 10.0.0.3, port: 80, ports: { a: 1 } }
      - { address: 10.0.0.3, ports: {} }
      - { address: 10.0.0.3, ports: { a: 99999 } }
      - { address: 10.0.0.3, port: 80, tags: blue }
      - { address: 10.0.0.3, port: 80, port: 81 }
      - just text
      -
release: { s: yesterday }
services2: {}
`);
  if (typeof contents === 'string') return t.fail(contents);
  t.same(
    contents.services[0]?.rows.map(({ address, port }) => `${address}:${port}`),
    ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:81'],
  );
  t.equal(contents.doubt, undefined);
  t.same(
    contents.rejected.map(({ where, reason }) => `${where}: ${reason}`),
    [
      's.yaml:23: a release mark must be a time such as 2031-05-04T09:30:00Z',
      's.yaml:24: unknown key "services2": expected services, nodes or release',
      's.yaml:4: unknown key "colour"',
      `s.yaml:2: check.type must be one of tcp, http, https, grpc, none; the zone's own check is used`,
      's.yaml:7: port must be 1 to 65535, not "70000"',
      's.yaml:8: port must be 1 to 65535, not "0"',
      's.yaml:9: address must be an IP address or a host name, not "10.0.0.256"',
      's.yaml:10: address 224.0.0.1 is multicast (allowAddresses would permit it)',
      's.yaml:11: unknown key "wieght" in an endpoint',
      's.yaml:12: weight must be 0 to 65535',
      's.yaml:13: priority must be 0 to 65535',
      's.yaml:14: state must be one of passing, warning, critical, draining, not "drainning"',
      's.yaml:15: protocol must be tcp or udp',
      's.yaml:16: port and ports exclude each other',
      's.yaml:17: ports must be a mapping such as {http: 8080}',
      's.yaml:18: ports.a must be 1 to 65535, not "99999"',
      's.yaml:19: tags must be a list of at most 100 short texts',
      's.yaml:20: port is given twice: the last counts',
      's.yaml:2: an endpoint must be a mapping with address and port',
      's.yaml:2: an endpoint must be a mapping with address and port',
    ],
  );
  const many = await parse(
    `services: { s: { endpoints: [${'{port: 0},'.repeat(150)} {address: 10.0.0.1, port: 80}] } }`,
  );
  t.match(many, { rejected: { length: 101, 100: { where: 's.yaml', reason: 'and 50 more' } } });
});

t.test('a service whose entry cannot be read puts every removal in doubt', async (t) => {
  const fine = '  ok: { endpoints: [{ address: 10.0.0.1, port: 80 }] }\n';
  const cases: [string, string][] = [
    ['5', 'service "s" must be a mapping with endpoints'],
    ['', 'service "s" must be a mapping with endpoints'],
    ['{ portName: http }', 'service "s": endpoints must be a list; [] says that there are none'],
    ['{ endpoints: }', 'service "s": endpoints must be a list; [] says that there are none'],
    ['{ protocol: sctp, endpoints: [] }', 'service "s": protocol must be tcp or udp'],
    ['{ endpoints: [{ address: "", port: 80 }] }', 'service "s": none of its endpoints can be read'],
  ];
  for (const [entry, reason] of cases) {
    const contents = await parse(`services:\n${fine}  s: ${entry}\n`);
    t.match(contents, { services: [{ name: 'ok', rows: [{}] }], doubt: `s.yaml:3: ${reason}` }, entry);
  }
});

t.test('what is no registry file is not believed, with file, line and what was expected', async (t) => {
  const expected = 'expected `services:` with a mapping from service names to their endpoints';
  const cases: [string, string, string?][] = [
    ['', 's.yaml:1: empty (0 bytes); `services: {}` says that there are none'],
    ['# only a comment\n', `s.yaml:1: ${expected}`],
    ['just text', `s.yaml:1: ${expected}`],
    ['- a\n- b', `s.yaml:1: ${expected}`],
    ['release: {}', `s.yaml:1: ${expected}`],
    ['\nservices:\n', `s.yaml:2: ${expected}; \`services: {}\` says that there are none`],
    ['services: ~', `s.yaml:1: ${expected}; \`services: {}\` says that there are none`],
    ['services: []', `s.yaml:1: ${expected}`],
    ['[]', `s.json: 1: ${expected}`, 's.json'],
    ['{"services":null}', `s.json: ${expected}; \`services: {}\` says that there are none`, 's.json'],
  ];
  for (const [text, reason, file] of cases) {
    t.equal(await parse(text, {}, file), file === undefined ? reason : reason.replace('s.json: 1', 's.json:1'), text);
  }
  t.match(await parse('services:\n  a:\n    endpoints: [{ address: 10.0.'), /^s\.yaml:3: not YAML: /);
  t.match(await parse('services: {}\n---\nservices: {}\n'), /^s\.yaml:2: not YAML: .*multiple documents/);
  t.match(await parse('services: {a: *nobody}'), 's.yaml:1: not YAML: alias *nobody has no anchor before it');
  t.match(await parse('services: {? [a, b] : c}'), 's.yaml:1: not YAML: a key is not plain text');
  t.match(await parse('{"services": {\n "a": {', {}, 's.json'), /^s\.json:2: not JSON: /);
  t.match(await parse('{"services": {\n "a": nul }}', {}, 's.json'), /^s\.json: not JSON: Unexpected token/);
  t.match(await parse('[{'.repeat(20_000)), /^s\.yaml:1: not YAML: nested too deeply$/);
  const broken = {
    format: 'yaml',
    bytes: Buffer.from([0x73, 0xff, 0xfe]),
    options: { file: 'f', allowAddresses: [], limits: LIMITS },
  } as const;
  t.same(await parseHere(broken), { ok: false, reason: 'f: not UTF-8 text' });
});

t.test('names that mean something to JavaScript are names like others', async (t) => {
  const names = ['__proto__', 'constructor', 'toString', '007', '1e3', 'null', 'true', ''];
  const list = names.map((name) => `  "${name}": { endpoints: [{ address: 10.0.0.1, port: 80, __proto__: x }] }`);
  const yaml = await parse(`services:\n${list.join('\n')}\n  8080: { endpoints: [] }\n`);
  t.match(yaml, { services: [...names, '8080'].map((name) => ({ name })) });
  const json = `{"services":{${names.map((name) => `${JSON.stringify(name)}:{"endpoints":[]}`).join()}}}`;
  const parsed = await parse(json, {}, 's.json');
  if (typeof parsed === 'string') return t.fail(parsed);
  t.same(new Set(parsed.services.map(({ name }) => name)), new Set(names));
  t.equal(({} as { endpoints?: unknown }).endpoints, undefined, 'no prototype was touched');
});

t.test('aliases are shared and bounded, duplicates put together', async (t) => {
  const contents = await parse(`
x-hosts: &hosts [{ address: 10.0.0.1, port: 80 }]
services:
  a: &a { endpoints: *hosts }
  b: *a
  a: { endpoints: [{ address: 10.0.0.2, port: 80 }] }
`);
  t.match(contents, {
    services: [
      { name: 'a', rows: [{ address: '10.0.0.1' }, { address: '10.0.0.2' }] },
      { name: 'b', rows: [{ address: '10.0.0.1' }] },
    ],
    rejected: [{ where: 's.yaml:6', reason: 'service "a" is listed twice: the endpoints of both are taken' }],
  });
  const list = `[${'{ address: 10.0.0.1, port: 80 },'.repeat(400)}]`;
  const services = ['a', 'b', 'c', 'd'].map((name) => `  ${name}: { endpoints: *l }`).join('\n');
  t.equal(
    await parse(`x-l: &l ${list}\nservices:\n${services}\n`),
    's.yaml: more than 1000 endpoints (limits.maxEndpoints)',
  );
  const bomb = ['x-0: &l0 [a, a]', ...Array.from({ length: 40 }, (_, i) => `x-${i + 1}: &l${i + 1} [*l${i}, *l${i}]`)];
  t.match(await parse(`${bomb.join('\n')}\nservices:\n  s: { endpoints: *l40 }\n`), { doubt: /none of its endpoints/ });
  t.equal(
    await parse('services: { a: { endpoints: [] }, b: { endpoints: [] } }', { maxServices: 1 }),
    's.yaml: more than 1 services (limits.maxServices)',
  );
  t.equal(
    await parse(`services: { a: { endpoints: ${list} } }`, { maxEndpointsPerService: 3 }),
    's.yaml: service "a" has more than 3 endpoints (limits.maxEndpointsPerService)',
  );
});

t.test('a large file is parsed in another thread, to the same effect', async (t) => {
  const services = Array.from({ length: 90 }, (_, s) => {
    const endpoints = Array.from({ length: 10 }, (_, e) => `      - { address: 10.0.${s}.${e}, port: 80, tags: [a] }`);
    return `  s${s}:\n    endpoints:\n${endpoints.join('\n')}\n    # ${'x'.repeat(1000)}`;
  });
  const options = { file: 'big', allowAddresses: [], limits: LIMITS };
  const bytes = Buffer.from(`services:\n${services.join('\n')}\n`);
  t.ok(bytes.length > 128 * 1024);
  const here = await parseHere({ format: 'yaml', bytes, options });
  t.match(here, { ok: true, contents: { services: { length: 90 } } });
  t.strictSame(await parseServices({ format: 'yaml', bytes, options }), here);
  const cut = await parseServices({ format: 'yaml', bytes: bytes.subarray(0, 150_000), options });
  t.match(cut, { ok: true }, 'YAML cut between two lines is still YAML: the guard has to see to that');
  const cutInside = await parseServices({ format: 'yaml', bytes: Buffer.concat([bytes, Buffer.from('{')]), options });
  t.match(cutInside, { ok: false, reason: /^big:\d+: not YAML/ });
});

t.test('any text at all is contents or a reason', async () => {
  const piece = fc.constantFrom(
    'services:',
    '\n',
    '  ',
    'a',
    ': ',
    '{',
    '}',
    '[',
    ']',
    ',',
    '- ',
    '&x ',
    '*x',
    '"',
    '|',
    '#',
    '? ',
    '\t',
    '10.0.0.1',
    'endpoints',
    '!!x ',
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 30 }), fc.boolean(), async (pieces, json) => {
      const result = await parse(pieces.join(''), {}, json ? 's.json' : 's.yaml');
      return typeof result === 'string' ? result.startsWith('s.') : Array.isArray(result.services);
    }),
    { numRuns: 500 },
  );
});

t.test('R34: a file is whole when it came by rename or stood still', async (t) => {
  const at = (inode: number, modified: number, changed: number): Signature => ({
    device: 1n,
    inode: BigInt(inode),
    size: 9,
    modified: BigInt(modified) * 1_000_000n,
    changed: BigInt(changed) * 1_000_000n,
  });
  const wall = 1_000_000;
  t.equal(isSettled(at(1, wall, wall), undefined, 0, wall), false, 'just written');
  t.equal(isSettled(at(1, wall, wall), undefined, 199, wall), false, 'still for 199 ms');
  t.equal(isSettled(at(1, wall, wall), undefined, 200, wall), true, 'still for 200 ms');
  t.equal(isSettled(at(2, wall - 10, wall), at(1, 0, 0), 0, wall), true, 'another inode, renamed after it was written');
  t.equal(isSettled(at(2, wall, wall), at(1, 0, 0), 0, wall), false, 'another inode, created in place');
  t.equal(isSettled(at(1, wall - 10, wall), at(1, 0, 0), 0, wall), false, 'the same inode, changed in place');
  t.equal(isSettled(at(1, 0, wall - 999), undefined, 0, wall), false, 'last changed less than a second ago');
  t.equal(isSettled(at(1, 0, wall - 1000), undefined, 0, wall), true, 'untouched for a second');
  t.equal(isSettled(at(1, wall + 5000, wall + 5000), undefined, 0, wall), false, 'from the future');
});

const ONE = 'services: { a: { endpoints: [{ address: 10.0.0.1, port: 80 }] } }\n';
const TWO = 'services: { a: { endpoints: [{ address: 10.0.0.1, port: 80 }, { address: 10.0.0.2, port: 80 }] } }\n';

function open(path: string, limits: Partial<LimitsConfig> = {}): FileRegistry {
  return new FileRegistry(
    { type: 'file', path },
    { softTtl: 10_000, limits: { ...LIMITS, ...limits }, allowAddresses: [] },
  );
}

function poll(registry: FileRegistry, fresh = false): Promise<Observation> {
  return registry.poll({ signal: NEVER, fresh });
}

function replace(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

/** Of a list or change: its services with their addresses. Of others: kind and reason. */
function brief(report: Observation | Report | undefined): unknown {
  if (report?.kind === 'list' || report?.kind === 'change') {
    const services = report.services.map(({ name, rows }) => `${name}=${rows.map((r) => r.address).join()}`);
    return report.kind === 'list' && !report.removalsBelievable ? ['additions only', ...services] : services;
  }
  return report !== undefined && 'reason' in report ? `${report.kind}: ${report.reason}` : report?.kind;
}

t.test('a large file is not kept in memory, and is read again when its contents are wanted', async (t) => {
  const dir = t.testdir({});
  const path = join(dir, 's.json');
  const services = Object.fromEntries(
    Array.from({ length: 210 }, (_, s) => [
      `s-${s}`,
      { endpoints: Array.from({ length: 100 }, (_, e) => ({ address: `10.0.${s}.${e}`, port: 80 })) },
    ]),
  );
  const text = JSON.stringify({ services });
  const registry = open(path, {
    maxServices: 300,
    maxEndpoints: 30_000,
    maxEndpointsPerService: 100,
    maxBody: 16 * 1024 * 1024,
  });
  const count = (report: Observation): string =>
    report.kind === 'list' ? `${report.services.flatMap(({ rows }) => rows).length}` : String(brief(report));
  replace(path, text);
  t.equal(count(await poll(registry, true)), '21000');
  t.equal(count(await poll(registry)), 'confirmed');
  t.equal(count(await poll(registry, true)), '21000', 'listed again on demand');
  utimesSync(path, new Date(), new Date());
  t.match(count(await poll(registry)), /^(confirmed|21000)$/, 'touched');
  rmSync(path);
  await sleep(250);
  t.match(count(await poll(registry)), /^unreachable/, 'gone');
  t.match(count(await poll(registry, true)), /^unreachable/, 'and wanted');
  replace(path, text);
  t.equal(count(await poll(registry)), '21000', 'as it was before: the list, and no empty one');
  replace(path, text.slice(0, -2));
  t.match(count(await poll(registry, true)), /^unbelievable/, 'broken');
  replace(path, text);
  t.equal(count(await poll(registry)), '21000');
  t.equal(count(await poll(registry)), 'confirmed');
});

t.test('the life of a registry file', async (t) => {
  const dir = t.testdir({});
  const path = join(dir, 's.yaml');
  const registry = open(path);
  t.equal(registry.identity, `file:${path}`);
  const gone = `unreachable: ${path}: no such file or directory (ENOENT)`;
  t.equal(brief(await poll(registry, true)), gone, 'not there yet');

  replace(path, ONE);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  t.equal(brief(await poll(registry)), 'confirmed');
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1'], 'listed again on demand');

  replace(path, TWO);
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2'], 'replaced by rename');

  const half = TWO.slice(0, 60);
  writeFileSync(path, half);
  const pending = poll(registry);
  await sleep(100);
  appendFileSync(path, TWO.slice(60).replace('10.0.0.2', '10.0.0.3'));
  t.same(brief(await pending), ['a=10.0.0.1,10.0.0.3'], 'written in two halves: only the whole is read');

  writeFileSync(path, half);
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:\d+: not YAML/, 'left half written');
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:\d+: not YAML/, 'and still');
  writeFileSync(path, '');
  t.match(brief(await poll(registry)), /^unbelievable: .*s\.yaml:1: empty \(0 bytes\)/);
  rmSync(path);
  t.equal(brief(await poll(registry)), gone);
  rmSync(dir, { recursive: true });
  t.equal(brief(await poll(registry)), gone, 'its folder has gone too');

  mkdirSync(dir);
  replace(path, TWO);
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2'], 'back again');
  replace(path, TWO);
  utimesSync(path, 0, 0);
  t.equal(brief(await poll(registry)), 'confirmed', 'touched and replaced, but the same');
  replace(path, 'services: {}');
  t.same(brief(await poll(registry)), [], 'an empty list is a list');
});

t.test('what stands in the place of a file never blocks and takes nothing away', async (t) => {
  const dir = t.testdir({ folder: {}, 's.yaml': ONE });
  const path = join(dir, 's.yaml');
  const registry = open(path);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  rmSync(path);
  t.equal(spawnSync('mkfifo', [path]).status, 0);
  t.equal(brief(await poll(registry)), `unreachable: ${path}: neither a regular file nor a directory`, 'a FIFO');
  rmSync(path);
  symlinkSync('/dev/zero', path);
  t.equal(brief(await poll(registry)), `unreachable: ${path}: neither a regular file nor a directory`, 'a device');
  rmSync(path);
  symlinkSync(path, path);
  t.match(brief(await poll(registry)), /^unreachable: .*\(ELOOP\)$/, 'a link to itself');
  rmSync(path);
  replace(path, `${ONE}# ${'x'.repeat(2000)}`);
  const small = open(path, { maxBody: 1000 });
  t.match(brief(await poll(small)), /^unbelievable: .*: 20\d\d bytes, more than limits\.maxBody \(1000\)$/);
  t.same(brief(await poll(registry)), ['a=10.0.0.1'], 'the first one has what it had');
});

t.test('a directory of files is one list', async (t) => {
  const dir = t.testdir({
    'a.yaml': ONE,
    'b.json': '{"services":{"a":{"endpoints":[{"address":"10.0.0.9","port":80}]},"b":{"endpoints":[]}}}',
    '.hidden.yaml': 'services:',
    'notes.txt': 'not read',
  });
  const registry = open(dir);
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1,10.0.0.9', 'b=']);
  t.equal(brief(await poll(registry)), 'confirmed');

  replace(join(dir, 'c.yaml'), 'services: { c: { endpoints: [{ address: 10.0.0.3, port: 80 }] } }');
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.9', 'b=', 'c=10.0.0.3'], 'a file more');
  rmSync(join(dir, 'b.json'));
  t.same(brief(await poll(registry)), ['a=10.0.0.1', 'c=10.0.0.3'], 'a file less');

  replace(join(dir, 'a.yaml'), 'services:');
  const partial = await poll(registry);
  t.same(brief(partial), ['additions only', 'a=10.0.0.1', 'c=10.0.0.3'], 'a broken file: its last good contents stand');
  t.match(partial, { rejected: [{ where: dir, reason: /a\.yaml:1: expected.*; its last good contents stand$/ }] });
  t.match(brief(await poll(registry)), /^unbelievable: .*a\.yaml:1: expected/, 'said again as long as it is so');
  replace(
    join(dir, 'c.yaml'),
    'services: { c: { endpoints: [{ address: 10.0.0.3, port: 81 }] }, d: { endpoints: [] } }',
  );
  t.same(brief(await poll(registry)), ['additions only', 'a=10.0.0.1', 'c=10.0.0.3', 'd='], 'good files go on');
  replace(join(dir, 'a.yaml'), ONE);
  t.same(brief(await poll(registry)), ['a=10.0.0.1', 'c=10.0.0.3', 'd='], 'mended');

  rmSync(join(dir, 'a.yaml'));
  const pending = poll(registry);
  await sleep(50);
  replace(join(dir, 'a.yaml'), ONE);
  t.equal(brief(await pending), 'confirmed', 'away for a moment, as editors do: it has not left');

  rmSync(join(dir, 'a.yaml'));
  rmSync(join(dir, 'c.yaml'));
  t.match(brief(await poll(registry)), /^unbelievable: .*no \*\.yaml, \*\.yml or \*\.json in this directory/);
  rmSync(dir, { recursive: true });
  t.equal(brief(await poll(registry)), `unreachable: ${dir}: no such file or directory (ENOENT)`);
});

/** Does it again until it is noticed: nobody knows when a watch has begun. */
async function repeat(noticed: Promise<void>, action: () => void): Promise<void> {
  let done = false;
  void noticed.then(() => {
    done = true;
  });
  while (!done) {
    action();
    await Promise.race([noticed, sleep(250)]);
  }
}

t.test('the folder of a mounted volume is swapped by a link', async (t) => {
  const dir = t.testdir({ v1: { 's.yaml': ONE }, v2: { 's.yaml': TWO } });
  symlinkSync('v1', join(dir, '..data'));
  symlinkSync('..data/s.yaml', join(dir, 's.yaml'));
  const registry = open(join(dir, 's.yaml'));
  t.teardown(() => registry.close());
  const woken = new Promise<void>((resolve) => registry.watch(resolve, (reason) => t.fail(reason)));
  t.same(brief(await poll(registry, true)), ['a=10.0.0.1']);
  await repeat(woken, () => {
    symlinkSync('v2', join(dir, '..data_tmp'));
    renameSync(join(dir, '..data_tmp'), join(dir, '..data'));
  });
  t.same(brief(await poll(registry)), ['a=10.0.0.1,10.0.0.2']);
});

t.test('a change of the file asks for a poll before its time', async (t) => {
  const dir = t.testdir({ 's.yaml': ONE });
  const registry = open(join(dir, 's.yaml'));
  t.teardown(() => registry.close());
  let wakes = 0;
  let wake = (): void => undefined;
  registry.watch(
    () => {
      wakes++;
      wake();
    },
    (reason) => t.fail(reason),
  );
  const next = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });
  await poll(registry, true);
  for (const text of [TWO, ONE, TWO]) {
    await repeat(next(), () => replace(join(dir, 's.yaml'), text));
    t.match(brief(await poll(registry)), text === TWO ? ['a=10.0.0.1,10.0.0.2'] : ['a=10.0.0.1']);
  }
  await sleep(200);
  const before = wakes;
  writeFileSync(join(dir, 'other.txt'), 'x');
  await sleep(200);
  t.equal(wakes, before, 'other files of the folder do not matter');
});

t.test('an operation that never ends costs one flight, and its late result is dropped', async (t) => {
  const flight = new OneFlight();
  let release = (_value: string): void => undefined;
  const stuck = new Promise<string>((resolve) => {
    release = resolve;
  });
  let started = 0;
  t.equal(await flight.run(() => stuck, 20), LATE);
  const second = async (): Promise<string> => `run ${++started}`;
  t.equal(await flight.run(second, 20), LATE, 'none other starts before it has ended');
  t.equal(started, 0);
  release('late');
  t.equal(await flight.run(second, 1000), 'run 1');
  await t.rejects(
    flight.run(async () => {
      throw new Error('broken');
    }, 1000),
    { message: 'broken' },
  );
  t.equal(await flight.run(second, 1000), 'run 2');
});

const listing = (name: string, ...addresses: string[]): Listing => ({
  name,
  rows: addresses.map((address) => row({ address })),
});

function list(services: Listing[], more: Partial<Extract<Observation, { kind: 'list' }>> = {}): Observation {
  return { kind: 'list', epoch: 'e', services, releases: [], rejected: [], removalsBelievable: true, ...more };
}

t.test('only what changed is passed on', async (t) => {
  const memory = new ListMemory();
  const take = (observation: Observation): unknown => {
    if (observation.kind !== 'list') return t.fail('not a list');
    const { kind, ...rest } = memory.take(observation);
    return [
      kind,
      ...('services' in rest ? [brief({ kind, ...rest } as Observation)] : []),
      ...('gone' in rest ? rest.gone : []),
    ];
  };
  const names = ['a', 'b', 'c', 'd', 'e'];
  const five = names.map((name) => listing(name, '10.0.0.1'));
  const all = names.map((name) => `${name}=10.0.0.1`);
  t.equal(memory.empty, true);
  t.same(take(list(five)), ['list', all]);
  t.equal(memory.empty, false);
  t.same(take(list([...five].reverse())), ['confirmed']);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.6')])), ['change', ['f=10.0.0.6'], 'a']);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.7')])), ['change', ['f=10.0.0.7']]);
  t.same(take(list([...five.slice(1), listing('f', '10.0.0.7')], { rejected: [{ where: 'x', reason: 'y' }] })), [
    'change',
    [],
  ]);
  t.same(take(list(five.slice(3))), ['list', all.slice(3)], 'half of them changed');
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)], 'another epoch');
  t.same(take(list(five.slice(4), { epoch: 'e2', removalsBelievable: false })), [
    'list',
    ['additions only', ...all.slice(4)],
  ]);
  t.equal(memory.empty, false);
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)], 'after additions only, a whole list');
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['confirmed']);
  memory.forget();
  t.same(take(list(five.slice(3), { epoch: 'e2' })), ['list', all.slice(3)]);
});

class ScriptedAdapter implements Adapter {
  readonly identity = 'scripted';
  readonly interval = 1;
  readonly deadline = 100;
  readonly backoff = { base: 1, cap: 5 };
  readonly firstSpread = 0;
  readonly recoverySpread = 0;
  closed = false;
  readonly contexts: boolean[] = [];
  readonly #script: (() => Promise<Observation>)[];

  constructor(...script: (() => Promise<Observation>)[]) {
    this.#script = script;
  }

  async poll({ fresh }: PollContext): Promise<Observation> {
    this.contexts.push(fresh);
    return (this.#script.shift() ?? (() => new Promise<Observation>(() => undefined)))();
  }

  close(): void {
    this.closed = true;
  }
}

t.test('the sync loop reports what its adapter sees, and outlives what the adapter does', async (t) => {
  const a = listing('a', '10.0.0.1');
  const adapter = new ScriptedAdapter(
    async () => ({ kind: 'unreachable', reason: 'refused' }),
    async () => list([a]),
    async () => list([a]),
    async () => {
      throw new Error('a bug');
    },
    async () => list([listing('a', ...Array.from({ length: 600 }, (_, i) => `10.0.${i >> 8}.${i & 255}`))]),
    async () => list(Array.from({ length: 101 }, (_, i) => listing(`s${i}`))),
    async () =>
      list(
        Array.from({ length: 3 }, (_, s) =>
          listing(`s${s}`, ...Array.from({ length: 400 }, (_, i) => `10.${s}.${i >> 8}.${i & 255}`)),
        ),
      ),
    async () => ({ kind: 'confirmed' }),
  );
  const reports: Report[] = [];
  let boot = 0;
  await new Promise<void>((resolve) => {
    const loop: SyncLoop = new SyncLoop(adapter, {
      clock: { now: () => ({ boot: ++boot, wall: 0 }) },
      random: () => 0,
      limits: LIMITS,
      emit: (report) => {
        reports.push(report);
        if (reports.length === 8) loop.relist();
        if (reports.length < 9) return;
        loop.stop();
        resolve();
      },
      watchFailed: (reason) => t.fail(reason),
    });
    loop.start(false);
  });
  t.same(reports.map(brief), [
    'unreachable: refused',
    ['a=10.0.0.1'],
    'confirmed',
    'unreachable: a bug',
    'unbelievable: service "a" has 600 endpoints, more than limits.maxEndpointsPerService (500)',
    'unbelievable: 101 services, more than limits.maxServices (100)',
    'unbelievable: 1200 endpoints, more than limits.maxEndpoints (1000)',
    'confirmed',
    'unreachable: no answer within 0.1 s',
  ]);
  const times = reports.map(({ at }) => at);
  t.same(
    times,
    [...new Set(times)].sort((a, b) => a - b),
  );
  t.same(adapter.contexts, [true, true, false, false, false, false, false, false, true]);
  t.equal(adapter.closed, true);
});

t.test('R3: after an outage of ten minutes the reads of a fleet are spread over a minute', async (t) => {
  let seed = 1;
  const random = (): number => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const endOfOutage = 600_000;
  const firstReads: number[] = [];
  let early = 0;
  let most = 0;
  for (let host = 0; host < 200; host++) {
    const pace = new Pace({ base: 500, cap: 60_000 }, 60_000, random);
    let now = 0;
    let reads = 0;
    while (now < endOfOutage) {
      now += pace.failed(now);
      reads++;
      if (now < 10_000) early++;
    }
    firstReads.push(now - endOfOutage);
    most = Math.max(most, reads);
  }
  t.ok(most < 100, `no host knocks more than ${most} times in ten minutes`);
  t.ok(early < 200 * 15, `a host knocks ${early / 200} times in the first ten seconds`);
  firstReads.sort((a, b) => a - b);
  t.ok(firstReads[189]! - firstReads[9]! > 30_000, 'nine of ten take more than half a minute');
  for (let second = 0; second < 60; second++) {
    const within = firstReads.filter((at) => at >= second * 1000 && at < (second + 1) * 1000).length;
    t.ok(within <= 20, `${within} of 200 in second ${second}`);
  }
  t.ok(firstReads[199]! <= 60_000, 'all within a minute');
});

t.test('R3: after a short outage a source is soon asked again', async (t) => {
  const pace = new Pace({ base: 500, cap: 60_000 }, 60_000, () => 0.999);
  const waits = [0, 2000, 5000, 20_000, 100_000].map((now) => Math.round(pace.failed(now) / 100) * 100);
  t.same(waits, [1500, 1500, 1500, 4000, 12_000]);
  pace.succeeded();
  t.equal(Math.round(pace.failed(200_000) / 100) * 100, 1500);
  const local = new Pace({ base: 100, cap: 5000 }, 0, () => 0.999);
  t.same(
    [0, 1, 2, 3, 4].map((now) => Math.round(local.failed(now) / 100) * 100),
    [300, 900, 2700, 5000, 5000],
    'what is on this host has its own cap alone',
  );
});

t.test('R6: a revision lower than seen is believed when two reads 10 s apart agree', async (t) => {
  const memory = new RevisionMemory();
  const judge = (epoch: string, revision: number, now: number): string | number =>
    memory.judge(epoch, String(revision), now)?.retryAfter ?? 'believed';
  t.equal(judge('a', 100, 0), 'believed');
  t.equal(judge('a', 100, 1), 'believed');
  memory.passed('a', '120');
  t.same(memory.judge('a', '110', 1000), { reason: 'revision went back from 120 to 110', retryAfter: 10_000 });
  t.equal(judge('a', 110, 7000), 4000, 'too early');
  t.equal(judge('a', 130, 8000), 'believed', 'it was another member that lagged');
  t.equal(judge('a', 50, 20_000), 10_000);
  t.equal(judge('a', 40, 31_000), 10_000, 'the two do not agree');
  t.equal(judge('a', 41, 41_000), 'believed');
  t.equal(judge('a', 41, 42_000), 'believed');
  t.equal(judge('b', 3, 43_000), 'believed', 'R7: another epoch counts from its own beginning');
  t.equal(memory.judge('b', '9007199254740993', 44_000), undefined);
  t.equal(memory.judge('b', '9007199254740992', 45_000)?.retryAfter, 10_000, 'not rounded');
});

t.test('the first change of a quiet registry is passed on at once, those of a busy one put together', async (t) => {
  const batch = new ChangeBatch();
  const change = (services: Listing[], gone: string[] = [], revision = '1') =>
    ({ kind: 'change', epoch: 'e', revision, services, gone, releases: [], rejected: [] }) as const;
  t.equal(batch.take(0), undefined);
  batch.add(change([listing('a', '10.0.0.1')]), 1000);
  t.equal(batch.due, 1020);
  batch.add(change([listing('b', '10.0.0.2')], ['a'], '2'), 1010);
  batch.add(change([listing('b', '10.0.0.3')], [], '3'), 1015);
  t.equal(batch.due, 1020);
  t.same(batch.take(1020), change([listing('b', '10.0.0.3')], ['a'], '3'));
  t.equal(batch.due, Number.POSITIVE_INFINITY);
  batch.add(change([listing('a', '10.0.0.1')], [], '4'), 1100);
  t.equal(batch.due, 1520);
  t.same(batch.take(1520), change([listing('a', '10.0.0.1')], [], '4'));
  batch.add(change([], ['a'], '5'), 11_520);
  t.equal(batch.due, 11_540);
});

t.test('only what is new in a change is passed on, and limits hold for the sum', async (t) => {
  const memory = new ListMemory();
  const all = list(['a', 'b', 'c'].map((name) => listing(name, '10.0.0.1')));
  if (all.kind !== 'list') return;
  memory.take(all);
  const change = (services: Listing[], gone: string[] = [], rejected: { where: string; reason: string }[] = []) =>
    ({ kind: 'change', epoch: 'e', services, gone, releases: [], rejected }) as const;
  t.same(memory.takeChange(change([listing('a', '10.0.0.1')], ['x'])), { kind: 'confirmed' });
  t.same(
    memory.takeChange(change([listing('a', '10.0.0.1'), listing('d', '10.0.0.4')], ['b', 'x'])),
    change([listing('d', '10.0.0.4')], ['b']),
  );
  const noted = change([], [], [{ where: 'k', reason: 'bad' }]);
  t.same(memory.takeChange(noted), noted, 'notes are news');
  t.same(memory.takeChange(noted), { kind: 'confirmed' });
  const limits = { ...LIMITS, maxServices: 3, maxEndpoints: 4 };
  t.equal(memory.overLimit(change([listing('a', '10.0.0.1', '10.0.0.2')]), limits), undefined);
  t.equal(memory.overLimit(change([listing('e', '10.0.0.1')]), limits), '4 services, more than limits.maxServices (3)');
  t.equal(memory.overLimit(change([listing('e', '10.0.0.1')], ['d']), limits), undefined);
  t.equal(
    memory.overLimit(change([listing('d', '10.0.0.1', '10.0.0.2', '10.0.0.3')]), limits),
    '5 endpoints, more than limits.maxEndpoints (4)',
  );
});

/** A registry that can be followed, as a test tells it. */
class ScriptedSource implements Adapter, Follower {
  readonly identity = 'scripted';
  readonly interval = 5000;
  readonly deadline = 4000;
  readonly presenceDeadline = 2000;
  readonly backoff = { base: 500, cap: 60_000 };
  readonly firstSpread = 10_000;
  readonly recoverySpread = 60_000;
  readonly follower = this;
  read: () => Promise<Observation | Failure> = async () => list([listing('a', '10.0.0.1')], { revision: '10' });
  alive: () => Promise<Presence> = async () => ({ kind: 'same' });
  /** When each was called. */
  readonly polls: number[] = [];
  readonly asked: number[] = [];
  watches = 0;
  deliver: (delivery: Delivery) => void = () => undefined;
  end: (reason: string) => void = () => undefined;
  closed = false;
  readonly #time: FakeTime;

  constructor(time: FakeTime) {
    this.#time = time;
  }

  poll(): Promise<Observation | Failure> {
    this.polls.push(this.#time.now);
    return this.read();
  }

  follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string> {
    this.watches++;
    this.deliver = deliver;
    return new Promise((resolve) => {
      this.end = resolve;
      signal.addEventListener('abort', () => resolve('aborted'));
    });
  }

  present(): Promise<Presence> {
    this.asked.push(this.#time.now);
    return this.alive();
  }

  close(): void {
    this.closed = true;
  }
}

function follow(t: Tap, restored = false): Followed {
  const time = new FakeTime();
  const source = new ScriptedSource(time);
  const told: [at: number, what: unknown][] = [];
  const loop = new SyncLoop(source, {
    clock: time.clock,
    random: () => 0.5,
    limits: LIMITS,
    emit: (report) => void told.push([report.at, 'gone' in report ? [brief(report), report.gone] : brief(report)]),
    watchFailed: (reason) => told.push([time.now, `watch failed: ${reason}`]),
    after: time.after,
  });
  t.teardown(() => loop.stop());
  loop.start(restored);
  return { time, source, told, loop, news: () => told.splice(0) };
}

interface Followed {
  readonly time: FakeTime;
  readonly source: ScriptedSource;
  readonly told: [at: number, what: unknown][];
  readonly loop: SyncLoop;
  readonly news: () => [at: number, what: unknown][];
}

const changed = (listings: Listing[], more: { revision?: string; gone?: string[] } = {}): Delivery => {
  return { kind: 'change', epoch: 'e', services: listings, gone: [], releases: [], rejected: [], ...more };
};

t.test('R2: a quiet watch is confirmed by liveness reads, a busy one by what it delivers', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(0);
  t.same(news(), [[1000, ['a=10.0.0.1']]]);
  await time.pass(15_000);
  t.same(news(), [
    [6000, 'confirmed'],
    [11_000, 'confirmed'],
    [16_000, 'confirmed'],
  ]);
  t.same(source.asked, [6000, 11_000, 16_000]);
  source.deliver(changed([listing('b', '10.0.0.2')], { revision: '11' }));
  await time.pass(100);
  source.deliver(changed([listing('b', '10.0.0.3')], { revision: '12' }));
  source.deliver(changed([], { revision: '13', gone: ['a'] }));
  await time.pass(900);
  t.same(news(), [
    [16_020, [['b=10.0.0.2'], []]],
    [16_520, [['b=10.0.0.3'], ['a']]],
  ]);
  source.deliver({ kind: 'confirmed' });
  await time.pass(4900);
  t.same(news(), [[17_000, 'confirmed']]);
  t.same(source.asked.length, 3, 'a progress notice is as good as a read');
  t.same([source.polls, source.watches], [[1000], 1]);
});

t.test('R2: a watch that does not deliver what the registry has is given up within softTtl', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'behind' });
  source.read = async () => list([listing('a', '10.0.0.9')], { revision: '11' });
  await time.pass(9000);
  t.same(source.asked, [6000, 11_000]);
  t.same(source.polls, [1000], 'not at once: every host would list together');
  await time.pass(1000);
  t.same(source.polls, [1000, 12_000]);
  t.same(news(), [
    [11_000, 'watch failed: the watch does not deliver what the registry has'],
    [12_000, ['a=10.0.0.9']],
  ]);
  t.equal(source.watches, 2);
  source.alive = async () => ({ kind: 'lost' });
  await time.pass(7000);
  t.same(source.polls, [1000, 12_000, 18_500]);
});

t.test('a watch that only lags is left alone', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'behind' });
  await time.pass(4500);
  source.deliver(changed([listing('a', '10.0.0.2')], { revision: '11' }));
  source.alive = async () => ({ kind: 'same' });
  await time.pass(20_000);
  t.same(source.polls, [1000]);
  t.same(news().slice(0, 2), [
    [6520, [['a=10.0.0.2'], []]],
    [11_500, 'confirmed'],
  ]);
});

t.test('R3, R4: a source that fails is said to, left alone for longer and longer, and followed again', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  const down = async (): Promise<Failure> => ({ kind: 'unreachable', reason: 'refused' });
  source.alive = down;
  source.read = down;
  await time.pass(60_000);
  t.same(news().slice(0, 3), [
    [6000, 'unreachable: refused'],
    [7000, 'unreachable: refused'],
    [8500, 'unreachable: refused'],
  ]);
  t.ok(source.polls.length < 25, `${source.polls.length} tries in a minute`);
  source.alive = async () => ({ kind: 'same' });
  source.read = async () => list([listing('a', '10.0.0.1')], { revision: '10' });
  const before = source.polls.length;
  await time.pass(12_000);
  t.equal(source.polls.length, before + 1);
  t.equal(news()[0]?.[1], 'confirmed', 'there was nothing new');
  t.equal(source.watches, 2);
});

t.test('a source that is frozen is given up after its deadlines, and a request to wait is heeded', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = () => new Promise(() => undefined);
  source.read = async () => ({ kind: 'unreachable', reason: 'too many requests (429)', retryAfter: 30_000 });
  await time.pass(30_000);
  t.same(
    news().map(([, what]) => what),
    ['unreachable: no answer within 2 s', 'unreachable: too many requests (429)'],
  );
  t.same(source.polls, [1000, 9000]);
});

t.test('a watch that ends is no outage while lists are read', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(6000);
  news();
  source.end('the stream ended');
  await time.pass(1100);
  t.same(news(), [[8000, 'confirmed']], 'listed again and compared');
  t.equal(source.watches, 2);
  for (let i = 0; i < 20; i++) {
    source.end('watching is forbidden');
    await time.pass(5000);
  }
  const seen = news();
  t.same(seen[0]?.[1], 'watch failed: watching is forbidden', 'said once');
  t.same([...new Set(seen.slice(1).map(([, what]) => what))], ['confirmed']);
  t.ok(seen.length >= 20 && seen.length <= 24, 'a list confirms in time where no watch does');
});

t.test('R6: what goes back is not believed before it is read a second time, 10 s later', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.alive = async () => ({ kind: 'lost' });
  source.read = async () => list([], { revision: '4' });
  await time.pass(9000);
  t.same(news(), [[7000, 'unbelievable: revision went back from 10 to 4']]);
  source.alive = async () => ({ kind: 'same' });
  await time.pass(7000);
  t.same(news(), [[17_000, []]]);
  t.same(source.polls, [1000, 7000, 17_000]);
});

t.test('a change over a limit is not believed, and what was good before it stands', async (t) => {
  const { time, source, news } = follow(t);
  await time.pass(1000);
  news();
  source.deliver(changed(Array.from({ length: 101 }, (_, i) => listing(`s${i}`))));
  await time.pass(900);
  t.same(news(), [[2020, 'unbelievable: 102 services, more than limits.maxServices (100)']]);
});

t.test('R3, R30: a restarted or suspended host waits its turn', async (t) => {
  const { time, source, news, loop } = follow(t, true);
  await time.pass(4900);
  t.same(source.polls, []);
  await time.pass(200);
  t.same(source.polls, [6000], 'a snapshot answers, so the first read is spread over 10 s');
  news();
  loop.relist();
  await time.pass(900);
  t.same(source.polls, [6000]);
  await time.pass(200);
  t.equal(source.polls.length, 2);
  t.match(news(), [[/\d/, ['a=10.0.0.1']]], 'the whole list');
  loop.stop();
  await time.pass(60_000);
  t.same([source.polls.length, source.closed, news()], [2, true, []]);
});

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
  const good = { targets: ['10.0.0.1:80', '10.0.0.256:80'], labels: { job: 'web' } };
  t.match(
    read([good, { targets: ['10.0.0.2:80'] }]),
    { removalsBelievable: true },
    'what says nothing of us is a note',
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
    return 'reason' in result ? `${result.kind} ${result.reason.replace(url, 'URL')}` : brief(result);
  };
  t.same(await ask({}), ['a=10.0.0.1']);
  t.match(seen[0], {
    accept: 'application/json',
    authorization: 'Bearer a-secret',
    'x-prometheus-refresh-interval-seconds': '5',
  });
  t.same(await ask({ type: 'Application/JSON; charset=utf-8' }), ['a=10.0.0.1']);
  t.same(await ask({ body: '[]' }), []);
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
  t.equal(seen.length, before, 'nobody is asked without the secret');
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

function zone(name: string, path: string, more: Partial<LimitsConfig> = {}): ZoneConfig {
  const limits = { ...LIMITS, maxEndpoints: 100_000, maxServices: 10_000, ...more };
  // Only what syncing reads of a zone.
  const part = { name, registries: [{ type: 'file', path }], softTtl: 10_000, limits, allowAddresses: [] } as const;
  return part as unknown as ZoneConfig;
}

/** Collects reports; `next` waits for the next one. */
class Inbox {
  readonly #waiting: ((text: unknown) => void)[] = [];
  readonly #had: unknown[] = [];

  put(item: unknown): void {
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#had.push(item);
    else waiter(item);
  }

  next(): Promise<unknown> {
    if (this.#had.length > 0) return Promise.resolve(this.#had.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

function linkOptions(folder: string, more: Partial<SyncLinkOptions>): SyncLinkOptions {
  return {
    snapshotFolder: folder,
    machine: 'm',
    log: () => undefined,
    onReport: () => undefined,
    onSnapshotProblem: () => undefined,
    onSnapshotWanted: () => undefined,
    ...more,
  };
}

t.test('the sync worker reports lists in parts, then changes, and follows a reload', async (t) => {
  const dir = t.testdir({ 'b.yaml': ONE });
  const big = join(dir, 'a.json');
  const services: Record<string, unknown> = {};
  for (let s = 0; s < 100; s++) {
    const endpoints = Array.from({ length: 120 }, (_, e) => ({ address: `10.0.${s}.${e}`, port: 80 }));
    services[`s${s}`] = { endpoints };
  }
  replace(big, JSON.stringify({ services }));
  const inboxes: Record<string, Inbox> = { a: new Inbox(), b: new Inbox() };
  let wanted = 0;
  const link = new SyncLink(
    linkOptions(join(dir, 'snapshots'), {
      onReport: (name, registry, report) => {
        t.equal(registry, 0);
        if (report.kind === 'list' && report.services.length > 2) {
          const rows = report.services.reduce((sum, service) => sum + service.rows.length, 0);
          inboxes[name]?.put(`${report.services.length} services, ${rows} rows`);
        } else if (report.kind !== 'confirmed') inboxes[name]?.put([report.kind, brief(report)]);
      },
      onSnapshotWanted: () => wanted++,
    }),
  );
  t.teardown(() => link.stop());
  link.start([zone('a', big), zone('b', join(dir, 'b.yaml'))]);
  t.equal(wanted, 1);
  t.equal(await inboxes.a?.next(), '100 services, 12000 rows');
  t.same(await inboxes.b?.next(), ['list', ['a=10.0.0.1']]);

  services.s1 = { endpoints: [{ address: '10.9.9.9', port: 80 }] };
  replace(big, JSON.stringify({ services }));
  link.reload([zone('a', big), zone('b', join(dir, 'c.yaml'))]);
  t.same(await inboxes.a?.next(), ['change', ['s1=10.9.9.9']], 'a zone that is as it was goes on');
  t.match(await inboxes.b?.next(), ['unreachable', /c\.yaml: no such file/], 'one that changed begins anew');
  link.relist();
  t.equal(await inboxes.a?.next(), '100 services, 11881 rows');
});

t.test('a sync worker that dies is started again, and asks for snapshots anew', async (t) => {
  const died: unknown[] = [];
  let wanted = 0;
  await new Promise<void>((resolve) => {
    const link = new SyncLink(
      linkOptions(t.testdir({}), {
        workerUrl: new URL('data:text/javascript,throw new Error("no memory left")'),
        log: (level, event, { reason }) => died.push([level, event, reason]),
        onSnapshotWanted: () => {
          if (++wanted === 3) void link.stop().then(() => resolve());
        },
      }),
    );
    link.start([]);
  });
  t.same(died, Array(2).fill(['error', 'sync-worker-died', 'no memory left']));
});
