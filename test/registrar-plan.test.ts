/** What a registrar is to register, and how it tells of it. */
import { join } from 'node:path';
import t from 'tap';
import { metricsText } from '../src/registrar/metrics-text.js';
import { ownAddress } from '../src/registrar/own-address.js';
import { isYounger, newOwner } from '../src/registrar/owner.js';
import { makePlan } from '../src/registrar/plan.js';
import { isProcessAlive, parseStat, startOf } from '../src/registrar/watched-process.js';
import { OWN } from './registrar-fixture.js';

t.test('of two owners the younger one wins, and nothing else does', async (t) => {
  t.equal(isYounger('1700000000001-00000001', OWN), true);
  t.equal(isYounger('1700000000000-00000002', OWN), true, 'in the same millisecond one of both');
  t.equal(isYounger(OWN, '1700000000000-00000002'), false);
  t.equal(isYounger(OWN, OWN), false);
  for (const other of [undefined, null, 7, '', 'x', '9999999999999999999-1', {}]) t.equal(isYounger(other, OWN), false);
  t.match(newOwner(1_700_000_000_000.7), /^1700000000000-[0-9a-f]{8}$/);
});

t.test('a process is known by its number and its start', async (t) => {
  const line = '42 (a) b (c\n) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 12345 1 2';
  t.same(parseStat(line), { state: 'S', threads: 3, start: '12345' });
  t.equal(parseStat(''), undefined);
  const stat =
    (state: string, threads: number, start = '5') =>
    () => ({ state, threads, start });
  const never = () => false;
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('S', 1), never), true);
  t.equal(isProcessAlive({ pid: 1, start: '4' }, stat('S', 1), never), false, 'the number is another one’s now');
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('Z', 1), never), false, 'dead, and not buried');
  t.equal(isProcessAlive({ pid: 1, start: '5' }, stat('Z', 4), never), true, 'its first thread ended, others go on');
  t.equal(isProcessAlive({ pid: 1 }, stat('S', 1, '9'), never), true);
  t.equal(
    isProcessAlive(
      { pid: 1, start: '5' },
      () => undefined,
      () => true,
    ),
    true,
    'hidden is not dead',
  );
  t.equal(
    isProcessAlive({ pid: 1, start: '5' }, () => undefined, never),
    false,
  );
  t.match(startOf(process.pid), /^\d+$/);
});

t.test('the address of a host is kept as long as the host has it', async (t) => {
  const address = (text: string, internal = false) =>
    ({ address: text, internal, family: text.includes(':') ? 'IPv6' : 'IPv4' }) as never;
  const interfaces = {
    lo: [address('127.0.0.1', true)],
    eth0: [address('fe80::1'), address('fd00::7'), address('169.254.1.1'), address('10.0.0.7')],
    eth1: [address('10.0.1.7')],
  };
  t.equal(ownAddress(undefined, interfaces), '10.0.0.7');
  t.equal(ownAddress('10.0.1.7', interfaces), '10.0.1.7');
  t.equal(ownAddress('10.9.9.9', interfaces), '10.0.0.7');
  t.equal(ownAddress(undefined, { eth0: [address('fe80::1'), address('fd00::7')] }), 'fd00::7');
  t.equal(ownAddress(undefined, { lo: [address('127.0.0.1', true)] }), '127.0.0.1');
});

