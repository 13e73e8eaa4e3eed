/** Any HTTP server that gives its targets in the form of Prometheus HTTP service discovery, read every `interval`. */
import type { LookupFunction } from 'node:net';
import type { Cidr, FilterConfig, HttpRegistryConfig, LimitsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Adapter, Failure, Observation, PollContext } from './adapter.js';
import { CredentialFiles } from './credential-files.js';
import { HttpClient } from './http-client.js';
import { statusFailure } from './http-failure.js';
import { registryIdentity, shownUrl } from './identity.js';
import { SHARED_PACE } from './pace.js';
import { parseTargets, type TargetsJob } from './parse-targets.js';
import { readSecret } from './secret-files.js';

export interface HttpRegistryOptions {
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  /** Of other services nothing is read. */
  readonly filter?: FilterConfig | undefined;
  /** Of host names of the registry itself, see registry-hosts.ts. */
  readonly lookup?: LookupFunction | undefined;
}

/** A URL says nothing of which list it is: there is one for ever (R7). */
const EPOCH = 'http';
const MAX_DEADLINE_MS: Ms = 10_000;
/** Until it is the turn of a request, at a server that many zones have. */
const TURN_MS: Ms = 60_000;

export class HttpRegistry implements Adapter {
  readonly identity: string;
  readonly interval: Ms;
  readonly deadline: Ms;
  readonly pace = SHARED_PACE;
  readonly credentials: CredentialFiles;
  readonly #answerDeadline: Ms;
  readonly #config: HttpRegistryConfig;
  readonly #limits: LimitsConfig;
  readonly #targets: TargetsJob['options'];
  readonly #client: HttpClient;

  constructor(config: HttpRegistryConfig, { limits, allowAddresses, filter, lookup }: HttpRegistryOptions) {
    this.identity = registryIdentity(config);
    this.interval = config.interval;
    this.#answerDeadline = Math.min(MAX_DEADLINE_MS, Math.max(1000, config.interval));
    this.deadline = TURN_MS + this.#answerDeadline;
    this.credentials = new CredentialFiles(config.tokenFile ?? config.passwordFile, config);
    this.#config = config;
    this.#limits = limits;
    this.#targets = {
      serviceLabel: config.serviceLabel,
      port: config.port,
      allowAddresses,
      where: shownUrl(config.url),
      limits,
      filter,
    };
    this.#client = new HttpClient(config, lookup);
  }

  close(): void {
    this.#client.close();
  }

  async poll({ signal }: PollContext): Promise<Observation | Failure> {
    const result = await this.#read(signal);
    return 'reason' in result ? { ...result, reason: `${shownUrl(this.#config.url)}: ${result.reason}` } : result;
  }

  async #read(signal: AbortSignal): Promise<Observation | Failure> {
    const { url } = this.#config;
    const credentials = await this.#credentials();
    if (credentials !== undefined && 'kind' in credentials) return credentials;
    const reply = await this.#client.request({
      url,
      method: 'GET',
      headers: {
        accept: 'application/json',
        'x-prometheus-refresh-interval-seconds': String(this.interval / 1000),
        ...credentials,
      },
      signal,
      deadline: this.#answerDeadline,
      maxBody: this.#limits.maxBody,
    });
    if (reply.kind !== 'reply') return reply;
    if (reply.status !== 200) return statusFailure(reply.status, reply.header('retry-after'));
    const type = reply.header('content-type') ?? '';
    if (!/^application\/json\s*(?:;|$)/i.test(type)) {
      return { kind: 'unbelievable', reason: 'the content type is not application/json' };
    }
    const contents = await parseTargets({ bytes: reply.body, options: this.#targets });
    if (typeof contents === 'string') return { kind: 'unbelievable', reason: contents };
    return { kind: 'list', epoch: EPOCH, ...contents, releases: [] };
  }

  /** A bearer token, or a name with a password. */
  async #credentials(): Promise<{ readonly authorization: string } | Failure | undefined> {
    const { tokenFile, username, passwordFile } = this.#config;
    const file = tokenFile ?? passwordFile;
    if (file === undefined) return undefined;
    const read = await readSecret(file);
    if ('kind' in read) return read;
    if (tokenFile !== undefined) return { authorization: `Bearer ${read.secret}` };
    return { authorization: `Basic ${Buffer.from(`${username}:${read.secret}`).toString('base64')}` };
  }
}
