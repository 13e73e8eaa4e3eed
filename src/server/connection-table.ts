/** The open TCP connections, the idlest first, in all and for each client: who goes when there are too many (RFC 9210 s.4). */
import type { TcpLimits } from './tcp-limits.js';

export interface Capped {
  readonly client: string;
}

export class ConnectionTable<T extends Capped> {
  readonly #limits: Pick<TcpLimits, 'maxConnections' | 'maxConnectionsPerClient'>;
  // Insertion order is the order of last activity.
  readonly #all = new Set<T>();
  readonly #byClient = new Map<string, Set<T>>();

  constructor(limits: Pick<TcpLimits, 'maxConnections' | 'maxConnectionsPerClient'>) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#all.size;
  }

  /** The connection that has to go before one of `client` is added, if any. */
  inTheWay(client: string): T | undefined {
    const own = this.#byClient.get(client);
    if (own && !isLoopback(client) && own.size >= this.#limits.maxConnectionsPerClient) return first(own);
    return this.#all.size >= this.#limits.maxConnections ? first(this.#all) : undefined;
  }

  add(connection: T): void {
    this.#all.add(connection);
    const own = this.#byClient.get(connection.client);
    if (own) own.add(connection);
    else this.#byClient.set(connection.client, new Set([connection]));
  }

  /** Moves it behind all others. */
  touch(connection: T): void {
    if (!this.#all.delete(connection)) return;
    this.#all.add(connection);
    const own = this.#byClient.get(connection.client)!;
    own.delete(connection);
    own.add(connection);
  }

  delete(connection: T): void {
    if (!this.#all.delete(connection)) return;
    const own = this.#byClient.get(connection.client)!;
    own.delete(connection);
    if (own.size === 0) this.#byClient.delete(connection.client);
  }

  /** The idlest first. */
  [Symbol.iterator](): Iterator<T> {
    return this.#all.values();
  }
}

const first = <T>(set: ReadonlySet<T>): T | undefined => set.values().next().value;

const isLoopback = (client: string) => client.startsWith('127.') || client === '::1';
