/** What a client knows of services: where they are, which endpoints failed, whom to try next. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Ms } from '../system/clock.js';
import { Directory, type KnownService, type Listing } from './directory.js';
import { type Endpoint, endpointKey, type Outcome } from './endpoint.js';
import type { Failure } from './errors.js';
import { findService } from './find.js';
import { Holds } from './holds.js';
import type { Settings } from './options.js';
import { nextEndpoint } from './order.js';
import { ReportSender } from './reports.js';
import { readResolvConf } from './resolv-conf.js';

/** A host of a program's, and the port that it wrote or that is usual. */
export interface Wanted {
  readonly host: string;
  readonly port: number | undefined;
  /** The program wrote the port itself: there is no SRV record to ask for. */
  readonly fixedPort: boolean;
}

export interface Located {
  /** Of the records, without trailing dot. */
  readonly name: string;
  readonly endpoints: readonly Endpoint[];
}

/** What happened so far, since the client was made. */
export interface Counters {
  /** Requests and connections that a program asked for. */
  requests: number;
  /** Tries that they took. */
  tries: number;
  /** Second copies of requests without an answer. */
  hedges: number;
  /** Of the requests and connections, those that ended with an error. An abort by the program is none. */
  failed: number;
  /** Failed tries. */
  failures: Record<Failure, number>;
}

export class Services {
  readonly counters: Counters = {
    ...{ requests: 0, tries: 0, hedges: 0, failed: 0 },
    failures: { refused: 0, reset: 0, timeout: 0, unreachable: 0, other: 0 },
  };
  readonly #directory: Directory;
  readonly #holds: Holds;
  readonly #reports: ReportSender | undefined;
  /** By endpoint, and by host of the programs. */
  readonly #answeredAt = new Map<string, Ms>();
  readonly #watchers: ((host: string, listing: Listing) => void)[] = [];

  constructor(settings: Settings) {
    this.#holds = new Holds(settings.hold, Math.random);
    this.#reports = settings.reports === false ? undefined : new ReportSender(settings.reports);
    this.#directory = new Directory({
      find: (host, addressesOnly) => find(host, addressesOnly, settings),
      now,
      wait: async (ms) => {
        await sleep(ms);
      },
      changed: (host, listing) => {
        for (const watcher of this.#watchers) watcher(host, listing);
      },
    });
  }

  /** Told of every list that changes. */
  watch(watcher: (host: string, listing: Listing) => void): void {
    this.#watchers.push(watcher);
  }

  /** @throws NotFoundError, NoAnswerError, TypeError when there is neither an SRV record nor a port. */
  async locate({ host, port, fixedPort }: Wanted): Promise<Located> {
    const { name, from, endpoints } = await this.#directory.lookup(host, fixedPort);
    if (from === 'srv') return { name, endpoints };
    if (port === undefined) throw new TypeError(`${host} has addresses but no SRV record: give a port`);
    return { name, endpoints: endpoints.map((endpoint) => ({ ...endpoint, port })) };
  }

  /** The next to try, undefined when all were. */
  next({ endpoints }: Located, tried: ReadonlySet<string>): Endpoint | undefined {
    const at = now();
    return nextEndpoint(endpoints, tried, (key) => this.#holds.isHeld(key, at), Math.random);
  }

  /** It is tried now. Returns what has to be called if the try is given up before it has an end. */
  trying(endpoint: Endpoint): () => void {
    this.counters.tries++;
    const key = endpointKey(endpoint);
    const trial = this.#holds.tried(key, now());
    return () => {
      if (trial) this.#holds.abandoned(key);
    };
  }

  /** An endpoint's own failure: it is held back, and reported. */
  failed(wanted: Wanted, name: string, endpoint: Endpoint, failure: Failure): void {
    this.holdBack(wanted, endpoint);
    this.#reports?.report({ service: name, address: endpoint.address, port: endpoint.port, failure });
  }

  /** Without a report: it is slow, perhaps no more than that. */
  holdBack({ host, fixedPort }: Wanted, endpoint: Endpoint): void {
    this.#holds.failed(endpointKey(endpoint), now());
    this.#directory.doubt(host, fixedPort);
  }

  /** A connection was made. What is held back for its silence stays so. */
  connected(endpoint: Endpoint): void {
    this.#holds.reached(endpointKey(endpoint), now());
  }

  /** It has done what it is for. */
  answered({ host }: Wanted, endpoint: Endpoint): void {
    const key = endpointKey(endpoint);
    this.#holds.succeeded(key);
    for (const one of [key, host]) {
      this.#answeredAt.delete(one);
      this.#answeredAt.set(one, now());
    }
    while (this.#answeredAt.size > MAX_ANSWERED) this.#answeredAt.delete(this.#answeredAt.keys().next().value!);
  }

  /** Whether it has answered anybody since `at` (of `now`). */
  answeredSince(endpoint: Endpoint, at: Ms): boolean {
    return (this.#answeredAt.get(endpointKey(endpoint)) ?? Number.NEGATIVE_INFINITY) >= at;
  }

  /** Whether it alone is silent: others of its service have answered since `at`. */
  isAlone({ host }: Wanted, endpoint: Endpoint, at: Ms): boolean {
    return !this.answeredSince(endpoint, at) && (this.#answeredAt.get(host) ?? Number.NEGATIVE_INFINITY) >= at;
  }

  known(): KnownService[] {
    return this.#directory.known();
  }

  held(): Map<string, Ms> {
    return this.#holds.list(now());
  }

  /** Reports that wait are sent. */
  close(): void {
    this.#reports?.close();
  }
}

const MAX_ANSWERED = 10_000;

/** When all endpoints were tried: the pauses before they are tried again. One that starts anew is back by then. */
export const ROUND_PAUSES_MS: readonly Ms[] = [100, 200, 400];

export function now(): Ms {
  return performance.now();
}

async function find(host: string, addressesOnly: boolean, settings: Settings): Promise<Outcome> {
  const { zone, portName, nameservers } = settings;
  try {
    const conf = await readResolvConf();
    return await findService(host, addressesOnly, {
      zone,
      portName,
      conf: nameservers === undefined ? conf : { ...conf, nameservers },
    });
  } catch (error) {
    // A fault of ours must not end the program, nor take a list away.
    return { kind: 'failed', reason: (error as Error).message };
  }
}
