/** What a configuration says, and its defaults. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { loadConfig } from '../src/config/load.js';
import { configReference } from '../src/config/reference.js';
import { fault, LEAST, PLACES, read } from './config-fixture.js';
import { root } from './root.js';

t.test('the least configuration has every default', async (t) => {
  t.same(read(LEAST), {
    version: 1,
    file: '/etc/holdfast/holdfast.yaml',
    listen: [{ address: '127.0.0.1', port: 53 }],
    workers: 1,
    transport: 'auto',
    stateDir: '/var/lib/holdfast',
    runDir: '/run/holdfast',
    zones: [
      {
        name: 'svc.internal',
        naming: 'rfc2782',
        datacenters: ['dc1'],
        agentDns: [],
        registries: [{ type: 'file', path: '/etc/holdfast/services.yaml' }],
        merge: 'first',
        softTtl: 10_000,
        answerTtl: 2000,
        negativeTtl: 2000,
        allow: [
          '127.0.0.0/8',
          '::1/128',
          '10.0.0.0/8',
          '172.16.0.0/12',
          '192.168.0.0/16',
          '100.64.0.0/10',
          '169.254.0.0/16',
          'fc00::/7',
          'fe80::/10',
        ],
        check: {
          type: 'tcp',
          interval: 5000,
          timeout: 1000,
          rise: 2,
          fall: 3,
          path: '/',
          method: 'GET',
          headers: {},
          drainHeader: 'X-Drain',
          status: [[200, 399]],
          minValidity: 0,
          queryType: 'SOA',
          softCap: 0.5,
          longDead: 600_000,
          pinned: false,
          failOpenWindow: 60_000,
        },
        guard: { share: 0.5, count: 2, window: 300_000, confirm: 60_000, maxHold: 600_000 },
        limits: { maxServices: 10_000, maxEndpoints: 100_000, maxEndpointsPerService: 5000, maxBody: 67_108_864 },
        addresses: 'fixed',
        allowAddresses: [],
        order: 'weighted',
        keepTargets: 86_400_000,
        snapshotTrust: 86_400_000,
        interest: 900_000,
        idleInterval: 60_000,
        forget: 604_800_000,
        onDemand: { lookUps: 10, unknownTtl: 5_000, maxUnknown: 10_000 },
        services: [],
      },
    ],
    tcp: { idleTimeout: 10_000, maxConnections: 1_024, maxConnectionsPerClient: 128 },
    register: { path: '/etc/holdfast/register.d' },
    prober: { budget: 500, conntrackShare: 0.05, source: [] },
    log: { level: 'info' },
  });
});

t.test('every option is taken as it is written', async (t) => {
  const config = read(`version: 1
listen: ["127.0.0.1:5300", "[::1]:5300"]
workers: 4
transport: portable
stateDir: state
runDir: /tmp/run
admin: "[::1]:8653"
zones:
  - name: Svc.Internal.
    naming: rfc2782
    registries: [{ type: file, path: /srv/services }]
    merge: first
    softTtl: 1m
    answerTtl: 5s
    negativeTtl: 1s
    allow: [10.0.0.0/8, 192.0.2.1, "fd00::/8"]
    listen: ["[::1]:5300"]
    check: { type: https, interval: 30s, timeout: 1500ms, rise: 1, fall: 5, port: 8443, path: /up, method: HEAD, host: up.example, headers: { x-token: abc }, status: [200, "204-299"], softCap: 0.25, longDead: 1h, failOpenWindow: 2m, pinned: true, identityHeader: "X-Service: orders", tlsName: up.example, minValidity: 7d, grpcService: a.B, query: a.test, queryType: A, expect: "a\\x00", farewell: "QUIT\\r\\n", send: x, command: [/bin/check, -q] }
    guard: { share: 0.3, count: 3, window: 10m, confirm: 30s, maxHold: 1h }
    limits: { maxServices: 10, maxEndpoints: 20, maxEndpointsPerService: 5, maxBody: 1MB }
    addresses: fixed
    allowAddresses: ["127.0.0.0/8"]
    order: stable
    maxAnswers: 8
    keepTargets: 0s
    snapshotTrust: 12h
    interest: 1h30m
    idleInterval: 2m
    forget: 1d
    onDemand: { lookUps: 3, unknownTtl: 1m, maxUnknown: 50 }
    services:
      "db-*": { check: { type: none }, order: stable }
      orders: { maxAnswers: 2, alias: Shop }
tcp: { idleTimeout: 30s, maxConnections: 50 }
register: { path: services.d }
prober: { budget: 100, conntrackShare: 0.1, source: [10.0.0.5, "fd00:0::5"] }
log: { level: debug }
`);
  t.same(config, {
    version: 1,
    file: '/etc/holdfast/holdfast.yaml',
    listen: [
      { address: '127.0.0.1', port: 5300 },
      { address: '::1', port: 5300 },
    ],
    workers: 4,
    transport: 'portable',
    stateDir: '/etc/holdfast/state',
    runDir: '/tmp/run',
    admin: { address: '::1', port: 8653 },
    zones: [
      {
        name: 'svc.internal',
        naming: 'rfc2782',
        datacenters: ['dc1'],
        agentDns: [],
        registries: [{ type: 'file', path: '/srv/services' }],
        merge: 'first',
        softTtl: 60_000,
        answerTtl: 5000,
        negativeTtl: 1000,
        allow: ['10.0.0.0/8', '192.0.2.1/32', 'fd00::/8'],
        listen: [{ address: '::1', port: 5300 }],
        check: {
          type: 'https',
          interval: 30_000,
          timeout: 1500,
          rise: 1,
          fall: 5,
          port: 8443,
          path: '/up',
          method: 'HEAD',
          host: 'up.example',
          headers: { 'x-token': 'abc' },
          status: [
            [200, 200],
            [204, 299],
          ],
          identityHeader: ['X-Service', 'orders'],
          tlsName: 'up.example',
          drainHeader: 'X-Drain',
          minValidity: 604_800_000,
          grpcService: 'a.B',
          query: 'a.test',
          queryType: 'A',
          expect: 'a\x00',
          farewell: 'QUIT\r\n',
          send: 'x',
          command: ['/bin/check', '-q'],
          softCap: 0.25,
          longDead: 3_600_000,
          pinned: true,
          failOpenWindow: 120_000,
        },
        guard: { share: 0.3, count: 3, window: 600_000, confirm: 30_000, maxHold: 3_600_000 },
        limits: { maxServices: 10, maxEndpoints: 20, maxEndpointsPerService: 5, maxBody: 1_000_000 },
        addresses: 'fixed',
        allowAddresses: ['127.0.0.0/8'],
        order: 'stable',
        maxAnswers: 8,
        keepTargets: 0,
        snapshotTrust: 43_200_000,
        interest: 5_400_000,
        idleInterval: 120_000,
        forget: 86_400_000,
        onDemand: { lookUps: 3, unknownTtl: 60_000, maxUnknown: 50 },
        services: [
          { match: 'db-*', settings: { check: { type: 'none' }, order: 'stable' } },
          { match: 'orders', settings: { maxAnswers: 2, alias: 'shop' } },
        ],
      },
    ],
    tcp: { idleTimeout: 30_000, maxConnections: 50, maxConnectionsPerClient: 128 },
    register: { path: '/etc/holdfast/services.d' },
    prober: { budget: 100, conntrackShare: 0.1, source: ['10.0.0.5', 'fd00::5'] },
    log: { level: 'debug' },
  });
});

t.test('x- keys are ignored at every level, and serve anchors', async (t) => {
  const config = read(`version: 1
x-check: &check { type: http, path: /healthz }
zones:
  - name: a.internal
    x-owner: team-a
    registry: { type: file, path: a.yaml, x-note: hello }
    check: { <<: *check, interval: 10s, x-why: slow }
    services: { x-db: { maxAnswers: 1 } }
`);
  const zone = config.zones[0]!;
  t.same([zone.check.type, zone.check.path, zone.check.interval], ['http', '/healthz', 10_000]);
  t.same(zone.services, [{ match: 'x-db', settings: { maxAnswers: 1 } }], 'but the names of services are names');
});

t.test('one zone name is allowed twice where the views are apart', async (t) => {
  const config = read(`version: 1
listen: ["127.0.0.1:53", "127.0.0.2:53"]
zones:
  - { name: a.internal, listen: ["127.0.0.1:53"], registry: { type: file, path: a.yaml } }
  - { name: a.internal, listen: ["127.0.0.2:53"], registry: { type: file, path: b.yaml } }
`);
  t.equal(config.zones.length, 2);
});

t.test('bootstrap: whom to ask for host names while nothing is forwarded', async (t) => {
  t.same(read(`${LEAST}bootstrap: ["192.0.2.1:53"]\n`).bootstrap, [{ address: '192.0.2.1', port: 53 }]);
  t.equal(read(LEAST).bootstrap, undefined);
  t.match(fault(`${LEAST}bootstrap: ["127.0.0.1:53"]\n`), /bootstrap\[0\]: 127\.0\.0\.1:53 is this server itself/);
});

t.test('the fail-open window is never shorter than three intervals', async (t) => {
  t.equal(read(`${LEAST}    check: { interval: 30s }\n`).zones[0]!.check.failOpenWindow, 90_000);
});

t.test('the reference is the one that the declarations make', async (t) => {
  const written = readFileSync(join(root, 'docs', 'configuration.md'), 'utf8');
  t.equal(written, configReference(), 'run `npm run docs:config`');
});

t.test('the examples are good', async (t) => {
  t.equal(loadConfig(join(root, 'conf', 'holdfast.yaml'), PLACES).config.zones[0]?.name, 'svc.internal');
  const blocks = [...configReference().matchAll(/```yaml\n([\s\S]*?)```/g)].map((match) => match[1]!);
  t.equal(blocks.length, 1);
  for (const block of blocks) t.equal(fault(block), 'no error');
});
