/** What a registrar has to bear from the registry that it registers in, against the real servers. */

import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { ConsulRegistryConfig, EtcdRegistryConfig } from '../../src/config/types.js';
import type { Registration } from '../../src/registrar/entry.js';
import { openTarget } from '../../src/registrar/open-target.js';
import { newOwner } from '../../src/registrar/owner.js';
import { Registrar } from '../../src/registrar/registrar.js';
import { ConsulServer, findConsul } from './consul-server.js';
import { EtcdServer, etcdVersion } from './etcd-server.js';
import { FaultProxy } from './fault-proxy.js';

t.jobs = 8;
t.setTimeout(110_000);

const TTL = 3_000;
const PATIENCE_MS = 30_000;

async function until(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    if (await look()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`waited in vain: ${what}`);
}

/** A registrar in this process, and what it said. */
class Running {
  readonly registrar: Registrar;
  readonly said: { event: string; reason?: unknown }[] = [];
  readonly #registration: Registration;
  readonly started = performance.now();

  constructor(t: Test, registration: Registration, started = Date.now()) {
    this.#registration = registration;
    this.registrar = new Registrar({
      log: (_level, event, fields = {}) => this.said.push({ event, ...fields }),
      now: () => performance.now(),
      address: () => '10.0.0.7',
      probeOf: () => Promise.reject(new Error('no check here')),
      onChange: () => undefined,
      open: (one) => openTarget(one, { owner: newOwner(started) }),
    });
    t.teardown(() => this.stop());
    this.registrar.follow([registration]);
  }

  get state(): string | undefined {
    return this.registrar.status()[0]?.state;
  }

  get reason(): string {
    return this.registrar.status()[0]?.reason ?? '';
  }

