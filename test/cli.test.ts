import { createSocket } from 'node:dgram';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { quickServeArguments } from '../src/cli/serve-arguments.js';
import { CONFIG, holdfast, shortDir } from './cli-fixture.js';
import { freePort } from './ports.js';
import { root } from './root.js';

// Every run is a process, and the machine may be busy.
t.setTimeout(180_000);

const SERVICES = `services:
  orders:
    endpoints:
      - { id: orders-1, address: 10.0.0.1, port: 8081 }
      - { id: orders-2, address: 10.0.0.2, port: 8081, state: draining }
`;

t.test('help teaches, with examples, and names every command', async (t) => {
  const { code, out } = await holdfast('--help');
  t.equal(code, 0);
  const commands = [...out.matchAll(/^ {2}([a-z]+)(?: \[options\])?(?: [<[].*?)? {2,}/gm)].map((match) => match[1]);
  const known = [
    'serve',
    'probe',
    'register',
    'demo',
    'check',
    'status',
    'explain',
    'query',
    'accept',
    'drain',
    'install',
    'uninstall',
  ];
  t.same(commands, known);
  t.match(out, '\nExamples:\n  holdfast demo ');
  for (const line of out.split('\n')) t.ok(line.length <= 100, line);
  const query = await holdfast('query', '--help');
  t.equal(query.code, 0);
  t.match(query.out, 'holdfast query _orders._tcp.svc.internal ');
});

t.test('wrong usage is exit code 2 and one hint', async (t) => {
  const cases: [string[], RegExp][] = [
    [['serv'], /^holdfast: unknown command 'serv'\n\(Did you mean serve\?\)\n/],
    [['status', '--jsn'], /^holdfast: unknown option '--jsn'\n\(Did you mean --json\?\)\n/],
    [['explain'], /^holdfast: missing required argument 'name'\n/],
    [['query', 'x', '--port', '70000'], /Expected 1 to 65535/],
    [['query', 'x', 'NONSENSE', '--server', '127.0.0.1'], /^holdfast: unknown record type NONSENSE /],
    [['query', 'a..b', '--server', '127.0.0.1'], /^holdfast: a\.\.b is not a domain name\n/],
    [
      ['query', `${'x'.repeat(64)}.internal`, '--server', '127.0.0.1'],
      /^holdfast: x{64}\.internal is not a domain name\n/,
    ],
    [['explain', 'orders.svc.internal', 'NONSENSE'], /^holdfast: unknown record type NONSENSE /],
    [['explain', 'a..b'], /^holdfast: a\.\.b is not a domain name\n/],
    [['query', 'x', '--server', 'localhost'], /^holdfast: --server: expected an IP address, got localhost\n/],
    [['serve', '--transport', 'pigeon'], /argument 'pigeon' is invalid. Allowed choices are auto, batched, portable/],
    [[], /^Usage: holdfast /],
  ];
  await Promise.all(
    cases.map(async ([args, expected]) => {
      const { code, out, err } = await holdfast(...args);
      t.equal(code, 2, args.join(' '));
      t.equal(out, '');
      t.match(err, expected);
    }),
  );
  const { code, out } = await holdfast('--version');
  t.equal(code, 0);
  t.equal(out, `${JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version}\n`);
});

t.test('a bad configuration is one line on standard error and exit code 2', async (t) => {
  const dir = t.testdir({ 'bad.yaml': CONFIG.replace('run\n', '"run"\n').replace('registry', 'regsitry') });
  const bad = join(dir, 'bad.yaml');
  const message = `holdfast: ${bad}:7: zones[0].regsitry: unknown key, did you mean registry?\n`;
  const runs = [
    ['serve'],
    ['probe'],
    ['check'],
    ['status'],
    ['explain', 'x'],
    ['accept', 'x'],
    ['drain', 'x'],
    ['query', 'x'],
  ];
  await Promise.all(
    runs.map(async (args) => {
      t.same(await holdfast(...args, '--config', bad), { code: 2, out: '', err: message }, args[0]!);
    }),
  );
  const missing = `holdfast: ${bad}.not: no such file (name another with --config FILE)\n`;
  t.same(await holdfast('serve', `--config=${bad}.not`), { code: 2, out: '', err: missing });
  t.same(await holdfast('serve', '--last-good', '-c', bad), {
    code: 2,
    out: '',
    err: `${message}holdfast: no last good configuration is kept, so --last-good has nothing to fall back to\n`,
  });
  const json = await holdfast('check', '--json', '-c', bad);
  t.equal(json.code, 2);
  t.equal(JSON.parse(json.out).error, message.slice('holdfast: '.length, -1));
  const folder = t.testdir({ 'h.yaml': 'stateDir: state\nversion: 9\n', state: { 'config.last-good.json': '{' } });
  const damaged = await holdfast('serve', '--last-good', '-c', join(folder, 'h.yaml'));
  t.equal(damaged.code, 2);
  const aside = `set aside as ${folder}/state/config.last-good.json.bad`;
  t.match(
    damaged.err.split('\n').at(-2),
    /^holdfast: the last good configuration is damaged \(.*JSON.*; .*\), so --last/,
  );
  t.ok(damaged.err.includes(`${aside})`), aside);
  t.same(readdirSync(join(folder, 'state')), ['config.last-good.json.bad']);
});

t.test('check tells who is asked for other names', async (t) => {
  const forward = 'forward: { resolvConf: up.conf }';
  const folder = t.testdir({
    'holdfast.yaml': `version: 1\n${forward}\nzones: [{ name: svc.internal, registry: { type: file, path: s.yaml } }]\n`,
    's.yaml': 'services: {}\n',
  });
  const config = join(folder, 'holdfast.yaml');
  t.match(await holdfast('check', '-c', config), {
    code: 0,
    out: /other names: nobody to ask yet: .*up\.conf cannot be/,
  });
  writeFileSync(join(folder, 'up.conf'), 'nameserver 127.0.0.53\nnameserver 127.0.0.1\n');
  t.match(await holdfast('check', '-c', config), { code: 0, out: /up\.conf names no server but this host's own\n/ });
  writeFileSync(join(folder, 'up.conf'), 'nameserver 192.0.2.1\n');
  t.match(await holdfast('check', '-c', config), { code: 0, out: /other names: 192\.0\.2\.1:53\n/ });
});

t.test('check tells what would be served', async (t) => {
  const dir = shortDir(t, { 'holdfast.yaml': CONFIG, 'services.yaml': SERVICES });
  const config = join(dir, 'holdfast.yaml');
  const good = await holdfast('check', '-c', config);
  t.same(good, {
    code: 0,
    err: '',
    out: `${config}: good
  listen on 127.0.0.1:5399

svc.internal, checks: tcp
  file ${dir}/services.yaml: 1 service, 2 endpoints
    service  endpoints
    orders   2          1 draining
`,
  });
  const reference = await holdfast('check', '--options');
  t.match(reference, { code: 0, err: '', out: '| `softTtl` | duration, 1s or more | `10s` |' });
  writeFileSync(join(dir, 'services.yaml'), SERVICES.replace('port: 8081 }', 'port: none }'));
  const partly = await holdfast('check', '-c', config);
  t.equal(partly.code, 1, 'what is left out is not well');
  t.match(partly.out, `left out ${dir}/services.yaml:4: `);
  writeFileSync(join(dir, 'services.yaml'), 'services: [');
  const broken = await holdfast('check', '-c', config, '--json');
  t.equal(broken.code, 2);
  t.match(JSON.parse(broken.out), { ok: false, zones: [{ registries: [{ error: String, services: [] }] }] });
});

t.test('a port in use is told once, and the log names the event', async (t) => {
  const holder = createSocket('udp4');
  const port = await freePort();
  await new Promise<void>((resolve) => holder.bind(port, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const place = `127.0.0.1:${port}`;
  const dir = shortDir(t, { 'holdfast.yaml': CONFIG.replace('127.0.0.1:5399', place), 'services.yaml': SERVICES });
  const { code, out, err } = await holdfast('serve', '-c', join(dir, 'holdfast.yaml'));
  t.equal(code, 1);
  t.match(err, `holdfast: cannot listen: ${place} (UDP) is in use by `);
  t.equal(`${out}${err}`.split('is in use by').length, 2);
  t.match(JSON.parse(out.trim().split('\n').at(-1)!), { event: 'cannot-listen', listen: [place] });
});

t.test('serve by the simplest arguments needs no parser', async (t) => {
  const file = '/etc/holdfast/holdfast.yaml';
  const cases: [string[], unknown][] = [
    [['serve'], { config: file, lastGood: false }],
    [['serve', '--config', 'a.yaml', '--last-good'], { config: 'a.yaml', lastGood: true }],
    [['serve', '-c', 'a.yaml'], { config: 'a.yaml', lastGood: false }],
    [
      ['serve', '--config=a.yaml', '--transport=portable'],
      { config: 'a.yaml', lastGood: false, transport: 'portable' },
    ],
    [['serve', '--transport', 'pigeon'], undefined],
    [['serve', '--config'], undefined],
    [['serve', '--config', '--last-good'], undefined],
    [['serve', '--last-good=yes'], undefined],
    [['serve', '--help'], undefined],
    [['serve', 'x'], undefined],
    [['status'], undefined],
    [[], undefined],
  ];
  for (const [args, expected] of cases) t.same(quickServeArguments(args), expected, args.join(' '));
});

t.test('the demo works, from the first answer to the last, and leaves nothing behind', async (t) => {
  const { code, out } = await holdfast('demo', '--once');
  t.equal(
    out,
    `starting backends, resolver and prober ...
.. everything is well
   ok both orders and billing are answered
.. orders-2 is killed
   ok it leaves the answer
.. the registry is taken away
   ok it is not heard, and every answer stays
.. orders-2 is started again, without a registry
   ok it is back in the answer
.. the registry is brought back
   ok it is heard, and answers are fresh
`,
  );
  t.equal(code, 0);
});
