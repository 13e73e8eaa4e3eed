/**
 * TCP connections by system calls: to open one, look at it and reset it takes half of what it does by way of node:net.
 * What may fail for one connection is an errno; a call that fails for all of them throws. Structures are written out by hand: little-endian 64-bit Linux only.
 */
import { errorName, withLibc } from '../../system/libc.js';

type Memory = Uint8Array | Int32Array;

/** Each returns -1 on failure; `errno` then tells why. The kernel keeps none of the memory after a call. */
export interface NativeCalls {
  socket(domain: number, type: number, protocol: number): number;
  setsockopt(fd: number, level: number, name: number, value: Memory, length: number): number;
  getsockopt(fd: number, level: number, name: number, value: Memory, length: Memory): number;
  getsockname(fd: number, name: Memory, length: Memory): number;
  inetPton(family: number, text: string, address: Memory): number;
  bind(fd: number, name: Memory, length: number): number;
  connect(fd: number, name: Memory, length: number): number;
  close(fd: number): number;
  poll(fds: Memory, count: number, timeoutMs: number): number;
  epollCreate(flags: number): number;
  epollCtl(epoll: number, operation: number, fd: number, event: Memory): number;
  epollWait(epoll: number, events: Memory, count: number, timeoutMs: number): number;
  errno(): number;
}

/** The calls, or a sentence that says why they are not to be had here. */
export function loadNativeCalls(): NativeCalls | string {
  return withLibc((libc) => ({
    socket: libc.func('int socket(int, int, int)'),
    setsockopt: libc.func('int setsockopt(int, int, int, void *, uint32_t)'),
    getsockopt: libc.func('int getsockopt(int, int, int, void *, void *)'),
    getsockname: libc.func('int getsockname(int, void *, void *)'),
    inetPton: libc.func('int inet_pton(int, const char *, void *)'),
    bind: libc.func('int bind(int, void *, uint32_t)'),
    connect: libc.func('int connect(int, void *, uint32_t)'),
    close: libc.func('int close(int)'),
    poll: libc.func('int poll(void *, uint64_t, int)'),
    epollCreate: libc.func('int epoll_create1(int)'),
    epollCtl: libc.func('int epoll_ctl(int, int, int, void *)'),
    epollWait: libc.func('int epoll_wait(int, void *, int, int)'),
    errno: libc.errno,
  }));
}

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_ERROR = 4;
const SO_LINGER = 13;
const IPPROTO_IP = 0;
const IP_BIND_ADDRESS_NO_PORT = 24;
const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
/** Of poll and of epoll alike. */
const OUT = 4;
const ERR = 8;
const HUP = 16;
const NVAL = 32;
const EINTR = 4;
const EBADF = 9;
const EINVAL = 22;
const EINPROGRESS = 115;
const DOT = 46;
const ZERO = 48;

/** struct pollfd in words: the descriptor; what is asked, and above it what is so. */
const POLLFD_WORDS = 2;
/** struct epoll_event in words: what is so, and two of our own. Packed on x64 alone. */
const EVENT_WORDS = process.arch === 'x64' ? 3 : 4;
const EVENT_ID = process.arch === 'x64' ? 1 : 2;
const MAX_EVENTS = 256;
/** Sockets that are kept for connections to come, at most. */
const MAX_IDLE = 256;

/** The state of a connection that is not there yet. Any other is the errno that it ended with; 0 when it is there. */
export const UNDER_WAY = -1;

/** struct sockaddr_in or sockaddr_in6, and where the address is in it. */
interface Name {
  readonly family: number;
  readonly bytes: Uint8Array;
  readonly address: Uint8Array;
}

