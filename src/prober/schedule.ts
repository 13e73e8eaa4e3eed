/**
 * When each target is probed (R17). Pure: every method gets the time. The work is constant: a target has its
 * phase from a hash, every gap is 0.8 to 1.2 of the interval, nothing is ever caught up, and when the targets
 * ask for more than the budget all intervals of a zone stretch alike.
 */
import type { BootMs, Ms } from '../system/clock.js';
import { type Due, DueHeap } from './due-heap.js';
import type { Target } from './feed.js';
import { type Share, shareOut } from './shares.js';

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
/** A number, so that it is kept as one. */
const NEVER = Number.NEGATIVE_INFINITY;

/** A probe to be started now. */
export interface Turn {
  readonly target: Target;
  readonly started: BootMs;
  /** The interval as it is really kept: stretched by the budget, or by starting late. */
  readonly interval: Ms;
  /** Its last result was a failure. */
  readonly failing: boolean;
}

/** The targets of one zone: a share of the budget is theirs. */
interface Group extends Share {
  readonly heap: DueHeap<Entry>;
  /** When its next probe would be, were all zones equally busy: of those that have one due, the earliest has the turn. */
  turn: number;
  size: number;
  /** Those that were probed before. */
  started: number;
  /** From when on the next new target may have its first probe. */
  newSlot: number;
}

interface Entry extends Due {
  target: Target;
  group: Group;
  readonly hash: number;
  turns: number;
  /** Start of the latest probe; NEVER before the first. */
  started: number;
  busy: boolean;
  failing: boolean;
}

export class Schedule {
  readonly #entries = new Map<string, Entry>();
  /** Times inside are less by this: a pause moves everything at once, in constant time. */
  #paused: Ms = 0;
  /** From when on the next probe is inside the budget. */
  #slot = 0;
  readonly #groups = new Map<string, Group>();
  /** What groups ask for has changed since the budget was shared out. */
  #unshared = false;
  #late: Ms = 0;
  #budget: number;

  /**
   * @param budget probes a second, at most
   * @param seed differs from host to host, so that hosts do not probe an endpoint in step
   */
  constructor(
    budget: number,
    readonly seed: number,
  ) {
    this.#budget = budget;
  }

  /** Probes a second, at most. Where it changes, intervals do from each target's next probe on. */
  get budget(): number {
    return this.#budget;
  }

  set budget(rate: number) {
    if (rate === this.#budget) return;
    this.#budget = rate;
    this.#unshared = true;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** By how much intervals are stretched to stay inside the budget, 1 or more: of the group that suffers most. */
  get stretch(): number {
    let most = 1;
    for (const group of this.#groups.values()) most = Math.max(most, this.#stretchOf(group));
    return most;
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
      entry.group.heap.remove(entry);
      entry.due = time;
      entry.group.heap.add(entry);
    }
  }

  /** Up to `room` targets that are due and inside the budget. Each is out of the schedule until `done`. */
  take(now: BootMs, room: number): Turn[] {
    const time = now - this.#paused;
    const turns: Turn[] = [];
    while (turns.length < room && this.#slot <= time) {
      const entry = this.#nextDue(time);
      if (entry === undefined) break;
      const { group } = entry;
      this.#slot = Math.max(this.#slot, time - BURST_MS) + 1_000 / this.budget;
      group.turn = Math.max(group.turn, time - BURST_MS) + (1_000 * this.#groups.size) / this.budget;
      group.heap.remove(entry);
      this.#late = Math.max(this.#late, time - entry.due);
      turns.push({
        target: entry.target,
        started: now,
        interval: this.#kept(entry, time),
        failing: entry.failing,
      });
      if (entry.started === NEVER) settle(entry);
      entry.started = time;
      entry.busy = true;
    }
    return turns;
  }

  /**
   * The probe of a turn has ended. Returns false when the target was removed meanwhile.
   * @param failing how; undefined when it told nothing
   */
  done(key: string, now: BootMs, failing?: boolean): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    if (!entry.busy) return true;
    entry.busy = false;
    entry.failing = failing ?? entry.failing;
    this.#plan(entry, now - this.#paused);
    return true;
  }

  /** When `take` may have something; Infinity when nothing is scheduled. */
  nextWake(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const { heap } of this.#groups.values()) next = Math.min(next, heap.next);
    return Math.max(next, this.#slot) + this.#paused;
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
    this.#groups.clear();
  }

  #add(target: Target, time: number): void {
    const hash = hashText(target.key, this.seed);
    const group = this.#join(target);
    // What settled targets leave of the part, or half of it: a wave of new rows delays neither them nor other zones.
    const part = this.#partOf(group);
    const forNew = Math.max(part - group.settled, part * NEW_SHARE);
    group.newSlot = Math.max(group.newSlot + 1_000 / forNew, time);
    const soon = time + fraction(hash) * Math.min(FIRST_WITHIN_MS, target.interval);
    const due = Math.max(soon, group.newSlot);
    const fresh = { slot: -1, turns: 0, started: NEVER, busy: false, failing: false };
    const entry: Entry = { target, group, hash, due, ...fresh };
    this.#entries.set(target.key, entry);
    entry.group.heap.add(entry);
  }

  #replace(entry: Entry, target: Target, time: number): void {
    const waits = entry.slot !== -1;
    entry.group.heap.remove(entry);
    this.#leave(entry);
    entry.group = this.#join(target);
    if (waits) entry.group.heap.add(entry);
    const sooner = target.interval < entry.target.interval;
    entry.target = target;
    if (entry.started !== NEVER) settle(entry);
    if (!sooner || entry.busy) return;
    const due = entry.due;
    entry.group.heap.remove(entry);
    this.#plan(entry, time, due);
  }

  #remove(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    entry.group.heap.remove(entry);
    this.#entries.delete(key);
    this.#leave(entry);
  }

