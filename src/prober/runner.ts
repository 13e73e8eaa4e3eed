/** Carries the schedule out: starts probes when they are due, judges what may count, and hands results on. */
import { setMaxListeners } from 'node:events';
import type { BootMs, Clock, Ms } from '../system/clock.js';
import { MAX_DETAIL, type ProbeResult, type Target } from './feed.js';
import { BEAT_MS, LoopWatch } from './loop-watch.js';
import { MoreTries } from './more-tries.js';
import type { Asker, Begin, Failure, Outcome, Probe } from './probes/attempt.js';
import type { Schedule, Turn } from './schedule.js';

/** Probes under way at once, at most; fewer after the system has refused descriptors. */
const MAX_IN_FLIGHT = 4_096;
const MIN_IN_FLIGHT = 8;
/** The limit grows back by one with so many probes that got their descriptor. */
const REGROW_EVERY = 32;
/** Started in one turn of the event loop, at most: then it is time to look at them, and at all else. */
const MAX_STARTS = 64;
/** Timers are not set finer; the schedule's play covers it. */
const TIMER_GRAIN_MS = 5;
const MAX_TIMER_MS = 60_000;
/** A standstill of this length moves the schedule, so that nothing is caught up. */
const PAUSE_MS = 1_000;
/** A loop that was late by this much, and at once by this share of a timeout or by that in all, may have caused it. */
const LATE_MS = 100;
const LATE_SHARE = 0.25;
const LATE_SHARE_IN_ALL = 0.5;
/** After a pause of so many intervals nothing that was under way counts (A21). */
const DISCARD_INTERVALS = 2;

/** So often what does not answer is tried; more often only what has not failed before. */
const TWICE = 2;

const NO_DESCRIPTORS = /^(EMFILE|ENFILE)/;

export interface RunnerOptions {
  readonly clock: Clock;
  readonly schedule: Schedule;
  readonly probes: Readonly<Record<Target['type'], Probe>>;
  /** For TCP, in place of the one in `probes`. */
  readonly beginTcp?: Begin;
  readonly onResult: (result: ProbeResult) => void;
  /** A probe found no descriptor. */
  readonly onShort?: () => void;
}

export interface RunnerStats {
  readonly targets: number;
  /** The worst lateness of the loop or of a start since the last look, of those that still wait for their turn, too. */
  readonly late: Ms;
  /** Probes without a result because the fault was here (R15), since the start. */
  readonly localErrors: number;
  /** The latest of them, for people. */
  readonly lastLocalError: string | undefined;
  /** Probes whose outcome was thrown away because of a pause, since the start. */
  readonly discarded: number;
  /** By how much intervals are stretched. */
  readonly stretch: number;
  /** Probes that have ended, and connections of theirs that nobody answered, since the start. */
  readonly ended: number;
  readonly unanswered: number;
}

export class ProbeRunner {
  readonly #options: RunnerOptions;
  readonly #watch: LoopWatch;
  readonly #abort = new AbortController();
  readonly #beat: NodeJS.Timeout;
  #timer: NodeJS.Timeout | undefined;
  #more: NodeJS.Immediate | undefined;
  /** What the timer is set for; Infinity without one. */
  #wakeAt: BootMs = Number.POSITIVE_INFINITY;
  #inFlight = 0;
  #limit = MAX_IN_FLIGHT;
  #sinceRegrown = 0;
  #localErrors = 0;
  #lastLocalError: string | undefined;
  #discarded = 0;
  #ended = 0;
  #unanswered = 0;
  /** Those that wait for their turn, since when, the first before the others; and when those began that did. */
  readonly #waiting = new Map<Turn, BootMs>();
  readonly #begun = new Map<Turn, BootMs>();
  readonly #moreTries: MoreTries;

