/** The machine's clocks, and the watch over their agreement (R30). */
import { uptime } from 'node:os';
import type { BootMs, Clock, Instant, Ms, WallMs } from './clock.js';

/** All three clocks at one moment. `mono` stands still in a suspend, `boot` does not, `wall` may step. */
export interface ClockReadings {
  readonly mono: Ms;
  readonly boot: BootMs;
  readonly wall: WallMs;
}

/** Raw sources, replaceable in tests. */
export interface ClockSources {
  /** Milliseconds of monotonic time. */
  mono(): Ms;
  /** Milliseconds since the machine booted, suspends included; may be coarse. */
  uptime(): Ms;
  wall(): WallMs;
}

const SYSTEM: ClockSources = {
  mono: () => {
    const [s, ns] = process.hrtime();
    return s * 1000 + ns / 1e6;
  },
  uptime: () => uptime() * 1000,
  wall: () => Date.now(),
};

/** The uptime is read in steps of 10 ms or so; nearer than this the two clocks are taken as equal. */
const COARSE_MS = 50;
const RESAMPLE_MS = 1000;

/**
 * Boot time as monotonic time plus the time spent in suspend. It never goes back, and all processes of the
 * machine read the same within the coarseness of its uptime. `now()` costs well under a microsecond; a suspend
 * is seen within a second of running.
 */
export class BootClock implements Clock {
  readonly #sources: ClockSources;
  #suspended: Ms = 0;
  #sampled = Number.NEGATIVE_INFINITY;

  constructor(sources: ClockSources = SYSTEM) {
    this.#sources = sources;
  }

  now(): Instant {
    const mono = this.#sources.mono();
    if (mono - this.#sampled >= RESAMPLE_MS) this.#resample(mono);
    return { boot: mono + this.#suspended, wall: this.#sources.wall() };
  }

  /** All clocks, freshly read. */
  read(): ClockReadings {
    const mono = this.#sources.mono();
    this.#resample(mono);
    return { mono, boot: mono + this.#suspended, wall: this.#sources.wall() };
  }

  #resample(mono: Ms): void {
    this.#sampled = mono;
    const suspended = this.#sources.uptime() - mono;
    if (suspended > this.#suspended + COARSE_MS) this.#suspended = suspended;
  }
}

let shared: BootClock | undefined;

/** The clock of this thread. */
export function bootClock(): BootClock {
  return (shared ??= new BootClock());
}

/** Why and by how much the clocks parted. */
export interface ClockGap {
  /** `late`: the process did not run; `suspend`: the machine did not; `step`: the wall clock was set. */
  readonly kind: 'late' | 'suspend' | 'step';
  /** Signed for a step. */
  readonly by: Ms;
}

export const CLOCK_GAP_MS = 5000;

/**
 * Compares each set of readings with the one before (R30). A slow drift, as NTP corrects it, is never a gap.
 */
export class ClockWatch {
  readonly #interval: Ms;
  #last: ClockReadings | undefined;

  /** @param interval how far apart the observations are meant to be */
  constructor(interval: Ms) {
    this.#interval = interval;
  }

  observe(now: ClockReadings): ClockGap | undefined {
    const last = this.#last;
    this.#last = now;
    if (last === undefined) return undefined;
    const mono = now.mono - last.mono;
    const boot = now.boot - last.boot;
    const wall = now.wall - last.wall;
    if (boot - mono > CLOCK_GAP_MS) return { kind: 'suspend', by: boot - mono };
    if (mono - this.#interval > CLOCK_GAP_MS) return { kind: 'late', by: mono - this.#interval };
    if (Math.abs(wall - boot) > CLOCK_GAP_MS) return { kind: 'step', by: wall - boot };
    return undefined;
  }
}

/** Watches the clocks once a second until the returned function is called. It does not keep the process alive. */
export function watchClocks(clock: BootClock, onGap: (gap: ClockGap) => void, interval: Ms = 1000): () => void {
  const watch = new ClockWatch(interval);
  watch.observe(clock.read());
  const timer = setInterval(() => {
    const gap = watch.observe(clock.read());
    if (gap !== undefined) onGap(gap);
  }, interval);
  timer.unref();
  return () => clearInterval(timer);
}
