import { chmodSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { canonicalAddress, parseCidr, parseListen } from '../src/config/addresses.js';
import { ConfigError } from '../src/config/errors.js';
import { keepLastGood, loadQuickly, readLastGood } from '../src/config/lastgood.js';
import { loadConfig, parseConfig } from '../src/config/load.js';
import type { Option, Options } from '../src/config/options.js';
import { defaultPlaces } from '../src/config/places.js';
import { configReference } from '../src/config/reference.js';
import { configOptions } from '../src/config/schema/config.js';
import { registryOptions } from '../src/config/schema/registry.js';
import { matchesGlob, serviceSettings } from '../src/config/service-settings.js';
import { formatDuration, parseDuration, parseSize } from '../src/config/units.js';
import { root } from './root.js';

const FILE = '/etc/holdfast/holdfast.yaml';
const PLACES = { stateDir: '/var/lib/holdfast', runDir: '/run/holdfast' };
const LEAST = `version: 1
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
`;

const read = (text: string, file = FILE) => parseConfig(text, file, PLACES);

/** The one error of a bad configuration. */
function fault(text: string): string {
  try {
    read(text);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'no error';
}

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

t.test('a bad configuration is one error with file, line, key and what was expected', async (t) => {
  const at = (line: number, rest: string) => `/etc/holdfast/holdfast.yaml:${line}: ${rest}`;
  const zone = (line: string) => `${LEAST}    ${line}\n`;
  const cases: [text: string, message: string][] = [
    [zone('softTtl: ten'), at(5, 'zones[0].softTtl: expected a duration such as 10s, got "ten"')],
    [
      zone('softTtl: 10'),
      at(5, 'zones[0].softTtl: expected a duration such as 10s, got 10 (a unit is needed: ms, s, m, h or d)'),
    ],
    [zone('softTtl:'), at(5, 'zones[0].softTtl: expected a duration such as 10s, got nothing')],
    [zone('softTtl: 500ms'), at(5, 'zones[0].softTtl: expected a duration of at least 1s, got "500ms"')],
    [zone('answerTtl: 1500ms'), at(5, 'zones[0].answerTtl: expected a duration in whole seconds, got "1500ms"')],
    [zone('negativeTtl: 0s'), at(5, 'zones[0].negativeTtl: expected a duration of at least 1s, got "0s"')],
    [zone('softTTL: 10s'), at(5, 'zones[0].softTTL: unknown key, did you mean softTtl?')],
    [
      `${LEAST}colour: red\n`,
      at(
        5,
        'colour: unknown key (known here: version, listen, workers, transport, stateDir, runDir, admin, zones, forward, tcp, bootstrap, prober, register, log)',
      ),
    ],
    [zone('softTtl: 1s\n    softTtl: 2s'), at(6, 'the key softTtl is there twice in one map')],
    [zone('check:\n\t  type: tcp'), at(6, 'a tab in the indentation, expected spaces')],
    [zone('limits: { maxBody: 64 }'), at(5, 'zones[0].limits.maxBody: expected a size such as 64MiB, got 64')],
    [zone('allow: 10.0.0.0/8'), at(5, 'zones[0].allow: expected a list such as ["127.0.0.0/8"], got "10.0.0.0/8"')],
    [
      zone('allow:\n      - 127.0.0.0/8\n      - 10.1.0.0/8'),
      at(7, 'zones[0].allow[1]: bits are set beyond /8: expected 10.0.0.0/8 or 10.1.0.0, got "10.1.0.0/8"'),
    ],
    [zone('check: { type: dns }'), at(5, 'zones[0].check.query: missing, a check of type dns needs it')],
    [
      zone('services: { a: { check: { type: exec } } }'),
      at(5, 'zones[0].services.a.check.command: missing, a check of type exec needs it'),
    ],
    [zone('check: { body: x, method: HEAD }'), at(5, 'zones[0].check.body: expected only with method GET')],
    [
      zone('check: { identityHeader: orders }'),
      at(
        5,
        'zones[0].check.identityHeader: expected a header and its value, such as "X-Service: orders", got "orders"',
      ),
    ],
    [zone('check: { timeout: 9s }'), at(5, 'zones[0].check.timeout: expected a duration of at most interval')],
    [
      zone('services:\n      db:\n        check: { interval: 500ms }'),
      at(7, 'zones[0].services.db.check.timeout: expected a duration of at most interval'),
    ],
    [
      zone('services: { "db-*": { alias: db } }'),
      at(5, 'zones[0].services["db-*"].alias: expected only for one service, not a glob'),
    ],
    [
      zone('services: { a: { alias: c }, b: { alias: c } }'),
      at(5, 'zones[0].services.b.alias: c is the alias of a already'),
    ],
    [
      zone('check: { headers: { "bad name": x } }'),
      at(5, 'zones[0].check.headers["bad name"]: expected the name of a header'),
    ],
    [
      zone('naming: rfc2728'),
      at(5, 'zones[0].naming: expected rfc2782 or consul, got "rfc2728" (did you mean rfc2782?)'),
    ],
    [
      zone('registries: []'),
      at(5, 'zones[0].registries: expected a list of at least one, such as [{ type: file, path: services.yaml }]'),
    ],
    [
      zone('registries: [{ type: file, path: a }]'),
      at(5, 'zones[0].registries: expected either registry or registries, not both'),
    ],
    [
      LEAST.replace('type: file', 'type: consol'),
      at(4, 'zones[0].registry.type: expected file, etcd, consul, dns or http, got "consol" (did you mean consul?)'),
    ],
    [LEAST.replace(', path: services.yaml', ''), at(4, 'zones[0].registry.path: missing, expected a path')],
    [
      LEAST.replace(/ {4}registry.*\n/, ''),
      at(3, 'zones[0].registry: missing, expected a map such as { type: file, path: services.yaml }'),
    ],
    [
      LEAST.replace('svc.internal', '-bad-.internal'),
      at(3, 'zones[0].name: expected a domain name such as svc.internal, got "-bad-.internal"'),
    ],
    [
      LEAST.replace('svc.internal', '10.0.0.1'),
      at(3, 'zones[0].name: expected a domain name such as svc.internal, got "10.0.0.1"'),
    ],
    [
      `${LEAST}  - name: SVC.internal\n    registry: { type: file, path: b.yaml }\n`,
      at(5, 'zones[1].name: svc.internal is there twice; views of one zone need listen addresses of their own'),
    ],
    [
      zone('listen: ["127.0.0.2:53"]'),
      at(5, 'zones[0].listen[0]: expected one of the listen addresses, got 127.0.0.2:53'),
    ],
    [
      `${LEAST}listen: ["::1:53"]\n`,
      at(5, 'listen[0]: expected an address and port such as 127.0.0.1:53 or "[::1]:53", got "::1:53"'),
    ],
    [`${LEAST}listen: ["[::1]:53", "[0::1]:53"]\n`, at(5, 'listen[1]: [::1]:53 is there twice')],
    [`${LEAST}admin: "127.0.0.1:53"\n`, at(5, 'admin: 127.0.0.1:53 is in listen already, expected another port')],
    [`${LEAST}workers: 99\n`, at(5, 'workers: expected a whole number from 1 to 64, got 99')],
    [
      `${LEAST}runDir: /${'x'.repeat(120)}\n`,
      at(5, 'runDir: expected a path short enough for sockets in it (107 bytes)'),
    ],
    [LEAST.replace('version: 1', 'version: 2'), at(1, 'version: expected 1, the version of this format, got 2')],
    ['zones: []\n', at(1, 'version: missing, expected 1, the version of this format')],
    ['- a\n', at(1, 'expected a map, got a list')],
    [
      'version: 1\nzones: [\n',
      at(3, 'Flow sequence in block collection must be sufficiently indented and end with a ]'),
    ],
    ['version: 1\n---\nversion: 1\n', at(2, 'expected one YAML document, not several')],
    [`${'['.repeat(20_000)}`, at(1, 'nested too deeply')],
    ['', '/etc/holdfast/holdfast.yaml: is empty, expected at least version and zones'],
    ['# nothing\n', '/etc/holdfast/holdfast.yaml: is empty, expected at least version and zones'],
  ];
  for (const [text, message] of cases) t.equal(fault(text), message);
});

t.test('of several faults the first in the file is told', async (t) => {
  t.equal(
    fault('version: 1\nlisten: [x]\nzones:\n  - nmae: a.b\n    softTtl: x\n'),
    '/etc/holdfast/holdfast.yaml:2: listen[0]: expected an address and port such as 127.0.0.1:53 or "[::1]:53", got "x"',
  );
});

t.test('forward: who is asked for other names, and for whom', async (t) => {
  t.equal(read(LEAST).forward, undefined);
  const { forward } = read(
    `${LEAST}forward: { upstreams: ["192.0.2.53:53"], domains: { Corp.Example.: ["[fd00::1]:5353"] } }\n`,
  );
  t.match(forward, {
    upstreams: [{ address: '192.0.2.53', port: 53 }],
    domains: [{ domain: 'corp.example', upstreams: [{ address: 'fd00::1', port: 5353 }] }],
    cacheSize: 16 * 1024 * 1024,
    maxStale: 86_400_000,
  });
  t.same(forward?.allow, read(LEAST).zones[0]?.allow, 'by default whoever may ask a zone: no open resolver');
  t.match(read(`${LEAST}forward: { resolvConf: up.conf }\n`).forward, {
    upstreams: [],
    resolvConf: '/etc/holdfast/up.conf',
  });
  const wrong: [string, string][] = [
    ['{}', ':5: forward.upstreams: missing, expected a list such as ["192.0.2.53:53"]'],
    [
      '{ upstreams: ["192.0.2.53:53"], resolvConf: x }',
      ':5: forward.resolvConf: expected either upstreams or resolvConf, not both',
    ],
    [
      '{ upstreams: ["127.0.0.1:53"] }',
      ':5: forward.upstreams[0]: 127.0.0.1:53 is this server itself (listen: 127.0.0.1:53)',
    ],
    ['{ upstreams: ["192.0.2.1:53", "192.0.2.1:53"] }', ':5: forward.upstreams[1]: 192.0.2.1:53 is there twice'],
    [
      '{ upstreams: ["192.0.2.53:53"], domains: { a.svc.internal: ["192.0.2.1:53"] } }',
      ':5: forward.domains["a.svc.internal"]: lies in the zone svc.internal, whose names are never forwarded',
    ],
    [
      '{ upstreams: ["192.0.2.53:53"], domains: { "-": ["192.0.2.1:53"] } }',
      ':5: forward.domains["-"]: expected a domain name such as corp.example',
    ],
  ];
  for (const [text, message] of wrong) t.equal(fault(`${LEAST}forward: ${text}\n`), FILE + message);
  const wildcard = `${LEAST}listen: ["0.0.0.0:53"]\nforward: { upstreams: ["127.0.0.9:53"] }\n`;
  t.match(fault(wildcard), /127\.0\.0\.9:53 is this server itself/);
});

t.test('a file registry may have lists of targets', async (t) => {
  const registry = (text: string) => LEAST.replace('path: services.yaml }', `path: targets.json${text} }`);
  const path = '/etc/holdfast/targets.json';
  const file = (text: string) => read(registry(text)).zones[0]!.registries[0];
  t.strictSame(file(', format: targets'), { type: 'file', path, targets: { serviceLabel: 'job' } });
  t.strictSame(file(', format: targets, serviceLabel: app, port: 80'), {
    type: 'file',
    path,
    targets: { serviceLabel: 'app', port: 80 },
  });
  t.strictSame(file(''), { type: 'file', path });
  t.equal(fault(registry(', port: 80')), `${FILE}:4: zones[0].registry.port: expected only with format: targets`);
});

t.test('a name server as registry: a zone whole or names, and what cannot be confirmed is refused', async (t) => {
  const registry = (text: string) => {
    return LEAST.replace('{ type: file, path: services.yaml }', `{ type: dns, servers: ["192.0.2.1:53"]${text} }`);
  };
  const { name } = read(LEAST).zones[0]!;
  const servers = [{ address: '192.0.2.1', port: 53 }];
  t.strictSame(read(registry(', transfer: axfr')).zones[0]!.registries, [
    { type: 'dns', servers, zone: name, interval: 5000 },
  ]);
  t.match(read(registry(', names: [_a._tcp.Corp.Example.], port: 80')).zones[0]!.registries, [
    { names: ['_a._tcp.corp.example'], port: 80 },
  ]);
  const at = `${FILE}:4: zones[0].registry`;
  t.equal(fault(registry('')), `${at}.transfer: missing, expected transfer: axfr, or names`);
  t.equal(fault(registry(', names: [a.b], zone: b')), `${at}.zone: expected either names or zone, not both`);
  t.match(fault(registry(', transfer: axfr, interval: 6s')), /softTtl: expected 12s or more: a read every 6s/);
  const names = JSON.stringify(Array.from({ length: 200 }, (_, i) => `n${i}.example`));
  t.match(fault(registry(`, names: ${names}`)), /softTtl: expected 24s or more: .* of 200 names/);
});

t.test('a registry of Consul: one address or several, and what cannot be confirmed is refused', async (t) => {
  const registry = (text: string) => LEAST.replace('{ type: file, path: services.yaml }', `{ type: consul${text} }`);
  const consul = (text: string) => read(registry(text)).zones[0]!.registries[0];
  const { name } = read(LEAST).zones[0]!;
  t.strictSame(consul(''), {
    type: 'consul',
    addresses: ['http://127.0.0.1:8500'],
    stale: true,
    maxLag: 10_000,
    kvPrefix: `holdfast/${name}`,
    mirror: 'all',
  });
  t.match(
    consul(', address: "https://10.0.0.1:8501/", tokenFile: token, datacenter: DC2, tlsName: server.dc1.consul'),
    {
      addresses: ['https://10.0.0.1:8501'],
      tokenFile: /^\/.*\/token$/,
      datacenter: 'dc2',
      tlsName: 'server.dc1.consul',
    },
  );
  t.match(consul(', addresses: ["http://10.0.0.1:8500", "http://10.0.0.2:8500"], namespace: a, partition: b'), {
    addresses: ['http://10.0.0.1:8500', 'http://10.0.0.2:8500'],
    namespace: 'a',
    partition: 'b',
  });
  const both = registry(', address: "http://10.0.0.1:8500", addresses: ["http://10.0.0.2:8500"]');
  t.equal(fault(both), `${FILE}:4: zones[0].registry.addresses: expected either address or addresses, not both`);
  const soon = `${registry('')}    softTtl: 1s\n`;
  t.equal(fault(soon), `${FILE}:5: zones[0].softTtl: expected 2s or more: Consul cannot confirm sooner (R2)`);
  t.match(fault(registry(', address: "http://me:secret@10.0.0.1:8500"')), /credentials do not belong in a URL/);
  t.match(fault(registry(', address: "http://10.0.0.1:8500/v1"')), /expected a URL without a path/);
  t.match(fault(registry(', kvPrefix: /a/')), /expected a key without slashes at its ends/);
});

t.test('a zone may have several registries, in order of belief, each once (R32)', async (t) => {
  const two = LEAST.replace(/registry: (.*)/, 'registries: [$1, { type: file, path: floor.yaml }]');
  const [zone] = read(`${two}    merge: union\n`).zones;
  t.match(zone, { merge: 'union', registries: [{ path: /services.yaml$/ }, { path: /floor.yaml$/ }] });
  const twice = LEAST.replace(/registry: (.*)/, 'registries: [$1, { type: file, path: ./services.yaml }]');
  t.equal(fault(twice), `${FILE}:4: zones[0].registries[1]: this registry is there twice`);
  const both = `${two}    registry: { type: file, path: c.yaml }\n`;
  t.equal(fault(both), `${FILE}:4: zones[0].registries: expected either registry or registries, not both`);
});

t.test(
  'registries elsewhere: defaults, paths from the folder of the file, the place of a zone in the keys',
  async (t) => {
    const read = (registry: string, more = '') => {
      const text = LEAST.replace('{ type: file, path: services.yaml }', registry) + more;
      return parseConfig(text, FILE, PLACES).zones[0]!.registries[0];
    };
    t.same(read('{ type: etcd }'), {
      type: 'etcd',
      endpoints: ['http://127.0.0.1:2379'],
      layout: 'skydns',
      prefix: '/skydns/internal/svc',
    });
    t.same(
      read(
        `{ type: etcd, endpoints: ["https://e1:2379/", "https://e2:2379"], layout: plain, prefix: /a/b/, port: 80,
         username: holdfast, passwordFile: etcd.password, caFile: ca.pem, certFile: /tls/c.pem, keyFile: k.pem }`,
      ),
      {
        type: 'etcd',
        endpoints: ['https://e1:2379', 'https://e2:2379'],
        layout: 'plain',
        prefix: '/a/b',
        port: 80,
        username: 'holdfast',
        passwordFile: '/etc/holdfast/etcd.password',
        caFile: '/etc/holdfast/ca.pem',
        certFile: '/tls/c.pem',
        keyFile: '/etc/holdfast/k.pem',
      },
    );
    t.same(read('{ type: etcd, layout: plain }'), {
      type: 'etcd',
      endpoints: ['http://127.0.0.1:2379'],
      layout: 'plain',
      prefix: '/holdfast',
    });
    t.same(read('{ type: http, url: "http://192.0.2.1/sd" }'), {
      type: 'http',
      url: 'http://192.0.2.1/sd',
      interval: 5000,
      serviceLabel: 'job',
    });
    t.same(
      read(
        '{ type: http, url: "http://a/sd", interval: 30s, serviceLabel: __meta_Name, tokenFile: t }',
        '    softTtl: 1m\n',
      ),
      {
        type: 'http',
        url: 'http://a/sd',
        interval: 30_000,
        serviceLabel: '__meta_Name',
        tokenFile: '/etc/holdfast/t',
      },
    );
    const bad: [string, string, string][] = [
      [
        '{ type: etcd }',
        '    softTtl: 1s\n',
        ':5: zones[0].softTtl: expected 2s or more: etcd cannot confirm sooner (R2)',
      ],
      [
        '{ type: http, url: "http://a/sd", interval: 30s }',
        '',
        ':3: zones[0].softTtl: expected 1m or more: the list is read every 30s (registry.interval), and a good read confirms it (R2)',
      ],
      ['{ type: etcd, username: u }', '', ':4: zones[0].registry.username: expected passwordFile beside it'],
      [
        '{ type: http, url: "http://a", passwordFile: p }',
        '',
        ':4: zones[0].registry.passwordFile: expected username beside it',
      ],
      [
        '{ type: http, url: "http://a", tokenFile: t, username: u, passwordFile: p }',
        '',
        ':4: zones[0].registry.tokenFile: expected either tokenFile or username, not both',
      ],
      ['{ type: etcd, keyFile: k }', '', ':4: zones[0].registry.keyFile: expected certFile beside it'],
      ['{ type: etcd, certFile: k }', '', ':4: zones[0].registry.certFile: expected keyFile beside it'],
      [
        '{ type: etcd, endpoints: ["http://a:1/v3"] }',
        '',
        ':4: zones[0].registry.endpoints[0]: expected a URL without a path, such as http://127.0.0.1:2379, got "http://a:1/v3"',
      ],
      [
        '{ type: etcd, endpoints: ["http://u:secret@a:1"] }',
        '',
        ':4: zones[0].registry.endpoints[0]: credentials do not belong in a URL',
      ],
      [
        '{ type: etcd, prefix: skydns }',
        '',
        ':4: zones[0].registry.prefix: expected a key such as /skydns, got "skydns"',
      ],
    ];
    for (const [registry, more, message] of bad) {
      t.equal(fault(LEAST.replace('{ type: file, path: services.yaml }', registry) + more), FILE + message);
    }
  },
);

t.test('every declared option refuses nonsense, by its own name', async (t) => {
  let count = 0;
  /** `wrap` makes a file out of the text at a path. */
  const visit = (options: Options, path: string, wrap: (name: string) => string) => {
    for (const [name, option] of Object.entries(options)) {
      if (name === 'registry' || name === 'registries' || name === 'zones') continue;
      count++;
      const key = path === '' ? name : `${path}.${name}`;
      t.match(
        fault(wrap(`${name}: "${option.kind === 'bytes' ? '\\u0100' : '\\0'}"`)),
        new RegExp(`^${FILE}:\\d+: ${key.replace(/[[\].]/g, '\\$&')}: expected `),
        key,
      );
      if (isPlainSection(option)) visit(option.children!, key, (inner) => wrap(`${name}: { ${inner} }`));
    }
  };
  const top = configOptions as Options;
  visit(top, '', (entry) => (entry.startsWith('version') ? `${entry}\n${LEAST.slice(11)}` : `${LEAST}${entry}\n`));
  visit(top.zones!.children!, 'zones[0]', (entry) =>
    entry.startsWith('name') ? LEAST.replace('name: svc.internal', entry) : `${LEAST}    ${entry}\n`,
  );
  visit(
    top.zones!.children!.services!.children!,
    'zones[0].services.db',
    (entry) => `${LEAST}    services: { db: { ${entry} } }\n`,
  );
  const registries = registryOptions as Record<string, Options>;
  for (const [type, options] of Object.entries(registries)) {
    visit(
      options,
      'zones[0].registry',
      (entry) =>
        `version: 1\nzones:\n  - name: a.b\n    registry: { ${entry}, type: ${type}${required(options, entry)} }\n`,
    );
  }
  t.ok(count > 80, `${count} options were tried`);
});

function isPlainSection(option: Option): boolean {
  return option.children !== undefined && option.kind === 'section';
}

const GOOD: Record<string, string> = {
  path: 'path: a.yaml',
  url: 'url: "http://192.0.2.1/sd"',
  servers: 'servers: ["192.0.2.1:53"]',
};

function required(options: Options, entry: string): string {
  return Object.entries(options)
    .filter(([name, option]) => option.required && !entry.startsWith(name))
    .map(([name]) => `, ${GOOD[name]}`)
    .join('');
}

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

t.test('naming: consul has datacenters and agents', async (t) => {
  const zone = (...lines: string[]) => `${LEAST}${lines.map((line) => `    ${line}\n`).join('')}`;
  const good = read(zone('naming: consul', 'datacenters: [EU-west_1, dc2]', 'agentDns: ["127.0.0.1:8600"]')).zones[0]!;
  t.same([good.naming, good.datacenters], ['consul', ['eu-west_1', 'dc2']]);
  t.same(good.agentDns, [{ address: '127.0.0.1', port: 8600 }]);
  const refused: [string, string][] = [
    [
      zone('naming: consul', 'datacenters: [query]'),
      ':6: zones[0].datacenters[0]: expected the name of a datacenter, such as dc1, got "query"',
    ],
    [zone('naming: consul', 'datacenters: [a, A]'), ':6: zones[0].datacenters: a datacenter is there twice'],
    [
      zone('naming: consul', 'datacenters: []'),
      ':6: zones[0].datacenters: expected a list of at least one, such as [dc1, dc2]',
    ],
    [zone('agentDns: ["127.0.0.1:8600"]'), ':5: zones[0].agentDns: expected only with naming: consul'],
    [
      zone('naming: consul', 'agentDns: ["127.0.0.1:53"]'),
      ':6: zones[0].agentDns[0]: 127.0.0.1:53 is this server itself (listen: 127.0.0.1:53)',
    ],
  ];
  for (const [text, message] of refused) t.equal(fault(text), FILE + message);
  const consul = (registry: string, ...lines: string[]) =>
    zone('naming: consul', ...lines).replace('{ type: file, path: services.yaml }', registry);
  const eu = '{ type: consul, datacenter: eu }';
  t.same(read(consul(eu)).zones[0]!.datacenters, ['eu'], 'the datacenter of the registry');
  t.same(read(consul('{ type: consul }')).zones[0]!.datacenters, ['dc1']);
  t.equal(
    fault(consul(eu, 'datacenters: [dc1]')),
    `${FILE}:6: zones[0].datacenters: expected eu among them, whose catalog the registry reads`,
  );
  const view = (address: string, more: string) =>
    `  - { name: consul, naming: consul, listen: ["${address}"], registry: { type: file, path: a.yaml }${more} }\n`;
  const views = `version: 1\nlisten: ["127.0.0.1:53", "127.0.0.2:53"]\nzones:\n`;
  t.equal(
    fault(views + view('127.0.0.1:53', ', agentDns: ["127.0.0.1:8600"]') + view('127.0.0.2:53', '')),
    `${FILE}:5: zones[1].agentDns: expected the same in all views of consul`,
  );
});

t.test('the fail-open window is never shorter than three intervals', async (t) => {
  t.equal(read(`${LEAST}    check: { interval: 30s }\n`).zones[0]!.check.failOpenWindow, 90_000);
});

t.test('files that are no configuration are told apart', async (t) => {
  const dir = t.testdir({ 'latin.yaml': Buffer.from('version: 1 # \xe9\n', 'latin1'), 'good.yaml': LEAST });
  const loaded = (name: string) => {
    try {
      loadConfig(join(dir, name), PLACES);
      return 'good';
    } catch (error) {
      return (error as Error).message.replace(dir, 'DIR');
    }
  };
  writeFileSync(join(dir, 'big.yaml'), '#'.repeat(5 * 1024 * 1024));
  t.equal(loaded('good.yaml'), 'good');
  t.equal(loaded('none.yaml'), 'DIR/none.yaml: no such file (name another with --config FILE)');
  t.equal(loaded('good.yaml/x'), 'DIR/good.yaml/x: no such file (name another with --config FILE)');
  t.equal(loaded('.'), 'DIR: is a directory, expected a file');
  t.equal(loaded('latin.yaml'), 'DIR/latin.yaml: is not text in UTF-8');
  t.equal(loaded('big.yaml'), 'DIR/big.yaml: expected a file of at most 4MiB');
  chmodSync(join(dir, 'good.yaml'), 0);
  const denied = process.getuid?.() === 0 ? 'good' : 'DIR/good.yaml: permission denied';
  t.equal(loaded('good.yaml'), denied);
});

t.test('garbage is a clear error and nothing else', async (t) => {
  const onlyConfigErrors = (text: string) => {
    try {
      read(text);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      if (!error.message.startsWith(FILE) || error.message.includes('\n')) throw new Error(error.message);
    }
  };
  const whole = readFileSync(join(root, 'conf', 'holdfast.yaml'), 'utf8');
  t.doesNotThrow(() => fc.assert(fc.property(fc.string({ unit: 'binary' }), onlyConfigErrors), { numRuns: 300 }));
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.nat(whole.length), fc.nat(40), fc.string({ maxLength: 6 }), (at, cut, put) =>
        onlyConfigErrors(whole.slice(0, at) + put + whole.slice(at + cut)),
      ),
      { numRuns: 300 },
    ),
  );
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(configOptions)), fc.jsonValue(), fc.jsonValue(), (key, value, zone) =>
        onlyConfigErrors(JSON.stringify({ version: 1, zones: [zone], [key]: value })),
      ),
      { numRuns: 300 },
    ),
  );
});

