/** UDP sockets for the batched transport, by system calls: options that node:dgram cannot set. */
import { networkInterfaces } from 'node:os';
import { familyBytes } from '../dns/addresses.js';
import { errorName } from '../system/libc.js';
import type { BindFailure } from './bind-error.js';
import { EACCES, EPERM, type LinuxCalls } from './linux-calls.js';
import { hostPort, type SocketPlan } from './listen-plan.js';

const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_RCVBUF = 8;
const SO_REUSEPORT = 15;
const SO_SNDBUFFORCE = 32;
const SO_RCVBUFFORCE = 33;
const IPPROTO_IP = 0;
const IP_PKTINFO = 8;
const IPPROTO_IPV6 = 41;
const IPV6_V6ONLY = 26;
const IPV6_RECVPKTINFO = 49;
const EFD_NONBLOCK = 0o4000;
const EFD_CLOEXEC = 0o2000000;

/** Asked for; the kernel counts twice as much. Answers to absent hosts wait here for ARP and must not fill it. */
const BUFFER_BYTES = 4 * 1024 * 1024;
/** Below this a few absent clients can hold up all others. */
const ENOUGH_BUFFER_BYTES = 1024 * 1024;

export interface BoundSockets {
  readonly fds: readonly number[];
  /** Bytes that the kernel grants for sending, when that is too little. */
  readonly smallBuffer?: number;
}

/** Binds `count` sockets to one address. More than one share its port; that nobody else has it is tried first. */
export function bindSockets(calls: LinuxCalls, plan: SocketPlan, count: number): BoundSockets | BindFailure {
  if (count > 1) {
    const probe = bindOne(calls, plan, false);
    if (typeof probe !== 'number') return probe;
    calls.close(probe);
  }
  const fds: number[] = [];
  for (let i = 0; i < count; i++) {
    const fd = bindOne(calls, plan, count > 1);
    if (typeof fd === 'number') {
      fds.push(fd);
      continue;
    }
    for (const bound of fds) calls.close(bound);
    return fd;
  }
  const granted = Math.min(...fds.map((fd) => growBuffers(calls, fd)));
  return granted < ENOUGH_BUFFER_BYTES ? { fds, smallBuffer: granted } : { fds };
}

/** Takes an inherited socket into use: it was bound by somebody else, who set nothing of what we need. */
export function adoptSocket(calls: LinuxCalls, plan: SocketPlan, fd: number): BoundSockets {
  if (plan.wildcard) {
    if (plan.family === 4) calls.setsockopt(fd, IPPROTO_IP, IP_PKTINFO, word(1), 4);
    else calls.setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, word(1), 4);
  }
  const granted = growBuffers(calls, fd);
  return granted < ENOUGH_BUFFER_BYTES ? { fds: [fd], smallBuffer: granted } : { fds: [fd] };
}

/** An eventfd that wakes a poll, or -1. */
export function createEventFd(calls: LinuxCalls): number {
  return calls.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

function bindOne(calls: LinuxCalls, plan: SocketPlan, shared: boolean): number | BindFailure {
  const at = hostPort(plan.address, plan.port);
  const fail = (call: string): BindFailure => {
    const code = errorName(calls.errno());
    return { code, message: `${call} ${code} ${at}` };
  };
  const name = socketAddress(plan.address, plan.port);
  if (!name) return { code: 'EINVAL', message: `${at} is no address of this host` };
  const fd = calls.socket(plan.family === 4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail('socket');
  const set = (level: number, option: number, value: number) =>
    calls.setsockopt(fd, level, option, word(value), 4) === 0;
  const ready =
    (!shared || set(SOL_SOCKET, SO_REUSEPORT, 1)) &&
    (plan.family === 4 || set(IPPROTO_IPV6, IPV6_V6ONLY, plan.dual ? 0 : 1)) &&
    (!plan.wildcard || (plan.family === 4 ? set(IPPROTO_IP, IP_PKTINFO, 1) : set(IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)));
  const failure = !ready ? fail('setsockopt') : calls.bind(fd, name, name.length) < 0 ? fail('bind') : undefined;
  if (!failure) return fd;
  calls.close(fd);
  return failure;
}

/** Bytes granted for sending, as asked for (the kernel's own figure is twice that). */
function growBuffers(calls: LinuxCalls, fd: number): number {
  for (const [forced, plain] of [
    [SO_SNDBUFFORCE, SO_SNDBUF],
    [SO_RCVBUFFORCE, SO_RCVBUF],
  ] as const) {
    if (calls.setsockopt(fd, SOL_SOCKET, forced, word(BUFFER_BYTES), 4) === 0) continue;
    const errno = calls.errno();
    if (errno === EPERM || errno === EACCES) calls.setsockopt(fd, SOL_SOCKET, plain, word(BUFFER_BYTES), 4);
  }
  const value = word(0);
  const length = word(4);
  calls.getsockopt(fd, SOL_SOCKET, SO_SNDBUF, value, length);
  return new DataView(value.buffer).getInt32(0, true) / 2;
}

function word(value: number): Uint8Array {
  return new Uint8Array(new Int32Array([value]).buffer);
}

/** struct sockaddr_in or sockaddr_in6. Undefined when the text is no address, or its scope no interface. */
export function socketAddress(text: string, port: number): Uint8Array | undefined {
  const [address, scope] = text.split('%');
  const bytes = familyBytes(address ?? '');
  if (bytes === undefined) return undefined;
  const name = new Uint8Array(bytes.length === 4 ? 16 : 28);
  const view = new DataView(name.buffer);
  view.setUint16(0, bytes.length === 4 ? AF_INET : AF_INET6, true);
  view.setUint16(2, port);
  name.set(bytes, bytes.length === 4 ? 4 : 8);
  if (scope !== undefined) {
    const entry = networkInterfaces()[scope]?.find((e) => e.family === 'IPv6' && e.scopeid);
    const id = /^\d+$/.test(scope) ? Number(scope) : entry?.family === 'IPv6' ? entry.scopeid : undefined;
    if (!id) return undefined;
    view.setUint32(24, id, true);
  }
  return name;
}
