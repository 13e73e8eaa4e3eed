/**
 * The drill: everything that can go goes, one after the other, under a steady load, and no request is lost. The
 * resolver, the prober, the backends and the client are processes of their own.
 */
import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { Agent, request } from 'undici';
import { root } from '../root.js';
import type { Count } from './drill-client.js';
import { freePort, Host, until, ZONE } from './program.js';
import { zoneConfig } from './zone-config.js';

/** The registry of a drill. */
export interface DrillRegistry {
  /** Its section of the configuration, without braces. */
  readonly section: string;
  /** It lists these ports of 127.0.0.1 under `orders`. */
  fill(ports: readonly number[]): Promise<void>;
  kill(): Promise<void>;
  /** It is there again, and lists nothing. */
  backEmpty(): Promise<void>;
}

const BACKENDS = 6;
const RATE = 200;
const CLIENT = join(root, 'build', 'test', 'blackbox', 'drill-client.js');
const BACKEND = join(root, 'dist', 'backend.js');

/** `seconds`: how long all of it takes. */
export async function drill(
  t: Test,
  makeRegistry: (host: Host) => Promise<DrillRegistry>,
  seconds: number,
): Promise<void> {
  const host = new Host();
  const backends: ChildProcess[] = [];
  let client: ChildProcess | undefined;
  t.teardown(async () => {
    for (const child of [...backends, ...(client ? [client] : [])]) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
    await host.dispose();
  });
  const registry = await makeRegistry(host);
  const ports: number[] = [];
  for (let i = 0; i < BACKENDS; i++) {
    const port = await freePort();
    ports.push(port);
    backends.push(spawn(process.execPath, [BACKEND, `orders-${i}`, '127.0.0.1', String(port)], { stdio: 'ignore' }));
  }
  await registry.fill(ports);
  host.port = await freePort();
  writeFileSync(host.config, configuration(host.port, registry.section));
  let resolver = await host.serve();
  await resolver.said('zone-synced');
  let prober = host.probe();
  const answered = async (wanted: readonly number[]): Promise<boolean> =>
    String(await host.ports('orders')) === String([...wanted].sort((a, b) => a - b));
  await until('all are answered', () => answered(ports));

  client = fork(CLIENT, [String(RATE), ZONE, `127.0.0.1:${host.port}`, join(host.folder, 'run', 'public.sock')]);
  await once(client, 'message');
  const start = performance.now();
  const at = async (share: number, what: string, act: () => unknown): Promise<void> => {
    await sleep(Math.max(0, start + share * seconds * 1_000 - performance.now()));
    await act();
    t.comment(`${((performance.now() - start) / 1_000).toFixed(1)} s: ${what}`);
  };
  const living = ports.slice(3);
  await at(0.1, 'the registry is killed', () => registry.kill());
  await at(0.2, 'two backends are killed', () => [0, 1].map((i) => backends[i]!.kill('SIGKILL')));
  await at(0.35, 'one hangs', () => backends[2]!.kill('SIGSTOP'));
  await at(0.45, 'the client has reported what it saw (R20)', () =>
    until('a report', async () =>
      /^holdfast_client_reports_total\{endpoint="known"\} [1-9]/m.test(await metrics(host)),
    ),
  );
  await at(0.5, 'the resolver is killed and started again', async () => {
    resolver.kill('SIGKILL');
    await resolver.ended;
    resolver = await host.serve();
  });
  await at(0.62, 'the prober is killed and started again', async () => {
    prober.kill('SIGKILL');
    await prober.ended;
    prober = host.probe();
  });
  await at(0.75, 'the registry is back, empty', () => registry.backEmpty());
  await at(0.88, 'the registry is back in full', () => registry.fill(ports));
  await at(1, 'the end', () => client!.send('stop'));
  const [count] = (await once(client, 'message')) as [Count];
  const { asked, answered: well, worst, by, status } = count;
  t.comment(JSON.stringify({ asked, answered: well, worst, by, status: { ...status, services: undefined } }));
  t.same(count.lost.slice(0, 3), [], `no request is lost, ${count.lost.length} were`);
  t.equal(well, asked);
  t.ok(asked >= RATE * seconds * 0.95, `${asked} requests in ${seconds} s`);
  t.same(
    Object.keys(by).filter((name) => !/^this is orders-\d$/.test(name)),
    [],
    'every answer is of a backend',
  );
  await until('those that live are answered, and no others', () => answered(living));
}

async function metrics(host: Host): Promise<string> {
  const dispatcher = new Agent({ connect: { socketPath: join(host.folder, 'run', 'control.sock') } });
  const { body } = await request('http://localhost/metrics', { dispatcher });
  const text = await body.text();
  await dispatcher.close();
  return text;
}

function configuration(port: number, registry: string): string {
  const check = 'check: { type: http, path: /healthz, interval: 1s, timeout: 500ms }';
  return zoneConfig(port, registry, ['allowAddresses: ["127.0.0.0/8"]', 'softTtl: 2s', check]);
}
