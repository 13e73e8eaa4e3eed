/** Memory that is read all over is reached sooner in large pages: fewer of them have to be looked up. */
import { withLibc } from './libc.js';

const PAGE_BYTES = 2 * 1024 * 1024;
/** Below, small pages are few enough, and koffi need not be loaded for them. */
const LEAST_BYTES = 2 * PAGE_BYTES;
const MADV_HUGEPAGE = 14;

type Advise = (memory: SharedArrayBuffer) => void;
let advise: Advise | undefined;

/** Zeros, for which the system is asked for large pages (Linux, unless switched off there); else in those that there are. */
export function largeSharedMemory(bytes: number): SharedArrayBuffer {
  const memory = new SharedArrayBuffer(bytes);
  if (bytes >= LEAST_BYTES) {
    advise ??= makeAdvise();
    advise(memory);
  }
  return memory;
}

function makeAdvise(): Advise {
  const made = withLibc<Advise>((libc) => {
    const madvise = libc.func('int madvise(uint64_t, uint64_t, int)');
    return (memory) => {
      const start = libc.address(new Uint8Array(memory));
      // Whole large pages alone; what stands before and after them stays in small ones.
      const first = (start + BigInt(PAGE_BYTES - 1)) & -BigInt(PAGE_BYTES);
      const pages = Math.floor((memory.byteLength - Number(first - start)) / PAGE_BYTES);
      madvise(first, pages * PAGE_BYTES, MADV_HUGEPAGE);
    };
  });
  return typeof made === 'string' ? () => undefined : made;
}
