/**
 * Listening on a Unix socket without the four usual accidents: taking the place of a living process, failing on the
 * file of a dead one, being reachable for a moment with the wrong mode, and listening on where the file was removed.
 */
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, readlink, rename, rm, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import type { Ms } from './clock.js';
import { foreignFolder, isInSharedPlace } from './own-folder.js';

/** `sun_path` less its terminator; a longer path would be cut or refused, depending on the platform. */
export const MAX_SOCKET_PATH_BYTES = 107;

export type UnixSocketFault = 'in-use' | 'not-a-socket' | 'too-long' | 'denied' | 'foreign-folder';

/** Why a path cannot be listened on, in words for the person who has to mend it. */
export class UnixSocketError extends Error {
  constructor(
    readonly fault: UnixSocketFault,
    readonly path: string,
    message: string,
    /** `in-use`: who holds it, when that can be seen. */
    readonly pid?: number,
  ) {
    super(message);
    this.name = 'UnixSocketError';
  }
}

export interface UnixListener {
  /** Whether the file at the path is still ours, as far as that can be seen. */
  reachable(): Promise<boolean>;
  /** Never rejects. Stops listening and removes the file, unless another process has put its own there. Does not wait for open connections. */
  close(): Promise<void>;
}

export interface UnixListenOptions {
  /** Mode of the socket, such as 0o660: who may write may connect. */
  readonly mode: number;
  /** Mode of the directory when it has to be made; in a place that everybody may write to it is 0o700. */
  readonly directoryMode?: number;
}

/**
 * Makes `server` listen on `path`. A file left by a dead process is replaced; a living one's is not.
 * The socket is bound in a private directory, gets its mode there and is then renamed into place, so it
 * can at no time be reached with another mode, and the process's umask (shared by all threads) is left alone.
 *
 * @throws UnixSocketError when the path is taken or unusable, or its folder in such a place is not this user's own; the system's error otherwise.
 */
export async function listenUnix(server: Server, path: string, options: UnixListenOptions): Promise<UnixListener> {
  if (Buffer.byteLength(path) > MAX_SOCKET_PATH_BYTES)
    throw new UnixSocketError(
      'too-long',
      path,
      `${path}: a socket path has at most ${MAX_SOCKET_PATH_BYTES} bytes, this one has ${Buffer.byteLength(path)}`,
    );
  const folder = dirname(path);
  const mode = (await isInSharedPlace(folder)) ? 0o700 : (options.directoryMode ?? 0o755);
  await mkdir(folder, { recursive: true, mode });
  const foreign = await foreignFolder(folder);
  if (foreign !== undefined) throw new UnixSocketError('foreign-folder', path, foreign);
  await requireFree(path);

  const room = await mkdtemp(join(folder, '.s'));
  try {
    const place = join(room, 's');
    await listen(server, place);
    try {
      await chmod(place, options.mode);
      const mine = await lstat(place, { bigint: true });
      await rename(place, path);
      const isOurs = (): Promise<boolean> => leadsTo(path, mine);
      return { reachable: isOurs, close: () => stop(server, path, isOurs) };
    } catch (error) {
      await closed(server);
      throw error;
    }
  } finally {
    // One that cannot be removed is empty, and no reason to do without the socket.
    await rm(room, { recursive: true, force: true }).catch(() => {});
  }
}

/** A socket's file is looked at this often: whoever cleans the folder does not tell. */
const LOOK_MS: Ms = 1_000;
const RETRY_MIN_MS: Ms = 500;
const RETRY_MAX_MS: Ms = 5_000;

/** What the owner of a socket is told, once each. `remade`: the file was gone, and is there again. */
export type SocketChange = { readonly state: 'up' | 'remade' } | { readonly state: 'down'; readonly reason: string };

/**
 * A socket that is wanted for as long as the process runs. While it cannot be had it is tried again, with back-off;
 * when its file is gone, it is opened again, and its folder made. Connections that are open stay open.
 */
