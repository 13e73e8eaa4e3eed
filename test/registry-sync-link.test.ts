import { on } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import type { LimitsConfig, ZoneConfig } from '../src/config/types.js';
import { registryIdentity } from '../src/registry/identity.js';
import { SyncLink, type SyncLinkOptions } from '../src/resolver/sync-link.js';
import { type FromSyncWorker, type SyncWorkerData, syncZone } from '../src/resolver/sync-messages.js';
import { brief, LIMITS, ONE, replace } from './registry-fixture.js';

const PATIENCE_MS = 20_000;

function zone(name: string, path: string, more: Partial<LimitsConfig> = {}): ZoneConfig {
  const limits = { ...LIMITS, maxEndpoints: 100_000, maxServices: 10_000, ...more };
  // Only what syncing reads of a zone.
  const part = { name, registries: [{ type: 'file', path }], softTtl: 10_000, limits, allowAddresses: [] } as const;
  return part as unknown as ZoneConfig;
}

/** Collects reports; `next` waits for the next one. */
class Inbox {
  readonly #waiting: ((text: unknown) => void)[] = [];
  readonly #had: unknown[] = [];

  put(item: unknown): void {
    const waiter = this.#waiting.shift();
    if (waiter === undefined) this.#had.push(item);
    else waiter(item);
  }

