import t from 'tap';
import { parseConfig } from '../src/config/load.js';
import { FILE, fault, LEAST, PLACES, read } from './config-fixture.js';

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
  const names = (length: number) => JSON.stringify(Array.from({ length }, (_, i) => `n${i}.example`));
  t.match(fault(registry(`, names: ${names(200)}`)), /softTtl: expected 24s or more: .* of 200 names/);
  t.match(fault(registry(`, names: ${names(80)}`)), /softTtl: expected 12s or more: .* of 80 names/);
});

t.test('names of all zones that are looked up at one name server are added up', async (t) => {
  const names = (length: number) => JSON.stringify(Array.from({ length }, (_, i) => `n${i}.example`));
  const zones = (...registries: (readonly [servers: string, count: number, softTtl: string])[]): string => {
    const text = registries.map(
      ([servers, count, softTtl], i) =>
        `  - name: z${i}.example\n    softTtl: ${softTtl}\n    registry: { type: dns, servers: [${servers}], names: ${names(count)} }\n`,
    );
    return `version: 1\nzones:\n${text.join('')}`;
  };
  const [one, two] = ['"192.0.2.1:53"', '"192.0.2.2:53"'];
  t.equal(read(zones([one, 200, '24s'], [two, 200, '24s'])).zones.length, 2);
  t.match(
    fault(zones([one, 200, '24s'], [one, 200, '48s'])),
    /:4: zones\[0\]\.softTtl: expected 48s or more: .* of 200 names, beside 200 of other registries at 192\.0\.2\.1:53,/,
  );
  t.equal(read(zones([one, 200, '48s'], [one, 200, '48s'])).zones.length, 2);
  t.match(fault(zones([one, 200, '48s'], [`${two}, ${one}`, 200, '24s'])), /:7: zones\[1\]\.softTtl: expected 48s/);
  t.equal(
    read(zones([one, 10, '10s'], [one, 1000, '3m'])).zones.length,
    2,
    'a small one does not wait for all of a large one: they take turns',
  );
  const both = `version: 1
zones:
  - name: a.example
    softTtl: 24s
    registries:
      - { type: dns, servers: [${one}], names: ${names(200)} }
      - { type: dns, servers: [${one}], port: 80, names: ${names(100)} }
`;
  t.match(fault(both), /zones\[0\]\.softTtl: expected 36s or more/, 'of one zone, too');
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
  const asked = LEAST.replace(/registry: (.*)/, 'registries: [$1, { type: consul, mirror: asked }]');
  t.match(fault(asked), /registries\[1\]\.mirror: expected all: a registry on demand is the only one of its zone/);
  const alone = LEAST.replace(/registry: (.*)/, 'registries: [{ type: consul, mirror: asked }]');
  t.match(read(alone).zones[0]!.registries, [{ mirror: 'asked' }]);
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

t.test('no error repeats what may be a secret in a URL, however it is written', async (t) => {
  const bad: [registry: string, shown: string][] = [
    ['{ type: http, url: "me:hush@host/sd" }', '"...@host/sd"'],
    ['{ type: http, url: "ftp://host/sd?key=hush" }', '"ftp://host/sd?..."'],
    ['{ type: http, url: "http://me:hu/sh@host/sd?key=hush" }', '"http://...@host/sd?..."'],
    ['{ type: etcd, endpoints: "http://me:hush@host:1" }', '"http://...@host:1"'],
    ['{ type: etcd, endpoints: ["http://host:1/v3?key=hush"] }', '"http://host:1/v3?..."'],
    ['http://me:hush@host:1', '"http://...@host:1"'],
    ['{ type: http, url: "host/sd?key=hush" }', '"host/sd?..."'],
    ['{ type: http, url: "host:80/sd?key=hush" }', '"host:80/sd?..."'],
    ['{ type: etcd, endpoints: ["http:/host/?key=hush"] }', '"http:/host/?..."'],
  ];
  for (const [registry, shown] of bad) {
    t.ok(fault(LEAST.replace('{ type: file, path: services.yaml }', registry))?.endsWith(`, got ${shown}`), registry);
  }
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
