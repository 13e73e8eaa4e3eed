/**
 * etcd's v3 JSON gateway: calls, tokens, and members in turn. Keys and values are base64; 64-bit numbers are text, and
 * zero ones are left out.
 */
import type { EtcdRegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import type { HttpClient, HttpReply } from './http-client.js';
import { isFailure, printable, requestFailure, statusFailure } from './http-failure.js';
import { parseBody } from './json-brackets.js';
import { readSecret } from './secret-files.js';

export interface Header {
  readonly cluster_id?: string;
  readonly revision?: string;
}

export interface KeyValue {
  readonly key: string;
  readonly value?: string;
  readonly mod_revision?: string;
  readonly lease?: string;
}

export interface RangeReply {
  readonly header?: Header;
  readonly kvs?: readonly KeyValue[];
  readonly count?: string;
}

/** One message of a watch. */
export interface WatchMessage {
  readonly header?: Header;
  readonly created?: boolean;
  readonly canceled?: boolean;
  readonly compact_revision?: string;
  readonly cancel_reason?: string;
  readonly events?: readonly { readonly type?: string; readonly kv?: KeyValue }[];
}

/** Errors of a token that a new one mends: it expired, the server was restarted, users were changed. */
const TOKEN_FAULT = /invalid auth token|user name is empty|auth revision|revision of auth store/i;
const MAX_TOKEN_REPLY = 64 * 1024;

/** Calls that are answered at once. */
export class EtcdCalls {
  readonly #config: EtcdRegistryConfig;
  readonly #client: Pick<HttpClient, 'request'>;
  readonly #maxBody: number;
  #token: string | undefined;

  constructor(config: EtcdRegistryConfig, client: Pick<HttpClient, 'request'>, maxBody: number) {
    this.#config = config;
    this.#client = client;
    this.#maxBody = maxBody;
  }

  /** A call such as `kv/range` at one member. Never rejects. */
  call<T extends object>(
    endpoint: string,
    path: string,
    body: object,
    signal: AbortSignal,
    deadline: Ms,
  ): Promise<T | Failure> {
    return this.withToken(endpoint, signal, deadline, async (headers) => {
      const reply = await this.#client.request({
        url: `${endpoint}/v3/${path}`,
        method: 'POST',
        headers,
        body: JSON.stringify(body),
        signal,
        deadline,
        maxBody: this.#maxBody,
      });
      return reply.kind === 'reply' ? readReply<T>(reply, secretsOf(headers)) : reply;
    });
  }

  /** A range read at one member. Never rejects. */
  range(endpoint: string, body: object, signal: AbortSignal, deadline: Ms): Promise<RangeReply | Failure> {
    return this.call<RangeReply>(endpoint, 'kv/range', body, signal, deadline);
  }

  /** The next call asks for another one. */
  forgetToken(): void {
    this.#token = undefined;
  }

  /** Runs a call with the token at hand; one that is not good any more is replaced, once. */
  protected async withToken<T extends object>(
    endpoint: string,
    signal: AbortSignal,
    deadline: Ms,
    call: (headers: Record<string, string>) => Promise<T | Failure>,
  ): Promise<T | Failure> {
    const { username, passwordFile } = this.#config;
    const headers = { 'content-type': 'application/json' };
    if (username === undefined || passwordFile === undefined) return await call(headers);
    for (let renewed = false; ; renewed = true) {
      if (this.#token === undefined) {
        const token = await this.#authenticate(endpoint, username, passwordFile, signal, deadline);
        if (typeof token !== 'string') return token;
        this.#token = token;
        renewed = true;
      }
      const result = await call({ ...headers, authorization: this.#token });
      if (!isFailure(result)) return result;
      const stale = TOKEN_FAULT.test(result.reason) || result.reason.startsWith('status 401');
      if (stale) this.#token = undefined;
      if (!stale || renewed) return result;
    }
  }

  async #authenticate(
    endpoint: string,
    name: string,
    passwordFile: string,
    signal: AbortSignal,
    deadline: Ms,
  ): Promise<string | Failure> {
    const read = await readSecret(passwordFile);
    if ('kind' in read) return read;
    const reply = await this.#client.request({
      url: `${endpoint}/v3/auth/authenticate`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ name, password: read.secret }),
      signal,
      deadline,
      maxBody: MAX_TOKEN_REPLY,
    });
    if (reply.kind !== 'reply') return reply;
    const result = readReply<{ token?: unknown }>(reply, [read.secret]);
    if (isFailure(result)) return result;
    const { token } = result;
    if (typeof token === 'string' && /^[\x21-\x7e]+$/.test(token)) return token;
    return { kind: 'unbelievable', reason: 'no token in the answer to authenticate' };
  }
}

