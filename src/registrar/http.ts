/**
 * HTTP as a registrar asks: rarely, and in a process that must stay small. One connection a request, so that none is
 * ever found half open, and Node's own client, which costs no memory that is not there anyway.
 */
import { type ClientRequest, type IncomingMessage, type RequestOptions, request as requestPlain } from 'node:http';
import type { TlsConfig } from '../config/types.js';
import type { Failure } from '../registry/adapter.js';
import type { HttpReply, HttpRequest } from '../registry/http-client.js';
import { requestFailure } from '../registry/http-failure.js';
import { readTls } from '../registry/secret-files.js';

export class PlainHttp {
  readonly #files: TlsConfig;

  constructor(files: TlsConfig) {
    this.#files = files;
  }

  /** The whole answer, whatever its status. Never rejects. */
  async request(asked: HttpRequest): Promise<HttpReply | Failure> {
    let send = requestPlain;
    let options: RequestOptions = { agent: false };
    if (asked.url.startsWith('https:')) {
      const tls = await readTls(this.#files);
      if ('kind' in tls) return tls;
      const { request } = await import('node:https');
      send = request;
      options = { agent: false, ...tls };
    }
    return await exchange(asked, (take) => send(asked.url, { ...options, method: asked.method }, take));
  }
}

function exchange(
  { headers, body, signal, deadline, maxBody }: HttpRequest,
  send: (take: (reply: IncomingMessage) => void) => ClientRequest,
): Promise<HttpReply | Failure> {
  return new Promise((resolve) => {
    let request: ClientRequest | undefined;
    const end = (result: HttpReply | Failure): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      resolve(result);
      request?.destroy();
    };
    const late: Failure = { kind: 'unreachable', reason: `no whole answer within ${deadline / 1000} s` };
    const timer = setTimeout(() => end(late), deadline);
    const abort = (): void => end({ kind: 'unreachable', reason: 'not waited for' });
    signal.addEventListener('abort', abort);
    if (signal.aborted) return abort();
    const fail = (error: unknown): void => end(requestFailure(error));
    try {
      request = send((reply) => {
        const chunks: Buffer[] = [];
        let length = 0;
        reply.on('error', fail);
        reply.on('data', (chunk: Buffer) => {
          chunks.push(chunk);
          length += chunk.length;
          if (length > maxBody) end({ kind: 'unbelievable', reason: `an answer of more than ${maxBody} bytes` });
        });
        reply.on('end', () => {
          if (!reply.complete) return;
          const header = (name: string): string | undefined => {
            const value = reply.headers[name];
            return typeof value === 'string' ? value : undefined;
          };
          end({ kind: 'reply', status: reply.statusCode ?? 0, header, body: Buffer.concat(chunks, length) });
        });
        reply.on('close', () => end({ kind: 'unreachable', reason: 'the answer was cut' }));
      });
      request.on('error', fail);
      for (const [name, value] of Object.entries(headers)) request.setHeader(name, value);
      request.end(body);
    } catch (error) {
      fail(error);
    }
  });
}
