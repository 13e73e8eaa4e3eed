/** What a probe is, and the frame that all kinds share: one outcome, one deadline, everything let go at the end. */
import type { Socket } from 'node:net';
import type { Ms } from '../../system/clock.js';
import type { FailureKind, Target } from '../feed.js';

export type Outcome =
  | { readonly kind: 'pass' }
  | { readonly kind: 'failure'; readonly failure: FailureKind; readonly detail: string }
  /** The fault is on this side; it says nothing about the endpoint (R15). */
  | { readonly kind: 'local'; readonly detail: string };

/** Measures a target once. Never rejects; `signal` ends it early with a local outcome. */
export type Probe = (target: Target, signal: AbortSignal) => Promise<Outcome>;

export const PASS: Outcome = { kind: 'pass' };

export function failure(kind: FailureKind, detail: string): Outcome {
  return { kind: 'failure', failure: kind, detail };
}

export function local(detail: string): Outcome {
  return { kind: 'local', detail };
}

/**
 * Runs `start`, which begins the work, reports through `settle` and returns what lets everything go.
 * The deadline covers all of it. A throw in `start` is local: the settings cannot be carried out.
 */
export function attempt(
  timeout: Ms,
  signal: AbortSignal,
  start: (settle: (outcome: Outcome) => void) => () => void,
): Promise<Outcome> {
  return new Promise((resolve) => {
    let settled = false;
    let release: (() => void) | undefined;
    const settle = (outcome: Outcome): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      release?.();
      resolve(outcome);
    };
    const abort = (): void => settle(local('stopped'));
    // Timers run before sockets are looked at: one more turn lets an answer that is already here win.
    const timer = setTimeout(
      () => setImmediate(() => settle(failure('timeout', `no answer within ${timeout} ms`))),
      timeout,
    );
    signal.addEventListener('abort', abort);
    if (signal.aborted) {
      abort();
      return;
    }
    try {
      release = start(settle);
      if (settled) release();
    } catch (error) {
      settle(local(error instanceof Error ? error.message : String(error)));
    }
  });
}

/**
 * For a socket that will be closed by `closeHard`: it never says goodbye in good order. A reset in the middle of
 * that is refused by the system, and would leave the descriptor open.
 */
export function withoutGoodbye<S extends Socket>(socket: S): S {
  socket._final = (done) => done();
  return socket;
}

/**
 * Closes with RST (R17): no TIME_WAIT here or there, at once. A socket that is still connecting has nothing to
 * reset, and would wait for the connection.
 */
export function closeHard(socket: Socket): void {
  if (socket.destroyed) return;
  if (!socket.connecting) socket.resetAndDestroy();
  socket.destroy();
}