export class NativeSockets {
  readonly #calls: NativeCalls;
  readonly #epoll: number;
  readonly #names = { 4: makeName(4), 6: makeName(6) };
  readonly #ownNames = { 4: makeName(4), 6: makeName(6) };
  /** Closing resets, at once: `{ on, 0 s }`. */
  readonly #linger = new Int32Array([1, 0]);
  readonly #value = new Int32Array(1);
  readonly #length = new Int32Array(1);
  readonly #event = new Int32Array(EVENT_WORDS);
  readonly #events = new Int32Array(EVENT_WORDS * MAX_EVENTS);
  #pollfds = new Int32Array(0);
  /** An address of no family. */
  readonly #nowhere = new Uint8Array(16);
  /** Sockets for IPv4 that are bound to nothing: to make one and to close it takes a quarter of what a probe does. */
  readonly #idle: number[] = [];

  /** Throws a Error where there is nothing to watch connections with. */
  constructor(calls: NativeCalls) {
    this.#calls = calls;
    this.#epoll = calls.epollCreate(EPOLL_CLOEXEC);
    if (this.#epoll < 0) throw this.#failed('epoll_create1');
  }

  /**
   * Begins a connection, which `close` resets, whatever became of it (R17). Returns its descriptor, or an errno made
   * negative. Addresses are without a scope.
   */
  connect(address: string, port: number, source?: string): number {
    const name = this.#names[versionOf(address)];
    const fd = (canBeKept(address, source) ? this.#idle.pop() : undefined) ?? this.#create(name.family);
    if (fd < 0) return fd;
    const errno = this.#begin(fd, name, address, port, source);
    if (errno === 0) return fd;
    this.#calls.close(fd);
    return -errno;
  }

  /** Resets a connection that is there, and was never watched. May keep its socket for another one. */
  reset(fd: number, address: string, source?: string): void {
    // To connect it to nowhere resets it, and leaves it as it was before (connect(2)).
    const keep = this.#idle.length < MAX_IDLE && canBeKept(address, source);
    if (keep && this.#calls.connect(fd, this.#nowhere, this.#nowhere.length) === 0) this.#idle.push(fd);
    else this.#calls.close(fd);
  }

  close(fd: number): void {
    this.#calls.close(fd);
  }

  /** Tells the state of each of these, by its place among them. */
  look(fds: readonly number[], tell: (place: number, state: number) => void): void {
    if (this.#pollfds.length < fds.length * POLLFD_WORDS) this.#pollfds = new Int32Array(fds.length * POLLFD_WORDS);
    const pollfds = this.#pollfds;
    for (let i = 0; i < fds.length; i++) {
      pollfds[i * POLLFD_WORDS] = fds[i]!;
      pollfds[i * POLLFD_WORDS + 1] = OUT;
    }
    while (this.#calls.poll(pollfds, fds.length, 0) < 0) if (this.#calls.errno() !== EINTR) throw this.#failed('poll');
    for (let i = 0; i < fds.length; i++) tell(i, this.stateOf(fds[i]!, pollfds[i * POLLFD_WORDS + 1]! >>> 16));
  }

  /** From now on `news` tells of it, by `id`, until it is closed. */
  watch(fd: number, id: number): void {
    this.#event[0] = OUT;
    this.#event[EVENT_ID] = id;
    if (this.#calls.epollCtl(this.#epoll, EPOLL_CTL_ADD, fd, this.#event) < 0) throw this.#failed('epoll_ctl');
  }

  /** Tells of watched ones that are not under way any more. An id may be of one that was closed just now. */
  news(tell: (id: number, bits: number) => void): void {
    for (;;) {
      const count = this.#calls.epollWait(this.#epoll, this.#events, MAX_EVENTS, 0);
      if (count < 0 && this.#calls.errno() !== EINTR) throw this.#failed('epoll_wait');
      for (let i = 0; i < count; i++) tell(this.#events[i * EVENT_WORDS + EVENT_ID]!, this.#events[i * EVENT_WORDS]!);
      if (count >= 0 && count < MAX_EVENTS) return;
    }
  }

  /** What these bits, of `news`, say of a connection. To be asked once: it takes the error. */
  stateOf(fd: number, bits: number): number {
    if ((bits & (ERR | HUP | NVAL)) === 0) return (bits & OUT) === 0 ? UNDER_WAY : 0;
    if ((bits & NVAL) !== 0) return EBADF;
    this.#length[0] = 4;
    const answer = this.#calls.getsockopt(fd, SOL_SOCKET, SO_ERROR, this.#value, this.#length);
    return answer < 0 ? this.#calls.errno() : this.#value[0]!;
  }

  /** Whether a connection that is there leads to itself (connection.ts). */
  metItself(fd: number, address: string, port: number): boolean {
    const version = versionOf(address);
    const own = this.#ownNames[version];
    const peer = this.#names[version];
    this.#length[0] = own.bytes.length;
    if (this.#calls.getsockname(fd, own.bytes, this.#length) < 0 || !this.#write(peer, address, port)) return false;
    const samePort = own.bytes[2] === peer.bytes[2] && own.bytes[3] === peer.bytes[3];
    return samePort && own.address.every((byte, i) => byte === peer.address[i]);
  }

  /** Gives back what is kept for connections to come. */
  rest(): void {
    for (const fd of this.#idle.splice(0)) this.#calls.close(fd);
  }

  /** Watches no more, and keeps no sockets. Connections are closed by whoever opened them. */
  end(): void {
    this.rest();
    this.#calls.close(this.#epoll);
  }

  /** A descriptor, or an errno made negative. */
  #create(family: number): number {
    const calls = this.#calls;
    const fd = calls.socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && calls.setsockopt(fd, SOL_SOCKET, SO_LINGER, this.#linger, 8) === 0) return fd;
    const errno = calls.errno();
    if (fd >= 0) calls.close(fd);
    return -errno;
  }

  /** Returns 0, or the errno of what failed. */
  #begin(fd: number, name: Name, address: string, port: number, source: string | undefined): number {
    const calls = this.#calls;
    if (source !== undefined) {
      if (!this.#write(name, source, 0)) return EINVAL;
      // The port is chosen when it is known where to, so that one can serve many. Linux before 4.2 chooses at once.
      this.#value[0] = 1;
      calls.setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, this.#value, 4);
      if (calls.bind(fd, name.bytes, name.bytes.length) < 0) return calls.errno();
    }
    if (!this.#write(name, address, port)) return EINVAL;
    if (calls.connect(fd, name.bytes, name.bytes.length) === 0) return 0;
    const errno = calls.errno();
    return errno === EINPROGRESS || errno === EINTR ? 0 : errno;
  }

  /** False when the text is no address of that family. */
  #write({ family, bytes, address }: Name, text: string, port: number): boolean {
    bytes[2] = port >>> 8;
    bytes[3] = port & 0xff;
    return family === AF_INET ? writeIpv4(text, address) : this.#calls.inetPton(family, text, address) === 1;
  }

  #failed(call: string): Error {
    return new Error(`${call}: ${errorName(this.#calls.errno())}`);
  }
}

function versionOf(address: string): 4 | 6 {
  return address.includes(':') ? 6 : 4;
}

/** One for IPv6 is not the same again when it was connected to a mapped address of IPv4. */
function canBeKept(address: string, source: string | undefined): boolean {
  return source === undefined && versionOf(address) === 4;
}

/** As inet_pton does it, which takes longer to call. False when it is none. */
function writeIpv4(text: string, address: Uint8Array): boolean {
  let part = 0;
  let value = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === DOT && value >= 0 && part < 3) {
      address[part++] = value;
      value = -1;
    } else {
      const digit = code - ZERO;
      if (digit < 0 || digit > 9 || value === 0) return false;
      value = (value < 0 ? 0 : value * 10) + digit;
      if (value > 255) return false;
    }
  }
  address[3] = value;
  return part === 3 && value >= 0;
}

function makeName(version: 4 | 6): Name {
  const family = version === 4 ? AF_INET : AF_INET6;
  const bytes = new Uint8Array(version === 4 ? 16 : 28);
  bytes[0] = family;
  return { family, bytes, address: version === 4 ? bytes.subarray(4, 8) : bytes.subarray(8, 24) };
}
