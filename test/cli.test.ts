import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { request as httpRequest } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import dns2 from 'dns2';
import t, { type Test } from 'tap';
import type { AdminSource, StatusDocument } from '../src/admin/documents.js';
import { METRIC_NAMES, Metrics } from '../src/admin/metrics.js';
import { statusPage } from '../src/admin/page.js';
import { type AdminOptions, AdminServer } from '../src/admin/server.js';
import { quickServeArguments } from '../src/cli/serve-arguments.js';
import { showStatus } from '../src/cli/status.js';
import { explainBindFailure } from '../src/server/bind-error.js';
import { openLog } from '../src/system/log.js';
import { FloodGate } from '../src/system/log-flood.js';
import { age, plain, styleFor, table } from '../src/system/terminal.js';
import { root } from './root.js';

const { Packet } = dns2;
const LAUNCHER = join(root, 'bin', 'holdfast.js');

// Every run is a process, and the machine may be busy.
t.setTimeout(180_000);

/** A short folder: the path of a socket has 107 bytes. */
function shortDir(t: Test, files: Readonly<Record<string, string>> = {}): string {
  const dir = mkdtempSync(join(tmpdir(), 'hf-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(dir, name), text);
  return dir;
}

/** As the resolver tells it. */
const notBound: AdminOptions['notBound'] = (address, code, message) =>
  explainBindFailure(address, 'tcp', { code, message }, 'admin');

/** What is kept on the machine that runs the tests is none of theirs. */
const NOWHERE = join(tmpdir(), `holdfast-test-${process.pid}`);

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs the real launcher to its end. */
function holdfast(...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [LAUNCHER, ...args], {
    env: { ...process.env, HOLDFAST_CONFIG: '', STATE_DIRECTORY: NOWHERE, RUNTIME_DIRECTORY: NOWHERE },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (texts.out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (texts.err += text));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, ...texts }));
  });
}

const CONFIG = `version: 1
listen: ["127.0.0.1:5399"]
runDir: run
stateDir: state
zones:
  - name: svc.internal
    registry: { type: file, path: services.yaml }
`;
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
  await new Promise<void>((resolve) => holder.bind(0, '127.0.0.1', resolve));
  t.teardown(() => holder.close());
  const place = `127.0.0.1:${holder.address().port}`;
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

const STATUS: StatusDocument = {
  version: '9.8.7',
  pid: 42,
  started: '2020-01-01T00:00:00.000Z',
  uptimeMs: 90_000,
  state: 'degraded',
  problems: ['zone svc.internal: registry not heard \x1b[31m'],
  config: { file: '/etc/holdfast/holdfast.yaml', lastGood: true, error: 'bad key' },
  listen: [{ address: '::1', port: 53, udp: 'up', tcp: 'retrying', error: 'in use' }],
  transport: 'batched',
  prober: { state: 'stale', targets: 3, lastHeardMs: 65_000 },
  zones: [
    {
      name: 'svc.internal',
      state: 'stale',
      heard: false,
      reason: 'gone',
      since: '2020-01-01T10:00:00.000Z',
      lastConfirmedMs: 61_000,
      registry: 'file /x',
      registries: [
        {
          registry: 'file /x',
          heard: false,
          reason: 'gone',
          since: '2020-01-01T10:00:00.000Z',
          lastConfirmedMs: 61_000,
          source: 'snapshot',
          stale: true,
          services: 2,
          endpoints: 5,
          rejectedCount: 1,
          once: 0,
        },
      ],
      source: 'snapshot',
      services: 2,
      endpoints: 5,
      answered: 4,
      heldBack: 1,
      ejected: 0,
      drained: 1,
      guarded: 2,
      guard: { zone: true, services: ['orders'], alarm: true },
      floor: ['billing'],
      withheld: ['users'],
      rejected: [{ where: 'services.yaml:4', reason: 'bad port' }],
      rejectedCount: 1,
      unnamed: [],
      unnamedCount: 0,
      hosts: [],
      conflicts: [],
      checks: 'on',
      softTtlMs: 10_000,
    },
  ],
};

