/**
 * A Consul agent: a service with a TTL check, which is critical without a sign of life within the TTL, and is removed by
 * Consul itself some time later. A drain is the agent's maintenance mode for the service.
 */
import type { ConsulRegistryConfig } from '../config/types.js';
import type { Failure } from '../registry/adapter.js';
import type { HttpReply } from '../registry/http-client.js';
import { printable, statusFailure } from '../registry/http-failure.js';
import { readSecret } from '../registry/secret-files.js';
import type { Ms } from '../system/clock.js';
import { type AgentService, DRAIN_REASON, definitionOf, isAsWanted, metaOwner } from './consul-service.js';
import type { Entry } from './entry.js';
import { PlainHttp } from './http.js';
import { isYounger } from './owner.js';
import type { Gone, Kept, Target } from './target.js';

const CALL_MS: Ms = 3_000;
const MAX_BODY = 1024 * 1024;
/** How long after its TTL Consul removes it; Consul itself takes no less than a minute. */
const LEAST_REMOVAL_MS: Ms = 60_000;
const REMOVAL_TTLS = 10;

export interface ConsulTargetOptions {
  readonly id: string;
  readonly ttl: Ms;
  readonly owner: string;
}

export class ConsulTarget implements Target {
  readonly #http: PlainHttp;
  readonly #place: ConsulRegistryConfig;
  readonly #options: ConsulTargetOptions;
  readonly #id: string;
  /** As it was sent last: no reason may repeat it. */
  #token: string | undefined;

  constructor(place: ConsulRegistryConfig, options: ConsulTargetOptions) {
    this.#http = new PlainHttp(place);
    this.#place = place;
    this.#options = options;
    this.#id = encodeURIComponent(options.id);
  }

  async keep(entry: Entry, signal: AbortSignal): Promise<Kept | Failure> {
    const found = await this.#find(signal);
    if (found !== undefined && 'reason' in found) return found;
    const { owner } = this.#options;
    const theirs = metaOwner(found);
    // One that shows no life has given the id up, however young it is.
    if (found !== undefined && isYounger(theirs, owner) && !found.expired) return { kind: 'taken', by: String(theirs) };
    let wrote = false;
    if (found === undefined || !isAsWanted(found, entry, owner) || !(await this.#beat(entry, signal))) {
      const failed = await this.#register(entry, signal);
      if (failed !== undefined) return failed;
      wrote = true;
    }
    const draining = entry.state === 'draining';
    // Maintenance that somebody else asked for is left alone; a full registration keeps it as it is.
    if (draining !== (found?.draining ?? false) && !(draining && found?.maintenance)) {
      const failed = await this.#maintain(draining, signal);
      if (failed !== undefined) return failed;
      wrote = true;
    }
    return { kind: 'kept', wrote };
  }

  async remove(signal: AbortSignal): Promise<Gone | Failure> {
    const found = await this.#find(signal);
    if (found === undefined) return { kind: 'gone' };
    if ('reason' in found) return found;
    if (metaOwner(found) !== this.#options.owner) return { kind: 'gone' };
    const reply = await this.#call('PUT', `agent/service/deregister/${this.#id}`, undefined, signal);
    if (reply.kind !== 'reply') return reply;
    return reply.status === 200 || isUnknown(reply) ? { kind: 'gone' } : this.#failure(reply);
  }

  /** The service as the agent has it, with its checks; undefined when it knows none of this id. */
  async #find(signal: AbortSignal): Promise<AgentService | Failure | undefined> {
    const reply = await this.#call('GET', `agent/health/service/id/${this.#id}?format=json`, undefined, signal);
    if (reply.kind !== 'reply') return reply;
    // The status of the answer is that of the checks: 429 warning, 503 critical.
    if (![200, 429, 503].includes(reply.status)) return isUnknown(reply) ? undefined : this.#failure(reply);
    return readService(reply) ?? this.#failure(reply);
  }

  async #register(entry: Entry, signal: AbortSignal): Promise<Failure | undefined> {
    const { id, ttl, owner } = this.#options;
    const removal = `${Math.max(LEAST_REMOVAL_MS, REMOVAL_TTLS * ttl)}ms`;
    const body = definitionOf(id, entry, owner, `${ttl}ms`, removal);
    const reply = await this.#call('PUT', 'agent/service/register', body, signal);
    if (reply.kind !== 'reply') return reply;
    return reply.status === 200 ? undefined : this.#failure(reply);
  }

