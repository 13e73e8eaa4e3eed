/** What a registrar has to bear from the registry that it registers in, against the real servers. */
import t, { type Test } from 'tap';
import type { EtcdRegistryConfig } from '../../src/config/types.js';
import type { Registration } from '../../src/registrar/entry.js';
import { openTarget } from '../../src/registrar/open-target.js';
import { newOwner } from '../../src/registrar/owner.js';
import { Registrar } from '../../src/registrar/registrar.js';
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
    const registration = registrationIn([server.origin], {
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
    await until('read-only is not enough', () => /permission denied/.test(running.reason));
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
    await until('registered anew', () => running.state === 'registered');
    await new Promise((done) => setTimeout(done, 300));
    t.not(await held(shared, keyOf(registration)), undefined);
  });
}