/** Calls, and watches. */
export class EtcdGateway extends EtcdCalls {
  readonly #streams: HttpClient;
  readonly #maxLine: number;

  constructor(config: EtcdRegistryConfig, client: HttpClient, maxBody: number) {
    super(config, client, maxBody);
    this.#streams = client;
    this.#maxLine = maxBody;
  }

  /** A watch at one member. Never rejects; its messages end with the watch, and throw when it breaks. */
  watch(
    endpoint: string,
    body: object,
    signal: AbortSignal,
    deadline: Ms,
  ): Promise<{ readonly messages: AsyncIterable<WatchMessage> } | Failure> {
    return this.withToken(endpoint, signal, deadline, async (headers) => {
      const stream = await this.#streams.stream({
        url: `${endpoint}/v3/watch`,
        method: 'POST',
        headers,
        body: JSON.stringify({ create_request: body }),
        signal,
        deadline,
        maxBody: this.#maxLine,
      });
      if (stream.kind === 'stream') return { messages: messagesOf(stream.lines, secretsOf(headers)) };
      return stream.kind === 'reply' ? replyFailure(stream, secretsOf(headers)) : stream;
    });
  }
}

/** Text as the gateway wants it. */
export function encode(text: string): string {
  return Buffer.from(text, 'utf8').toString('base64');
}

export function decode(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8');
}

/** The end of the range of all keys with a prefix. The prefix ends with a slash here, which has a successor. */
export function rangeEnd(prefix: string): string {
  return `${prefix.slice(0, -1)}${String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1)}`;
}

function readReply<T extends object>(reply: HttpReply, secrets: readonly string[]): T | Failure {
  if (reply.status !== 200) return replyFailure(reply, secrets);
  try {
    const value: unknown = parseBody(reply.body);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as T;
  } catch {
    // Said below.
  }
  return { kind: 'unbelievable', reason: 'the answer is not the JSON of etcd' };
}

/** A status with the words of etcd, where it has any. */
function replyFailure(reply: HttpReply, secrets: readonly string[]): Failure {
  let words = '';
  try {
    const { error, message } = parseBody(reply.body) as { error?: unknown; message?: unknown };
    if (typeof error === 'string') words = error;
    else if (typeof message === 'string') words = message;
  } catch {
    // Not etcd's own words: a proxy's page.
  }
  return statusFailure(reply.status, reply.header('retry-after'), printable(words, secrets));
}

/** What a reason may not repeat. */
function secretsOf({ authorization }: Readonly<Record<string, string>>): readonly string[] {
  return authorization === undefined ? [] : [authorization];
}

async function* messagesOf(lines: AsyncIterable<string>, secrets: readonly string[]): AsyncGenerator<WatchMessage> {
  try {
    for await (const line of lines) {
      const { result, error } = parseBody(line) as { result?: WatchMessage; error?: { message?: unknown } };
      if (error != null)
        throw new Error(`the watch failed: ${printable(String(error.message ?? 'no reason'), secrets)}`);
      if (typeof result !== 'object' || result === null) throw new Error('the watch is not that of etcd');
      // What a reason will be made of.
      const { cancel_reason: words } = result;
      yield typeof words === 'string' ? { ...result, cancel_reason: printable(words, secrets) } : result;
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw new Error('the watch is not that of etcd', { cause: error });
    throw new Error(requestFailure(error).reason, { cause: error });
  }
}
