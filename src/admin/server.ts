/** Opens the HTTP interfaces: control.sock, public.sock, and `admin` over TCP. None of them is needed to answer DNS. */
import type { Server } from 'node:http';
import { join } from 'node:path';
import type { ListenAddress } from '../config/types.js';
import { KeptUnixSocket } from '../system/unix-socket.js';
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
  /** What to tell of an address that cannot be bound. */
  readonly notBound: (address: ListenAddress, code: string, message: string) => Promise<string>;
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
  #work: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(options: AdminOptions) {
    this.#options = options;
    this.#admin = options.admin;
  }

  /** Resolves when each has been tried. What fails is logged, shown by `problems`, and tried again. */
  async start(): Promise<void> {
    await this.#inTurn(() => this.#openMissing());
  }

  /** Why an interface is not there, for the status. */
  problems(): string[] {
    return [...this.#problems.values()];
  }

  /** On reload: `admin` may have moved, come or gone. */
  async setAdmin(address: ListenAddress | undefined): Promise<void> {
    await this.#inTurn(async () => {
      if (JSON.stringify(address) === JSON.stringify(this.#admin)) return;
      this.#admin = address;
      this.#problems.delete('admin');
      const open = this.#open.get('admin');
      this.#open.delete('admin');
      await open?.close();
      await this.#openMissing();
    });
  }

  /** What is being opened is waited for, so that nothing stays open. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#retry);
    await this.#inTurn(async () => {
      await Promise.allSettled([...this.#open.values()].map((open) => open.close()));
      this.#open.clear();
    });
  }

  #inTurn(task: () => Promise<void>): Promise<void> {
    const done = this.#work.then(task);
    this.#work = done.catch(() => {});
    return done;
  }

  async #openMissing(): Promise<void> {
    await this.#try('control', (server) => this.#keepSocket('control', server, 0o660));
    await this.#try('public', (server) => this.#keepSocket('public', server, 0o666));
    const address = this.#admin;
    if (address) await this.#try('admin', (server) => this.#listenTcp(server, address));
    clearTimeout(this.#retry);
    if (this.#stopped || this.#open.size === (address ? 3 : 2)) return;
    this.#retry = setTimeout(() => void this.start(), RETRY_MS).unref();
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
      if (access === 'admin') this.#up(access);
    } catch (error) {
      await http?.close().catch(() => {});
      this.#fail(access, (error as Error).message);
    }
  }

  /** It sees to itself from here on. */
  async #keepSocket(access: Access, server: Server, mode: number): Promise<Opened> {
    const path = join(this.#options.runDir, `${access}.sock`);
    const socket = new KeptUnixSocket(server, path, { mode }, (change) => {
      if (change.state === 'down') this.#fail(access, change.reason);
      else if (change.state === 'up') this.#up(access);
      else this.#options.log('warn', 'admin-remade', { access });
    });
    await socket.start();
    return { close: () => socket.stop() };
  }

  async #listenTcp(server: Server, address: ListenAddress): Promise<Opened> {
    try {
      await listening(server, address);
    } catch (error) {
      const { code = '', message } = error as NodeJS.ErrnoException;
      throw new Error(await this.#options.notBound(address, code, message));
    }
    return {
      close: () =>
        new Promise((done) => {
          server.close(() => done());
          server.closeAllConnections();
        }),
    };
  }

  #up(access: Access): void {
    if (this.#problems.delete(access)) this.#options.log('info', 'admin-up', { access });
  }

  #fail(access: Access, reason: string): void {
    const problem = `HTTP interface ${access}: ${reason}`;
    if (this.#problems.get(access) === problem) return;
    this.#problems.set(access, problem);
    this.#options.log('warn', 'admin-unavailable', { access, reason });
  }
}

function listening(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ host: address.address, port: address.port, ipv6Only: true }, () => {
      server.removeAllListeners('error');
      resolve();
    });
  });
}
