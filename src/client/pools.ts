/** Open connections by origin and endpoint, kept alive between requests. */
import type { Ms } from '../system/clock.js';
import { type Endpoint, endpointKey } from './endpoint.js';
import { HttpConnection } from './http-connection.js';
import { openSocket, type Tls, type TlsSessions } from './open-socket.js';

interface Pool {
  readonly key: string;
  /** As the program writes it. */
  readonly host: string;
  /** Its key. */
  readonly endpoint: string;
  readonly idle: HttpConnection[];
  readonly all: Set<HttpConnection>;
}

export class Pools {
  readonly #pools = new Map<string, Pool>();
  readonly #sessions: TlsSessions = new Map();
  readonly #connectTimeout: Ms;
  #closed = false;

  constructor(connectTimeout: Ms) {
    this.#connectTimeout = connectTimeout;
  }

  /** One that waits for a request, the latest used first. */
  take(origin: string, endpoint: Endpoint): HttpConnection | undefined {
    const idle = this.#pools.get(poolKey(origin, endpoint))?.idle ?? [];
    for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) {
      if (connection.open) return connection;
    }
    return undefined;
  }

  /** Rejects with the error of the system or of TLS, or the signal's reason. */
  async open(
    origin: string,
    host: string,
    endpoint: Endpoint,
    tls: Tls | undefined,
    signal: AbortSignal,
  ): Promise<HttpConnection> {
    const { address, port } = endpoint;
    const sessions = this.#sessions;
    const socket = await openSocket({ address, port, tls, sessions, timeout: this.#connectTimeout, signal });
    const key = poolKey(origin, endpoint);
    const fresh: Pool = { key, host, endpoint: endpointKey(endpoint), idle: [], all: new Set() };
    const pool = this.#pools.get(key) ?? fresh;
    this.#pools.set(key, pool);
    const connection = new HttpConnection(origin, endpoint, socket, (gone) => this.#forget(pool, gone));
    pool.all.add(connection);
    return connection;
  }

  /** Its request is over; it waits for the next one, if it can take one. */
  release(origin: string, connection: HttpConnection): void {
    const pool = this.#pools.get(poolKey(origin, connection.endpoint));
    if (pool === undefined || this.#closed || connection.retired || !connection.open) connection.destroy();
    else pool.idle.push(connection);
  }

  /** Of `host` these endpoints are left (by `endpointKey`): connections to others end, busy ones after their response. */
  retire(host: string, left: ReadonlySet<string>): void {
    for (const pool of this.#pools.values()) {
      if (pool.host !== host || left.has(pool.endpoint)) continue;
      for (const connection of pool.all) this.#retire(pool, connection);
    }
  }

  /** Idle ones at once, the others after their response. */
  close(): void {
    this.#closed = true;
    for (const pool of this.#pools.values()) for (const connection of pool.all) this.#retire(pool, connection);
  }

  /** Open connections, for people. */
  count(): number {
    let count = 0;
    for (const { all } of this.#pools.values()) count += all.size;
    return count;
  }

  #retire(pool: Pool, connection: HttpConnection): void {
    connection.retired = true;
    const at = pool.idle.indexOf(connection);
    if (at < 0) return;
    pool.idle.splice(at, 1);
    connection.destroy();
  }

  #forget(pool: Pool, connection: HttpConnection): void {
    pool.all.delete(connection);
    const at = pool.idle.indexOf(connection);
    if (at >= 0) pool.idle.splice(at, 1);
    if (pool.all.size === 0) this.#pools.delete(pool.key);
  }
}

function poolKey(origin: string, endpoint: Endpoint): string {
  return `${origin} ${endpointKey(endpoint)}`;
}
