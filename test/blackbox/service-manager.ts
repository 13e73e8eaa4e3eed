/** What a service manager does for a service, without being one: it keeps sockets, and hears what the service says. */
import { rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type LinuxCalls, loadLinuxCalls } from '../../src/server/linux-calls.js';
import { socketAddress } from '../../src/server/linux-sockets.js';

const calls = loadLinuxCalls();
/** Why there is no service manager to be had; false when there is. */
export const noManager: string | false = typeof calls === 'string' ? `sockets cannot be passed here: ${calls}` : false;

const SOL_SOCKET = 1;
const SO_REUSEADDR = 2;
const SO_RCVBUF = 8;
const SO_RCVBUFFORCE = 33;
const IPV6_V6ONLY = [41, 26] as const;
const CLOEXEC = 0o2000000;
const NONBLOCK = 0o4000;

function libc() {
  const koffi = createRequire(import.meta.url)('koffi') as typeof import('koffi');
  return koffi.load(null);
}

const word = (value: number) => new Uint8Array(new Int32Array([value]).buffer);

/** Room for what waits in a socket, 8 MiB where the kernel lets us. Returns what it grants, in its own count. */
export function growReceiveBuffer(fd: number): number {
  const { setsockopt, getsockopt } = calls as LinuxCalls;
  for (const option of [SO_RCVBUF, SO_RCVBUFFORCE]) setsockopt(fd, SOL_SOCKET, option, word(8 * 1024 * 1024), 4);
  const granted = word(0);
  getsockopt(fd, SOL_SOCKET, SO_RCVBUF, granted, word(4));
  return new DataView(granted.buffer).getInt32(0, true);
}

/** Sockets of an address, bound and, for TCP, listening; they stay open until `close`. */
export class KeptSockets {
  readonly fds: number[] = [];
  /** Bytes of the UDP receive buffers, as the kernel counts. */
  buffer = Number.POSITIVE_INFINITY;
  readonly #calls = calls as LinuxCalls;

  add(protocol: 'udp' | 'tcp', address: string, port: number): this {
    const v6 = address.includes(':');
    const fd = this.#calls.socket(v6 ? 10 : 2, (protocol === 'udp' ? 2 : 1) | CLOEXEC | NONBLOCK, 0);
    this.fds.push(fd);
    const name = socketAddress(address, port)!;
    if (v6) this.#calls.setsockopt(fd, ...IPV6_V6ONLY, word(0), 4);
    if (protocol === 'tcp') this.#calls.setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, word(1), 4);
    else {
      this.buffer = Math.min(this.buffer, growReceiveBuffer(fd));
    }
    if (this.#calls.bind(fd, name, name.length) < 0) throw new Error(`${protocol} ${address} ${port} cannot be bound`);
    if (protocol === 'tcp' && libc().func('int listen(int, int)')(fd, 1024) < 0) throw new Error('cannot listen');
    return this;
  }

  close(): void {
    for (const fd of this.fds.splice(0)) this.#calls.close(fd);
  }
}

/** Hears what is sent to NOTIFY_SOCKET. */
export class Notices {
  readonly path: string;
  /** One message an entry, its lines parted by newlines. */
  readonly heard: string[] = [];
  readonly #fd: number;
  readonly #timer: NodeJS.Timeout;

  constructor(folder: string) {
    this.path = join(folder, 'notify');
    const lib = libc();
    const { socket, bind } = calls as LinuxCalls;
    this.#fd = socket(1, 2 | CLOEXEC | NONBLOCK, 0);
    const name = Buffer.from(`\x01\0${this.path}\0`, 'latin1');
    if (bind(this.#fd, name, name.length) < 0) throw new Error(`${this.path} cannot be bound`);
    const recv = lib.func('int64_t recv(int, void *, uint64_t, int)');
    const bytes = Buffer.alloc(4096);
    this.#timer = setInterval(() => {
      for (;;) {
        const length = Number(recv(this.#fd, bytes, bytes.length, 0));
        if (length <= 0) return;
        this.heard.push(bytes.toString('utf8', 0, length));
      }
    }, 5);
  }

  lines(): string[] {
    return this.heard.flatMap((message) => message.split('\n'));
  }

  count(line: string): number {
    return this.lines().filter((one) => one === line).length;
  }

  close(): void {
    clearInterval(this.#timer);
    (calls as LinuxCalls).close(this.#fd);
    rmSync(this.path, { force: true });
  }
}