t.test('units', async (t) => {
  const durations = [
    '200ms',
    '5s',
    '10m',
    '24h',
    '7d',
    '1h30m',
    '0.5s',
    '0s',
    '',
    '5',
    's',
    '5 s',
    '-5s',
    '1e3s',
    '5S',
  ];
  t.same(durations.map(parseDuration), [
    200,
    5000,
    600_000,
    86_400_000,
    604_800_000,
    5_400_000,
    500,
    0,
    ...Array<undefined>(7).fill(undefined),
  ]);
  t.same([0, 1, 1500, 60_000, 5_400_000, 172_800_000].map(formatDuration), ['0ms', '1ms', '1500ms', '1m', '90m', '2d']);
  t.same(['64MiB', '1kB', '2GB', '1.5KiB', '64', 'MiB', '64mib'].map(parseSize), [
    67_108_864,
    1000,
    2_000_000_000,
    1536,
    undefined,
    undefined,
    undefined,
  ]);
});

t.test('addresses and prefixes come to canonical text', async (t) => {
  t.same(
    ['127.0.0.1', '2001:DB8:0:0::1', '::ffff:10.0.0.1', '::', '1.2.3', '01.2.3.4', 'fe80::1%eth0', 'localhost', ''].map(
      canonicalAddress,
    ),
    ['127.0.0.1', '2001:db8::1', '10.0.0.1', '::', undefined, undefined, undefined, undefined, undefined],
  );
  t.same(
    ['127.0.0.1:53', '[::1]:53', '[0:0::1]:5353', '127.0.0.1', '::1:53', '127.0.0.1:0', '1.2.3.4:65536', ':53'].map(
      parseListen,
    ),
    [
      { address: '127.0.0.1', port: 53 },
      { address: '::1', port: 53 },
      { address: '::1', port: 5353 },
      ...Array<undefined>(5).fill(undefined),
    ],
  );
  const cidrs: [string, string][] = [
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['192.0.2.7', '192.0.2.7/32'],
    ['FD00::/8', 'fd00::/8'],
    ['::/0', '::/0'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['fe80::/10', 'fe80::/10'],
    ['10.0.0.1/8', 'bits are set beyond /8: expected 10.0.0.0/8 or 10.0.0.1'],
    ['fd00::1/8', 'bits are set beyond /8: expected fd00::/8 or fd00::1'],
    ['fe81::/9', 'bits are set beyond /9: expected fe80::/9 or fe81::'],
    ['10.0.0.0/33', 'expected a prefix length of at most 32'],
    ['::ffff:10.0.0.0/104', 'write a v4-mapped prefix as IPv4, such as 10.0.0.0/32'],
    ['10.0.0.0/', 'expected a prefix such as 10.0.0.0/8 or fd00::/8'],
    ['all', 'expected a prefix such as 10.0.0.0/8 or fd00::/8'],
  ];
  for (const [text, expected] of cidrs) {
    const result = parseCidr(text);
    t.equal('cidr' in result ? result.cidr : result.wrong, expected, text);
  }
});

t.test('settings of a service: globs in order, its name over all', async (t) => {
  const services = [
    { match: 'db', settings: { order: 'weighted', check: { fall: 9 } } },
    { match: 'db*', settings: { order: 'stable', maxAnswers: 3, check: { type: 'none', rise: 5 } } },
    { match: '*', settings: { maxAnswers: 7, check: { rise: 1 } } },
  ] as const;
  t.same(serviceSettings(services, 'DB'), {
    order: 'weighted',
    maxAnswers: 7,
    check: { type: 'none', rise: 1, fall: 9 },
  });
  t.same(serviceSettings(services, 'web'), { maxAnswers: 7, check: { rise: 1 } });
  t.same(serviceSettings([], 'web'), {});
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 });
  const words = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 });
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(letters, words, (glob, word) => {
        const reference = new RegExp(`^${glob.replaceAll('*', '.*').replaceAll('?', '.')}$`);
        return matchesGlob(glob, word) === reference.test(word);
      }),
    ),
  );
  t.equal(matchesGlob(`${'*a'.repeat(100)}b`, 'a'.repeat(5000)), false, 'and no glob takes long');
});