  /**
   * A sign of life, with the state. Whatever the agent does not take is no reason to go on with signs of life, but one
   * to register again.
   */
  async #beat(entry: Entry, signal: AbortSignal): Promise<boolean> {
    const Status = entry.state === 'critical' ? 'critical' : 'passing';
    const path = `agent/check/update/${encodeURIComponent(`service:${this.#options.id}`)}`;
    const reply = await this.#call('PUT', path, { Status, Output: outputOf(entry) }, signal);
    return reply.kind === 'reply' && reply.status === 200;
  }

  async #maintain(enable: boolean, signal: AbortSignal): Promise<Failure | undefined> {
    const query = enable ? `enable=true&reason=${encodeURIComponent(DRAIN_REASON)}` : 'enable=false';
    const reply = await this.#call('PUT', `agent/service/maintenance/${this.#id}?${query}`, undefined, signal);
    if (reply.kind !== 'reply') return reply;
    return reply.status === 200 ? undefined : this.#failure(reply);
  }

  #failure({ status, header, body }: HttpReply): Failure {
    const secrets = this.#token === undefined ? [] : [this.#token];
    return statusFailure(status, header('retry-after'), printable(body.toString('utf8'), secrets));
  }

  async #call(
    method: 'GET' | 'PUT',
    path: string,
    body: object | undefined,
    signal: AbortSignal,
  ): Promise<HttpReply | Failure> {
    // One agent, since each is a node of its own: at another one it would be registered twice.
    const { addresses, tokenFile, namespace, partition } = this.#place;
    const headers: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    if (tokenFile !== undefined) {
      const read = await readSecret(tokenFile);
      if ('kind' in read) return read;
      headers['x-consul-token'] = read.secret;
      this.#token = read.secret;
    }
    const url = new URL(`/v1/${path}`, addresses[0]);
    if (namespace !== undefined) url.searchParams.set('ns', namespace);
    if (partition !== undefined) url.searchParams.set('partition', partition);
    return await this.#http.request({
      url: url.href,
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal,
      deadline: CALL_MS,
      maxBody: MAX_BODY,
    });
  }
}

function outputOf({ state }: Entry): string {
  return state === 'critical' ? 'the local check of holdfast fails' : 'kept by holdfast';
}

/** 404, and the 500 of agents before they had it. */
function isUnknown({ status, body }: HttpReply): boolean {
  return status === 404 || (status === 500 && /unknown service/i.test(body.toString('utf8')));
}

function readService(reply: HttpReply): AgentService | undefined {
  try {
    const value = JSON.parse(reply.body.toString('utf8')) as RawHealth | null;
    return value === null || typeof value.Service !== 'object' || value.Service === null ? undefined : toService(value);
  } catch {
    return undefined;
  }
}

interface RawHealth {
  readonly Service?: AgentService['service'] | null;
  readonly Checks?: readonly { CheckID?: string; Status?: string; Output?: string; Notes?: string }[] | null;
}

function toService({ Service, Checks }: RawHealth): AgentService {
  const checks = Checks ?? [];
  const maintenance = checks.find(({ CheckID }) => CheckID?.startsWith('_service_maintenance:'));
  const ttl = checks.find(({ CheckID }) => CheckID?.startsWith('service:'));
  return {
    service: Service!,
    checked: ttl !== undefined,
    expired: ttl?.Status === 'critical' && /TTL expired/i.test(ttl.Output ?? ''),
    maintenance: maintenance !== undefined,
    draining: maintenance?.Notes === DRAIN_REASON,
  };
}