/** A resolver that is not one: what it is asked is kept in `asked`. */
function fakeSource(status: StatusDocument, asked: unknown[] = []): AdminSource {
  const metrics = new Metrics({
    status: () => status,
    counters: () => ({
      queries: [{ transport: 'udp', count: 5 }],
      types: [{ type: 'SRV', count: 4 }],
      responses: [{ rcode: 'NOERROR', count: 5 }],
      drops: [{ reason: 'loop', count: 2 }],
      forwardKept: 0,
      probes: { pass: 7, refused: 1 },
      forwardKeptStale: 0,
      reports: { known: 4, unknown: 1, ejections: 2 },
      staleAnswers: 3,
      reloads: { ok: 1, failed: 2 },
      workerRestarts: 0,
      snapshots: [{ zone: 'svc.internal', ageMs: 1500, problems: 1 }],
      latency: { bounds: [0.001, 0.01], counts: [3, 2, 1], sum: 0.25 },
    }),
  });
  return {
    status: () => status,
    drain: (name, zone, undo) => {
      asked.push({ name, zone, undo });
      return name === 'nobody'
        ? { unknown: 'no zone has nobody' }
        : { endpoints: 2, changed: undo ? 0 : 2, answered: 1 };
    },
    reported: (reports) => {
      asked.push(...reports);
    },
    services: () => [],
    explain: (name, type) => {
      asked.push({ name, type });
      return {
        name,
        type,
        zone: 'svc.internal',
        service: 'orders',
        outcome: 'answer',
        because: ['one of two is answered'],
        stale: true,
        endpoints: [
          {
            id: 'orders-1',
            address: '10.0.0.1',
            port: 8081,
            protocol: 'tcp',
            priority: 0,
            weight: 1,
            tags: [],
            word: 'listed',
            probe: 'passes',
            answered: true,
            why: 'answered (R10)',
            lastResultMs: 400,
            lastSuccessMs: 400,
          },
          {
            id: 'orders-2',
            address: 'fd00::2',
            port: 8081,
            protocol: 'tcp',
            priority: 0,
            weight: 1,
            tags: [],
            word: 'listed',
            probe: 'fails',
            answered: false,
            why: 'held back (R10)',
            lastResultMs: 900,
            failingForMs: 7_500_000,
            lastFailure: 'ECONNREFUSED',
          },
        ],
      };
    },
    ready: () => ({ ready: false, problems: ['zone svc.internal has no data'] }),
    accept: (name, zone) => {
      asked.push({ accept: name, zone });
      if (zone === 'other') return { unknown: 'there is no zone other' };
      if (zone === 'odd') return {} as { released: number };
      return { released: name === 'orders' ? 2 : 0 };
    },
    metrics: () => metrics.text(),
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

interface Got {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

function http(
  to: { socketPath: string } | { port: number },
  path: string,
  options: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const { method = 'GET', headers = {} } = options;
    const request = httpRequest({ host: '127.0.0.1', ...to, path, method, headers, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => (body += text));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
    });
    request.on('error', reject);
    request.end(options.body);
  });
}

