/** The system calls of the batched transport. The layouts of the structures that go with them are written out by hand. */
import { withLibc } from '../system/libc.js';

/** Each returns -1 on failure; `errno` then tells why. Pointers are typed arrays; the caller keeps those alive that the kernel goes on using. */
export interface LinuxCalls {
  socket(domain: number, type: number, protocol: number): number;
  bind(fd: number, address: Uint8Array, length: number): number;
  close(fd: number): number;
  /** Another descriptor of the same socket, closed in programs that are started; -1 on failure. */
  duplicate(fd: number): number;
  setsockopt(fd: number, level: number, name: number, value: Uint8Array, length: number): number;
  getsockopt(fd: number, level: number, name: number, value: Uint8Array, length: Uint8Array): number;
  eventfd(initial: number, flags: number): number;
  read(fd: number, buffer: Uint8Array, length: number): number;
  poll(fds: Uint8Array, count: number, timeoutMs: number): number;
  recvmmsg(fd: number, headers: Uint8Array, count: number, flags: number, timeout: null): number;
  sendmmsg(fd: number, headers: Uint8Array, count: number, flags: number): number;
  setpriority(which: number, who: number, priority: number): number;
  /**
   * How long the calling thread may run, in ns, before others have their turn: when it wakes, who asks for less is let
   * in before one that asked for more has ended its turn. Policy and priority stay. Linux before 6.12 takes no notice.
   */
  setslice(ns: number): number;
  errno(): number;
  /** Where a typed array's memory begins. Only memory of an ArrayBuffer made as such stays where it is. */
  address(memory: Uint8Array): bigint;
}

const F_DUPFD_CLOEXEC = 1030;
/** struct sched_attr in its first version: size, policy, flags, nice, priority, runtime, deadline, period. */
const SCHED_ATTR_BYTES = 48;
const SCHED_ATTR_FLAGS = 8;
const SCHED_FLAG_KEEP_POLICY = 8;
const SCHED_ATTR_NICE = 16;
const SCHED_ATTR_RUNTIME = 24;
const SYS_SCHED_SETATTR = process.arch === 'x64' ? 314 : 274;

export const EINTR = 4;
export const EAGAIN = 11;
export const EACCES = 13;
export const EPERM = 1;
export const ENOBUFS = 105;

/** The calls, or a sentence that says why they are not to be had here. */
export function loadLinuxCalls(): LinuxCalls | string {
  return withLibc((libc) => {
    const fcntl = libc.func('int fcntl(int, int, ...)');
    const syscall = libc.func('int64_t syscall(int64_t, ...)');
    const getpriority = libc.func('int getpriority(int, uint32_t)');
    return {
      socket: libc.func('int socket(int, int, int)'),
      bind: libc.func('int bind(int, void *, uint32_t)'),
      close: libc.func('int close(int)'),
      duplicate: (fd) => fcntl(fd, F_DUPFD_CLOEXEC, 'int', 0),
      setsockopt: libc.func('int setsockopt(int, int, int, void *, uint32_t)'),
      getsockopt: libc.func('int getsockopt(int, int, int, void *, void *)'),
      eventfd: libc.func('int eventfd(uint32_t, int)'),
      read: libc.func('int64_t read(int, void *, uint64_t)'),
      poll: libc.func('int poll(void *, uint64_t, int)'),
      recvmmsg: libc.func('int recvmmsg(int, void *, uint32_t, int, void *)'),
      sendmmsg: libc.func('int sendmmsg(int, void *, uint32_t, int)'),
      setpriority: libc.func('int setpriority(int, uint32_t, int)'),
      setslice: (ns) => {
        const attributes = new DataView(new ArrayBuffer(SCHED_ATTR_BYTES));
        attributes.setUint32(0, SCHED_ATTR_BYTES, true);
        attributes.setUint32(SCHED_ATTR_FLAGS, SCHED_FLAG_KEEP_POLICY, true);
        attributes.setInt32(SCHED_ATTR_NICE, getpriority(0, 0), true);
        attributes.setUint32(SCHED_ATTR_RUNTIME, ns, true);
        const memory = new Uint8Array(attributes.buffer);
        return Number(syscall(SYS_SCHED_SETATTR, 'int', 0, 'void *', memory, 'uint32_t', 0));
      },
      errno: libc.errno,
      address: libc.address,
    };
  });
}