t.test('default places: the system for root, the user by the XDG specification', async (t) => {
  const user = defaultPlaces({ XDG_STATE_HOME: '/home/u/.state', XDG_RUNTIME_DIR: '/run/user/7' }, 7);
  t.same(defaultPlaces({ XDG_STATE_HOME: '/x', XDG_RUNTIME_DIR: '/x' }, 0), PLACES);
  // A host where holdfast is installed has the system's folders for everyone.
  t.ok(['/home/u/.state/holdfast', '/var/lib/holdfast'].includes(user.stateDir), user.stateDir);
  t.ok(['/run/user/7/holdfast', '/run/holdfast'].includes(user.runDir), user.runDir);
  t.same(
    defaultPlaces({ STATE_DIRECTORY: '/s/one:/s/two', RUNTIME_DIRECTORY: '/r/one', XDG_STATE_HOME: '/x' }, 0),
    { stateDir: '/s/one', runDir: '/r/one' },
    'what systemd gives a unit comes first',
  );
  const relative = defaultPlaces({ XDG_RUNTIME_DIR: 'here' }, 7);
  t.notMatch(relative.runDir, /here/, 'relative ones do not count');
});

t.test('what came into force is kept, and serves when the file is bad (R35)', async (t) => {
  const dir = t.testdir({ 'holdfast.yaml': `${LEAST}stateDir: state\nworkers: 3\n` });
  const file = join(dir, 'holdfast.yaml');
  const state = join(dir, 'state');
  t.equal(await readLastGood(file, PLACES), undefined, 'nothing is kept yet');
  const loaded = await loadQuickly(file, PLACES);
  await keepLastGood(loaded, PLACES);
  t.equal(statSync(state).mode & 0o777, 0o700);
  t.equal(statSync(join(state, 'config.last-good.yaml')).mode & 0o777, 0o600);
  t.equal(readFileSync(join(state, 'config.last-good.yaml'), 'utf8'), loaded.text);

  writeFileSync(file, 'stateDir: "state" # here\n\tthis is : no YAML [\n');
  const kept = await readLastGood(file, PLACES);
  t.same(kept?.config, loaded.config, 'the bad file still says where to look, and paths mean what they meant');
  writeFileSync(file, 'version: 9\n');
  t.equal(await readLastGood(file, PLACES), undefined, 'a file that says nothing of it leads to the default place');
  t.same(
    (await readLastGood(file, { ...PLACES, stateDir: state }))?.config,
    loaded.config,
    'where one may be kept as well',
  );
  const other = join(dir, 'other.yaml');
  writeFileSync(other, 'version: 9\n');
  t.equal(
    await readLastGood(other, { ...PLACES, stateDir: state }),
    undefined,
    'one kept for another file is not ours',
  );
  await t.rejects(loadQuickly(file, PLACES), { name: 'ConfigError' });
  await t.rejects(
    keepLastGood({ ...loaded, config: { ...loaded.config, stateDir: join(file, 'x') } }, PLACES),
    'a state folder that cannot be made is an error to be logged',
  );
});

