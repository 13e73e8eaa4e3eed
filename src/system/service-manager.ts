/**
 * What a service says to its manager (sd_notify(3)): datagrams to the Unix socket that NOTIFY_SOCKET names. Node has no
 * such sockets, so a native call sends them, or, without koffi, systemd-notify, for which a unit needs
 * `NotifyAccess=all`.
 */
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import type { Ms } from './clock.js';

export interface ServiceManager {
  /** Lines such as `READY=1`. Never throws; what cannot be delivered is lost. */
  notify(...lines: readonly string[]): void;
  /** Within so long it wants to hear that the process is alive; absent: it does not look. */
  readonly watchdog?: Ms;
}

const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_CLOEXEC = 0o2000000;
const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
/** sun_path, with its end. */
const MAX_PATH = 108;
/** Two programs at once are a manager that hangs. */
const MAX_HELPERS = 2;
const MAX_WAITING = 16;
const SIGN_OF_LIFE = 'WATCHDOG=1';

type Send = (text: string) => void;

/** The manager that `env` tells of, once: it is for this process and not for those it starts. */
export function findServiceManager(
  env: NodeJS.ProcessEnv = process.env,
  pid = process.pid,
): ServiceManager | undefined {
  const { NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID } = env;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
  if (NOTIFY_SOCKET === undefined || !/^[/@]./.test(NOTIFY_SOCKET)) return undefined;
  const send = nativeSender(NOTIFY_SOCKET) ?? helperSender(NOTIFY_SOCKET, env);
  const micros = Number(WATCHDOG_USEC);
  const wanted = micros > 0 && (WATCHDOG_PID === undefined || Number(WATCHDOG_PID) === pid);
  return {
    notify: (...lines) => send(lines.map((line) => line.replaceAll('\n', ' ')).join('\n')),
    ...(wanted ? { watchdog: micros / 1000 } : {}),
  };
}

/** For `RELOADING=1`: when the reload began, on the clock of the manager. */
export function monotonicUsec(): string {
  return `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`;
}

function nativeSender(path: string): Send | undefined {
  const name = Buffer.from(path);
  if (process.platform !== 'linux' || name.length >= MAX_PATH) return undefined;
  try {
    const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
    const libc = koffi.load(null);
    const socket = libc.func('int socket(int, int, int)');
    const sendto = libc.func('int64_t sendto(int, void *, uint64_t, int, void *, uint32_t)');
    const close = libc.func('int close(int)');
    const abstract = name[0] === 0x40;
    if (abstract) name[0] = 0;
    const address = Buffer.alloc(2 + name.length + (abstract ? 0 : 1));
    address.writeUInt16LE(AF_UNIX);
    name.copy(address, 2);
    return (text) => {
      const bytes = Buffer.from(text);
      const fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (fd < 0) return;
      sendto(fd, bytes, bytes.length, MSG_DONTWAIT | MSG_NOSIGNAL, address, address.length);
      close(fd);
    };
  } catch {
    return undefined;
  }
}

function helperSender(path: string, env: NodeJS.ProcessEnv): Send {
  let running = 0;
  const waiting: string[] = [];
  const send = (text: string): void => {
    running++;
    const child = spawn('systemd-notify', ['--', ...text.split('\n')], {
      env: { PATH: env.PATH, NOTIFY_SOCKET: path },
      stdio: 'ignore',
    });
    let over = false;
    const end = (): void => {
      if (over) return;
      over = true;
      running--;
      const next = waiting.shift();
      if (next !== undefined) send(next);
    };
    child.on('error', end);
    child.on('exit', end);
    child.unref();
  };
  return (text) => {
    if (running < MAX_HELPERS) send(text);
    // A sign of life that is late is none; all else is said once, and has to arrive.
    else if (text !== SIGN_OF_LIFE && waiting.push(text) > MAX_WAITING) waiting.shift();
  };
}