export class KeptUnixSocket {
  readonly #server: Server;
  readonly #path: string;
  readonly #options: UnixListenOptions;
  readonly #onChange: (change: SocketChange) => void;
  #listener: UnixListener | undefined;
  /** What is in the way, while something is. */
  #fault: string | undefined;
  #backOff = RETRY_MIN_MS;
  #timer: NodeJS.Timeout | undefined;
  #work: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(server: Server, path: string, options: UnixListenOptions, onChange: (change: SocketChange) => void) {
    this.#server = server;
    this.#path = path;
    this.#options = options;
    this.#onChange = onChange;
    // A connection that could not be taken is lost; the next one may be.
    server.on('error', () => {});
  }

  /** Resolves when it has been tried once. Never rejects: what fails is told, and tried again. */
  start(): Promise<void> {
    if (!this.#stopped) this.#work = this.#keep();
    return this.#work;
  }

  /** Removes the file, if it is still ours; a start that is under way is waited for. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#work;
    await this.#listener?.close();
    this.#listener = undefined;
  }

  async #keep(): Promise<void> {
    const before = this.#listener;
    if (before === undefined || !(await before.reachable())) {
      this.#listener = undefined;
      await before?.close();
      await this.#open(before !== undefined);
    }
    if (this.#stopped) return;
    const wait = this.#listener === undefined ? this.#backOff : LOOK_MS;
    this.#timer = setTimeout(() => void this.start(), wait).unref();
  }

  async #open(again: boolean): Promise<void> {
    if (this.#stopped) return;
    // Who it is that has the path is not looked up at every try.
    if (this.#fault === 'in-use' && (await knock(this.#path)) === 'in-use') return this.#failed();
    try {
      this.#listener = await listenUnix(this.#server, this.#path, this.#options);
    } catch (error) {
      const { fault, code, message } = error as { fault?: string; code?: string; message: string };
      const before = this.#fault;
      this.#fault = fault ?? code ?? message;
      if (this.#fault !== before) this.#onChange({ state: 'down', reason: message });
      this.#failed();
      return;
    }
    if (this.#fault !== undefined) this.#onChange({ state: 'up' });
    else if (again) this.#onChange({ state: 'remade' });
    this.#fault = undefined;
    this.#backOff = RETRY_MIN_MS;
  }

  #failed(): void {
    this.#backOff = Math.min(RETRY_MAX_MS, this.#backOff * 2);
  }
}

async function requireFree(path: string): Promise<void> {
  const there = await lstat(path).catch(absent);
  if (there === undefined) return;
  if (!there.isSocket())
    throw new UnixSocketError('not-a-socket', path, `${path} exists and is not a socket: move it away`);
  const answer = await knock(path);
  if (answer === 'in-use') {
    const pid = await holder(path);
    const who = pid === undefined ? 'another process' : `process ${pid}`;
    throw new UnixSocketError('in-use', path, `${path} is in use by ${who}: stop it, or set another runDir`, pid);
  }
  if (answer === 'denied')
    throw new UnixSocketError(
      'denied',
      path,
      `${path} belongs to another user and may not be opened: remove it, or run as its owner`,
    );
}

/** Whether somebody answers. A stopped process still does, by its backlog; a full backlog is an answer too. */
function knock(path: string): Promise<'in-use' | 'free' | 'denied'> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve('in-use');
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EACCES' || error.code === 'EPERM') resolve('denied');
      else resolve(error.code === 'ECONNREFUSED' || error.code === 'ENOENT' ? 'free' : 'in-use');
    });
  });
}

/** The process that listens on `path`, from /proc; undefined where that is not to be seen. */
async function holder(path: string): Promise<number | undefined> {
  const table = await readFile('/proc/net/unix', 'utf8').catch(() => '');
  // A socket that was renamed into place is listed by the name it was bound to.
  const inodes = new Set<string>();
  for (const line of table.split('\n')) {
    const fields = line.trim().split(/\s+/);
    const name = fields[7];
    if (name === path || name?.startsWith(`${dirname(path)}/.s`)) inodes.add(`socket:[${fields[6]}]`);
  }
  if (inodes.size === 0) return undefined;
  const pids = new Set<number>();
  for (const pid of await readdir('/proc').catch(() => [] as string[])) {
    if (!/^\d+$/.test(pid)) continue;
    for (const fd of await readdir(`/proc/${pid}/fd`).catch(() => [] as string[])) {
      const link = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '');
      if (inodes.has(link)) pids.add(Number(pid));
    }
  }
  return pids.size === 1 ? [...pids][0] : undefined;
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (error?: Error): void => {
      server.off('error', settle).off('listening', settle);
      if (error === undefined) resolve();
      else reject(error);
    };
    server.on('error', settle).on('listening', settle);
    server.listen(path);
  });
}

interface Inode {
  readonly dev: bigint;
  readonly ino: bigint;
}

async function leadsTo(path: string, mine: Inode): Promise<boolean> {
  try {
    const there = await lstat(path, { bigint: true });
    return there.dev === mine.dev && there.ino === mine.ino;
  } catch (error) {
    // Where the folder may not be read, nothing could be mended either.
    return !['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}

async function stop(server: Server, path: string, isOurs: () => Promise<boolean>): Promise<void> {
  if (await isOurs()) await unlink(path).catch(() => {});
  await closed(server);
}

/** Resolves when the server takes no more connections; those that are open end by themselves. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close();
    setImmediate(resolve);
  });
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}
