/** What the control socket and `admin` tell, and the commands that ask there. */

import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import t from 'tap';
import { METRIC_NAMES } from '../src/admin/metrics.js';
import { statusPage } from '../src/admin/page.js';
import { type AdminOptions, AdminServer } from '../src/admin/server.js';
import { showStatus } from '../src/cli/status.js';
import { explainBindFailure } from '../src/server/bind-error.js';
import { styleFor } from '../src/system/terminal.js';
import { CONFIG, fakeSource, holdfast, STATUS, shortDir } from './cli-fixture.js';
import { freePort } from './ports.js';

// Every run is a process, and the machine may be busy.
t.setTimeout(180_000);

/** As the resolver tells it. */
const notBound: AdminOptions['notBound'] = (address, code, message) =>
  explainBindFailure(address, 'tcp', { code, message }, 'admin');

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
  const portable = { ...STATUS, transport: 'portable', transportReason: 'koffi does not load: gone' };
  t.match(showStatus(portable, styleFor(), 0), /transport +portable: koffi does not load: gone\n/);

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
  const unsaved = 'holdfast: not on disk yet (ENOSPC): a crash now would undo it\n';
  t.match(await holdfast('drain', 'orders-1', '--zone', 'full', '-c', config), { code: 0, err: unsaved });
  t.match(await holdfast('accept', 'orders', '--zone', 'full', '-c', config), { code: 0, err: unsaved });
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
      { accept: 'orders', zone: 'full' },
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
    'holdfast_lookup_questions_total',
    'holdfast_lookup_waiting',
    'holdfast_lookups_total',
    'holdfast_probe_results_total',
    'holdfast_prober_heard_age_seconds',
    'holdfast_prober_late_seconds',
    'holdfast_prober_local_errors',
    'holdfast_prober_short',
    'holdfast_prober_stale',
    'holdfast_prober_stretch',
    'holdfast_prober_targets',
    'holdfast_prober_unprobed',
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
    'holdfast_unknown_services',
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
