/** Real Consul servers, on ports of their own of the loopback address, with their data in a folder of the test. */
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { freePorts } from '../ports.js';
import { findConsul } from './consul-build.js';
import { Daemon } from './daemon.js';

export { findConsul };

export interface ConsulOptions {
  /** The node's name. */
  readonly node?: string;
  readonly datacenter?: string;
  /** Access control that denies by default. The secret is the token of who may do all. */
  readonly managementToken?: string;
  /** PEM files. HTTPS is served beside HTTP. */
  readonly tls?: { readonly caFile: string; readonly certFile: string; readonly keyFile: string };
  /** The servers that elect a leader together; by default one alone. */
  readonly servers?: number;
  /** Others to join, by their `serfPort`. */
  readonly join?: readonly number[];
  /** Servers of other datacenters, by their `wanPort`. */
  readonly joinWan?: readonly number[];
  /** Whatever else its configuration shall have. */
  readonly more?: Readonly<Record<string, unknown>>;
}

const PORTS = ['http', 'https', 'dns', 'serf_lan', 'serf_wan', 'server'] as const;
type Ports = Record<(typeof PORTS)[number], number>;

export interface ConsulReply {
  readonly status: number;
  readonly header: (name: string) => string | undefined;
  readonly body: string;
}

export class ConsulServer {
  readonly #folder: string;
  readonly #ports: Ports;
  readonly #options: ConsulOptions;
  readonly #daemon: Daemon;
  /** Of the calls of the test. */
  token: string | undefined;

  private constructor(folder: string, ports: Ports, options: ConsulOptions) {
    this.#folder = folder;
    this.#ports = ports;
    this.#options = options;
    this.token = options.managementToken;
    this.#daemon = new Daemon({ folder, command: () => this.#command(), isReady: () => this.#isReady() });
  }

  /** Starts a server, and waits for its leader unless it is one of several. */
  static async start(folder: string, options: ConsulOptions = {}): Promise<ConsulServer> {
    const free = await freePorts(PORTS.length);
    const ports = Object.fromEntries(PORTS.map((name, i) => [name, free[i]!])) as Ports;
    const server = new ConsulServer(folder, ports, options);
    await server.run((options.servers ?? 1) === 1);
    return server;
  }

  /** Several servers of one cluster, with a leader. */
  static async cluster(folder: string, count: number, options: ConsulOptions = {}): Promise<ConsulServer[]> {
    const servers: ConsulServer[] = [];
    for (let i = 0; i < count; i++) {
      const join = servers.map((server) => server.serfPort);
      const node = `${options.node ?? 'server'}-${i + 1}`;
      servers.push(await ConsulServer.start(`${folder}/${node}`, { ...options, node, servers: count, join }));
    }
    await Promise.all(servers.map((server) => server.ready()));
    return servers;
  }

  get port(): number {
    return this.#ports.http;
  }

  get origin(): string {
    return `http://127.0.0.1:${this.#ports.http}`;
  }

  get httpsPort(): number {
    return this.#ports.https;
  }

  get dnsPort(): number {
    return this.#ports.dns;
  }

  get serfPort(): number {
    return this.#ports.serf_lan;
  }

  get wanPort(): number {
    return this.#ports.serf_wan;
  }

  /** Of its own process, while it runs. */
  get pid(): number | undefined {
    return this.#daemon.pid;
  }

  /** Starts it, again after a stop, on the data that is there. */
  run(wait = true): Promise<void> {
    return this.#daemon.run(wait);
  }

  /** Waits for a leader that this server knows, and until it is a node of the catalog itself. */
  ready(): Promise<void> {
    return this.#daemon.ready();
  }

  /** Ends its process, by default without a farewell. */
  stop(signal?: NodeJS.Signals): Promise<void> {
    return this.#daemon.stop(signal);
  }