  change(entry: Partial<Registration['entry']>): void {
    this.registrar.follow([{ ...this.#registration, entry: { ...this.#registration.entry, ...entry } }]);
  }

  stop(): Promise<Registration[]> {
    return this.registrar.stop(AbortSignal.abort());
  }
}

if (etcdVersion() === undefined) {
  console.error('skipped: registering in etcd (no etcd on the PATH; Debian: etcd-server)');
  t.test('etcd', { skip: 'no etcd here' }, () => Promise.resolve());
} else t.test('etcd', etcdStories);

async function etcdStories(t: Test): Promise<void> {
  t.jobs = 8;
  const shared = await EtcdServer.start(t.testdir({}));
  t.teardown(() => shared.stop());
  let places = 0;

  const registrationIn = (endpoints: readonly string[], more: Partial<EtcdRegistryConfig> = {}): Registration => {
    const registry: EtcdRegistryConfig = { type: 'etcd', endpoints, layout: 'plain', prefix: `/p${++places}`, ...more };
    const entry = { service: 'web', id: 'web-1', port: 8080, protocol: 'tcp', tags: ['blue'] } as const;
    return { zone: 'svc.test', registry, entry, ttl: TTL, whenHealthy: false, drain: 0 };
  };
  const keyOf = ({ registry }: Registration, rest = 'web/web-1') =>
    `${(registry as EtcdRegistryConfig).prefix}/${rest}`;
  const held = async (server: EtcdServer, key: string): Promise<Record<string, unknown> | undefined> => {
    const body = { key: Buffer.from(key).toString('base64') };
    const { kvs = [] } = (await server.call('kv/range', body)) as { kvs?: { value: string; lease?: string }[] };
    const [kv] = kvs;
    if (kv === undefined) return undefined;
    return { ...JSON.parse(Buffer.from(kv.value, 'base64').toString('utf8')), lease: kv.lease };
  };

  t.test('is registered, changed, and removed', async (t) => {
    const registration = registrationIn([shared.origin]);
    const running = new Running(t, registration);
    const key = keyOf(registration);
    await until('registered', async () => (await held(shared, key)) !== undefined);
    t.match(await held(shared, key), {
      address: '10.0.0.7',
      port: 8080,
      protocol: 'tcp',
      tags: ['blue'],
      state: 'passing',
    });
    t.match(await held(shared, key), { lease: /^\d+$/ });
    running.change({ port: 8081 });
    await until('the change', async () => (await held(shared, key))?.port === 8081);
    t.same(await running.stop(), []);
    t.equal(await held(shared, key), undefined);
  });

  t.test('layout skydns: labels as the resolver reads them; draining is said by leaving', async (t) => {
    const registration = registrationIn([shared.origin], { layout: 'skydns' });
    const running = new Running(t, {
      ...registration,
      entry: { ...registration.entry, portName: 'http', weight: 7 },
      drain: 1_000,
    });
    const key = keyOf(registration, 'web/_tcp/_http/blue/web-1');
    await until('registered', async () => (await held(shared, key)) !== undefined);
    t.match(await held(shared, key), { host: '10.0.0.7', port: 8080, weight: 7 });
    running.change({ tags: ['green'] });
    const moved = keyOf(registration, 'web/_tcp/_http/green/web-1');
    await until('moved', async () => (await held(shared, moved)) !== undefined);
    t.equal(await held(shared, key), undefined, 'another tag is another key');
    const stopped = running.registrar.stop(new AbortController().signal);
    await until('gone', async () => (await held(shared, moved)) === undefined);
    t.same(await stopped, []);
  });

  t.test('a key that is deleted or overwritten, and a lease that is revoked, are mended within a period', async (t) => {
    const registration = registrationIn([shared.origin]);
    new Running(t, registration);
    const key = keyOf(registration);
    await until('registered', async () => (await held(shared, key)) !== undefined);
    const first = await held(shared, key);
    await shared.delete(key);
    await until('there again', async () => (await held(shared, key)) !== undefined);
    await shared.put(key, { address: '10.9.9.9', port: 1 });
    await until('ours again', async () => (await held(shared, key))?.address === '10.0.0.7');
    const lease = (await held(shared, key))?.lease;
    t.equal(lease, first?.lease, 'the lease goes on');
    await shared.call('lease/revoke', { ID: lease });
    await until('there again', async () => (await held(shared, key)) !== undefined);
    t.not((await held(shared, key))?.lease, lease);
  });

  t.test('registered longer than its TTL, it stays; left alone, it goes', async (t) => {
    const registration = registrationIn([shared.origin]);
    const proxy = await FaultProxy.start(shared.port);
    t.teardown(() => proxy.stop());
    const running = new Running(t, {
      ...registration,
      registry: { ...registration.registry, endpoints: [proxy.origin] } as EtcdRegistryConfig,
    });
    const key = keyOf(registration);
    await until('registered', async () => (await held(shared, key)) !== undefined);
    for (let i = 0; i < 2 * TTL; i += 100) {
      await new Promise((done) => setTimeout(done, 100));
      if ((await held(shared, key)) === undefined) throw new Error('it left');
    }
    await proxy.break({ kind: 'refuse' });
    t.equal((await running.stop()).length, 1, 'what could not be removed is told');
    t.not(await held(shared, key), undefined);
    await until('gone with its TTL', async () => (await held(shared, key)) === undefined);
  });

  for (const kind of ['refuse', 'silent', 'garbage', 'cut', 'freeze'] as const) {
    t.test(`away from the start (${kind}): registered within a period of its return`, async (t) => {
      const proxy = await FaultProxy.start(shared.port);
      t.teardown(() => proxy.stop());
      const registration = registrationIn([proxy.origin]);
      await proxy.break({ kind });
      const running = new Running(t, registration);
      await until('said', () => running.said.some(({ event }) => event === 'not-registered'));
      t.equal(running.state, 'trying');
      await proxy.mend();
      await until('registered', () => running.state === 'registered');
      t.not(await held(shared, keyOf(registration)), undefined);
    });
  }

  t.test('one member of two is enough', async (t) => {
    const proxy = await FaultProxy.start(shared.port);
    t.teardown(() => proxy.stop());
    const registration = registrationIn([proxy.origin, shared.origin]);
    await proxy.break({ kind: 'refuse' });
    const running = new Running(t, registration);
    await until('registered', () => running.state === 'registered');
    t.notOk(running.said.some(({ event }) => event === 'not-registered'));
  });

  t.test('wiped, restarted, restored', async (t) => {
    const server = await EtcdServer.start(t.testdir({}));
    t.teardown(() => server.stop());
    const registration = registrationIn([server.origin]);
    const running = new Running(t, registration);
    const key = keyOf(registration);
    await until('registered', async () => (await held(server, key)) !== undefined);
    await server.stop();
    await until('not confirmed', () => running.state !== 'registered');
    await server.run();
    await until('confirmed', () => running.state === 'registered');
    await server.stop();
    server.backUp(`${t.testdirName}/copy`);
    server.wipe();
    await server.run();
    await until('there again after a wipe', async () => (await held(server, key)) !== undefined);
    await server.stop();
    await until('not confirmed', () => running.state !== 'registered');
    server.restore(`${t.testdirName}/copy`);
    await server.run();
    await until(
      'there after a restore',
      async () => running.state === 'registered' && (await held(server, key)) !== undefined,
    );
    t.same(await running.stop(), []);
    t.equal(await held(server, key), undefined);
  });

  t.test('out of space: who is registered stays, who comes is registered once there is room', async (t) => {
    const server = await EtcdServer.start(t.testdir({}));
    t.teardown(() => server.stop());
    const early = registrationIn([server.origin]);
    const first = new Running(t, early);
    await until('registered', () => first.state === 'registered');
    await server.call('maintenance/alarm', { action: 'ACTIVATE', alarm: 'NOSPACE' });
    const late = registrationIn([server.origin]);
    const second = new Running(t, late);
    await until('said', () => /space/.test(second.reason));
    await new Promise((done) => setTimeout(done, TTL + 500));
    t.not(await held(server, keyOf(early)), undefined, 'signs of life are taken all the same');
    const { alarms } = (await server.call('maintenance/alarm', { action: 'GET' })) as {
      alarms: { memberID: string }[];
    };
    for (const { memberID } of alarms)
      await server.call('maintenance/alarm', { action: 'DEACTIVATE', memberID, alarm: 'NOSPACE' });
    await until('registered', () => second.state === 'registered');
  });

  t.test('leave withdrawn and given back', async (t) => {
    const server = await EtcdServer.start(t.testdir({ 'secret.txt': 'open sesame\n' }));
    t.teardown(() => server.stop());
    const proxy = await FaultProxy.start(server.port);
    t.teardown(() => proxy.stop());
    const registration = registrationIn([proxy.origin], {
      username: 'web',
      passwordFile: `${t.testdirName}/secret.txt`,
    });
    const key = keyOf(registration);
    const range = {
      key: Buffer.from(`${key.slice(0, -9)}`).toString('base64'),
      range_end: Buffer.from('/q').toString('base64'),
    };
    for (const name of ['root', 'web']) {
      await server.call('auth/user/add', { name, password: 'open sesame' });
      await server.call('auth/role/add', { name });
      await server.call('auth/user/grant', { user: name, role: name });
    }
    const READWRITE = 'READWRITE';
    await server.call('auth/role/grant', { name: 'web', perm: { permType: READWRITE, ...range } });
    await server.call('auth/enable', {});
    await server.signIn('root', 'open sesame');
    const running = new Running(t, registration);
    await until('registered', () => running.state === 'registered');
    await server.call('auth/role/revoke', { role: 'web', ...range });
    await server.signIn('root', 'open sesame');
    await until('said', () => /permission denied/.test(running.reason));
    await until('lapsed', () => running.state === 'trying');
    await server.call('auth/role/grant', { name: 'web', perm: { permType: 'READ', ...range } });
    await server.signIn('root', 'open sesame');
    await server.delete(key);
    const asked = proxy.requests.length;
    await until('two periods', () => proxy.requests.slice(asked).filter((path) => path.endsWith('txn')).length >= 2);
    t.match(running.reason, /permission denied/, 'read-only is not enough');
    t.equal(await held(server, key), undefined);
    await server.call('auth/role/grant', { name: 'web', perm: { permType: READWRITE, ...range } });
    await server.signIn('root', 'open sesame');
    await until('registered again', () => running.state === 'registered');
    t.not(await held(server, key), undefined);
    t.notMatch(JSON.stringify([running.said, running.registrar.status()]), /sesame/);
  });

  t.test('two registrars of one id: the younger has it, and neither removes the other’s', async (t) => {
    const registration = registrationIn([shared.origin]);
    const older = new Running(t, registration, 1_700_000_000_000);
    await until('registered', () => older.state === 'registered');
    const younger = new Running(
      t,
      { ...registration, entry: { ...registration.entry, port: 8081 } },
      1_700_000_000_001,
    );
    const key = keyOf(registration);
    await until('the younger', async () => (await held(shared, key))?.port === 8081);
    await until('the older stands back', () => older.state === 'taken');
    await older.stop();
    t.equal((await held(shared, key))?.port, 8081);
    t.equal(younger.state, 'registered');
  });

  t.test('another setting of the same id by the same process: the later one stays', async (t) => {
    const registration = registrationIn([shared.origin]);
    const running = new Running(t, registration);
    await until('registered', () => running.state === 'registered');
    running.registrar.follow([{ ...registration, ttl: 2 * TTL }]);
    await until('registered anew', () => running.said.filter(({ event }) => event === 'registered').length === 2);
    await new Promise((done) => setTimeout(done, 300));
    t.not(await held(shared, keyOf(registration)), undefined);
  });
}

if (findConsul() === undefined) {
  console.error('skipped: registering in Consul (no consul on the PATH, and none was built)');
  t.test('consul', { skip: 'no consul here' }, () => Promise.resolve());
} else t.test('consul', consulStories);

/** Writes a file until the disk is full. */
function fill(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (let size = 1 << 20; size >= 1; size >>= 1) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    }
  } finally {
    closeSync(file);
  }
}

interface AgentHealth {
  readonly AggregatedStatus: string;
  readonly Service: {
    Service: string;
    Port: number;
    Address: string;
    Tags: string[];
    Meta: Record<string, string>;
    Weights: object;
  };
  readonly Checks: { CheckID: string; Status: string; Notes: string; Output: string }[];
}

async function consulStories(t: Test): Promise<void> {
  t.jobs = 6;
  const shared = await ConsulServer.start(t.testdir({}));
  t.teardown(() => shared.stop());
  let ids = 0;

  const registrationAt = (origin: string, more: Partial<ConsulRegistryConfig> = {}): Registration => {
    const registry: ConsulRegistryConfig = {
      type: 'consul',
      addresses: [origin],
      stale: false,
      maxLag: 5_000,
      kvPrefix: 'holdfast',
      mirror: 'all',
      ...more,
    } as ConsulRegistryConfig;
    const entry = { service: 'web', id: `web-${++ids}`, port: 8080, protocol: 'tcp', tags: ['blue'] } as const;
    return { zone: 'svc.test', registry, entry, ttl: TTL, whenHealthy: false, drain: 0 };
  };
  const held = async (server: ConsulServer, { entry }: Registration): Promise<AgentHealth | undefined> => {
    const { status, body } = await server.call('GET', `agent/health/service/id/${entry.id}?format=json`);
    return status === 404 ? undefined : JSON.parse(body);
  };
  const passing = async (server: ConsulServer, one: Registration) =>
    (await held(server, one))?.AggregatedStatus === 'passing';

  t.test('is registered, changed, drained, and removed', async (t) => {
    const registration = registrationAt(shared.origin);
    const { entry } = registration;
    const running = new Running(t, {
      ...registration,
      entry: { ...entry, portName: 'http', priority: 3, weight: 5 },
      drain: 2_000,
    });
    await until('registered', () => passing(shared, registration));
    t.match(await held(shared, registration), {
      Service: {
        ...{ Service: 'web', Port: 8080, Address: '10.0.0.7', Tags: ['blue'], Weights: { Passing: 5, Warning: 5 } },
        Meta: { holdfast_port_name: 'http', holdfast_priority: '3' },
      },
    });
    await until('for longer than its TTL', async () => {
      if (!(await passing(shared, registration))) throw new Error('it lapsed');
      return performance.now() - running.started > 2 * TTL;
    });
    t.equal(running.said.filter(({ event }) => event === 'registered').length, 1, 'written once');
    running.registrar.follow([{ ...registration, drain: 2_000, entry: { ...entry, port: 8081, tags: [] } }]);
    await until('the change', async () => (await held(shared, registration))?.Service.Port === 8081);
    const stopped = running.registrar.stop(new AbortController().signal);
    await until('in maintenance', async () =>
      ((await held(shared, registration))?.Checks ?? []).some(({ CheckID }) =>
        CheckID.startsWith('_service_maintenance'),
      ),
    );
    t.same(await stopped, []);
    t.equal(await held(shared, registration), undefined);
  });

  t.test('somebody else’s maintenance is left alone', async (t) => {
    const registration = registrationAt(shared.origin);
    const running = new Running(t, registration);
    await until('registered', () => passing(shared, registration));
    await shared.put(`agent/service/maintenance/${registration.entry.id}?enable=true&reason=mine`);
    running.change({ port: 8081 });
    await until('the change', async () => (await held(shared, registration))?.Service.Port === 8081);
    await new Promise((done) => setTimeout(done, TTL));
    const checks = (await held(shared, registration))?.Checks ?? [];
    t.ok(checks.some(({ CheckID, Notes }) => CheckID.startsWith('_service_maintenance') && Notes === 'mine'));
  });

  t.test('unknown service, unknown check, another’s settings: registered again within a period', async (t) => {
    const registration = registrationAt(shared.origin);
    const { id } = registration.entry;
    new Running(t, registration);
    await until('registered', () => passing(shared, registration));
    await shared.put(`agent/service/deregister/${id}`);
    await until('there again', () => passing(shared, registration));
    await shared.put(`agent/check/deregister/service:${id}`);
    await until('its check again', async () =>
      ((await held(shared, registration))?.Checks ?? []).some(({ CheckID }) => CheckID === `service:${id}`),
    );
    await shared.put('agent/service/register', { ID: id, Name: 'other', Port: 1 });
    await until('ours again', async () => (await held(shared, registration))?.Service.Service === 'web');
    await shared.put(`agent/check/fail/service:${id}`);
    await until('passing again', () => passing(shared, registration));
  });

  t.test('away, mute, and signs of life refused', async (t) => {
    const proxy = await FaultProxy.start(shared.port);
    t.teardown(() => proxy.stop());
    const registration = registrationAt(proxy.origin);
    await proxy.break({ kind: 'silent' });
    const running = new Running(t, registration);
    await until('said', () => running.said.some(({ event }) => event === 'not-registered'));
    await proxy.mend();
    await until('registered', () => passing(shared, registration));
    for (const status of [404, 500]) {
      const before = proxy.requests.length;
      await proxy.break({ kind: 'status', status, path: /check\/update/ });
      await until('a full registration follows', () =>
        proxy.requests.slice(before).some((path) => path.endsWith('agent/service/register')),
      );
    }
    await until('registered all the same', () => running.state === 'registered');
    await proxy.break({ kind: 'refuse' });
    t.equal((await running.stop()).length, 1);
    await until(
      'critical with its TTL',
      async () => (await held(shared, registration))?.AggregatedStatus === 'critical',
    );
  });

  t.test('wiped and restarted', async (t) => {
    const server = await ConsulServer.start(t.testdir({}));
    t.teardown(() => server.stop());
    const registration = registrationAt(server.origin);
    const running = new Running(t, registration);
    await until('registered', () => passing(server, registration));
    await server.stop();
    await until('said', () => running.state !== 'registered');
    server.wipe();
    await server.run();
    await until('there again', () => passing(server, registration));
    await server.stop();
    await until('said', () => running.state !== 'registered');
    await server.run();
    await until('confirmed', async () => running.state === 'registered' && (await passing(server, registration)));
  });

  t.test('out of disk: who is registered stays, who comes is registered once there is room', async (t) => {
    const disk = mkdtempSync(join(tmpdir(), 'holdfast-disk-'));
    const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', disk]);
    if (mounted.status !== 0) {
      rmSync(disk, { recursive: true });
      t.comment('skipped: no small disk can be mounted here');
      return;
    }
    let server: ConsulServer | undefined;
    t.teardown(async () => {
      await server?.stop();
      spawnSync('umount', ['--lazy', disk]);
      rmSync(disk, { recursive: true, force: true });
    });
    server = await ConsulServer.start(join(disk, 'consul'));
    const agent = server;
    const first = registrationAt(agent.origin);
    const before = new Running(t, first);
    await until('registered', () => passing(agent, first));
    fill(join(disk, 'full'));
    const second = registrationAt(agent.origin);
    const late = new Running(t, second);
    await until('said', () => late.said.some(({ event }) => event === 'not-registered'));
    await new Promise((resolve) => setTimeout(resolve, 2 * TTL));
    t.ok(await held(agent, first), 'who is registered stays');
    // A sign of life of a busy machine may be late; the next one is taken.
    await until('and passes', () => passing(agent, first));
    rmSync(join(disk, 'full'));
    await until('registered, once there is room', () => passing(agent, second));
    await until('both said to be', () => before.state === 'registered' && late.state === 'registered');
  });

  t.test('a token withdrawn and given back', async (t) => {
    const management = '11111111-2222-3333-4444-555555555555';
    const server = await ConsulServer.start(t.testdir({}), { managementToken: management });
    t.teardown(() => server.stop());
    const tokenFile = `${t.testdirName}/token`;
    const rules = 'service_prefix "" { policy = "write" }\nnode_prefix "" { policy = "read" }';
    await server.put('acl/policy', { Name: 'web', Rules: rules });
    const make = async () =>
      JSON.parse(await server.put('acl/token', { Policies: [{ Name: 'web' }] })) as {
        SecretID: string;
        AccessorID: string;
      };
    const first = await make();
    writeFileSync(tokenFile, `${first.SecretID}\n`);
    const registration = registrationAt(server.origin, { tokenFile });
    const running = new Running(t, registration);
    await until('registered', () => passing(server, registration));
    await server.delete(`acl/token/${first.AccessorID}`);
    await until('said', () => /status 403/.test(running.reason));
    await until('lapsed', () => running.state === 'trying');
    rmSync(tokenFile);
    await until('said', () => /token cannot be used/.test(running.reason));
    const second = await make();
    writeFileSync(tokenFile, second.SecretID);
    await until(
      'registered again',
      async () => running.state === 'registered' && (await passing(server, registration)),
    );
    const told = JSON.stringify([running.said, running.registrar.status()]);
    for (const { SecretID } of [first, second]) t.notOk(told.includes(SecretID));
  });

  t.test('two registrars of one id: the younger has it, and a dead one is followed', async (t) => {
    const registration = registrationAt(shared.origin);
    const proxy = await FaultProxy.start(shared.port);
    t.teardown(() => proxy.stop());
    const older = new Running(t, registration, 1_700_000_000_000);
    await until('registered', () => older.state === 'registered');
    const at = { ...registration.registry, addresses: [proxy.origin] } as ConsulRegistryConfig;
    const younger = new Running(
      t,
      { ...registration, registry: at, entry: { ...registration.entry, port: 8081 } },
      1_700_000_000_001,
    );
    await until('the younger', async () => (await held(shared, registration))?.Service.Port === 8081);
    await until('the older stands back', () => older.state === 'taken');
    t.equal(younger.state, 'registered');
    await proxy.break({ kind: 'refuse' });
    await until('the older is there again', async () => (await held(shared, registration))?.Service.Port === 8080);
    await proxy.mend();
    await older.stop();
    await until('and the younger', async () => (await held(shared, registration))?.Service.Port === 8081);
  });
}
