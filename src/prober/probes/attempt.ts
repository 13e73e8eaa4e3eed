/** What a probe is, and the frame that all kinds share: one outcome, one deadline, everything let go at the end. */
import type { Ms } from '../../system/clock.js';
import type { FailureKind, Target } from '../feed.js';

export type Outcome =
  | { readonly kind: 'pass'; readonly draining?: true; readonly detail?: string }
  | { readonly kind: 'failure'; readonly failure: FailureKind; readonly detail: string }
  /** The fault is on this side; it says nothing about the endpoint (R15). */
  | { readonly kind: 'local'; readonly detail: string };

/** Measures a target once. Never rejects; `signal` ends it early with a local outcome. */
export type Probe = (target: Target, signal: AbortSignal) => Promise<Outcome>;

export const PASS: Outcome = { kind: 'pass' };
/** It answers, and wants no more of it (R10). */
export const DRAINING: Outcome = { kind: 'pass', draining: true, detail: 'HTTP 503, draining' };

export const STOPPED: Outcome = { kind: 'local', detail: 'stopped' };

export function failure(kind: FailureKind, detail: string): Outcome {
  return { kind: 'failure', failure: kind, detail };
}

export function local(detail: string): Outcome {
  return { kind: 'local', detail };
}

export function timedOut(timeout: Ms): Outcome {
  return failure('timeout', `no answer within ${timeout} ms`);
}

/** What a stop ends, by the signal that it comes with: one listener for all, since each new one is compared with those before. */
const stops = new WeakMap<AbortSignal, Set<() => void>>();

function stopsOf(signal: AbortSignal): Set<() => void> {
  let all = stops.get(signal);
  if (all === undefined) {
    const begun = new Set<() => void>();
    stops.set(signal, begun);
    signal.addEventListener('abort', () => {
      for (const stop of begun) stop();
    });
    all = begun;
  }
  return all;
}

/**
 * Runs `start`, which begins the work, reports through `settle` and returns what lets everything go.
 * `halfway` is called when half of the time is over. The deadline covers all of it. A throw in `start` is local: the settings cannot be carried out.
 */
export function attempt(
  timeout: Ms,
  signal: AbortSignal,
  start: (settle: (outcome: Outcome) => void) => () => void,
  halfway?: () => void,
): Promise<Outcome> {
  return new Promise((resolve) => {
    let settled = false;
    let release: (() => void) | undefined;
    const settle = (outcome: Outcome): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      stopsOf(signal).delete(abort);
      release?.();
      resolve(outcome);
    };
    const abort = (): void => settle(STOPPED);
    // Timers run before sockets are looked at: one more turn lets an answer that is already here win.
    const expire = (): void => {
      setImmediate(() => settle(timedOut(timeout)));
    };
    let timer =
      halfway === undefined
        ? setTimeout(expire, timeout)
        : setTimeout(() => {
            timer = setTimeout(expire, timeout / 2);
            setImmediate(() => {
              if (!settled) halfway();
            });
          }, timeout / 2);
    stopsOf(signal).add(abort);
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
