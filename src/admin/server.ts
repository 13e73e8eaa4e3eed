/** Opens the HTTP interfaces: control.sock, public.sock, and `admin` over TCP. None of them is needed to answer DNS. */
import type { Server } from 'node:http';
import { join } from 'node:path';
import { showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { listenUnix } from '../system/unix-socket.js';
import type { AdminSource } from './documents.js';
import { type Access, type AdminHttp, buildAdminHttp } from './routes.js';

export type AdminLog = (
  level: 'info' | 'warn' | 'error',
  event: string,
  fields: Readonly<Record<string, unknown>>,
) => void;

export interface AdminOptions {
  readonly source: AdminSource;
  readonly runDir: string;
  /** Absent: no HTTP over TCP. */
  readonly admin?: ListenAddress;
  readonly log: AdminLog;
}

const RETRY_MS = 10_000;

interface Opened {
  close(): Promise<void>;
}

export class AdminServer {
  readonly #options: AdminOptions;
  readonly #open = new Map<Access, Opened>();
  readonly #problems = new Map<Access, string>();
  #admin: ListenAddress | undefined;
  #retry: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: AdminOptions) {
    this.#options = options;
    this.#admin = options.admin;
  }

  /** Resolves when each has been tried. What fails is logged, shown by `problems`, and tried again. */
  async start(): Promise<void> {
    await this.#openMissing();
  }

  /** Why an interface is not there, for the status. */
  problems(): string[] {
    return [...this.#problems.values()];
  }

  /** On reload: `admin` may have moved, come or gone. */
  async setAdmin(address: ListenAddress | undefined): Promise<void> {
    if (JSON.stringify(address) === JSON.stringify(this.#admin)) return;
    this.#admin = address;
    this.#problems.delete('admin');
    const open = this.#open.get('admin');
    this.#open.delete('admin');
    await open?.close();
    await this.#openMissing();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    await Promise.allSettled([...this.#open.values()].map((open) => open.close()));
    this.#open.clear();
  }

  async #openMissing(): Promise<void> {
    const { runDir } = this.#options;
    await this.#try('control', (server) => listenSocket(server, join(runDir, 'control.sock'), 0o660));
    await this.#try('public', (server) => listenSocket(server, join(runDir, 'public.sock'), 0o666));
    const address = this.#admin;
    if (address) await this.#try('admin', (server) => listenTcp(server, address));
    if (this.#problems.size === 0 || this.#stopped) return;
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => void this.#openMissing(), RETRY_MS).unref();
  }

  async #try(access: Access, listen: (server: Server) => Promise<Opened>): Promise<void> {
    if (this.#open.has(access) || this.#stopped) return;
    let http: AdminHttp | undefined;
    try {
      http = await buildAdminHttp(access, this.#options.source, (error) => {
        this.#options.log('error', 'admin-request-failed', { access, reason: error.stack ?? error.message });
      });
      const { server, close } = http;
      const listener = await listen(server);
      server.on('error', () => {});
      this.#open.set(access, {
        async close() {
          await listener.close();
          await close();
        },
      });
      if (this.#problems.delete(access)) this.#options.log('info', 'admin-up', { access });
    } catch (error) {
      await http?.close().catch(() => {});
      this.#fail(access, error as Error);
    }
  }

  #fail(access: Access, error: Error): void {
    const problem = `HTTP interface ${access}: ${error.message}`;
    if (this.#problems.get(access) === problem) return;
    this.#problems.set(access, problem);
    this.#options.log('warn', 'admin-unavailable', { access, reason: error.message });
  }
}

async function listenSocket(server: Server, path: string, mode: number): Promise<Opened> {
  return listenUnix(server, path, { mode });
}

function listenTcp(server: Server, address: ListenAddress): Promise<Opened> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      const taken = error.code === 'EADDRINUSE' ? `${showListen(address)} is in use by another program` : error.message;
      reject(new Error(taken));
    });
    server.listen({ host: address.address, port: address.port, ipv6Only: true }, () => {
      server.removeAllListeners('error');
      resolve({
        close: () =>
          new Promise((done) => {
            server.close(() => done());
            server.closeAllConnections();
          }),
      });
    });
  });
}
