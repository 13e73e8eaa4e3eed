/**
 * The C library of this system, through koffi (an optional dependency). Little-endian 64-bit Linux only: whoever calls
 * it writes the layouts of structures out by hand.
 */
import { createRequire } from 'node:module';
import { endianness } from 'node:os';
import { getSystemErrorName } from 'node:util';

type Koffi = typeof import('koffi');

export interface Libc {
  /** A function of it by its prototype in C. */
  func(prototype: string): ReturnType<ReturnType<Koffi['load']>['func']>;
  /** Of the latest call. */
  errno(): number;
  /** Where a typed array's memory begins. Only memory of an ArrayBuffer made as such stays where it is. */
  address(memory: Uint8Array): bigint;
}

const ARCHITECTURES = ['x64', 'arm64', 'riscv64', 'loong64'];

/** What `declare` makes of the library, or a sentence that says why it is not to be had here. */
export function withLibc<T>(declare: (libc: Libc) => T): T | string {
  if (process.platform !== 'linux') return notLinux();
  if (!ARCHITECTURES.includes(process.arch) || endianness() !== 'LE') return `the processor is ${process.arch}`;
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi;
    const library = koffi.load(null);
    return declare({
      func: (prototype) => library.func(prototype),
      errno: () => koffi.errno(),
      address: (memory) => koffi.address(memory),
    });
  } catch (error) {
    return `koffi does not load: ${error instanceof Error ? error.message : String(error)}`;
  }
}

export function notLinux(): string {
  return `the platform is ${process.platform}, not Linux`;
}

/** `EADDRINUSE` and the like. */
export function errorName(errno: number): string {
  try {
    return getSystemErrorName(-errno) ?? `errno ${errno}`;
  } catch {
    return `errno ${errno}`;
  }
}
