/** What tests of the prober share: targets, servers to probe, and both ends of its socket. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type RequestListener, request } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProbeResult, SESSION_HEADER, type Target } from '../src/prober/feed.js';
import { runProber } from '../src/prober/prober.js';
import { ProberLink, type ProberLinkOptions } from '../src/resolver/prober-link.js';
import { BootClock } from '../src/system/boot-clock.js';

export const HERE = '127.0.0.1';
export const clock = new BootClock();
export const never = new AbortController().signal;

export function target(over: Partial<Target> = {}): Target {
  return { key: 'a', address: HERE, port: 80, type: 'tcp', interval: 5_000, timeout: 1_000, ...over };
}

export function targets(count: number, over: Partial<Target> = {}): Target[] {
  return Array.from({ length: count }, (_, i) => target({ key: `tcp|10.0.${i >> 8}.${i & 255}|8080`, ...over }));
}

export function socketPath(): string {
  return join(mkdtempSync(join(tmpdir(), 'hf-')), 'prober.sock');
}

export async function listening(server: Server, host = HERE): Promise<number> {
  server.listen(0, host);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

export async function closedPort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  server.close();
  await once(server, 'close');
  return port;
}

/** Waits for something that will be so. The test runner's own timeout bounds it. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

/** A server that takes connections and says nothing. */
export async function hanging(t: Tap): Promise<number> {
  return raw(t, () => {});
}

export type Tap = { teardown: (after: () => void) => void };

export async function raw(t: Tap, serve: (socket: Socket) => void): Promise<number> {
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on('error', () => {});
    serve(socket);
    socket.resume();
  });
  t.teardown(() => {
    server.close();
    for (const socket of open) socket.destroy();
  });
  return listening(server);
}

export async function web(t: Tap, serve: RequestListener, tls?: { key: string; cert: string }): Promise<number> {
  const server = tls === undefined ? createHttpServer(serve) : createHttpsServer(tls, serve);
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return listening(server);
}

export interface Logged {
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export async function openLink(t: Tap, over: Partial<ProberLinkOptions> = {}) {
  const path = over.path ?? socketPath();
  const logged: Logged[] = [];
  const results: ProbeResult[] = [];
  const link = new ProberLink({ path, clock, log: (_level, event, fields) => logged.push({ event, fields }), ...over });
  link.onResults((batch) => results.push(...batch));
  await link.start();
  t.teardown(() => link.stop());
  return { path, link, logged, results, events: () => logged.map((line) => line.event) };
}

export function startProber(t: Tap, path: string, over: Partial<Parameters<typeof runProber>[0]> = {}) {
  const end = new AbortController();
  const logged: string[] = [];
  const done = runProber({
    socketPath: path,
    log: (_level, event) => logged.push(event),
    clock,
    version: 'test',
    signal: end.signal,
    budget: 5_000,
    ...over,
  });
  const stop = async (): Promise<void> => {
    end.abort();
    await done;
  };
  t.teardown(stop);
  return { logged, stop };
}

/** A prober played by hand: the stream of targets as text, and the stream of verdicts to write to. */
export async function handProber(path: string, id: string = randomUUID()) {
  const headers = { [SESSION_HEADER]: id };
  const asked = request({ socketPath: path, path: '/v1/targets', headers, agent: false });
  asked.on('error', () => {});
  asked.end();
  const [reply] = (await once(asked, 'response')) as [IncomingMessage];
  const state = { text: '', ended: false };
  reply.on('data', (chunk) => (state.text += chunk));
  reply.on('error', () => {});
  reply.on('close', () => (state.ended = true));
  const verdicts = request({ socketPath: path, path: '/v1/verdicts', method: 'POST', headers, agent: false });
  verdicts.on('error', () => {});
  verdicts.flushHeaders();
  const [accepted] = (await once(verdicts, 'response')) as [IncomingMessage];
  accepted.on('error', () => {});
  const say = (message: unknown) =>
    verdicts.write(typeof message === 'string' ? `${message}\n` : `${JSON.stringify(message)}\n`);
  const messages = () =>
    state.text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line));
  return {
    state,
    reply,
    say,
    messages,
    status: accepted.statusCode,
    close: () => {
      asked.destroy();
      verdicts.destroy();
    },
  };
}
