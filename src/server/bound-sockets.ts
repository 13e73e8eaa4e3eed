/** The batched transport's sockets by plan. They belong to the control thread and outlive the threads that use them. */
import { closeSync } from 'node:fs';
import type { SocketPlan } from './listen-plan.js';

export class BoundSockets {
  /** One descriptor a UDP thread. */
  readonly #byPlan = new Map<string, readonly number[]>();
  /** Not listed any more; closed once no thread can still use them. */
  #retired: { readonly fds: readonly number[]; readonly sequence: number }[] = [];

  add(key: string, fds: readonly number[]): void {
    this.#byPlan.set(key, fds);
  }

  /** The descriptors of one thread, by plan key. */
  forThread(index: number): Record<string, number> {
    const own: Record<string, number> = {};
    for (const [key, fds] of this.#byPlan) if (fds[index] !== undefined) own[key] = fds[index]!;
    return own;
  }

  /** The descriptor of one thread for a plan that is listed. */
  of(index: number, key: string): number | undefined {
    return this.#byPlan.get(key)?.[index];
  }

  /** Takes out what no plan lists, to be closed when the threads have answered listen message `sequence`. */
  retire(plans: readonly SocketPlan[], sequence: number): void {
    for (const [key, fds] of this.#byPlan) {
      if (plans.some((plan) => plan.key === key)) continue;
      this.#byPlan.delete(key);
      this.#retired.push({ fds, sequence });
    }
  }

  /** Every thread has answered listen message `sequence`. */
  release(sequence: number): void {
    this.#retired = this.#retired.filter((retired) => {
      if (retired.sequence > sequence) return true;
      retired.fds.forEach(closeQuietly);
      return false;
    });
  }

  /** No thread runs any more. */
  closeAll(): void {
    for (const fds of this.#byPlan.values()) fds.forEach(closeQuietly);
    this.#byPlan.clear();
    this.release(Number.POSITIVE_INFINITY);
  }
}

function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // EBADF: it is closed, which was wanted.
  }
}
