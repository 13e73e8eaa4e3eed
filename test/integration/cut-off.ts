/**
 * Real registries whose packets are swallowed without a word while a watch is open (A19), or whose address goes and comes
 * (D39): what is known is answered throughout, that nothing is heard is said, and what changed meanwhile is seen after.
 */
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { FaultProxy } from './fault-proxy.js';
import type { ObservedZone } from './observed-zone.js';
import { run } from './prober-host/far-side.js';
import {
  consul,
  etcd,
  http,
  type Kind,
  KNOWN,
  known,
  onDemand,
  open,
  recovers,
  type Source,
} from './registry-stories.js';

/** Of this host, as own-network.ts gives it. */
const ADDRESS = '10.255.0.1';
const ABSENCES = 12;
/** Every so many of them last until nothing is heard any more. */
const LONG_EVERY = 6;

interface Watched {
  readonly name: string;
  readonly source: Source;
  readonly proxy: FaultProxy;
  readonly zone: ObservedZone;
}

/** `reason`: why there is no network for this. */
export async function cutOff(reason: string | undefined): Promise<void> {
  t.setTimeout(115_000);
  const missing = reason ?? (spawnSync('iptables', ['-L']).status === 0 ? undefined : 'no iptables here');
  if (missing !== undefined) {
    console.error(`skipped: registries in a bad network (${missing})`);
    await t.test('registries in a bad network', { skip: missing }, async () => {});
    return;
  }
  const kinds = [etcd, consul, onDemand, http].filter((kind) => kind.missing === undefined);
  const watched = await Promise.all(kinds.map((kind) => watch(t, kind)));

  await t.test('packets are dropped both ways under an open watch (A19)', async (t) => {
    const ports = watched.flatMap(({ proxy }) => [`--dport ${proxy.port}`, `--sport ${proxy.port}`]);
    for (const port of ports) run('iptables', ...`-A INPUT -p tcp ${port} -j DROP`.split(' '));
    const unheard = await Promise.all(watched.map(({ name, zone }) => notHeard(name, zone)));
    t.comment(watched.map(({ name }, i) => `${name}: not heard after ${Math.round(unheard[i]!)} ms`).join(', '));
    for (const { name, source, zone } of watched) {
      const { lastConfirmedMs } = zone.status;
      await zone.pass(500);
      t.ok(zone.status.lastConfirmedMs! > lastConfirmedMs!, `${name}: its age grows`);
      await source.put('meanwhile', ['10.0.7.7']);
    }
    run('iptables', '-F', 'INPUT');
    await Promise.all(watched.map((one) => changed(one, 'meanwhile', '10.0.7.7')));
  });

  await t.test('the address of all of them goes and comes, again and again (D39)', async (t) => {
    for (let i = 0; i < ABSENCES; i++) {
      run('ip', ...`addr del ${ADDRESS}/24 dev lo`.split(' '));
      if (i % LONG_EVERY === 0) await Promise.all(watched.map(({ name, zone }) => notHeard(name, zone)));
      else await sleep(20 * i);
      const address = `10.0.8.${i + 1}`;
      for (const { source } of watched) await source.put('moving', [address]);
      run('ip', ...`addr add ${ADDRESS}/24 dev lo`.split(' '));
      await Promise.all(watched.map((one) => changed(one, 'moving', address)));
    }
    t.comment(watched.map(({ name, proxy }) => `${name}: ${proxy.requests.length} requests`).join(', '));
    for (const { name, source, zone } of watched) t.ok(await recovers(zone, source), name);
  });
}

async function watch(t: Test, kind: Kind): Promise<Watched> {
  const source = await kind.source(t);
  for (const [service, addresses] of Object.entries(KNOWN)) await source.put(service, addresses);
  const proxy = await FaultProxy.start(source.port, undefined, { host: ADDRESS });
  t.teardown(() => proxy.stop());
  const zone = open(t, `{ ${source.registry(`http://${ADDRESS}:${proxy.port}`)} }`);
  await known(zone);
  return { name: kind.name, source, proxy, zone };
}

function notHeard(name: string, zone: ObservedZone): Promise<number> {
  return zone.until(`${name} is not heard`, () => !zone.status.heard);
}

async function changed({ name, zone }: Watched, service: string, address: string): Promise<void> {
  await zone.until(`${name}: ${service}`, () => zone.addresses(service).join() === address);
  await zone.until(`${name}: all is well`, () => zone.status.heard && zone.status.state === 'fresh');
}
