/** An etcd that is well and odd: bursts under a watch, members that fall silent, keys and values that are no text. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import type { Delivery, Failure } from '../src/registry/adapter.js';
import { EtcdRegistry } from '../src/registry/etcd.js';
import { brief, LIMITS, NEVER } from './registry-fixture.js';

t.jobs = 4;

type Key = string | Buffer;
const base64 = (key: Key): string => Buffer.from(key).toString('base64');
const endpoint = (n: number): string => JSON.stringify({ address: `10.0.${n >> 8}.${n & 255}`, port: 80 });

/** One store, and members that answer out of it unless they are frozen, or slow. */
class FakeEtcd {
  readonly keys = new Map<string, { readonly value: string; readonly at: number }>();
  readonly frozen = new Set<number>();
  /** How long each takes for an answer, in ms. */
  readonly slow = new Map<number, number>();
  readonly asked: number[] = [];
  readonly endpoints: string[] = [];
  revision = 1;
  watch: ServerResponse | undefined;

  static async start(t: Test, members = 1): Promise<FakeEtcd> {
    const fake = new FakeEtcd();
    for (let member = 0; member < members; member++) {
      const server = createServer((req, res) => {
        fake.asked.push(member);
        if (fake.frozen.has(member)) return;
        const delay = fake.slow.get(member) ?? 0;
        if (req.url === '/v3/kv/range') setTimeout(() => res.end(fake.#list()), delay).unref();
        else {
          fake.watch = res;
          res.write(fake.message({ created: true }));
        }
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      fake.endpoints.push(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      t.teardown(() => {
        server.close();
        server.closeAllConnections();
      });
    }
    return fake;
  }

  put(key: Key, value: string): object {
    this.keys.set(base64(key), { value, at: ++this.revision });
    return { kv: { key: base64(key), value: base64(value), mod_revision: String(this.revision) } };
  }

  delete(key: Key): object {
    this.keys.delete(base64(key));
    return { type: 'DELETE', kv: { key: base64(key), mod_revision: String(++this.revision) } };
  }

  message(result: object): string {
    return `${JSON.stringify({ result: { header: this.#header(), ...result } })}\n`;
  }

  #header(): object {
    return { cluster_id: '1', revision: String(this.revision) };
  }

  #list(): string {
    const kvs = [...this.keys].map(([key, { value, at }]) => ({ key, value: base64(value), mod_revision: String(at) }));
    kvs.sort((a, b) => Number(b.mod_revision) - Number(a.mod_revision));
    return JSON.stringify({ header: this.#header(), kvs, count: String(kvs.length) });
  }
}

function registryOf(t: Test, { endpoints }: FakeEtcd): EtcdRegistry {
  const registry = new EtcdRegistry(
    { type: 'etcd', endpoints, prefix: '/p', layout: 'plain' },
    { softTtl: 4_000, limits: LIMITS, allowAddresses: [] },
  );
  t.teardown(() => registry.close());
  return registry;
}

const listOf = async (registry: EtcdRegistry): Promise<unknown> => {
  const seen = await registry.poll({ signal: NEVER, fresh: true });
  return 'reason' in seen ? seen.reason : brief(seen);
};

t.test('what comes at once is delivered at once, however many leases ended', async (t) => {
  const fake = await FakeEtcd.start(t);
  for (let n = 0; n < 400; n++) fake.put(`/p/web/${n}`, endpoint(n));
  const registry = registryOf(t, fake);
  await listOf(registry);
  const told: Delivery[] = [];
  const end = registry.follow(NEVER, (delivery) => told.push(delivery));
  while (fake.watch === undefined) await new Promise(setImmediate);
  // A lease that ends is a revision of its own, and so a message.
  const events = Array.from({ length: 399 }, (_, n) => fake.delete(`/p/web/${n}`));
  fake.watch.write(events.map((event) => fake.message({ events: [event] })).join(''));
  fake.watch.write(fake.message({ events: [fake.delete('/p/web/399'), fake.put('/p/web', '{}')] }));
  fake.watch.end(fake.message({}));
  t.match(await end, /the watch ended$/);
  t.ok(told.length < 40, `${told.length} deliveries of 400 messages`);
  t.equal(told.at(-1)?.kind, 'confirmed', 'behind all that changed');
  t.same(
    told
      .filter(({ kind }) => kind === 'change')
      .map((one) => brief(one))
      .at(-1),
    ['web='],
  );
});

t.test('keys that are no text are keys like others, each its own', async (t) => {
  const fake = await FakeEtcd.start(t);
  const binary = [0xff, 0xfe, 0x80].map((byte) => Buffer.concat([Buffer.from('/p/bin/'), Buffer.from([byte])]));
  for (const [n, key] of binary.entries()) fake.put(key, endpoint(n + 1));
  fake.put('/p/web/ü', endpoint(9));
  const registry = registryOf(t, fake);
  t.same(await listOf(registry), ['web=10.0.0.9', 'bin=10.0.0.1,10.0.0.2,10.0.0.3']);
  const told: Delivery[] = [];
  const end = registry.follow(NEVER, (delivery) => told.push(delivery));
  while (fake.watch === undefined) await new Promise(setImmediate);
  fake.watch.end(fake.message({ events: [fake.delete(binary[1]!)] }));
  await end;
  t.same(told.map(brief), [['bin=10.0.0.1,10.0.0.3']]);
  t.same(await registry.present(NEVER), { kind: 'same' });
});

t.test('a value that is nested without an end loses its own row', async (t) => {
  const fake = await FakeEtcd.start(t);
  const deep = '['.repeat(20_000) + ']'.repeat(20_000);
  fake.put('/p/web/1', `{"address":${deep},"port":80}`);
  fake.put('/p/web/2', `{"address":"10.0.0.2","port":${deep}}`);
  fake.put('/p/web', `{"check":{"path":${deep}}}`);
  fake.put('/p/web/3', endpoint(3));
  t.same(await listOf(registryOf(t, fake)), ['web=10.0.0.3']);
});

t.test(
  'a member that falls silent under a watch is left for one that answers; all of them are not heard',
  async (t) => {
    const fake = await FakeEtcd.start(t, 3);
    fake.put('/p/web/1', endpoint(1));
    const registry = registryOf(t, fake);
    t.same(await listOf(registry), ['web=10.0.0.1']);
    t.same(await registry.present(NEVER), { kind: 'same' });
    fake.frozen.add(0);
    t.same(await registry.present(NEVER), { kind: 'lost' }, 'it has to be read elsewhere');
    fake.asked.length = 0;
    t.same(await listOf(registry), ['web=10.0.0.1']);
    t.same(fake.asked.includes(0), false, 'where somebody answered');
    for (const member of [1, 2]) fake.frozen.add(member);
    const places = fake.endpoints.map((place) => `${place}: no whole answer within 0.9 s`);
    const { kind, reason } = (await registry.present(NEVER)) as Failure;
    t.equal(kind, 'unreachable');
    // The one that is watched has as long as all take.
    t.equal(reason.replace('1.8 s', '0.9 s'), places.join('; '));
  },
);

/** Liveness reads have 2 s: the one that is watched nine tenths of it, the others the second half of that. */
const WHOLE_MS = 2_000;
const SLOW_MS = 0.7 * WHOLE_MS;

t.test('a cluster that is slow as a whole is heard: its watched member answers in the end', async (t) => {
  const fake = await FakeEtcd.start(t, 3);
  fake.put('/p/web/1', endpoint(1));
  const registry = registryOf(t, fake);
  await listOf(registry);
  for (const member of [0, 1, 2]) fake.slow.set(member, SLOW_MS);
  t.same(await registry.present(NEVER), { kind: 'same' });
  fake.put('/p/web/2', endpoint(2));
  t.same(await registry.present(NEVER), { kind: 'behind' }, 'nor is a watch that delivers nothing overlooked');
});

t.test('a watched member that alone is slow is not left while it answers in time', async (t) => {
  const fake = await FakeEtcd.start(t, 3);
  fake.put('/p/web/1', endpoint(1));
  const registry = registryOf(t, fake);
  await listOf(registry);
  fake.slow.set(0, SLOW_MS);
  t.same(await registry.present(NEVER), { kind: 'same' });
  t.ok(fake.asked.includes(1), 'though others were asked, and answered before it');
  fake.asked.length = 0;
  await listOf(registry);
  t.same(fake.asked, [0]);
});

t.test('what no member answers in time is read elsewhere, or not heard', async (t) => {
  const fake = await FakeEtcd.start(t, 3);
  fake.put('/p/web/1', endpoint(1));
  const registry = registryOf(t, fake);
  await listOf(registry);
  fake.slow.set(0, 2 * WHOLE_MS);
  fake.slow.set(1, 2 * WHOLE_MS);
  t.same(await registry.present(NEVER), { kind: 'lost' }, 'the third answers');
  fake.slow.set(2, 2 * WHOLE_MS);
  t.match(await registry.present(NEVER), { kind: 'unreachable' });
});

t.test('of a slow cluster whose watched member falls silent another one is read', async (t) => {
  const fake = await FakeEtcd.start(t, 3);
  fake.put('/p/web/1', endpoint(1));
  const registry = registryOf(t, fake);
  await listOf(registry);
  fake.frozen.add(0);
  for (const member of [1, 2]) fake.slow.set(member, SLOW_MS / 2);
  t.same(await registry.present(NEVER), { kind: 'lost' });
  fake.asked.length = 0;
  t.same(await listOf(registry), ['web=10.0.0.1']);
  t.notOk(fake.asked.includes(0));
});