t.test('a plan: files by their folder, faults with file, line and key', async (t) => {
  const folder = t.testdir({
    'holdfast.yaml': [
      'version: 1',
      'zones:',
      '  - { name: a.test, registry: { type: file, path: reg } }',
      '  - { name: b.test, registry: { type: etcd, layout: skydns } }',
      '  - { name: c.test, registry: { type: file, path: one.yaml } }',
      '  - { name: d.test, registry: { type: http, url: "http://127.0.0.1:1/" } }',
    ].join('\n'),
    'register.d': {
      'good.yaml': 'name: web\nport: 8080\nzone: a.test\nid: web-1\nx-note: mine\n',
      'same.json': '{"name": "web", "port": 8081, "zone": "a.test", "id": "web-1"}',
      'odd.yaml': 'name: web\nadress: 10.0.0.1\n',
      'port.yaml': 'name: web\nzone: a.test\nport: 80800\n',
      'zone.yaml': 'name: web\nport: 80\n',
      'nozone.yaml': 'name: web\nport: 80\nzone: x.test\n',
      'weight.yaml': 'name: web\nport: 80\nzone: b.test\nweight: 0\n',
      'label.yaml': 'name: web_1\nport: 80\nzone: b.test\n',
      'onefile.yaml': 'name: web\nport: 80\nzone: c.test\n',
      'http.yaml': 'name: web\nport: 80\nzone: d.test\n',
      'check.yaml': 'name: web\nport: 80\nzone: a.test\ncheck:\n  type: exec\n',
      'none.yaml': 'name: web\nport: 80\nzone: a.test\nwhenHealthy: true\ncheck: { type: none }\n',
      'udp.yaml': 'name: web\nport: 80\nzone: a.test\nprotocol: udp\nwhenHealthy: true\n',
      'cut.yaml': 'name: [',
      'name.yaml': 'name: ../../etc/passwd\nport: 80\nzone: a.test\n',
      '.hidden.yaml': 'x',
      'notes.txt': 'x',
    },
  });
  const plan = await makePlan({ config: join(folder, 'holdfast.yaml') });
  if (!plan.ok) throw new Error(plan.reason);
  t.equal(plan.folder, join(folder, 'register.d'));
  const said = Object.fromEntries(
    plan.items.map((item) => [
      item.name.slice(plan.folder.length + 1),
      item.ok ? '' : item.reason.slice(plan.folder.length + 1),
    ]),
  );
  t.match(said, {
    'good.yaml': /^$/,
    'same.json': /^same.json: id: web-1 of web is registered by .*good.yaml already/,
    'odd.yaml': /^odd.yaml:2: adress: unknown key, did you mean address\?/,
    'port.yaml': /^port.yaml:3: port: expected a whole number from 1 to 65535/,
    'zone.yaml': /^zone.yaml:1: zone: missing, expected one of a.test, b.test, c.test, d.test/,
    'nozone.yaml': /^nozone.yaml:3: zone: expected a zone of the configuration/,
    'weight.yaml': /^weight.yaml:4: weight: expected 1 or more/,
    'label.yaml': /^label.yaml:1: name: expected letters, digits and hyphens/,
    'onefile.yaml': /^onefile.yaml:3: zone: the registry of c.test is one file/,
    'http.yaml': /^http.yaml:3: zone: nothing can be registered in the registry of d.test \(http\)/,
    'check.yaml': /^check.yaml:\d: check.command: missing/,
    'none.yaml': /^none.yaml:5: check.type: expected a check with whenHealthy/,
    'udp.yaml': /^udp.yaml:\d: check.type: expected udp, dns, exec/,
    'cut.yaml': /^cut.yaml:1: /,
    'name.yaml': /^name.yaml:1: name: expected letters/,
  });
  t.equal(plan.items.length, 15);
  t.match(
    plan.items.find(({ ok }) => ok),
    {
      registration: {
        zone: 'a.test',
        registry: { type: 'file', path: join(folder, 'reg') },
        entry: { service: 'web', id: 'web-1', port: 8080, protocol: 'tcp', tags: [] },
        ttl: 30_000,
        whenHealthy: false,
        drain: 0,
      },
    },
  );
});

t.test('a plan by options says what is wrong in the words of the command line', async (t) => {
  const folder = t.testdir({
    'holdfast.yaml': 'version: 1\nzones:\n  - { name: a.test, registry: { type: etcd, layout: plain } }\n',
  });
  const told = async (options: Record<string, unknown>) => {
    const plan = await makePlan({ config: join(folder, 'holdfast.yaml'), options });
    const item = plan.ok ? plan.items[0]! : undefined;
    return item?.ok === false ? item.reason : item?.registration;
  };
  t.equal(await told({ name: 'web' }), '--port: missing, expected a whole number from 1 to 65535');
  t.match(await told({ name: 'web', port: 'x' }), /^--port: expected a whole number/);
  t.match(await told({ name: 'web', port: 80, tags: ['a b'] }), /^--tag: expected letters/);
  t.match(await told({ name: 'web', port: 80, portName: '-' }), /^--port-name: expected one label/);
  t.match(await told({ name: 'web', port: 80, check: { type: 'icmp' } }), /^--check \(type\): expected tcp,/);
  t.match(await told({ name: 'web', port: 80, whenHealthy: true }), {
    check: { type: 'tcp', interval: 5000, rise: 2, fall: 3 },
    entry: { id: /^web-.+-80$/ },
  });
  t.match(await makePlan({ config: join(folder, 'none.yaml') }), { ok: false, reason: /none.yaml: no such file/ });
});

t.test('how a registrar stands, as Prometheus reads it', async (t) => {
  const registration = {
    service: 'web',
    id: 'we"b\\1',
    zone: 'svc.test',
    registry: 'etcd http://127.0.0.1:2379',
    port: 80,
    state: 'trying',
    since: '2026-01-01T00:00:01.500Z',
    draining: false,
  } as const;
  const status = { registrar: { pid: 7 }, version: '1', problems: ['a.yaml:1: port'], registrations: [registration] };
  const labels = 'zone="svc.test",service="web",id="we\\"b\\\\1",registry="etcd http://127.0.0.1:2379"';
  t.same(metricsText(status).split('\n'), [
    '# HELP holdfast_registration_state Always 1; the state of the registration is in the label.',
    '# TYPE holdfast_registration_state gauge',
    `holdfast_registration_state{${labels},state="trying"} 1`,
    '# HELP holdfast_registration_state_since_seconds When the registration came to its state, in seconds since 1970.',
    '# TYPE holdfast_registration_state_since_seconds gauge',
    `holdfast_registration_state_since_seconds{${labels}} 1767225601.5`,
    '# HELP holdfast_registrar_problems What is wrong with the files of a registrar; `holdfast status` says what.',
    '# TYPE holdfast_registrar_problems gauge',
    'holdfast_registrar_problems{pid="7"} 1',
    '',
  ]);
  t.notMatch(metricsText({ ...status, registrations: [] }), /registration_state/);
});