t.test('status, explain and accept ask the running resolver', async (t) => {
  const dir = shortDir(t, { 'holdfast.yaml': CONFIG });
  const config = join(dir, 'holdfast.yaml');
  const away = await holdfast('status', '-c', config);
  t.same(away, {
    code: 3,
    out: '',
    err: `holdfast: no answer at ${dir}/run/control.sock: is \`holdfast serve\` running?\n`,
  });

  const asked: unknown[] = [];
  const server = new AdminServer({
    source: fakeSource(STATUS, asked),
    runDir: join(dir, 'run'),
    log: () => {},
    notBound,
  });
  await server.start();
  t.teardown(() => server.stop());
  t.same(server.problems(), []);

  const status = await holdfast('status', '-c', config);
  t.equal(status.code, 1, 'degraded');
  t.equal(
    status.out.replace(/since [\d-]+ [\d:]+ \(\d+d \d+h ago\)/, 'since THEN').replace(/(\S) {2,}/g, '$1  '),
    `degraded  holdfast 9.8.7, process 42, up 90s
  ! zone svc.internal: registry not heard ?[31m

  zone  state  registry  confirmed  services  endpoints  answered  held back  guarded  checks
  svc.internal  stale  not heard since THEN  61s ago  2  5  4  1  2  on
  svc.internal: from the snapshot, the registry has not spoken yet
  svc.internal: the guard holds the whole zone: 2 endpoints kept against the registry's word (holdfast accept '*' --zone svc.internal lets go)
  svc.internal: guard holds endpoints of: orders
  svc.internal: nothing healthy, answered all the same: billing
  svc.internal: not answered, all endpoints belong to others: users
  svc.internal: not understood: services.yaml:4: bad port

  config  /etc/holdfast/holdfast.yaml (last good)
             bad key
  listen  [::1]:53  udp up  tcp retrying  in use
  transport  batched
  prober  silent for 65s: is \`holdfast probe\` running?
`,
  );
  t.same(JSON.parse((await holdfast('status', '--json', '-c', config)).out), STATUS);
  const view = { ...STATUS, zones: STATUS.zones.map((zone) => ({ ...zone, view: '10.0.0.1:53' })) };
  t.match(showStatus(view, styleFor(), 0), '\n  svc.internal (10.0.0.1:53)  stale ', 'R31: which view it is');
  t.match(statusPage(view), '<td>svc.internal (10.0.0.1:53)<td');

  const explain = await holdfast('explain', '_orders._tcp.svc.internal', '-c', config);
  t.equal(explain.code, 0);
  t.equal(
    explain.out,
    `_orders._tcp.svc.internal SRV: answer (stale)  service orders in zone svc.internal
  one of two is answered

       endpoint  address         prio  weight  registry  probe                           last result  last pass  why
  in   orders-1  10.0.0.1:8081   0     1       listed    passes                          400ms        400ms      answered (R10)
  out  orders-2  [fd00::2]:8081  0     1       listed    fails for 2h 5m (ECONNREFUSED)  900ms        -          held back (R10)
`,
  );
  const accepted = await holdfast('accept', 'orders', '--zone', 'svc.internal', '-c', config);
  t.same(accepted, { code: 0, out: 'let go: 2 endpoints of orders\n', err: '' });
  const nothing = (of: string) => ({
    code: 0,
    out: `the guard holds nothing${of}, so there was nothing to let go\n`,
    err: '',
  });
  t.same(await holdfast('accept', '*', '-c', config), nothing(''));
  t.same(await holdfast('accept', 'billing', '-c', config), nothing(' of billing'));
  t.same(await holdfast('drain', 'orders-1', '-c', config), {
    code: 0,
    out: 'drained: 2 endpoints of orders-1; 1 answered all the same, since nothing else is left (R11)\n',
    err: '',
  });
  t.match(await holdfast('drain', 'orders-1', '--undo', '--zone', 'svc.internal', '-c', config), {
    code: 0,
    out: 'nobody drained the 2 endpoints of orders-1\n',
  });
  t.match(await holdfast('drain', 'orders-1', '--json', '-c', config), { out: /"changed": 2/ });
  t.same(asked.slice(-3), [
    { name: 'orders-1', zone: undefined, undo: false },
    { name: 'orders-1', zone: 'svc.internal', undo: true },
    { name: 'orders-1', zone: undefined, undo: false },
  ]);
  t.same(await holdfast('drain', 'nobody', '-c', config), { code: 1, out: '', err: 'holdfast: no zone has nobody\n' });
  const wrong = await holdfast('accept', 'orders', '--zone', 'other', '-c', config);
  t.same(wrong, { code: 1, out: '', err: 'holdfast: there is no zone other\n' });
  t.same(await holdfast('accept', 'orders', '--zone', 'odd', '-c', config), {
    code: 1,
    out: '',
    err: 'holdfast: the resolver did not say how many endpoints it let go: look at `holdfast status`\n',
  });
  t.same(
    asked.filter((one) => !('undo' in (one as object))),
    [
      { name: '_orders._tcp.svc.internal', type: 'SRV' },
      { accept: 'orders', zone: 'svc.internal' },
      { accept: '*', zone: undefined },
      { accept: 'billing', zone: undefined },
      { accept: 'orders', zone: 'other' },
      { accept: 'orders', zone: 'odd' },
    ],
  );
});

