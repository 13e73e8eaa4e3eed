/** What each of the HTTP interfaces answers (R36): operators on control.sock, anyone on public.sock, readers on TCP. */
import { createServer, type Server } from 'node:http';
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import { hostname } from 'node:os';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { nameToWire } from '../dns/names.js';
import { typeNumber } from '../dns/type-names.js';
import { peerUid } from '../system/socket-peer.js';
import { ReportLimits, readReports } from './client-reports.js';
import type { AdminSource, PublicStatus, StatusDocument } from './documents.js';
import { CONTENT_SECURITY_POLICY, statusPage } from './page.js';

const { fastify } = createRequire(import.meta.url)('fastify') as typeof import('fastify');

/** `control`: everything. `admin`: TCP, read-only. `public`: the abridged status, and reports of clients. */
export type Access = 'control' | 'admin' | 'public';

/** A question that cannot be answered as it was asked; the message goes back to whoever asked. */
export class RequestFault extends Error {
  readonly statusCode: number;
  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}

const MAX_BODY_BYTES = 16 * 1024;
const MAX_HEADER_BYTES = 8 * 1024;
const MAX_CONNECTIONS = 64;
const REQUEST_TIMEOUT_MS = 10_000;

export interface AdminHttp {
  /** Not listening yet. */
  readonly server: Server;
  close(): Promise<void>;
}

