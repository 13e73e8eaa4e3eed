/**
 * When each target is probed (R17). Pure: every method gets the time. The work is constant: a target has its
 * phase from a hash, every gap is 0.8 to 1.2 of the interval, nothing is ever caught up, and when the targets
 * ask for more than the budget all intervals stretch alike.
 */
import type { BootMs, Ms } from '../system/clock.js';
import { type Due, DueHeap } from './due-heap.js';
import type { Target } from './feed.js';

/** A new target's first probe, at the latest, as far as the budget allows. */
const FIRST_WITHIN_MS = 1_000;
/** Half of a gap's play is jitter, half is for moving to the phase; 5 % of R17's 20 % are left to late timers. */
const PLAY = 0.15;
/** The longest gap that is an interval kept, as a share of it. */
const LONGEST_GAP = 1.2;
/** Stretched intervals fill this share of the budget, so that chance crowds have room to drain. */
const FILL = 0.95;
/** Unused budget is kept for so long at most: no burst after a quiet time. */
const BURST_MS = 20;
/** At least this share of the budget is for targets that were never probed. */
const NEW_SHARE = 0.5;

/** A probe to be started now. */
export interface Turn {
  readonly target: Target;
  readonly started: BootMs;
  /** The interval as it is really kept: stretched by the budget, or by starting late. */
  readonly interval: Ms;
}

interface Entry extends Due {
  target: Target;
  readonly hash: number;
  turns: number;
  /** Start of the latest probe; undefined before the first. */
  started: number | undefined;
  busy: boolean;
}

export class Schedule {
  readonly #entries = new Map<string, Entry>();
  readonly #heap = new DueHeap<Entry>();
  /** Times inside are less by this: a pause moves everything at once, in constant time. */
  #paused: Ms = 0;
  /** From when on the next probe is inside the budget. */
  #slot = 0;
  /** From when on the next new target may have its first probe. */
  #newSlot = 0;
  /** Probes a second that the targets ask for, and those of them that were probed before. */
  #asked = 0;
  #settled = 0;
  #late: Ms = 0;

  /**
   * @param budget probes a second, at most
   * @param seed differs from host to host, so that hosts do not probe an endpoint in step
   */
  constructor(
    readonly budget: number,
    readonly seed: number,
  ) {}