t.test('who asks over HTTP gets what is meant for them', async (t) => {
  const runDir = join(shortDir(t), 'run');
  const port = await freePort();
  const logged: unknown[][] = [];
  const server = new AdminServer({
    source: fakeSource(STATUS),
    runDir,
    admin: { address: '127.0.0.1', port },
    log: (...line) => logged.push(line),
    notBound,
  });
  await server.start();
  t.teardown(() => server.stop());
  const control = { socketPath: join(runDir, 'control.sock') };
  const open = { socketPath: join(runDir, 'public.sock') };
  const tcp = { port };

  for (const to of [control, tcp]) {
    t.same(JSON.parse((await http(to, '/v1/status')).body), STATUS);
    t.match(await http(to, '/healthz'), { status: 200, body: '{"ok":true}' });
    t.match(await http(to, '/readyz'), {
      status: 503,
      body: '{"ready":false,"problems":["zone svc.internal has no data"]}',
    });
    t.match(await http(to, '/v1/explain?name=a.b'), { status: 200, body: '"type":"A"' });
    t.match(await http(to, '/v1/explain'), { status: 400, body: '{"error":"name: expected one name"}' });
    t.match(await http(to, '/v1/explain?name=a&name=b'), { status: 400 });
    t.match(await http(to, '/v1/explain?name=a..b'), { status: 400, body: 'expected a domain name' });
    t.match(await http(to, '/v1/explain?name=a&type=NONSENSE'), { status: 400, body: 'expected a record type' });
    t.match(await http(to, '/v1/services'), { status: 200, body: '[]' });
    t.match(await http(to, '/nothing'), { status: 404, body: '{"error":"nothing at GET /nothing"}' });
    const page = await http(to, '/');
    t.match(page, { status: 200, body: 'not heard since 2020-01-01T10:00:00.000Z' });
    t.match(page.headers['content-security-policy'], "default-src 'none'");
    t.notMatch(page.body, /<script|http:\/\/|https:\/\//, 'nothing from elsewhere, nothing that runs');
  }
  t.match(await http(tcp, '/v1/accept', { method: 'POST' }), { status: 404 }, 'TCP only reads');
  const foreign = await http(tcp, '/v1/status', { headers: { host: 'evil.example' } });
  t.equal(foreign.status, 421, 'a name that points here is not our name');
  t.equal((await http(tcp, '/healthz', { headers: { host: `localhost:${port}` } })).status, 200);

  const json = { 'content-type': 'application/json' };
  const accept = (body: string) => http(control, '/v1/accept', { method: 'POST', headers: json, body });
  t.match(await accept('{"name":"orders"}'), { status: 200, body: '{"released":2}' });
  t.match(await accept('{"name":"orders","zone":"other"}'), {
    status: 404,
    body: '{"error":"there is no zone other"}',
  });
  t.match(await accept('{"name":7}'), { status: 400, body: '{"error":"name: expected one name"}' });
  t.match(await accept('[]'), { status: 400 });
  t.match(await accept('{'), { status: 400, body: '{"error":' });
  t.match(await accept(`{"name":"${'x'.repeat(20_000)}"}`), { status: 413 });

  t.match(await http(open, '/v1/status'), {
    status: 200,
    body: '{"version":"9.8.7","uptimeMs":90000,"state":"degraded","prober":"stale","zones":{"total":1,"heard":0,"stale":1,"neverSynced":0}}',
  });
  for (const path of ['/', '/metrics', '/readyz', '/v1/services', '/v1/explain?name=a', '/v1/accept']) {
    t.equal((await http(open, path)).status, 404, `not public: ${path}`);
  }
  t.same(logged, []);

  const second = new AdminServer({
    source: fakeSource(STATUS),
    runDir: join(runDir, 'second'),
    admin: { address: '127.0.0.1', port },
    log: (...line) => logged.push(line),
    notBound,
  });
  await second.start();
  t.teardown(() => second.stop());
  const holder = readFileSync('/proc/self/comm', 'utf8').trim();
  const problem = `127.0.0.1:${port} (TCP) is in use by ${holder} (pid ${process.pid}): stop it, or give another address or port under "admin"`;
  t.same(second.problems(), [`HTTP interface admin: ${problem}`], 'a taken port is a warning');
  t.same(logged, [['warn', 'admin-unavailable', { access: 'admin', reason: problem }]]);
  await second.setAdmin(undefined);
  t.same(second.problems(), []);

  await second.stop();

  logged.length = 0;
  rmSync(runDir, { recursive: true });
  for (const to of [control, open]) {
    while (!existsSync(to.socketPath)) await new Promise((resolve) => setTimeout(resolve, 20));
    t.equal((await http(to, '/healthz')).status, 200, 'a socket whose folder is taken away is opened again');
  }
  await server.stop();
  t.same(readdirSync(runDir), []);
  t.same(
    logged.map(([level, event]) => [level, event]),
    [
      ['warn', 'admin-remade'],
      ['warn', 'admin-remade'],
    ],
  );

  const third = new AdminServer({
    source: fakeSource(STATUS),
    runDir,
    admin: { address: '127.0.0.1', port },
    log: () => {},
    notBound,
  });
  const started = third.start();
  const moved = third.setAdmin({ address: '127.0.0.2', port });
  await third.stop();
  await Promise.all([started, moved]);
  t.same(readdirSync(runDir), [], 'a stop during the start leaves nothing open');
  await t.rejects(http(tcp, '/healthz'), { code: 'ECONNREFUSED' });
});

t.test('the names of metrics are a contract', async (t) => {
  t.same(METRIC_NAMES, [
    'holdfast_answer_duration_seconds',
    'holdfast_build_info',
    'holdfast_client_reports_total',
    'holdfast_config_last_good',
    'holdfast_degraded',
    'holdfast_drops_total',
    'holdfast_ejections_total',
    'holdfast_forward_cache_bytes',
    'holdfast_forward_queries_total',
    'holdfast_forward_upstream_queries_total',
    'holdfast_forward_upstream_up',
    'holdfast_listener_up',
    'holdfast_probe_results_total',
    'holdfast_prober_heard_age_seconds',
    'holdfast_prober_late_seconds',
    'holdfast_prober_local_errors',
    'holdfast_prober_short',
    'holdfast_prober_stale',
    'holdfast_prober_stretch',
    'holdfast_prober_targets',
    'holdfast_queries_by_type_total',
    'holdfast_queries_total',
    'holdfast_registry_confirmed_age_seconds',
    'holdfast_registry_endpoints',
    'holdfast_registry_heard',
    'holdfast_registry_services',
    'holdfast_reloads_total',
    'holdfast_responses_total',
    'holdfast_snapshot_age_seconds',
    'holdfast_snapshot_failing',
    'holdfast_stale_answers_total',
    'holdfast_suspect_self',
    'holdfast_worker_restarts_total',
    'holdfast_zone_confirmed_age_seconds',
    'holdfast_zone_endpoints',
    'holdfast_zone_endpoints_answered',
    'holdfast_zone_endpoints_drained',
    'holdfast_zone_endpoints_ejected',
    'holdfast_zone_endpoints_guarded',
    'holdfast_zone_endpoints_held_back',
    'holdfast_zone_floor_services',
    'holdfast_zone_guard',
    'holdfast_zone_guard_alarm',
    'holdfast_zone_guarded_services',
    'holdfast_zone_heard',
    'holdfast_zone_heard_change_timestamp_seconds',
    'holdfast_zone_name_conflicts',
    'holdfast_zone_rejected_rows',
    'holdfast_zone_services',
    'holdfast_zone_state',
    'holdfast_zone_unnamed',
    'holdfast_zone_unresolved_hosts',
    'holdfast_zone_withheld_services',
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'process_start_time_seconds',
  ]);
  const source = fakeSource(STATUS);
  const lines = (await source.metrics()).split('\n');
  t.same(
    lines
      .filter((line) => line.startsWith('# TYPE'))
      .map((line) => line.split(' ')[2])
      .sort(),
    METRIC_NAMES,
  );
  for (const line of [
    'holdfast_zone_state{zone="svc.internal",state="stale"} 1',
    'holdfast_zone_state{zone="svc.internal",state="fresh"} 0',
    'holdfast_zone_heard{zone="svc.internal"} 0',
    'holdfast_zone_confirmed_age_seconds{zone="svc.internal"} 61',
    'holdfast_zone_guard_alarm{zone="svc.internal"} 1',
    'holdfast_registry_heard{zone="svc.internal",registry="file /x"} 0',
    'holdfast_registry_endpoints{zone="svc.internal",registry="file /x"} 5',
    'holdfast_prober_stale 1',
    'holdfast_queries_total{transport="udp"} 5',
    'holdfast_drops_total{reason="loop"} 2',
    'holdfast_stale_answers_total 3',
    'holdfast_reloads_total{result="failed"} 2',
    'holdfast_snapshot_age_seconds{zone="svc.internal"} 1.5',
    '# TYPE holdfast_snapshot_failing gauge',
    'holdfast_snapshot_failing{zone="svc.internal"} 1',
    'holdfast_answer_duration_seconds_bucket{le="0.01"} 5',
    'holdfast_answer_duration_seconds_bucket{le="+Inf"} 6',
    'holdfast_answer_duration_seconds_count 6',
  ]) {
    t.ok(lines.includes(line), line);
  }
  const [zone] = STATUS.zones;
  const views = [
    { ...zone!, view: '10.0.0.1:53' },
    { ...zone!, view: '10.0.0.2:53, [fd00::2]:53', heard: true },
  ];
  const text = await fakeSource({ ...STATUS, zones: views }).metrics();
  t.match(text, 'holdfast_zone_heard{zone="svc.internal",view="10.0.0.1:53"} 0\n', 'views of one name are zones (R31)');
  t.match(text, 'holdfast_zone_heard{zone="svc.internal",view="10.0.0.2:53, [fd00::2]:53"} 1\n');
  t.same(
    (await source.metrics()).split('\n').filter((line) => line.startsWith('holdfast_queries_total')),
    ['holdfast_queries_total{transport="udp"} 5'],
    'a second scrape adds nothing up',
  );
});

/** A reply to `query` with what `fill` puts into it. */
function reply(query: Buffer, fill: (packet: InstanceType<typeof Packet>) => void): Buffer {
  const asked = Packet.parse(query);
  const packet = new Packet();
  packet.header.id = asked.header.id;
  packet.header.qr = 1;
  packet.header.aa = 1;
  packet.questions.push(asked.questions[0]!);
  fill(packet as InstanceType<typeof Packet>);
  return packet.toBuffer();
}

t.test('query asks with care and prints what it was told', async (t) => {
  const udp = createSocket('udp4');
  const tcp = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => udp.bind(port, '127.0.0.1', resolve));
  await new Promise<void>((resolve) => tcp.listen(port, '127.0.0.1', resolve));
  t.teardown(() => {
    udp.close();
    tcp.close();
  });
  const srv = { type: Packet.TYPE.SRV, class: 1, ttl: 2, priority: 0, weight: 1 };
  const answer = (query: Buffer) =>
    reply(query, (packet) => {
      const { name } = packet.questions[0]!;
      packet.answers.push(
        new Packet.Resource({ ...srv, name, port: 8081, target: '10-0-0-1.ip.svc.internal' }),
        new Packet.Resource({ ...srv, name, port: 8082, target: '10-0-0-2.ip.svc.internal', priority: 10 }),
      );
      packet.additionals.push(
        new Packet.Resource({ name: '10-0-0-1.ip.svc.internal', type: 1, class: 1, ttl: 2, address: '10.0.0.1' }),
        Packet.Resource.EDNS([Packet.Resource.EDNS.EDE(3, 'registry not heard for 5 min')]),
      );
    });
  udp.on('message', (query, { port: back }) => {
    const send = (bytes: Buffer) => udp.send(bytes, back, '127.0.0.1');
    const name = Packet.parse(query).questions[0]!.name;
    if (name === 'silent.internal') return;
    if (name === 'none.internal') return send(reply(query, (packet) => void (packet.header.rcode = 3)));
    if (name === 'cut.internal') return send(reply(query, (packet) => void (packet.header.tc = 1)));
    if (name === 'forged.internal') {
      const forged = answer(query);
      forged.writeUInt16BE((forged.readUInt16BE(0) + 1) & 0xffff, 0);
      send(forged);
      send(query);
    }
    send(answer(query));
  });
  tcp.on('connection', (socket) => {
    socket.on('error', () => {});
    socket.once('data', (data) => {
      const bytes = answer(data.subarray(2));
      const framed = Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
      // Cut at an awkward place: inside the length.
      socket.write(framed.subarray(0, 1));
      setTimeout(() => socket.write(framed.subarray(1)), 20);
    });
  });
  const to = ['--server', '127.0.0.1', '--port', String(port)];
  const settled = (out: string) =>
    out
      .replace(/id \d+/, 'id 1')
      .replace(/[\d.]+ ms/, '1 ms')
      .replace(`:${port}`, ':53')
      .replace(/\d+ bytes/, '9 bytes');
  const shown = (transport: string, name: string) => `;; NOERROR, id 1, flags: qr aa
;; EDE 3 (stale answer): registry not heard for 5 min
;; question: ${name}. IN SRV

;; answer
${name}.  2  IN  SRV  0 1 8081 10-0-0-1.ip.svc.internal.
${name}.  2  IN  SRV  10 1 8082 10-0-0-2.ip.svc.internal.

;; additional
10-0-0-1.ip.svc.internal.  2  IN  A  10.0.0.1

;; 127.0.0.1:53 over ${transport}, 9 bytes, 1 ms
`;
  const plainRun = await holdfast('query', '_orders._tcp.internal', ...to);
  t.same({ ...plainRun, out: settled(plainRun.out) }, { code: 0, err: '', out: shown('udp', '_orders._tcp.internal') });
  for (const args of [['cut.internal'], ['orders.internal', '--tcp']]) {
    const { code, out } = await holdfast('query', args[0]!, 'SRV', ...args.slice(1), ...to);
    t.same([code, settled(out)], [0, shown('tcp', args[0]!)]);
  }
  const forged = await holdfast('query', 'forged.internal', 'srv', '--short', ...to);
  t.same(forged, {
    code: 0,
    err: '',
    out: '0 1 8081 10-0-0-1.ip.svc.internal.\n10 1 8082 10-0-0-2.ip.svc.internal.\n',
  });
  const none = await holdfast('query', 'none.internal', '--json', ...to);
  t.equal(none.code, 1);
  t.match(JSON.parse(none.out), {
    status: 'NXDOMAIN',
    answer: [],
    ede: [],
    transport: 'udp',
    server: `127.0.0.1:${port}`,
  });
  const silent = await holdfast('query', 'silent.internal', '--timeout', '200', ...to);
  t.same(silent, { code: 1, out: '', err: `holdfast: 127.0.0.1:${port}: no reply within 200 ms\n` });
  const nobody = await holdfast('query', 'x', '--server', '127.0.0.1', '--port', String(await freePort()));
  t.equal(nobody.code, 1);
  t.match(nobody.err, 'nobody listens there: is `holdfast serve` running?');
});

