/** Consul's HTTP interface: reads with the headers that tell what an answer is worth. */
import type { ConsulRegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import type { HttpClient, HttpReply } from './http-client.js';
import { isFailure, printable, statusFailure } from './http-failure.js';
import { parseBody } from './json-brackets.js';
import type { Turn } from './request-gate.js';
import { readSecret } from './secret-files.js';

export interface ConsulReply {
  /** Undefined where there is nothing (404). */
  readonly body: unknown;
  /** What the body was made of. */
  readonly bytes: Buffer;
  /** `X-Consul-Index`: 1 or more. Undefined where there is none: the answer came from something else than Consul. */
  readonly index: bigint | undefined;
  /** False: the server that answered has no leader. */
  readonly knownLeader: boolean;
  /** How long ago that server heard of its leader. */
  readonly lastContact: Ms;
  /** R6: the token may not see all of it. */
  readonly filtered: boolean;
  /** How long the answer took, and then to parse it. */
  readonly took: Ms;
  readonly cost: Ms;
}

export interface ConsulQuery {
  readonly dc?: string | undefined;
  /** Of an index that was seen: the answer waits for a higher one, for `wait` at most. */
  readonly index?: bigint;
  readonly wait?: Ms;
  /** Any server may answer, with or without a leader. */
  readonly stale?: boolean;
  readonly more?: Readonly<Record<string, string>>;
  readonly turn?: Turn;
  /** The body is not parsed. */
  readonly raw?: boolean;
}

/** Servers add up to a sixteenth to a wait. */
const WAIT_FACTOR = 17 / 16;

export class ConsulClient {
  readonly #config: ConsulRegistryConfig;
  readonly #client: HttpClient;
  readonly #maxBody: number;

  constructor(config: ConsulRegistryConfig, client: HttpClient, maxBody: number) {
    this.#config = config;
    this.#client = client;
    this.#maxBody = maxBody;
  }

  /**
   * One read below `/v1/`. Never rejects.
   * @param deadline for the answer, or beyond the wait of a query that waits
   */
  async get(
    origin: string,
    path: string,
    query: ConsulQuery,
    signal: AbortSignal,
    deadline: Ms,
  ): Promise<ConsulReply | Failure> {
    const headers = await this.#headers();
    if (isFailure(headers)) return headers;
    const began = performance.now();
    const reply = await this.#client.request({
      url: `${origin}/v1/${path}${this.#search(query)}`,
      method: 'GET',
      headers,
      signal,
      deadline: query.wait === undefined ? deadline : query.wait * WAIT_FACTOR + deadline,
      maxBody: this.#maxBody,
      turn: query.turn ?? (query.wait === undefined ? 'read' : 'wait'),
    });
    if (reply.kind !== 'reply') return reply;
    return readReply(reply, performance.now() - began, Object.values(headers), query.raw);
  }

  /** The token is read again for every request. */
  async #headers(): Promise<Record<string, string> | Failure> {
    const { tokenFile } = this.#config;
    if (tokenFile === undefined) return {};
    const read = await readSecret(tokenFile);
    return isFailure(read) ? read : { 'x-consul-token': read.secret };
  }

  #search({ dc, index, wait, stale, more }: ConsulQuery): string {
    const { namespace, partition } = this.#config;
    const params = new URLSearchParams(more);
    if (dc !== undefined) params.set('dc', dc);
    if (namespace !== undefined) params.set('ns', namespace);
    if (partition !== undefined) params.set('partition', partition);
    if (index !== undefined) params.set('index', String(index));
    if (wait !== undefined) params.set('wait', `${wait}ms`);
    // Without a value: Consul looks for the key alone.
    const text = params.toString();
    return `?${stale ? 'stale' : ''}${stale && text !== '' ? '&' : ''}${text}`;
  }
}

function readReply(reply: HttpReply, took: Ms, secrets: readonly string[], raw = false): ConsulReply | Failure {
  const { status, header } = reply;
  if (status !== 200 && (status !== 404 || header('x-consul-index') === undefined)) {
    const failure = statusFailure(status, header('retry-after'));
    const words = wordsOf(reply, secrets);
    return words === '' ? failure : { ...failure, reason: `${failure.reason}: ${words}` };
  }
  const began = performance.now();
  let body: unknown;
  try {
    body = status === 404 || raw ? undefined : parseBody(reply.body);
  } catch {
    return { kind: 'unbelievable', reason: 'the answer is not JSON' };
  }
  const lastContact = Number(header('x-consul-lastcontact') ?? 0);
  return {
    body,
    bytes: reply.body,
    index: readIndex(header('x-consul-index')),
    knownLeader: header('x-consul-knownleader') !== 'false',
    lastContact: Number.isFinite(lastContact) ? lastContact : 0,
    filtered: header('x-consul-results-filtered-by-acls') === 'true',
    took,
    cost: performance.now() - began,
  };
}

/** An index of 0 would make a query that waits return at once for ever. */
function readIndex(text: string | undefined): bigint | undefined {
  if (text === undefined || !/^\d{1,20}$/.test(text)) return undefined;
  const index = BigInt(text);
  return index === 0n ? 1n : index;
}

/** What Consul says of an error is a line of text; a page of a proxy is none. Names of tokens are in it at times. */
function wordsOf(reply: HttpReply, secrets: readonly string[]): string {
  const text = reply.body.toString('utf8').trim();
  if (text === '' || /^[<{[]/.test(text)) return '';
  return printable(text.replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi, '...'), secrets).slice(0, 160);
}
