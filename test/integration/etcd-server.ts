/** A real etcd of one member, on ports of its own, with its data in a folder of the test. */
import { spawnSync } from 'node:child_process';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { freePorts } from '../ports.js';
import { Daemon } from './daemon.js';

/** The version that is installed, undefined when there is none. */
export function etcdVersion(): string | undefined {
  const run = spawnSync('etcd', ['--version'], { encoding: 'utf8' });
  return run.status === 0 ? /etcd Version: (\S+)/.exec(run.stdout)?.[1] : undefined;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Long, so that a busy machine makes no elections of its own. */
const ELECTION_MS = 5_000;

export class EtcdServer {
  readonly #data: string;
  readonly #ports: readonly [number, number];
  readonly #name: string;
  /** Of all members, as etcd wants it. */
  readonly #cluster: string;
  readonly #daemon: Daemon;
  readonly #electionMs: number;
  #token: string | undefined;

  private constructor(
    folder: string,
    ports: readonly [number, number],
    name: string,
    cluster: string,
    electionMs: number,
  ) {
    this.#electionMs = electionMs;
    this.#data = join(folder, 'data');
    this.#ports = ports;
    this.#name = name;
    this.#cluster = cluster;
    this.#daemon = new Daemon({ folder, command: () => this.#command(), isReady: () => this.#isHealthy() });
  }

  static async start(folder: string): Promise<EtcdServer> {
    const [server] = await EtcdServer.cluster(folder, 1);
    return server!;
  }

  /**
   * Members of one cluster, all of them running.
   * @param electionMs without a leader for so long they elect another
   */
  static async cluster(folder: string, size: number, electionMs = ELECTION_MS): Promise<EtcdServer[]> {
    const ports = await freePorts(2 * size);
    const peers = Array.from({ length: size }, (_, i) => `m${i}=http://127.0.0.1:${ports[2 * i + 1]}`);
    const members = peers.map((_, i) => {
      return new EtcdServer(
        join(folder, `m${i}`),
        [ports[2 * i]!, ports[2 * i + 1]!],
        `m${i}`,
        peers.join(),
        electionMs,
      );
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
  run(): Promise<void> {
    return this.#daemon.run();
  }

  stop(): Promise<void> {
    return this.#daemon.stop();
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

  /** All keys with this prefix, which ends with a slash, at once. */
  async deleteBelow(prefix: string): Promise<void> {
    await this.call('kv/deleterange', { key: base64(prefix), range_end: base64(`${prefix.slice(0, -1)}0`) });
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

  #command(): readonly [string, ...string[]] {
    const peers = `http://127.0.0.1:${this.#ports[1]}`;
    return [
      'etcd',
      ...['--name', this.#name, '--data-dir', this.#data, '--initial-cluster', this.#cluster],
      ...['--listen-client-urls', this.origin, '--advertise-client-urls', this.origin],
      ...['--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers],
      ...['--heartbeat-interval', String(this.#electionMs / 10), '--election-timeout', String(this.#electionMs)],
    ];
  }

  async #isHealthy(): Promise<boolean> {
    const health = (await (await fetch(`${this.origin}/health`)).json()) as { health?: unknown };
    return health.health === 'true';
  }
}