t.test('the log: levels, secrets, what waits, the journal', async (t) => {
  const dir = t.testdir();
  const written = (
    name: string,
    env: (fd: number) => NodeJS.ProcessEnv,
    use: (log: ReturnType<typeof openLog>) => void,
  ) => {
    const fd = openSync(join(dir, name), 'w');
    let now = 0;
    const log = openLog({ level: 'info', name: 'resolver', fd, env: env(fd), now: () => now++ });
    use(log);
    log.close();
    closeSync(fd);
    return readFileSync(join(dir, name), 'utf8').trimEnd().split('\n');
  };
  const lines = written(
    'plain',
    () => ({}),
    ({ log, setLevel }) => {
      log('debug', 'never');
      log('info', 'zone-heard', { zone: 'a.b', registry: { token: 't0p', url: 'http://x' }, error: new Error('boom') });
      setLevel('debug');
      log('debug', 'now');
    },
  );
  const parsed = lines.map((line) => JSON.parse(line));
  t.match(parsed, [
    {
      level: 'info',
      name: 'resolver',
      pid: process.pid,
      event: 'zone-heard',
      zone: 'a.b',
      registry: { token: '[redacted]', url: 'http://x' },
      error: 'boom',
    },
    { level: 'debug', event: 'now' },
  ]);
  t.match(parsed[0].time, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

  const journal = (fd: number) => ({ JOURNAL_STREAM: `${fstatSync(fd).dev}:${fstatSync(fd).ino}` });
  t.same(
    written('journal', journal, ({ log }) => {
      log('error', 'bad', { n: 1 });
      log('warn', 'odd');
      log('info', 'fine');
    }),
    [
      '<3>{"level":"error","event":"bad","n":1}',
      '<4>{"level":"warn","event":"odd"}',
      '<6>{"level":"info","event":"fine"}',
    ],
  );
  const elsewhere = written(
    'elsewhere',
    () => ({ JOURNAL_STREAM: '1:2' }),
    ({ log }) => log('info', 'fine'),
  );
  t.equal(elsewhere[0]?.[0], '{', 'output that was sent elsewhere is not the journal');

  const flood = written(
    'flood',
    () => ({}),
    ({ log }) => {
      for (let i = 0; i < 5000; i++) log('warn', 'again', { zone: i % 2 === 0 ? 'a' : 'b' });
      log('info', 'other');
    },
  ).map((line) => JSON.parse(line));
  t.equal(flood.length, 23, 'ten lines a zone, the other event, and a sum for each zone');
  t.match(flood.slice(-2), [
    { event: 'log-suppressed', of: 'again a', lines: 2490 },
    { event: 'log-suppressed', of: 'again b', lines: 2490 },
  ]);
});

t.test('the gate lets an event speak again when its minute is over', async (t) => {
  const gate = new FloodGate();
  const admitted = (now: number, times: number) =>
    Array.from({ length: times }, () => gate.admit('e', now)).filter(Boolean).length;
  t.equal(admitted(0, 25), 10);
  t.same(gate.collect(59_999), []);
  t.equal(admitted(59_999, 5), 0);
  t.same(gate.collect(60_000), [{ key: 'e', count: 20 }]);
  t.equal(gate.pending, false);
  t.equal(admitted(60_001, 3), 3);
  t.same(gate.collect(200_000), [], 'nothing was left out of these');
  const many = new FloodGate();
  t.equal(
    Array.from({ length: 3000 }, (_, i) => many.admit(`e${i}`, 0)).filter(Boolean).length,
    1000,
    'memory is bounded',
  );
});

t.test('what people read is aligned, coloured only for them, and cannot drive their terminal', async (t) => {
  const colored = styleFor({ isTTY: true }, {});
  t.equal(colored.good('ok'), '\x1b[32mok\x1b[0m');
  for (const [stream, env] of [
    [{ isTTY: true }, { NO_COLOR: '1' }],
    [{ isTTY: true }, { TERM: 'dumb' }],
    [{}, {}],
  ] as const) {
    t.equal(styleFor(stream, env).good('ok'), 'ok');
  }
  t.equal(
    table([
      ['a', 'b'],
      [colored.good('long'), 'c'],
    ]),
    'a     b\n\x1b[32mlong\x1b[0m  c',
  );
  t.same([undefined, 0, 900, 119_000, 7_000_000, 100_000_000, 400_000_000].map(age), [
    '-',
    '0ms',
    '900ms',
    '119s',
    '116m',
    '27h 46m',
    '4d 15h',
  ]);
  t.equal(plain('a\x1b[31m\nb\x9b'), 'a?[31m?b?');
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
