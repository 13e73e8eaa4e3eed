import fc from 'fast-check';
import t from 'tap';
import type { LimitsConfig } from '../src/config/types.js';
import { PackedListings } from '../src/registry/packed-listings.js';
import { parseHere, parsePacked, parseServices } from '../src/registry/parse.js';
import { type FileContents, packServicesFile, type ReadResult } from '../src/registry/services-file.js';
import { LIMITS, row } from './registry-fixture.js';

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
    [...contents.services][0]?.rows.map(({ address, port }) => `${address}:${port}`),
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
  t.same(new Set([...parsed.services].map(({ name }) => name)), new Set(names));
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
  const listed = (result: ReadResult) => {
    return result.ok ? { ...result.contents, services: [...result.contents.services] } : result;
  };
  // The bytes go with the work.
  const whole = () => Uint8Array.from(bytes);
  const here = await parseHere({ format: 'yaml', bytes, options });
  t.match(here, { ok: true, contents: { services: { length: 90 } } });
  t.strictSame(listed(await parseServices({ format: 'yaml', bytes: whole(), options })), listed(here));
  const cut = await parseServices({ format: 'yaml', bytes: whole().subarray(0, 150_000), options });
  t.match(cut, { ok: true }, 'YAML cut between two lines is still YAML: the guard has to see to that');
  const cutInside = await parseServices({ format: 'yaml', bytes: Buffer.concat([bytes, Buffer.from('{')]), options });
  t.match(cutInside, { ok: false, reason: /^big:\d+: not YAML/ });
});

t.test('a large file of JSON is read service by service, to the same effect', async (t) => {
  const options = { file: 'big', allowAddresses: [], limits: { ...LIMITS, maxServices: 3 } };
  const endpoint = (n: number, more = '') => `{"id":"e${n}","address":"10.0.0.${n}","port":80${more}}`;
  const services = [
    `"a": {"endpoints": [${endpoint(2)}, ${endpoint(1, ',"weight":7,"tags":["y","x"],"zone":"az","portName":"HTTP"')}]}`,
    `"b\\"{}": { "priority":3, "check":{"type":"none"}, "endpoints":[${endpoint(3, ',"protocol":"udp","state":"draining"')}]}`,
    `"c":{"endpoints":[${endpoint(4, ',"node":"n","address":null')},${endpoint(5, ',"ports":{"x":1,"y":2},"port":null')}]}`,
  ];
  const file = (listed: string, more = '') =>
    `\ufeff {"release":{"*":"2031-05-04T09:30:00Z"}, "services" : {${listed}},"nodes":{"n":{"address":"10.9.9.9"}}${more} } \n`;
  const bodies: Record<string, string> = {
    good: file(services.join(' ,\n')),
    none: file(''),
    'over a limit': file([...services, '"d":{"endpoints":[]}'].join()),
    'unknown keys': file(services[0]!, ',"x-mine":[1],"other":{}'),
    'doubtful services': file('"a":5,"b":{"endpoints":[{"address":"nowhere!"}]},"c":{"endpoints":{}}'),
    'a service twice': file(`${services[0]},"a":{"endpoints":[]}`),
    'services twice': file(services[0]!, ',"services":{}'),
    'services that are none': '{"services":[]}',
    'a comma too many': file(`${services[0]},`),
    'a bracket that is none': file('"a":{"endpoints":[}'),
    'cut off': file(services[0]!).slice(0, -9),
    'more behind it': `${file(services[0]!)}{}`,
    'not UTF-8': file(services[0]!.replace('e2', '\udcff')),
    'no object': '[1]',
  };
  for (const [title, text] of Object.entries(bodies)) {
    const bytes = title === 'not UTF-8' ? Buffer.from(text, 'latin1') : Buffer.from(text);
    const here = await parseHere({ format: 'json', bytes, options });
    const packed = await parsePacked({ format: 'json', bytes, options });
    const listed = (result: ReadResult) =>
      result.ok ? { ...result.contents, services: [...result.contents.services] } : result.reason;
    const again = packed.ok
      ? listed({ ...packed, contents: { ...packed.contents, services: new PackedListings(packed.contents.services) } })
      : packed.reason;
    t.same(again, listed(here), title);
  }
  t.not(packServicesFile(Buffer.from(bodies.good!), options), undefined, 'it is taken apart');
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

t.test('what is nested or doubled without an end loses its own endpoint', async (t) => {
  const good = '{ address: 10.0.0.2, port: 80 }';
  const doubled = Array.from({ length: 60 }, (_, n) => `x-${n + 1}: &a${n + 1} [*a${n}, *a${n}]`).join('\n');
  const yaml = `x-0: &a0 [1]\n${doubled}\nservices: { web: { endpoints: [{ address: *a60, port: 80 }, ${good}] } }\n`;
  const deep = '['.repeat(20_000) + ']'.repeat(20_000);
  const json = `{"services":{"web":{"endpoints":[{"address":${deep},"port":80},{"address":"10.0.0.2","port":80}]}}}`;
  for (const [text, file] of [
    [yaml, 's.yaml'],
    [json, 's.json'],
  ] as const) {
    t.match(
      await parse(text, {}, file),
      {
        services: [{ rows: [{ address: '10.0.0.2' }] }],
        rejected: [{ reason: 'address must be an IP address or a host name, not "[...]"' }],
      },
      file,
    );
  }
});