  /** Only while it is stopped. */
  wipe(): void {
    rmSync(join(this.#folder, 'data'), { recursive: true, force: true });
  }

  /** Registers an instance at the catalog, without an agent that would look after it. */
  async register(registration: object): Promise<void> {
    await this.put('catalog/register', registration);
  }

  async put(path: string, body?: object | string): Promise<string> {
    return (await this.#good('PUT', path, body)).body;
  }

  async delete(path: string): Promise<string> {
    return (await this.#good('DELETE', path)).body;
  }

  async get(path: string): Promise<unknown> {
    return JSON.parse((await this.#good('GET', path)).body);
  }

  /** A call below `/v1/`, whatever its answer. Over TLS when there is an authority to trust. */
  async call(
    method: string,
    path: string,
    body?: object | string | Buffer,
    { token = this.token, ca }: { readonly token?: string | undefined; readonly ca?: string } = {},
  ): Promise<ConsulReply> {
    const secure = ca !== undefined;
    const req = (secure ? tlsRequest : plainRequest)({
      host: '127.0.0.1',
      port: secure ? this.#ports.https : this.#ports.http,
      path: `/v1/${path}`,
      method,
      headers: token === undefined ? {} : { 'x-consul-token': token },
      agent: false,
      ...(secure ? { ca } : {}),
    });
    req.end(body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body));
    const [res] = await once(req, 'response');
    const header = (name: string): string | undefined => res.headers[name.toLowerCase()];
    return { status: res.statusCode, header, body: await readText(res) };
  }

  /** The whole state, as `restore` takes it. */
  async snapshot(): Promise<Buffer> {
    const headers: Record<string, string> = this.token === undefined ? {} : { 'x-consul-token': this.token };
    const response = await fetch(`${this.origin}/v1/snapshot`, { headers });
    if (!response.ok) throw new Error(`snapshot: ${response.status} ${await response.text()}`);
    return Buffer.from(await response.arrayBuffer());
  }

  async restore(snapshot: Buffer): Promise<void> {
    const reply = await this.call('PUT', 'snapshot', snapshot);
    if (reply.status !== 200) throw new Error(`snapshot: ${reply.status} ${reply.body}`);
  }

  /** Whether this server leads its cluster. */
  async leads(): Promise<boolean> {
    return (await this.get('status/leader')) === `127.0.0.1:${this.#ports.server}`;
  }

  async #good(method: string, path: string, body?: object | string): Promise<ConsulReply> {
    const reply = await this.call(method, path, body);
    if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.body}`);
    return reply;
  }

  #command(): readonly [string, ...string[]] {
    const file = join(this.#folder, 'consul.json');
    writeFileSync(file, JSON.stringify(this.#configuration()));
    return [findConsul() ?? 'consul', 'agent', '-config-file', file];
  }

  async #isReady(): Promise<boolean> {
    const { managementToken, servers } = this.#options;
    const reply = await this.call('GET', 'health/service/consul', undefined, { token: managementToken });
    return reply.status === 200 && (JSON.parse(reply.body) as unknown[]).length >= (servers ?? 1);
  }

  #configuration(): object {
    const { node, datacenter, managementToken, tls, servers, join: others, joinWan, more } = this.#options;
    return {
      server: true,
      bootstrap_expect: servers ?? 1,
      node_name: node ?? 'server-1',
      datacenter: datacenter ?? 'dc1',
      data_dir: join(this.#folder, 'data'),
      bind_addr: '127.0.0.1',
      client_addr: '127.0.0.1',
      ports: { ...this.#ports, https: tls === undefined ? -1 : this.#ports.https, grpc: -1, grpc_tls: -1 },
      retry_join: (others ?? []).map((port) => `127.0.0.1:${port}`),
      retry_join_wan: (joinWan ?? []).map((port) => `127.0.0.1:${port}`),
      retry_interval: '1s',
      retry_interval_wan: '1s',
      performance: { raft_multiplier: 1 },
      gossip_lan: { gossip_interval: '100ms', probe_interval: '200ms', probe_timeout: '100ms', suspicion_mult: 3 },
      gossip_wan: { gossip_interval: '100ms', probe_interval: '200ms', probe_timeout: '100ms', suspicion_mult: 3 },
      // Who is stopped comes back: it stays a member.
      autopilot: { cleanup_dead_servers: false },
      leave_on_terminate: false,
      skip_leave_on_interrupt: true,
      disable_update_check: true,
      disable_keyring_file: true,
      log_level: 'INFO',
      // Whatever is asked may be, at once: what holdfast asks for is counted by the tests themselves.
      limits: { http_max_conns_per_client: 1000 },
      ...(managementToken === undefined
        ? {}
        : {
            acl: {
              enabled: true,
              default_policy: 'deny',
              tokens: { initial_management: managementToken, agent: managementToken },
            },
          }),
      ...(tls === undefined
        ? {}
        : { tls: { defaults: { ca_file: tls.caFile, cert_file: tls.certFile, key_file: tls.keyFile } } }),
      ...more,
    };
  }
}
