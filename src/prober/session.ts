/** One connection to the resolver: its two streams of lines (feed.ts). The end of either is the end of both. */
import { randomUUID } from 'node:crypto';
import { type ClientRequest, request } from 'node:http';
import { type FromProber, MAX_LINE_BYTES, SESSION_HEADER, type ToProber } from './feed.js';
import { LineSplitter } from './lines.js';
import { readToProber } from './messages.js';

export interface SessionEvents {
  /** Both streams are up. */
  readonly onOpen: () => void;
  readonly onMessage: (message: ToProber) => void;
  /** Something of what came makes no sense, for people: the resolver may be of another version. */
  readonly onOdd: (what: string) => void;
  /** The resolver reads again. */
  readonly onWritable: () => void;
  /** Once, with why. Nothing comes after it. */
  readonly onEnd: (reason: string) => void;
}

export class ResolverSession {
  readonly #events: SessionEvents;
  readonly #id = randomUUID();
  readonly #targets: ClientRequest;
  #verdicts: ClientRequest | undefined;
  #open = false;
  #ended = false;
  #full = false;

  constructor(
    readonly socketPath: string,
    events: SessionEvents,
  ) {
    this.#events = events;
    this.#targets = this.#request('GET', '/v1/targets');
    this.#targets.on('response', (response) => {
      if (response.statusCode !== 200) {
        this.#end(`the resolver answered ${response.statusCode} to a request for targets`);
        return;
      }
      const splitter = new LineSplitter(MAX_LINE_BYTES);
      response.on('data', (chunk: Buffer) => {
        for (const line of splitter.push(chunk)) this.#line(line);
        if (splitter.tooLong > 0) this.#events.onOdd(`a line of more than ${MAX_LINE_BYTES} bytes`);
        splitter.tooLong = 0;
      });
      response.on('error', (error) => this.#end(error.message));
      response.on('end', () => this.#end('the resolver closed the connection'));
      this.#openVerdicts();
    });
    this.#targets.end();
  }

  /** False before both streams are up, and while the resolver does not read: then wait for `onWritable`. */
  get writable(): boolean {
    return this.#open && !this.#ended && !this.#full;
  }

  /** Dropped when not `writable`. */
  send(message: Exclude<FromProber, { op: 'results' }>): void {
    this.#write(JSON.stringify(message));
  }

  /** The same, of results that are JSON already. */
  sendResults(results: readonly string[]): void {
    this.#write(`{"op":"results","results":[${results.join()}]}`);
  }

  close(): void {
    this.#end('closed');
  }

  #write(line: string): void {
    if (this.writable) this.#full = this.#verdicts?.write(`${line}\n`) === false;
  }

  #openVerdicts(): void {
    const verdicts = this.#request('POST', '/v1/verdicts');
    this.#verdicts = verdicts;
    verdicts.on('response', (response) => {
      response.resume();
      response.on('error', (error) => this.#end(error.message));
      response.on('end', () => this.#end('the resolver closed the connection'));
      if (response.statusCode !== 200) {
        this.#end(`the resolver answered ${response.statusCode} to results`);
        return;
      }
      if (this.#ended) return;
      this.#open = true;
      this.#events.onOpen();
    });
    verdicts.on('drain', () => {
      this.#full = false;
      if (!this.#ended) this.#events.onWritable();
    });
    verdicts.flushHeaders();
  }

  #request(method: string, path: string): ClientRequest {
    const stream = request({
      socketPath: this.socketPath,
      method,
      path,
      headers: { Host: 'localhost', [SESSION_HEADER]: this.#id },
      agent: false,
    });
    stream.on('error', (error) => this.#end(error.message));
    return stream;
  }

  #line(line: string): void {
    if (this.#ended) return;
    const { message, odd } = readToProber(line);
    if (odd !== undefined) this.#events.onOdd(odd);
    if (message !== undefined) this.#events.onMessage(message);
  }

  #end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#targets.destroy();
    this.#verdicts?.destroy();
    this.#events.onEnd(reason);
  }
}