  constructor(options: RunnerOptions) {
    this.#options = options;
    this.#watch = new LoopWatch(options.clock.now().boot);
    this.#moreTries = new MoreTries(options.schedule.budget);
    setMaxListeners(0, this.#abort.signal);
    this.#beat = setInterval(() => this.wake(), BEAT_MS);
  }

  setTargets(targets: readonly Target[]): void {
    this.#options.schedule.set(targets, this.#look());
    this.#arm();
  }

  changeTargets(add: readonly Target[], remove: readonly string[]): void {
    this.#options.schedule.change(add, remove, this.#look());
    this.#arm();
  }

  /** Probes these as soon as the budget allows. */
  hasten(keys: readonly string[]): void {
    this.#options.schedule.hasten(keys, this.#look());
    this.wake();
  }

  /** Probes a second, from now on. */
  set budget(rate: number) {
    this.#options.schedule.budget = rate;
    this.#moreTries.budget = rate;
  }

  stats(): RunnerStats {
    const { schedule } = this.#options;
    return {
      targets: schedule.size,
      late: Math.max(this.#watch.worstLate(), schedule.worstLate(), this.#longestWait()),
      localErrors: this.#localErrors,
      lastLocalError: this.#lastLocalError,
      discarded: this.#discarded,
      stretch: schedule.stretch,
      ended: this.#ended,
      unanswered: this.#unanswered,
    };
  }

  /** Ends all probes under way and starts no more. */
  stop(): void {
    clearInterval(this.#beat);
    clearTimeout(this.#timer);
    clearImmediate(this.#more);
    this.#options.schedule.clear();
    this.#abort.abort();
  }

  /** What the timers call: starts what is due. */
  wake(): void {
    const now = this.#look();
    this.#wakeAt = Number.POSITIVE_INFINITY;
    const room = Math.min(MAX_STARTS, this.#limit - this.#inFlight);
    const turns = this.#options.schedule.take(now, room);
    for (const turn of turns) this.#probe(turn);
    if (turns.length === MAX_STARTS) this.#goOn();
    else this.#arm(now);
  }

  /** Takes what else is due in the next turn of the event loop. */
  #goOn(): void {
    this.#more ??= setImmediate(() => {
      this.#more = undefined;
      this.wake();
    });
  }

  /** A timer that is set too early stays: it arms anew. So does one that is as soon as any that is set now. */
  #arm(now = this.#now()): void {
    if (this.#wakeAt <= now + TIMER_GRAIN_MS) return;
    if (this.#abort.signal.aborted || this.#inFlight >= this.#limit) return;
    const next = this.#options.schedule.nextWake();
    if (next >= this.#wakeAt) return;
    clearTimeout(this.#timer);
    this.#wakeAt = next;
    const wait = Math.min(MAX_TIMER_MS, Math.max(TIMER_GRAIN_MS, Math.ceil(next - now)));
    this.#timer = setTimeout(() => this.wake(), wait);
  }

  #probe(turn: Turn): void {
    this.#inFlight++;
    const { target } = turn;
    const { probes, beginTcp } = this.#options;
    const asker = new TurnAsker(turn, this.#asked);
    if (target.type === 'tcp' && beginTcp !== undefined) {
      beginTcp(target, this.#abort.signal, asker);
      return;
    }
    probes[target.type](target, this.#abort.signal, asker).then(
      (outcome) => asker.ended(outcome),
      (error: unknown) => asker.ended({ kind: 'local', detail: String(error) }),
    );
  }

  /** What all turns ask and tell comes to. */
  readonly #asked: Asked = {
    more: ({ failing }, made) => made < TWICE || (!failing && this.#moreTries.take(this.#now())),
    unanswered: () => {
      this.#unanswered++;
    },
    waits: (turn, does) => this.#wait(turn, does),
    ended: (turn, outcome) => this.#end(turn, outcome),
  };

  /** What waits leaves its room to others, and its time has not begun. */
  #wait(turn: Turn, does: boolean): void {
    const now = this.#now();
    if (does) {
      this.#inFlight--;
      this.#waiting.set(turn, now);
      this.#arm();
    } else if (this.#waiting.delete(turn)) {
      this.#inFlight++;
      this.#begun.set(turn, now);
    }
  }

  /** The longest that one has waited, of those that wait. */
  #longestWait(): Ms {
    for (const since of this.#waiting.values()) return this.#now() - since;
    return 0;
  }

  #end(turn: Turn, outcome: Outcome): void {
    this.#inFlight--;
    if (this.#abort.signal.aborted) return;
    this.#ended++;
    const now = this.#look();
    const { schedule } = this.#options;
    const begun = this.#begunOf(turn);
    const gap = this.#watch.longestSince(begun, now);
    if (this.#begun.size > 0) this.#begun.delete(turn);
    const late = outcome.kind === 'failure' ? this.#lateness(outcome, turn.target, gap, begun, now) : 0;
    const failing = outcome.kind === 'local' || late > 0 ? undefined : outcome.kind === 'failure';
    const wanted = schedule.done(turn.target.key, now, failing);
    if (gap > DISCARD_INTERVALS * turn.interval) this.#discarded++;
    else if (outcome.kind === 'local') this.#local(outcome.detail);
    else if (late > 0) this.#local(`event loop late by ${Math.round(late)} ms`);
    else if (wanted) this.#options.onResult(resultOf(turn, outcome, now));
    if (outcome.kind !== 'local' && ++this.#sinceRegrown >= REGROW_EVERY) {
      this.#sinceRegrown = 0;
      this.#limit = Math.min(MAX_IN_FLIGHT, this.#limit + 1);
    }
    this.#arm(now);
  }

  /**
   * R15: by how much the loop was late where that may be why a probe failed, otherwise 0: nothing came in time, or the
   * other side did not wait for us.
   */
  #lateness({ failure, ended }: Failure, { timeout }: Target, gap: Ms, begun: BootMs, now: BootMs): Ms {
    if (ended) return gap;
    if (failure !== 'timeout') return 0;
    if (gap > Math.max(LATE_MS, timeout * LATE_SHARE)) return gap;
    const total = this.#watch.totalSince(begun, now);
    return total > Math.max(LATE_MS, timeout * LATE_SHARE_IN_ALL) ? total : 0;
  }

  /** What waited for its turn began after that. */
  #begunOf(turn: Turn): BootMs {
    return this.#begun.size === 0 ? turn.started : (this.#begun.get(turn) ?? turn.started);
  }

  #local(detail: string): void {
    this.#localErrors++;
    this.#lastLocalError = detail;
    if (!NO_DESCRIPTORS.test(detail)) return;
    this.#options.onShort?.();
    this.#limit = Math.max(MIN_IN_FLIGHT, Math.min(this.#limit, Math.floor(this.#inFlight * 0.75)));
    this.#sinceRegrown = 0;
  }

  /** Reads the clock and notices a pause. After one any callback may be the first, so all of them begin here. */
  #look(): BootMs {
    const now = this.#now();
    const gap = this.#watch.beat(now);
    if (gap >= PAUSE_MS) this.#options.schedule.pause(gap);
    return now;
  }

  #now(): BootMs {
    return this.#options.clock.now().boot;
  }
}

/** What probes ask and tell, and whose it is. */
type Asked = { readonly [K in keyof Asker]: (turn: Turn, ...args: Parameters<Asker[K]>) => ReturnType<Asker[K]> };

/** Of one turn. There is one for each probe: it has no functions of its own. */
class TurnAsker implements Asker {
  constructor(
    readonly turn: Turn,
    readonly asked: Asked,
  ) {}

  more(made: number): boolean {
    return this.asked.more(this.turn, made);
  }

  unanswered(): void {
    this.asked.unanswered(this.turn);
  }

  waits(does: boolean): void {
    this.asked.waits(this.turn, does);
  }

  ended(outcome: Outcome): void {
    this.asked.ended(this.turn, outcome);
  }
}

function resultOf(turn: Turn, outcome: Exclude<Outcome, { kind: 'local' }>, now: BootMs): ProbeResult {
  const result = { key: turn.target.key, at: now, interval: turn.interval, took: Math.max(0, now - turn.started) };
  if (outcome.kind === 'failure')
    return { ...result, failure: outcome.failure, detail: outcome.detail.slice(0, MAX_DETAIL) };
  return outcome.draining ? { ...result, draining: true, detail: outcome.detail! } : result;
}