t.test('an unchanged file is not checked again, a changed one is', async (t) => {
  const json = { version: 1, stateDir: 'state', zones: [{ name: 'a.b', registry: { type: 'file', path: 's.json' } }] };
  const inJson = join(t.testdir({ 'holdfast.json': JSON.stringify(json, null, 2) }), 'holdfast.json');
  await keepLastGood(await loadQuickly(inJson, PLACES), PLACES);
  const kept = join(inJson, '..', 'state', 'config.last-good.json');
  writeFileSync(kept, readFileSync(kept, 'utf8').replace('"workers":1', '"workers":7'));
  t.equal((await loadQuickly(inJson, PLACES)).config.workers, 7, 'also one that is written as JSON');

  const dir = t.testdir({ 'holdfast.yaml': `${LEAST}stateDir: state\n` });
  const file = join(dir, 'holdfast.yaml');
  const checked = join(dir, 'state', 'config.last-good.json');
  await keepLastGood(await loadQuickly(file, PLACES), PLACES);
  // A value that is not in the file shows where it was taken from.
  writeFileSync(checked, readFileSync(checked, 'utf8').replace('"workers":1', '"workers":7'));
  t.equal((await loadQuickly(file, PLACES)).config.workers, 7);
  t.equal((await loadQuickly(file, { ...PLACES, runDir: '/elsewhere' })).config.workers, 1, 'other places');
  chmodSync(checked, 0o620);
  t.equal((await loadQuickly(file, PLACES)).config.workers, 1, 'not when others may write it');
  chmodSync(checked, 0o600);
  writeFileSync(file, `${LEAST}stateDir: state\nworkers: 2\n`);
  t.equal((await loadQuickly(file, PLACES)).config.workers, 2);
  writeFileSync(checked, 'broken');
  t.equal((await loadQuickly(file, PLACES)).config.workers, 2);
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
