/** What a probe is, and the frame that all kinds share: one outcome, one deadline, everything let go at the end. */
import type { Ms } from '../../system/clock.js';
import type { FailureKind, Target } from '../feed.js';

export type Outcome =
  | { readonly kind: 'pass'; readonly draining?: true; readonly detail?: string }
  | Failure
  /** The fault is on this side; it says nothing about the endpoint (R15). */
  | { readonly kind: 'local'; readonly detail: string };

export interface Failure {
  readonly kind: 'failure';
  readonly failure: FailureKind;
  readonly detail: string;
  /** The other side ended it: it may have waited too long for us. */
  readonly ended?: true;
}

/**
 * A lost packet is not sent again by the system within the usual timeout, so a probe that hears nothing tries again
 * beside what is under way. What it asks and tells:
 */
export interface Tries {
  /** Whether it may try again, after `made` tries. */
  more(made: number): boolean;
  /** A connection has ended that nobody answered: the host remembers it for long (budget.ts). */
  unanswered(): void;
  /** It waits for its turn and holds nothing, so that its time has not begun; or it does so no more. */
  waits(does: boolean): void;
}

/** Measures a target once. Never rejects; `signal` ends it early with a local outcome. Without `tries` it tries twice. */
export type Probe = (target: Target, signal: AbortSignal, tries?: Tries) => Promise<Outcome>;

/** The same without a promise, for what is done very often: the outcome is told once, after this has returned. */
export type Begin = (target: Target, signal: AbortSignal, asker: Asker) => void;

/** Who has something probed. */
export interface Asker extends Tries {
  ended(outcome: Outcome): void;
}

/** What is tried a second time, and no more. */
export const TWICE: Tries = { more: (made) => made < 2, unanswered: () => {}, waits: () => {} };

/** When it is tried again, as shares of the timeout: what answers within half of it is asked once. */
export const RETRY_AT: readonly number[] = [1 / 2, 5 / 8, 3 / 4];

export const PASS: Outcome = { kind: 'pass' };
/** It answers, and wants no more of it (R10). */
export const DRAINING: Outcome = { kind: 'pass', draining: true, detail: 'HTTP 503, draining' };

export const STOPPED: Outcome = { kind: 'local', detail: 'stopped' };

export function failure(kind: FailureKind, detail: string): Outcome {
  return { kind: 'failure', failure: kind, detail };
}

export function endedByPeer(kind: FailureKind, detail: string): Outcome {
  return { kind: 'failure', failure: kind, detail, ended: true };
}

export function closedTooEarly(before = 'the answer was complete'): Outcome {
  return endedByPeer('bad-status', `closed before ${before}`);
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

export interface Work {
  /** Lets everything go. */
  readonly release: () => void;
  /** Tries again if nothing was heard, and if it may. */
  readonly again?: (may: () => boolean) => void;
}

/**
 * Runs `start`, which begins the work and reports through `settle`. The deadline covers all of it. A throw in `start`
 * is local: the settings cannot be carried out.
 */
export function attempt(
  timeout: Ms,
  signal: AbortSignal,
  start: (settle: (outcome: Outcome) => void) => Work,
  tries: Tries = TWICE,
): Promise<Outcome> {
  return new Promise((resolve) => {
    let settled = false;
    let work: Work | undefined;
    let made = 1;
    let step = 0;
    let timer: NodeJS.Timeout | undefined;
    const settle = (outcome: Outcome): void => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      stopsOf(signal).delete(abort);
      work?.release();
      resolve(outcome);
    };
    const abort = (): void => settle(STOPPED);
    const may = (): boolean => {
      if (!tries.more(made)) return false;
      made++;
      return true;
    };
    const arm = (): void => {
      const from = step === 0 ? 0 : RETRY_AT[step - 1]!;
      timer = setTimeout(expire, timeout * ((RETRY_AT[step] ?? 1) - from));
    };
    // Timers run before sockets are looked at: one more turn lets an answer that is already here win.
    const expire = (): void => {
      const isLast = step++ === RETRY_AT.length;
      if (!isLast) arm();
      setImmediate(() => {
        if (settled) return;
        if (isLast) settle(timedOut(timeout));
        else work?.again?.(may);
      });
    };
    arm();
    stopsOf(signal).add(abort);
    if (signal.aborted) {
      abort();
      return;
    }
    try {
      work = start(settle);
      if (settled) work.release();
    } catch (error) {
      settle(local(error instanceof Error ? error.message : String(error)));
    }
  });
}
