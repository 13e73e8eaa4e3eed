/** A client of services: one object that knows endpoints and their failures, in the three forms that programs use. */
import type { Agent as HttpAgent } from 'node:http';
import type { Agent as HttpsAgent } from 'node:https';
import type { Socket } from 'node:net';
import type { Dispatcher } from 'undici';
import type { Ms } from '../system/clock.js';
import { ServiceHttpAgent, ServiceHttpsAgent } from './agents.js';
import { ServiceDispatcher } from './dispatcher.js';
import { type Endpoint, showEndpoint } from './endpoint.js';
import { ClosedError } from './errors.js';
import { type ClientOptions, type Settings, settle, type TlsOptions } from './options.js';
import { type Counters, Services } from './services.js';
import { connectSocket } from './socket-run.js';

export interface ConnectOptions {
  /** Where there is no SRV record; 1 to 65535. */
  readonly port?: number;
  /** TLS: `true`, or its options. The certificate must have the service's name, unless `servername` says another. Default: plain TCP. */
  readonly tls?: boolean | TlsOptions;
  readonly signal?: AbortSignal;
}

/** How a client stands, for logs and people. */
export interface ClientStatus extends Readonly<Counters> {
  /** Open connections of the dispatcher. */
  readonly connections: number;
  readonly services: readonly {
    readonly host: string;
    /** As it was resolved, undefined when it never was. */
    readonly name: string | undefined;
    readonly endpoints: readonly Endpoint[];
    /** Milliseconds since a name server confirmed them. */
    readonly age: Ms | undefined;
    /** Why the last look-up brought nothing; undefined when it did. */
    readonly failure: string | undefined;
  }[];
  /** `ADDRESS:PORT`, and for how many milliseconds more. */
  readonly held: readonly { readonly endpoint: string; readonly for: Ms }[];
}

/** Knows where services are, and reaches them. One for a program is enough; it is made without opening anything. */
export class ServiceClient {
  readonly #settings: Settings;
  readonly #services: Services;
  #dispatcher: ServiceDispatcher | undefined;
  #httpAgent: ServiceHttpAgent | undefined;
  #httpsAgent: ServiceHttpsAgent | undefined;
  readonly #stop = new AbortController();

  /** @throws TypeError for an option that is none. */
  constructor(options: ClientOptions = {}) {
    this.#settings = settle(options);
    this.#services = new Services(this.#settings);
  }

  /**
   * A connection to an endpoint of `name`: by priority and weight, the next one when it is refused, unreachable or not
   * made within `connectTimeout`. The socket is connected, with TLS when that is asked for.
   * @throws UnreachableError, NotFoundError, NoAnswerError, ClosedError, or the reason of `signal`.
   */
  async connect(name: string, { port, tls, signal }: ConnectOptions = {}): Promise<Socket> {
    if (typeof name !== 'string' || name === '')
      throw new TypeError(`name: expected a name such as orders, not ${JSON.stringify(name)}`);
    if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536))
      throw new TypeError(`port: expected 1 to 65535, not ${String(port)}`);
    if (this.#stop.signal.aborted) throw new ClosedError();
    const secured = tls === true ? this.#settings.tls : tls ? { ...this.#settings.tls, ...tls } : undefined;
    const wanted = { host: name, port, fixedPort: false, tls: secured, signal };
    return connectSocket(wanted, this.#services, this.#settings);
  }

  /** For `undici.request(url, { dispatcher })`, `fetch`, `setGlobalDispatcher`. Requests are repeated elsewhere when that is safe. */
  get dispatcher(): Dispatcher {
    this.#dispatcher ??= new ServiceDispatcher(this.#settings, this.#services);
    return this.#dispatcher;
  }

  /**
   * Node's own `fetch`, through the dispatcher: `const { fetch } = client`. What could not be reached is the `cause` of
   * the TypeError that `fetch` fails with.
   */
  get fetch(): typeof globalThis.fetch {
    return (input, init) => globalThis.fetch(input, { ...init, dispatcher: this.dispatcher } as unknown as RequestInit);
  }

  /** For `http.request(url, { agent })`. Connections are made elsewhere when one fails; requests are not repeated. */
  get httpAgent(): HttpAgent {
    this.#httpAgent ??= new ServiceHttpAgent(this.#settings, this.#services);
    return this.#httpAgent;
  }

  /** For `https.request(url, { agent })`. */
  get httpsAgent(): HttpsAgent {
    this.#httpsAgent ??= new ServiceHttpsAgent(this.#settings, this.#services);
    return this.#httpsAgent;
  }

  /**
   * The endpoints of `name`, those held back too. Without SRV records the port is `port`.
   * @throws NotFoundError, NoAnswerError, TypeError when there is no port
   */
  async resolve(name: string, port?: number): Promise<readonly Endpoint[]> {
    return (await this.#services.locate({ host: name, port, fixedPort: false })).endpoints;
  }

  status(): ClientStatus {
    const { counters } = this.#services;
    return {
      ...counters,
      failures: { ...counters.failures },
      connections: this.#dispatcher?.connections ?? 0,
      services: this.#services.known().map(({ host, listing, age, failure }) => ({
        ...{ host, name: listing?.name, endpoints: listing?.endpoints ?? [], age, failure },
      })),
      held: [...this.#services.held()].map(([key, left]) => {
        const [address = '', port] = key.split(' ');
        return { endpoint: showEndpoint({ address, port: Number(port) }), for: left };
      }),
    };
  }

  /** Resolves when the requests under way are over and idle connections closed. Sockets of `connect` are the program's. */
  async close(): Promise<void> {
    this.#stop.abort(new ClosedError());
    await this.#dispatcher?.close();
    this.#httpAgent?.destroy();
    this.#httpsAgent?.destroy();
    this.#services.close();
  }
}
