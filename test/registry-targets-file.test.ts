import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { LimitsConfig } from '../src/config/types.js';
import { openAdapter } from '../src/registry/open.js';

const limits: LimitsConfig = { maxServices: 100, maxEndpoints: 100, maxEndpointsPerService: 10, maxBody: 1024 * 1024 };
const ZONE = { softTtl: 2000, limits, allowAddresses: [], naming: 'rfc2782', datacenters: [] } as const;

function open(path: string) {
  const config = { type: 'file', path, targets: { serviceLabel: 'job', port: 9100 } } as const;
  const adapter = openAdapter(config, ZONE);
  const read = async (fresh = true) => {
    const seen = await adapter.poll({ signal: AbortSignal.timeout(10_000), fresh });
    if (seen.kind !== 'list') return seen;
    const services = [...seen.services].map(({ name, rows }) => [
      name,
      rows.map((row) => `${row.address}:${row.port}`).join(),
    ]);
    return { services: Object.fromEntries(services), rejected: seen.rejected, whole: seen.removalsBelievable };
  };
  return { adapter, read };
}

/** As who writes such files does it. */
function put(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}

t.test('lists of targets in files are a registry, in JSON and in YAML', async (t) => {
  const folder = t.testdir({});
  const { adapter, read } = open(folder);
  t.teardown(() => adapter.close());
  put(
    join(folder, 'a.json'),
    '[{"targets": ["10.0.0.1:80", "[fd00::1]:80", "127.0.0.1"], "labels": {"job": "orders"}}]',
  );
  put(
    join(folder, 'b.yml'),
    '# ours\n- targets: ["10.0.0.2:70000", 10.0.0.3]\n  labels: { job: billing, __meta_holdfast_weight: 5 }\n- targets: [10.0.0.4:80]\n',
  );
  t.match(await read(), {
    services: { orders: '10.0.0.1:80,127.0.0.1:9100,fd00::1:80', billing: '10.0.0.3:9100' },
    whole: true,
    rejected: [
      { where: /b\.yml: group 0, "10\.0\.0\.2:70000"$/, reason: 'port must be 1 to 65535, not "70000"' },
      { where: /b\.yml: group 1$/, reason: 'no label job, which names the service' },
    ],
  });
});

t.test('a file that cannot be read takes nothing away, and one that is empty says nothing', async (t) => {
  const path = join(t.testdir({}), 'targets.yaml');
  const { adapter, read } = open(path);
  t.teardown(() => adapter.close());
  t.match(await read(), { kind: 'unreachable' });
  put(path, '- { targets: [10.0.0.1:80], labels: { job: orders } }\n');
  t.match(await read(), { services: { orders: '10.0.0.1:80' }, whole: true });
  for (const [text, reason] of [
    ['', /empty \(0 bytes\); `\[\]` says that there are none/],
    ['services: {}\n', /expected a list of target groups; \[\] says that there are none/],
    ['- { targets: 10.0.0.1:80 }\n', /no endpoint can be read: group 0: targets must be a list/],
    ['[\n', /not YAML/],
  ] as const) {
    put(path, text);
    t.match(await read(), { kind: 'unbelievable', reason }, JSON.stringify(text));
  }
  put(path, '- { targets: [10.0.0.1:80], labels: { job: orders } }\n- nonsense\n');
  t.match(await read(), { services: { orders: '10.0.0.1:80' }, whole: false }, 'a part in doubt');
  put(path, '[]\n');
  t.match(await read(), { services: {}, whole: true }, 'an empty list is one: the guard judges it');
});

t.test('it is watched like any other file', async (t) => {
  const path = join(t.testdir({}), 'targets.json');
  put(path, '[]');
  const { adapter, read } = open(path);
  t.teardown(() => adapter.close());
  let woken = 0;
  adapter.watch?.(() => woken++, t.fail);
  await read();
  put(path, '[{"targets": ["10.0.0.1:80"], "labels": {"job": "orders"}}]');
  for (let i = 0; i < 200 && woken === 0; i++) await sleep(25);
  t.ok(woken > 0);
  t.match(await read(false), { services: { orders: '10.0.0.1:80' } });
});

t.test('endpoints beyond the limits are counted, and made nothing of', async (t) => {
  const path = join(t.testdir({}), 'targets.json');
  const { adapter, read } = open(path);
  t.teardown(() => adapter.close());
  const targets = (count: number): string[] =>
    Array.from({ length: count }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
  const many = JSON.stringify([{ targets: targets(60_000), labels: { job: 'orders' } }]);
  put(path, many);
  t.match(await read(), {
    kind: 'unbelievable',
    reason: /service "orders" has 60000 endpoints, more than limits\.maxEndpointsPerService \(10\)/,
  });
  const spread = Array.from({ length: 20 }, (_, i) => ({ targets: targets(9), labels: { job: `s${i}` } }));
  put(path, JSON.stringify(spread));
  t.match(await read(), { kind: 'unbelievable', reason: /180 endpoints, more than limits\.maxEndpoints \(100\)/ });
  const others = { targets: targets(5000), labels: { other: 'x' } };
  put(path, JSON.stringify([{ targets: [...targets(9), ...targets(9)], labels: { job: 'orders' } }, others]));
  t.match(await read(), { whole: true }, 'twice the same is one, and those of no service do not count');
});

t.test('aliases of YAML that would be without an end are read as what they are: one thing each', async (t) => {
  const folder = t.testdir({});
  const path = join(folder, 'a.yaml');
  // Written out it would be 2 to the power of 60 items.
  const doubled = Array.from({ length: 60 }, (_, n) => `    - &a${n + 1} [*a${n}, *a${n}]`).join('\n');
  const good = '- { targets: ["10.0.0.1:80"], labels: { job: orders } }';
  const { adapter, read } = open(path);
  t.teardown(() => adapter.close());
  put(
    path,
    `${good}\n- x-of:\n    - &a0 [1]\n${doubled}\n  targets: [*a60, "10.0.0.2:80"]\n  labels: { job: orders }\n`,
  );
  const seen = await read();
  t.match(seen, { services: { orders: '10.0.0.1:80,10.0.0.2:80' }, whole: false });
  t.match('rejected' in seen && seen.rejected[0]?.reason, 'expected text such as "10.0.0.1:8080"');
});
