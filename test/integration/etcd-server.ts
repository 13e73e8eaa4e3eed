/** A real etcd of one member, on ports of its own, with its data in a folder of the test. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePorts } from './ports.js';

/** The version that is installed, undefined when there is none. */
export function etcdVersion(): string | undefined {
  const run = spawnSync('etcd', ['--version'], { encoding: 'utf8' });
  return run.status === 0 ? /etcd Version: (\S+)/.exec(run.stdout)?.[1] : undefined;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

export class EtcdServer {
  readonly #data: string;
  readonly #ports: readonly [number, number];
  readonly #name: string;
  /** Of all members, as etcd wants it. */
  readonly #cluster: string;
  #process: ChildProcess | undefined;
  #token: string | undefined;

  private constructor(folder: string, ports: readonly [number, number], name: string, cluster: string) {
    this.#data = join(folder, 'data');
    this.#ports = ports;
    this.#name = name;
    this.#cluster = cluster;
  }

  static async start(folder: string): Promise<EtcdServer> {
    mkdirSync(folder, { recursive: true });
    const [server] = await EtcdServer.cluster(folder, 1);
    return server!;
  }

  /** Members of one cluster, all of them running. */
  static async cluster(folder: string, size: number): Promise<EtcdServer[]> {
    const ports = await freePorts(2 * size);
    const peers = Array.from({ length: size }, (_, i) => `m${i}=http://127.0.0.1:${ports[2 * i + 1]}`);
    const members = peers.map((_, i) => {
      const own = join(folder, `m${i}`);
      mkdirSync(own, { recursive: true });
      return new EtcdServer(own, [ports[2 * i]!, ports[2 * i + 1]!], `m${i}`, peers.join());
    });
    await Promise.all(members.map((member) => member.run()));
    return members;
  }

  /** Whether the others of its cluster follow it. */
  async leads(): Promise<boolean> {
    try {
      const { header, leader } = (await this.call('maintenance/status', {})) as {
        header: { member_id: string };
        leader?: string;
      };
      return leader === header.member_id;
    } catch {
      return false;
    }
  }

  get port(): number {
    return this.#ports[0];
  }

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts it, again after a stop, on the data that is there. */
  async run(): Promise<void> {
    const peers = `http://127.0.0.1:${this.#ports[1]}`;
    const child = spawn(
      'etcd',
      [
        ...['--name', this.#name, '--data-dir', this.#data, '--initial-cluster', this.#cluster],
        ...['--listen-client-urls', this.origin, '--advertise-client-urls', this.origin],
        ...['--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers],
        ...['--heartbeat-interval', '500', '--election-timeout', '5000'],
      ],
      { stdio: 'ignore' },
    );
    child.on('error', () => undefined);
    this.#process = child;
    for (let i = 0; i < 200; i++) {
      if (await this.#healthy()) return;
      await sleep(100);
    }
    throw new Error('etcd did not become healthy');
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    const exit = once(child, 'exit');
    child.kill('SIGKILL');
    await exit;
  }

  wipe(): void {
    rmSync(this.#data, { recursive: true, force: true });
  }

  /** Only while it is stopped. */
  backUp(to: string): void {
    cpSync(this.#data, to, { recursive: true });
  }

  restore(from: string): void {
    this.wipe();
    cpSync(from, this.#data, { recursive: true });
  }

  async put(key: string, value: unknown): Promise<number> {
    const body = { key: base64(key), value: base64(typeof value === 'string' ? value : JSON.stringify(value)) };
    const { header } = (await this.call('kv/put', body)) as { header: { revision: string } };
    return Number(header.revision);
  }

  async delete(key: string): Promise<void> {
    await this.call('kv/deleterange', { key: base64(key) });
  }

  /** As this user from now on. What changes users ends tokens. */
  async signIn(name: string, password: string): Promise<void> {
    this.#token = undefined;
    this.#token = ((await this.call('auth/authenticate', { name, password })) as { token: string }).token;
  }

  async call(path: string, body: object): Promise<unknown> {
    const response = await fetch(`${this.origin}/v3/${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: this.#token === undefined ? {} : { authorization: this.#token },
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return await response.json();
  }

  async #healthy(): Promise<boolean> {
    try {
      const health = (await (await fetch(`${this.origin}/health`)).json()) as { health?: unknown };
      return health.health === 'true';
    } catch {
      return false;
    }
  }
}