  get size(): number {
    return this.#entries.size;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** By how much intervals are stretched to stay inside the budget, 1 or more. */
  get stretch(): number {
    return Math.max(1, this.#asked / (this.budget * FILL));
  }

  /** These targets and no others. Those that stay keep their time. */
  set(targets: readonly Target[], now: BootMs): void {
    const keep = new Set(targets.map((target) => target.key));
    this.change(
      targets,
      [...this.#entries.keys()].filter((key) => !keep.has(key)),
      now,
    );
  }

  change(add: readonly Target[], remove: readonly string[], now: BootMs): void {
    for (const key of remove) this.#remove(key);
    for (const target of add) {
      const entry = this.#entries.get(target.key);
      if (entry === undefined) this.#add(target, now - this.#paused);
      else this.#replace(entry, target, now - this.#paused);
    }
  }

  /** R20: these are due now. One that is being probed is left as it is: its result comes soon. */
  hasten(keys: readonly string[], now: BootMs): void {
    const time = now - this.#paused;
    for (const key of keys) {
      const entry = this.#entries.get(key);
      if (entry === undefined || entry.busy || entry.due <= time) continue;
      this.#heap.remove(entry);
      entry.due = time;
      this.#heap.add(entry);
    }
  }

  /** Up to `room` targets that are due and inside the budget. Each is out of the schedule until `done`. */
  take(now: BootMs, room: number): Turn[] {
    const time = now - this.#paused;
    const turns: Turn[] = [];
    for (let entry = this.#heap.peek(); entry !== undefined && turns.length < room; entry = this.#heap.peek()) {
      if (entry.due > time || this.#slot > time) break;
      this.#slot = Math.max(this.#slot, time - BURST_MS) + 1_000 / this.budget;
      this.#heap.remove(entry);
      this.#late = Math.max(this.#late, time - entry.due);
      turns.push({ target: entry.target, started: now, interval: this.#kept(entry, time) });
      if (entry.started === undefined) this.#settled += 1_000 / entry.target.interval;
      entry.started = time;
      entry.busy = true;
    }
    return turns;
  }

  /** The probe of a turn has ended, in whatever way. A target that was removed meanwhile is passed over. */
  done(key: string, now: BootMs): void {
    const entry = this.#entries.get(key);
    if (entry?.busy !== true) return;
    entry.busy = false;
    this.#plan(entry, now - this.#paused);
  }

  /** When `take` may have something; Infinity when nothing is scheduled. */
  nextWake(): BootMs {
    const next = this.#heap.peek();
    return next === undefined ? Number.POSITIVE_INFINITY : Math.max(next.due, this.#slot) + this.#paused;
  }

  /** The process stood still for `gap`: everything comes so much later, in the same order and spacing (A21). */
  pause(gap: Ms): void {
    this.#paused += gap;
  }

  /** The worst lateness of a start since this was last asked. */
  worstLate(): Ms {
    const late = this.#late;
    this.#late = 0;
    return late;
  }

  clear(): void {
    this.#entries.clear();
    this.#heap.clear();
    this.#asked = 0;
    this.#settled = 0;
  }

  #add(target: Target, time: number): void {
    const hash = hashText(target.key, this.seed);
    // The budget that settled targets leave, or half of it: a wave of new rows does not delay them.
    const forNew = Math.max(this.budget * FILL - this.#settled, this.budget * NEW_SHARE);
    this.#newSlot = Math.max(this.#newSlot + 1_000 / forNew, time);
    const soon = time + fraction(hash) * Math.min(FIRST_WITHIN_MS, target.interval);
    const due = Math.max(soon, this.#newSlot);
    const entry: Entry = { target, hash, due, place: -1, turns: 0, started: undefined, busy: false };
    this.#entries.set(target.key, entry);
    this.#asked += 1_000 / target.interval;
    this.#heap.add(entry);
  }

  #replace(entry: Entry, target: Target, time: number): void {
    const rate = 1_000 / target.interval - 1_000 / entry.target.interval;
    this.#asked += rate;
    if (entry.started !== undefined) this.#settled += rate;
    const sooner = target.interval < entry.target.interval;
    entry.target = target;
    if (!sooner || entry.busy) return;
    const due = entry.due;
    this.#heap.remove(entry);
    this.#plan(entry, time, due);
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#heap.remove(entry);
    this.#entries.delete(key);
    this.#asked = this.#entries.size === 0 ? 0 : Math.max(0, this.#asked - 1_000 / entry.target.interval);
    if (entry.started !== undefined) this.#settled = Math.max(0, this.#settled - 1_000 / entry.target.interval);
  }

  #plan(entry: Entry, time: number, latest = Number.POSITIVE_INFINITY): void {
    const interval = entry.target.interval * this.stretch;
    const from = entry.started ?? time;
    const random = fraction(hashNumber(entry.hash, ++entry.turns));
    entry.due = Math.max(time, Math.min(latest, from + gapAfter(from, interval, fraction(entry.hash), random)));
    this.#heap.add(entry);
  }

  #kept(entry: Entry, time: number): Ms {
    const stretched = entry.target.interval * this.stretch;
    return entry.started === undefined ? stretched : Math.max(stretched, (time - entry.started) / LONGEST_GAP);
  }
}

/**
 * The gap from a probe at `from` to the next: one interval, moved towards the target's phase, with jitter.
 * Both moves together stay within 15 %. `phase` and `random` are 0 to 1.
 */
export function gapAfter(from: BootMs, interval: Ms, phase: number, random: number): Ms {
  const off = fold(phase - from / interval);
  const half = PLAY / 2;
  const move = Math.min(half, Math.max(-half, off));
  return interval * (1 + move + (2 * random - 1) * half);
}

/** The fractional part, as -0.5 to 0.5. */
function fold(turns: number): number {
  return turns - Math.round(turns);
}

/** FNV-1a, finished so that keys that differ in the last digit do not lie side by side. */
function hashText(text: string, seed: number): number {
  let hash = 0x811c9dc5 ^ seed;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  return hashNumber(hash, 0);
}

function hashNumber(value: number, salt: number): number {
  let hash = value ^ Math.imul(salt, 0x9e3779b1);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

function fraction(hash: number): number {
  return hash / 2 ** 32;
}
