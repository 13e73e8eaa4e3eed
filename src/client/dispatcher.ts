/** The client as a dispatcher of undici: for `fetch`, `request`, and all else of undici. */
import { Agent, Dispatcher } from 'undici';
import { endpointKey } from './endpoint.js';
import { ClosedError } from './errors.js';
import { isService } from './hosts.js';
import { tlsFor } from './open-socket.js';
import type { Settings } from './options.js';
import { Pools } from './pools.js';
import { type Destination, RequestRun } from './request-run.js';
import { RetryBudget } from './retry-budget.js';
import { now, type Services } from './services.js';

type Done = (error: Error | null, data: null) => void;

/**
 * Sends each request to an endpoint of the service that the URL's host names, and elsewhere when that fails:
 * `fetch('http://orders/', { dispatcher })`, or `setGlobalDispatcher(dispatcher)`. Hosts that are no services go to
 * `fallback`. Redirects, interceptors and so on are as with any dispatcher. HTTP/1.1.
 */
export class ServiceDispatcher extends Dispatcher {
  readonly #settings: Settings;
  readonly #services: Services;
  readonly #pools: Pools;
  readonly #budget = new RetryBudget(now());
  readonly #runs = new Set<RequestRun>();
  #fallback: Dispatcher | undefined;
  #waiting: (() => void)[] = [];
  #closed: Error | undefined;

  constructor(settings: Settings, services: Services) {
    super();
    this.#settings = settings;
    this.#services = services;
    this.#pools = new Pools(settings.connectTimeout);
    this.#fallback = settings.fallback;
    services.watch((host, { endpoints, from }) => {
      // Addresses have the port that the URL has.
      if (from === 'srv') this.#pools.retire(host, new Set(endpoints.map(endpointKey)));
    });
  }

  /** What fails is told to the handler; an options object that is none throws. */
  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    if (typeof handler !== 'object' || handler === null) throw new TypeError('handler must be an object');
    if (typeof options !== 'object' || options === null) throw new TypeError('options must be an object');
    const url = new URL(String(options.origin));
    if (!isService(url.hostname, this.#settings.zone) || !['http:', 'https:'].includes(url.protocol)) {
      this.#fallback ??= new Agent();
      return this.#fallback.dispatch(options, handler);
    }
    const { services, context } = { services: this.#services, context: this.#context() };
    const run: RequestRun = new RequestRun(context, this.#destination(url), options, handler, (failed) => {
      if (failed) services.counters.failed++;
      this.#runs.delete(run);
      if (this.#runs.size === 0) for (const done of this.#waiting.splice(0)) done();
    });
    this.#runs.add(run);
    if (this.#closed !== undefined) {
      run.destroy(this.#closed);
      return false;
    }
    services.counters.requests++;
    run.start();
    return true;
  }

  /** Resolves when the requests under way are over. Later ones fail. `fallback` that was given stays open. */
  override close(): Promise<void>;
  override close(callback: () => void): void;
  override close(callback?: Done | (() => void)): Promise<void> | undefined {
    return settled(this.#close(), callback as Done | undefined);
  }

  /** The requests under way fail with `error`. */
  override destroy(): Promise<void>;
  override destroy(error: Error | null): Promise<void>;
  override destroy(callback: () => void): void;
  override destroy(error: Error | null, callback: () => void): void;
  override destroy(error?: Error | null | (() => void), callback?: () => void): Promise<void> | undefined {
    const reason = error instanceof Error ? error : new ClosedError();
    const done = typeof error === 'function' ? error : callback;
    this.#closed ??= reason;
    for (const run of [...this.#runs]) run.destroy(reason);
    return settled(this.#close(), done as Done | undefined);
  }

  /** Open connections to services, for people. */
  get connections(): number {
    return this.#pools.count();
  }

  async #close(): Promise<void> {
    this.#closed ??= new ClosedError();
    if (this.#runs.size > 0) await new Promise<void>((done) => this.#waiting.push(done));
    this.#pools.close();
    if (this.#fallback !== this.#settings.fallback) await this.#fallback?.close().catch(() => {});
  }

  #context() {
    return { settings: this.#settings, services: this.#services, pools: this.#pools, budget: this.#budget };
  }

  #destination({ origin, hostname, protocol, port }: URL): Destination {
    const secure = protocol === 'https:';
    const { tls } = this.#settings;
    return {
      origin,
      host: hostname,
      port: port === '' ? (secure ? 443 : 80) : Number(port),
      fixedPort: port !== '',
      tls: secure ? (name) => tlsFor(name, tls) : undefined,
    };
  }
}

function settled(work: Promise<void>, callback: Done | undefined): Promise<void> | undefined {
  if (callback === undefined) return work;
  work.then(
    () => callback(null, null),
    (error) => callback(error, null),
  );
  return undefined;
}
