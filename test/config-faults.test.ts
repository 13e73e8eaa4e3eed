/** What is wrong with a configuration is one clear error. */
import { spawnSync } from 'node:child_process';
import { chmodSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { ConfigError } from '../src/config/errors.js';
import { loadConfig } from '../src/config/load.js';
import type { Option, Options } from '../src/config/options.js';
import { configOptions } from '../src/config/schema/config.js';
import { registryOptions } from '../src/config/schema/registry.js';
import { FILE, fault, LEAST, PLACES, read } from './config-fixture.js';
import { root } from './root.js';

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
  spawnSync('mkfifo', [join(dir, 'pipe.yaml')]);
  t.equal(
    loaded('pipe.yaml'),
    'DIR/pipe.yaml: is a named pipe, expected a regular file',
    'and nobody waits for a writer',
  );
  symlinkSync('/dev/zero', join(dir, 'zero.yaml'));
  t.equal(loaded('zero.yaml'), 'DIR/zero.yaml: is a device, expected a regular file');
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
