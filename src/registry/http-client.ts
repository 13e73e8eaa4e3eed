/**
 * HTTP as registries are asked: one pool of connections a source, a deadline on every wait, bodies of bounded size, and
 * no more at once and a second than a server may be asked by all zones together.
 */
import { createHash } from 'node:crypto';
import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import type { Agent } from 'undici';
import type { TlsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Failure } from './adapter.js';
import { requestFailure } from './http-failure.js';
import type { Turn } from './request-gate.js';
import { readTls, type TlsMaterial } from './secret-files.js';
import { gateOf } from './source-gates.js';

export interface HttpRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal: AbortSignal;
  /** For the whole answer, or for its headers where it is a stream; from when it is its turn. */
  readonly deadline: Ms;
  /** Bytes of the body, or of one line of a stream. */
  readonly maxBody: number;
  readonly turn?: Turn;
}

export interface HttpReply {
  readonly kind: 'reply';
  readonly status: number;
  /** A header, when it is there once. */
  readonly header: (name: string) => string | undefined;
  readonly body: Buffer;
}

export interface HttpStream {
  readonly kind: 'stream';
  /** Ends with the stream; throws a failure's error when that broke. */
  readonly lines: AsyncIterable<string>;
}

const CONNECT_MS: Ms = 3_000;
/** Longer than between two liveness reads; a server that closes sooner says so. */
const KEEP_ALIVE_MS: Ms = 60_000;
/** Watch, list and liveness read of one server, and one to spare. */
const CONNECTIONS = 4;

export class HttpClient {
  readonly #files: TlsConfig;
  readonly #connections: number;
  readonly #lookup: LookupFunction | undefined;
  #agent: { readonly agent: Agent; readonly material: string } | undefined;
  #closed = false;

  /**
   * @param lookup of host names; without it the host's own resolver is asked
   * @param connections to one server at once, at most
   */
  constructor(files: TlsConfig, lookup?: LookupFunction, connections = CONNECTIONS) {
    this.#files = files;
    this.#connections = connections;
    this.#lookup = lookup;
  }

  close(): void {
    this.#closed = true;
    void this.#agent?.agent.destroy().catch(() => undefined);
  }

  /** The whole answer, whatever its status. Never rejects. */
  request(request: HttpRequest): Promise<HttpReply | Failure> {
    return gateOf(request.url).run(() => this.#whole(request), request.turn, request.signal);
  }

  /** An answer that goes on, line by line, until `signal`. One with another status than 200 is read whole. Never rejects. */
  stream(request: HttpRequest): Promise<HttpStream | HttpReply | Failure> {
    return gateOf(request.url).run(() => this.#lines(request), request.turn, request.signal);
  }

  async #whole(request: HttpRequest): Promise<HttpReply | Failure> {
    const limit = new Deadline(request.signal, request.deadline);
    try {
      const opened = await this.#open(request, limit.signal);
      if ('kind' in opened) return opened;
      const body = await readBody(opened.body, request.maxBody);
      if (body === undefined) {
        return { kind: 'unbelievable', reason: `more than limits.maxBody (${request.maxBody} bytes)` };
      }
      return { kind: 'reply', status: opened.statusCode, header: (name) => one(opened.headers[name]), body };
    } catch (error) {
      return limit.failure ?? requestFailure(error);
    } finally {
      limit.end();
    }
  }

  async #lines(request: HttpRequest): Promise<HttpStream | HttpReply | Failure> {
    const limit = new Deadline(request.signal, request.deadline);
    try {
      const opened = await this.#open(request, limit.signal);
      if ('kind' in opened) return opened;
      if (opened.statusCode === 200) return { kind: 'stream', lines: linesOf(opened.body, request.maxBody) };
      const body = (await readBody(opened.body, request.maxBody)) ?? Buffer.alloc(0);
      return { kind: 'reply', status: opened.statusCode, header: (name) => one(opened.headers[name]), body };
    } catch (error) {
      return limit.failure ?? requestFailure(error);
    } finally {
      limit.disarm();
    }
  }

  async #open({ url, method, headers, body }: HttpRequest, signal: AbortSignal) {
    const agent = await this.#ready();
    if ('kind' in agent) return agent;
    const { origin, pathname, search } = new URL(url);
    return await agent.request({
      origin,
      path: `${pathname}${search}`,
      method,
      headers,
      signal,
      // The deadline is for all of it: two clocks would tell the same fault in two ways.
      headersTimeout: 0,
      bodyTimeout: 0,
      ...(body === undefined ? {} : { body }),
    });
  }

  /** The pool. Changed certificates get a new one; what is under way on the old one goes on. */
  async #ready(): Promise<Agent | Failure> {
    const tls = await readTls(this.#files);
    if ('kind' in tls) return tls;
    const material = digest(tls);
    // Loaded with the first use: a host with nothing but files needs none of it.
    const { Agent } = await import('undici');
    if (this.#agent?.material !== material) {
      void this.#agent?.agent.close().catch(() => undefined);
      const agent = new Agent({
        connections: this.#connections,
        keepAliveTimeout: KEEP_ALIVE_MS,
        keepAliveMaxTimeout: KEEP_ALIVE_MS,
        connect: {
          ...tls,
          ...this.#name(),
          ...(this.#lookup === undefined ? {} : { lookup: this.#lookup }),
          timeout: CONNECT_MS,
          keepAlive: true,
          keepAliveInitialDelay: 30_000,
        },
      });
      this.#agent = { agent, material };
    }
    if (this.#closed) return { kind: 'unreachable', reason: 'closed' };
    return this.#agent!.agent;
  }

  #name(): { readonly servername?: string } {
    const { tlsName } = this.#files;
    return tlsName === undefined ? {} : { servername: tlsName };
  }
}

/** Ends a request when its time is over, or when nobody waits for it. */
class Deadline {
  readonly #abort = new AbortController();
  readonly #outer: AbortSignal;
  readonly #timer: NodeJS.Timeout;
  readonly #end = (): void => this.#abort.abort();
  failure: Failure | undefined;

  constructor(outer: AbortSignal, ms: Ms) {
    this.#outer = outer;
    this.#timer = setTimeout(() => {
      this.failure = { kind: 'unreachable', reason: `no whole answer within ${ms / 1000} s` };
      this.#abort.abort();
    }, ms);
    if (outer.aborted) this.#abort.abort();
    else outer.addEventListener('abort', this.#end, { once: true });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The answer goes on for as long as the outer signal lets it. */
  disarm(): void {
    clearTimeout(this.#timer);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#outer.removeEventListener('abort', this.#end);
  }
}

/** Undefined when it is larger than `most` bytes. */
async function readBody(body: Readable, most: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > most) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

async function* linesOf(body: Readable, most: number): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...parts, chunk.subarray(from, end)]).toString('utf8');
      parts = [];
      length = 0;
      from = end + 1;
      if (line.trim() !== '') yield line;
    }
    if (from === chunk.length) continue;
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > most) throw new Error(`a line of more than limits.maxBody (${most} bytes)`);
  }
}

function digest({ ca, cert, key }: TlsMaterial): string {
  const hash = createHash('sha256');
  for (const part of [ca, cert, key]) hash.update(`${part?.length ?? 'none'} `).update(part ?? '');
  return hash.digest('base64');
}

function one(value: string | string[] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