  #plan(entry: Entry, time: number, latest = Number.POSITIVE_INFINITY): void {
    const interval = entry.target.interval * this.#stretchOf(entry.group);
    const from = entry.started === NEVER ? time : entry.started;
    const random = fraction(hashNumber(entry.hash, ++entry.turns));
    entry.due = Math.max(time, Math.min(latest, from + gapAfter(from, interval, fraction(entry.hash), random)));
    entry.group.heap.add(entry);
  }

  /** What is due of the group whose turn it is. */
  #nextDue(time: number): Entry | undefined {
    let best: Group | undefined;
    for (const group of this.#groups.values())
      if (group.heap.next <= time && (best === undefined || group.turn < best.turn)) best = group;
    return best?.heap.peek();
  }

  #join({ group: name = '', interval }: Target): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = { asked: 0, settled: 0, given: 0, heap: new DueHeap(), turn: 0, size: 0, started: 0, newSlot: 0 };
      this.#groups.set(name, group);
    }
    group.size++;
    group.asked += 1_000 / interval;
    this.#unshared = true;
    return group;
  }

  #leave({ group, target, started }: Entry): void {
    const rate = 1_000 / target.interval;
    group.size--;
    // Sums of fractions end a little beside nothing.
    group.asked = group.size === 0 ? 0 : Math.max(0, group.asked - rate);
    if (started !== NEVER) {
      group.started--;
      group.settled = group.started === 0 ? 0 : Math.max(0, group.settled - rate);
    }
    this.#unshared = true;
  }

  #stretchOf(group: Group): number {
    if (this.#unshared) {
      this.#unshared = false;
      for (const [name, { size }] of this.#groups) if (size === 0) this.#groups.delete(name);
      shareOut(this.#groups.values(), this.budget * FILL);
    }
    const stretch = group.given < group.asked && group.given > 0 ? group.asked / group.given : 1;
    // While new ones come in, the others make room for them.
    if (group.started === group.size) return stretch;
    return Math.max(stretch, group.settled / (this.#partOf(group) * (1 - NEW_SHARE)));
  }

  /** What a group may use: an equal part of the budget, or more where others leave it. */
  #partOf(group: Group): number {
    let others = 0;
    for (const one of this.#groups.values()) if (one !== group) others += one.asked;
    const all = this.budget * FILL;
    return Math.max(all / this.#groups.size, all - others);
  }

  #kept(entry: Entry, time: number): Ms {
    const stretched = entry.target.interval * this.#stretchOf(entry.group);
    return entry.started === NEVER ? stretched : Math.max(stretched, (time - entry.started) / LONGEST_GAP);
  }
}

/** It is probed for the first time. */
function settle({ group, target }: Entry): void {
  group.started++;
  group.settled += 1_000 / target.interval;
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
