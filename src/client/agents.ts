/**
 * The client as agents of node:http and node:https: each new connection goes to an endpoint by priority and weight, and
 * to the next one when it cannot be made. A request is not repeated: its stream is the program's.
 */
import { type AgentOptions, Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent, type AgentOptions as SecureAgentOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type Endpoint, endpointKey } from './endpoint.js';
import { isService } from './hosts.js';
import type { Settings, TlsOptions } from './options.js';
import type { Services } from './services.js';
import { connectSocket } from './socket-run.js';

type Done = (error: Error | null, socket?: Duplex) => void;

/** What an agent is asked for, as node:http passes it. */
interface Asked extends TlsOptions {
  readonly host?: string;
  readonly port?: number;
}

/** Of a request's options, those that are TLS's. */
const TLS_OPTIONS = [
  ...['ca', 'cert', 'key', 'pfx', 'passphrase', 'rejectUnauthorized', 'checkServerIdentity', 'secureContext'],
  ...['ciphers', 'sigalgs', 'ecdhCurve', 'dhparam', 'crl', 'minVersion', 'maxVersion', 'honorCipherOrder'],
  ...['secureOptions', 'secureProtocol', 'sessionIdContext', 'ALPNProtocols'],
] as const;

/** What both agents have in common. */
class Connector {
  readonly #settings: Settings;
  readonly #services: Services;
  readonly #agent: HttpAgent;
  readonly #sockets = new WeakMap<Socket, { host: string; endpoint: string }>();
  readonly #current = new Map<string, ReadonlySet<string>>();

  constructor(agent: HttpAgent, settings: Settings, services: Services) {
    this.#agent = agent;
    this.#settings = settings;
    this.#services = services;
    services.watch((host, { endpoints, from }) => {
      if (from !== 'srv') return;
      this.#current.set(host, new Set(endpoints.map(endpointKey)));
      for (const socket of this.#free()) if (!this.isGood(socket)) socket.destroy();
    });
  }

  takes({ host }: Asked): boolean {
    return host !== undefined && isService(host, this.#settings.zone);
  }

  /** `usual`: the port that a request has when it names none. */
  connect(asked: Asked, usual: number, secure: boolean, done: Done): void {
    const host = asked.host!;
    const port = Number(asked.port ?? usual);
    const wanted = { host, port, fixedPort: port !== usual, signal: undefined };
    const tls = secure ? this.#tls(asked) : undefined;
    const chosen = (endpoint: Endpoint, socket: Socket): void => {
      this.#sockets.set(socket, { host, endpoint: endpointKey(endpoint) });
      socket.on('timeout', () => {
        // A free one that has run out is not meant.
        if (!this.#free().includes(socket)) this.#services.failed(wanted, host, endpoint, 'timeout');
      });
    };
    connectSocket({ ...wanted, tls }, this.#services, this.#settings, chosen).then(
      (socket) => done(null, socket),
      (error) => done(error as Error),
    );
  }

  /** Whether its endpoint is still one. */
  isGood(socket: Socket): boolean {
    const of = this.#sockets.get(socket);
    const current = of && this.#current.get(of.host);
    return current === undefined || current.has(of!.endpoint);
  }

  #free(): Socket[] {
    return Object.values(this.#agent.freeSockets).flatMap((sockets) => sockets ?? []);
  }

  /** A name that the program did not give is the one that is resolved. */
  #tls(asked: Asked): TlsOptions {
    const own = Object.fromEntries(
      TLS_OPTIONS.filter((key) => asked[key] !== undefined).map((key) => [key, asked[key]]),
    );
    const named = asked.servername && asked.servername !== asked.host ? { servername: asked.servername } : {};
    return { ...this.#settings.tls, ...own, ...named };
  }
}

/** Kept alive, and used in turn, so that no endpoint has all of the requests. */
const KEPT: AgentOptions = { keepAlive: true, scheduling: 'fifo' };
const HTTP_PORT = 80;
const HTTPS_PORT = 443;

type AgentClass = new (options: AgentOptions) => HttpAgent;

/** An agent of Node's whose connections to services are made here, and all others as ever. */
function serviceAgent(Base: AgentClass, usualPort: number, secure: boolean) {
  return class extends Base {
    readonly #connector: Connector;

    constructor(settings: Settings, services: Services) {
      super({ ...KEPT, ...(secure ? settings.tls : {}) } as AgentOptions);
      this.#connector = new Connector(this, settings, services);
    }

    override createConnection(options: never, done: Done): Duplex | null | undefined {
      if (!this.#connector.takes(options)) return super.createConnection(options, done as never);
      this.#connector.connect(options, usualPort, secure, done);
      return undefined;
    }

    override keepSocketAlive(socket: Duplex): boolean {
      return this.#connector.isGood(socket as Socket) && (super.keepSocketAlive(socket) as unknown as boolean);
    }
  };
}

/** For `http.request(url, { agent })`. */
export class ServiceHttpAgent extends serviceAgent(HttpAgent, HTTP_PORT, false) {}

/** For `https.request(url, { agent })`. */
export class ServiceHttpsAgent extends serviceAgent(HttpsAgent, HTTPS_PORT, true) {
  declare options: SecureAgentOptions;
}
