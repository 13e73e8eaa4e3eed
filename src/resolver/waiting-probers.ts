/** Probers that were replaced and wait to be needed again (R36). */
import type { ServerResponse } from 'node:http';

/** They leave room for a new one, which does not wait. */
const MAX_WAITING = 8;

export class WaitingProbers {
  /** The newest last. */
  readonly #open = new Set<ServerResponse>();

  /** False when there are enough: the request is still to be answered. */
  add(request: ServerResponse): boolean {
    if (this.#open.size >= MAX_WAITING) return false;
    this.#open.add(request);
    request.on('close', () => this.#open.delete(request));
    return true;
  }

  /** Calls the newest, and no other: they would drive each other out. If it does not come, call again. */
  call(): void {
    const next = [...this.#open].at(-1);
    if (next === undefined) return;
    this.#open.delete(next);
    next.writeHead(204, { connection: 'close' });
    next.end();
  }
}
