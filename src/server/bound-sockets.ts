/**
 * The batched transport's sockets by plan. They belong to the control thread and outlive the threads that use them;
 * inherited ones are never closed, since the address could not be bound again.
 */
import { closeSync } from 'node:fs';
import type { SocketPlan } from './listen-plan.js';

export class BoundSockets {
  /** One descriptor a UDP thread; an inherited one is shared by all. */
  readonly #byPlan = new Map<string, readonly number[]>();
  readonly #inherited = new Map<string, number>();
  /** Not listed any more; closed once no thread can still use them. */
  #retired: { readonly fds: readonly number[]; readonly sequence: number }[] = [];

  add(key: string, fds: readonly number[]): void {
    this.#byPlan.set(key, fds);
  }

  addInherited(key: string, fd: number): void {
    this.#inherited.set(key, fd);
  }

  /** The descriptors of one thread, by plan key. */
  forThread(index: number): Record<string, number> {
    const own: Record<string, number> = {};
    for (const [key, fds] of this.#byPlan) if (fds[index] !== undefined) own[key] = fds[index]!;
    for (const [key, fd] of this.#inherited) own[key] = fd;
    return own;
  }

  /** The descriptor of one thread for a plan that is listed. */
  of(index: number, key: string): number | undefined {
    return this.#inherited.get(key) ?? this.#byPlan.get(key)?.[index];
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
    this.#inherited.clear();
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