  next(): Promise<unknown> {
    if (this.#had.length > 0) return Promise.resolve(this.#had.shift());
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

function linkOptions(folder: string, more: Partial<SyncLinkOptions>): SyncLinkOptions {
  return {
    snapshotFolder: folder,
    hostsFile: join(folder, 'registry-hosts.json'),
    machine: 'm',
    log: () => undefined,
    onReport: () => undefined,
    onSnapshotProblem: () => undefined,
    onSnapshotWanted: () => undefined,
    ...more,
  };
}

t.test('the sync worker reports lists in parts, then changes, and follows a reload', async (t) => {
  const dir = t.testdir({ 'b.yaml': ONE });
  const big = join(dir, 'a.json');
  const services: Record<string, unknown> = {};
  for (let s = 0; s < 100; s++) {
    const endpoints = Array.from({ length: 120 }, (_, e) => ({ address: `10.0.${s}.${e}`, port: 80 }));
    services[`s${s}`] = { endpoints };
  }
  replace(big, JSON.stringify({ services }));
  const inboxes: Record<string, Inbox> = { a: new Inbox(), b: new Inbox() };
  let wanted = 0;
  const registries = new Set<number>();
  const link = new SyncLink(
    linkOptions(join(dir, 'snapshots'), {
      onReport: (name, registry, report) => {
        registries.add(registry);
        if (report.kind === 'list' && report.services.length > 2) {
          const rows = [...report.services].reduce((sum, service) => sum + service.rows.length, 0);
          inboxes[name]?.put(`${report.services.length} services, ${rows} rows`);
        } else if (report.kind !== 'confirmed') inboxes[name]?.put([report.kind, brief(report)]);
      },
      onSnapshotWanted: () => wanted++,
    }),
  );
  t.teardown(() => link.stop());
  link.start([zone('a', big), zone('b', join(dir, 'b.yaml'))]);
  t.equal(wanted, 1);
  t.equal(await inboxes.a?.next(), '100 services, 12000 rows');
  t.same(await inboxes.b?.next(), ['list', ['a=10.0.0.1']]);

  services.s1 = { endpoints: [{ address: '10.9.9.9', port: 80 }] };
  replace(big, JSON.stringify({ services }));
  link.reload([zone('a', big), zone('b', join(dir, 'c.yaml'))]);
  t.same(await inboxes.a?.next(), ['change', ['s1=10.9.9.9']], 'a zone that is as it was goes on');
  t.match(await inboxes.b?.next(), ['unreachable', /c\.yaml: no such file/], 'one that changed begins anew');
  link.relist();
  t.equal(await inboxes.a?.next(), '100 services, 11881 rows');
  t.same([...registries], [0]);
});

t.test('what came of a list that ends half way, since its registry was replaced, is let go', async (t) => {
  const services: Record<string, unknown> = {};
  for (let s = 0; s < 3000; s++) services[`s${s}`] = { endpoints: [{ address: '10.0.0.1', port: 80 }] };
  const dir = t.testdir({ 'a.json': JSON.stringify({ services }) });
  const workerData: SyncWorkerData = { snapshotFolder: dir, machine: undefined, hostsFile: join(dir, 'hosts.json') };
  const worker = new Worker(new URL('../src/resolver/sync-worker.js', import.meta.url), { workerData });
  t.teardown(() => worker.terminate());
  const messages = on(worker, 'message');
  const next = async (): Promise<FromSyncWorker> => ((await messages.next()).value as [FromSyncWorker])[0];
  const order = (zones: readonly ZoneConfig[]): void => {
    worker.postMessage({ op: 'zones', zones: zones.map(syncZone), restored: [], known: {}, seen: {} });
  };
  order([zone('a', join(dir, 'a.json'))]);
  const part = await next();
  if (part.op !== 'part') throw new Error(part.op);
  order([]);
  t.same(await next(), { op: 'ended', loop: part.source.loop }, 'the worker says so');

  // 64 MB of a list of loop 1, which ends with the second message.
  const half = `
    import { parentPort } from 'node:worker_threads';
    const source = { zone: 'a', registry: 0, identity: '${registryIdentity({ type: 'file', path: '/a' })}', loop: 1 };
    let zones = 0;
    parentPort.on('message', ({ op }) => {
      if (op !== 'zones') return;
      const report = { kind: 'unreachable', at: 0, reason: 'x' };
      if (++zones === 1) {
        for (let i = 0; i < 16; i++) parentPort.postMessage({ op: 'part', source, first: i === 0, services: new Uint8Array(1 << 22) });
      } else parentPort.postMessage({ op: 'ended', loop: 1 });
      parentPort.postMessage({ op: 'report', source: { ...source, loop: 2 }, report });
    });`;
  const reports = new Inbox();
  const link = new SyncLink(
    linkOptions(dir, {
      workerUrl: new URL(`data:text/javascript,${encodeURIComponent(half)}`),
      onReport: (_zone, _registry, { kind }) => reports.put(kind),
    }),
  );
  t.teardown(() => link.stop());
  const before = heldBytes();
  link.start([zone('a', '/a')]);
  await reports.next();
  const held = heldBytes() - before;
  // Less what was let go of something else meanwhile.
  t.ok(held >= 48 << 20, `${held} bytes are kept while the list may go on`);
  link.reload([zone('a', '/a')]);
  await reports.next();
  // What nobody has any more is given back in the background, some time later.
  let left = heldBytes() - before;
  for (const end = performance.now() + PATIENCE_MS; left >= 8 << 20 && performance.now() < end; ) {
    await sleep(50);
    left = heldBytes() - before;
  }
  t.ok(left < 8 << 20, `${left} bytes are left`);
});

/** In buffers that somebody still has. */
function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().arrayBuffers;
}

t.test('a sync worker that dies is started again, and asks for snapshots anew', async (t) => {
  const died: unknown[] = [];
  let wanted = 0;
  await new Promise<void>((resolve) => {
    const link = new SyncLink(
      linkOptions(t.testdir({}), {
        workerUrl: new URL('data:text/javascript,throw new Error("no memory left")'),
        log: (level, event, { reason }) => died.push([level, event, reason]),
        onSnapshotWanted: () => {
          if (++wanted === 3) void link.stop().then(() => resolve());
        },
      }),
    );
    link.start([]);
  });
  t.same(died, Array(2).fill(['error', 'sync-worker-died', 'no memory left']));
});

t.test('that a token was replaced is logged once, and the token is not', async (t) => {
  const dir = t.testdir({ token: 'first-secret' });
  const tokenFile = join(dir, 'token');
  const logged = new Inbox();
  const reports = new Inbox();
  const link = new SyncLink(
    linkOptions(join(dir, 'snapshots'), {
      log: (...line) => logged.put(line),
      onReport: (_zone, _registry, report) => reports.put(report.kind),
    }),
  );
  t.teardown(() => link.stop());
  const http = { type: 'http', url: 'http://127.0.0.1:9/', interval: 1000, serviceLabel: 'job', tokenFile } as const;
  link.start([{ ...zone('a', '/none'), registries: [http] }]);
  t.equal(await reports.next(), 'unreachable');
  writeFileSync(tokenFile, 'second-secret');
  const fields = { zone: 'a', registry: registryIdentity(http), files: [tokenFile] };
  t.same(await logged.next(), ['info', 'registry-credentials-changed', fields]);
});