export async function buildAdminHttp(
  access: Access,
  source: AdminSource,
  onError: (error: Error) => void,
): Promise<AdminHttp> {
  let server: Server | undefined;
  const app = fastify({
    logger: false,
    bodyLimit: MAX_BODY_BYTES,
    exposeHeadRoutes: true,
    serverFactory: (handler) => {
      server = createServer(
        { maxHeaderSize: MAX_HEADER_BYTES, requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
        handler,
      );
      server.maxConnections = MAX_CONNECTIONS;
      return server;
    },
  });
  answerErrors(app, onError);
  if (access === 'admin') refuseForeignHosts(app);
  if (access === 'public') addPublicRoutes(app, source);
  else addReadRoutes(app, source);
  if (access === 'control') {
    addControlRoutes(app, source);
    addDrainRoute(app, source);
  }
  await app.ready();
  return {
    server: server!,
    async close() {
      server!.closeAllConnections();
      await app.close();
    },
  };
}

function answerErrors(app: FastifyInstance, onError: (error: Error) => void): void {
  app.setNotFoundHandler((request, reply) => {
    void reply.code(404).send({ error: `nothing at ${request.method} ${request.url.slice(0, 200)}` });
  });
  app.setErrorHandler((error: Error & { statusCode?: number }, _request, reply) => {
    const status = error.statusCode ?? 500;
    if (status >= 500) onError(error);
    void reply.code(status).send({ error: status >= 500 ? 'internal error, see the log' : error.message });
  });
  app.addHook('onSend', async (_request, reply) => {
    void reply.header('x-content-type-options', 'nosniff').header('cache-control', 'no-store');
  });
}

/** A page in a browser must not reach us under a name of its own that it points here (DNS rebinding). */
function refuseForeignHosts(app: FastifyInstance): void {
  const own = hostname().toLowerCase().split('.')[0]!;
  app.addHook('onRequest', async (request) => {
    const name = (request.headers.host ?? '').toLowerCase().replace(/:\d+$/, '');
    const isAddress = /^\[[0-9a-f:.]+\]$/.test(name) || /^\d+\.\d+\.\d+\.\d+$/.test(name);
    if (isAddress || name === 'localhost' || name.split('.')[0] === own) return;
    throw new RequestFault(421, 'asked under a foreign host name: use an address, localhost or the name of this host');
  });
}

function addReadRoutes(app: FastifyInstance, source: AdminSource): void {
  app.get('/', async (_request, reply) => {
    void reply.type('text/html; charset=utf-8').header('content-security-policy', CONTENT_SECURITY_POLICY);
    return statusPage(source.status());
  });
  app.get('/healthz', async () => ({ ok: true }));
  app.get('/readyz', async (_request, reply) => ready(source, reply));
  app.get('/metrics', async (_request, reply) => {
    void reply.type('text/plain; version=0.0.4; charset=utf-8');
    return source.metrics();
  });
  app.get('/v1/status', async () => source.status());
  app.get('/v1/services', async () => source.services());
  app.get('/v1/explain', async (request) => {
    const query = request.query as Record<string, unknown>;
    const name = oneName(query.name, 'name');
    const type = query.type === undefined ? 'A' : oneName(query.type, 'type').toUpperCase();
    if (nameToWire(name) === undefined) throw new RequestFault(400, 'name: expected a domain name');
    if (typeNumber(type) === undefined) throw new RequestFault(400, 'type: expected a record type');
    return source.explain(name, type);
  });
}

function ready(source: AdminSource, reply: FastifyReply): { ready: boolean; problems: string[] } {
  const state = source.ready();
  if (!state.ready) void reply.code(503);
  return state;
}

function addControlRoutes(app: FastifyInstance, source: AdminSource): void {
  app.post('/v1/accept', async (request) => {
    const body = request.body;
    if (typeof body !== 'object' || body === null) throw new RequestFault(400, 'expected {"name": SERVICE}');
    const { name, zone } = body as Record<string, unknown>;
    const service = oneName(name, 'name');
    const inZone = zone === undefined ? undefined : oneName(zone, 'zone');
    const answer = await source.accept(service, inZone);
    if ('unknown' in answer) throw new RequestFault(404, answer.unknown);
    return answer;
  });
}

function addDrainRoute(app: FastifyInstance, source: AdminSource): void {
  app.post('/v1/drain', async (request) => {
    const body = request.body;
    if (typeof body !== 'object' || body === null) throw new RequestFault(400, 'expected {"name": SERVICE or ID}');
    const { name, zone, undo = false } = body as Record<string, unknown>;
    if (typeof undo !== 'boolean') throw new RequestFault(400, 'undo: expected true or false');
    const meant = oneName(name, 'name');
    const answer = await source.drain(meant, zone === undefined ? undefined : oneName(zone, 'zone'), undo);
    if ('unknown' in answer) throw new RequestFault(404, answer.unknown);
    return answer;
  });
}

function addPublicRoutes(app: FastifyInstance, source: AdminSource): void {
  app.get('/healthz', async () => ({ ok: true }));
  app.get('/v1/status', async () => abridge(source.status()));
  const limits = new ReportLimits(performance.now());
  app.post('/v1/reports', async (request, reply) => {
    const reports = readReports(request.body);
    if (typeof reports === 'string') throw new RequestFault(400, reports);
    const client = clientOf(request.raw.socket);
    const { admitted, receipt } = limits.admit(reports, client, performance.now(), Date.now());
    if (admitted.length > 0) source.reported(admitted);
    void reply.code(admitted.length === 0 && receipt.limited > 0 ? 429 : 202);
    return receipt;
  });
}

let connections = 0;
const numbers = new WeakMap<Socket, string>();

/** Whose reports are limited together: a user of the host, or a connection where users are not told apart. */
function clientOf(socket: Socket): string {
  let client = numbers.get(socket);
  if (client === undefined) {
    const uid = peerUid(socket);
    numbers.set(socket, (client = uid === undefined ? `connection ${++connections}` : `user ${uid}`));
  }
  return client;
}

/** What every user of the host may know (R36). */
export function abridge({ version, uptimeMs, state, prober, zones }: StatusDocument): PublicStatus {
  return {
    version,
    uptimeMs,
    state,
    prober: prober.state,
    zones: {
      total: zones.length,
      heard: zones.filter((zone) => zone.heard).length,
      stale: zones.filter((zone) => zone.state === 'stale').length,
      neverSynced: zones.filter((zone) => zone.state === 'never-synced').length,
    },
  };
}

function oneName(value: unknown, what: string): string {
  if (typeof value === 'string' && value !== '' && value.length <= 1024) return value;
  throw new RequestFault(400, `${what}: expected one name`);
}
