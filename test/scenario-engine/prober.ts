/** A prober that never measures anything: it reports what the scenario says of each endpoint, when a real one would. */
import type { FailureKind, ProbeResult, Target } from '../../src/prober/feed.js';
import type { BootMs, Ms } from '../../src/system/clock.js';
import { globTest } from './services.js';

type Outcome = FailureKind | 'pass' | 'draining' | 'silent';

interface Said {
  readonly glob: string;
  readonly means: (name: string) => boolean;
  readonly outcomes: readonly Outcome[];
  /** By target: how many probes it had had when this was said. */
  readonly from: Map<string, number>;
}

/** A new row is probed within a second (R17). */
const FIRST_PROBE_MS: Ms = 500;

interface Probe {
  readonly target: Target;
  next: BootMs;
  /** A soft failure is known only after the timeout. */
  pending: ProbeResult | null;
  count: number;
}

/** `timeout x3` is three in a row. */
function outcomes(said: string | readonly string[]): Outcome[] {
  return [said].flat().flatMap((text) => {
    const [outcome, times] = text.split(' x');
    return Array<Outcome>(Number(times ?? 1)).fill(outcome as Outcome);
  });
}

export class ScriptedProber {
  readonly #probes = new Map<string, Probe>();
  readonly #idsAt: (place: string) => string[];
  /** Latest first: what is said later wins over what was said before. */
  #said: Said[] = [];
  #alive = true;

  constructor(idsAt: (place: string) => string[]) {
    this.#idsAt = idsAt;
  }

  /** What endpoints do from now on, by id, `ADDRESS:PORT`, or a glob of them. Those of which nothing was said pass. */
  behave(glob: string, said: string | readonly string[]): void {
    const now = { glob, means: globTest(glob), outcomes: outcomes(said), from: new Map() };
    this.#said = [now, ...this.#said.filter((one) => one.glob !== glob)];
  }

  targets(add: readonly Target[], remove: readonly string[], now: BootMs): void {
    for (const key of remove) this.#probes.delete(key);
    for (const target of add) {
      this.#probes.set(target.key, { target, next: now + FIRST_PROBE_MS, pending: null, count: 0 });
    }
  }

  /** R20: these are probed now. */
  hasten(keys: readonly string[], now: BootMs): void {
    for (const key of keys) {
      const probe = this.#probes.get(key);
      if (probe) probe.next = Math.min(probe.next, now);
    }
  }

  get keys(): string[] {
    return [...this.#probes.keys()].sort();
  }

  die(): void {
    this.#alive = false;
    for (const probe of this.#probes.values()) probe.pending = null;
  }

  /** Comes to life: it probes everything at once, as after its start. */
  live(now: BootMs): void {
    this.#alive = true;
    for (const probe of this.#probes.values()) {
      probe.next = now;
      probe.pending = null;
    }
  }

  /** The machine slept or stood still: what was due meanwhile is not made up for. */
  skip(now: BootMs): void {
    for (const probe of this.#probes.values()) {
      probe.pending = null;
      if (probe.next < now) probe.next = now;
    }
  }

  forgetTargets(): void {
    this.#probes.clear();
  }

  nextDue(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    if (!this.#alive) return next;
    for (const probe of this.#probes.values()) next = Math.min(next, probe.next, probe.pending?.at ?? next);
    return next;
  }

  /** Results that are known at `now`. */
  due(now: BootMs): ProbeResult[] {
    const results: ProbeResult[] = [];
    if (!this.#alive) return results;
    for (const probe of this.#probes.values()) {
      if (probe.pending && probe.pending.at <= now) {
        results.push(probe.pending);
        probe.pending = null;
      }
      if (probe.next > now) continue;
      const result = this.#probe(probe, probe.next);
      probe.next += probe.target.interval;
      probe.count++;
      if (result === null) continue;
      if (result.at <= now) results.push(result);
      else probe.pending = result;
    }
    return results;
  }

  #probe(probe: Probe, begun: BootMs): ProbeResult | null {
    const { key, address, port, interval, timeout } = probe.target;
    // A check may go to another port than the row's own; then everyone at the address is meant.
    const here = this.#idsAt(`${address}:${port}`);
    const names = [`${address}:${port}`, ...(here.length > 0 ? here : this.#idsAt(address))];
    const rule = this.#said.find((one) => names.some(one.means));
    let outcome: Outcome = 'pass';
    if (rule) {
      const from = rule.from.get(key) ?? probe.count;
      rule.from.set(key, from);
      outcome = rule.outcomes[(probe.count - from) % rule.outcomes.length] ?? 'pass';
    }
    if (outcome === 'silent') return null;
    if (outcome === 'draining') return { key, at: begun, interval, took: 0, draining: true };
    if (outcome === 'pass') return { key, at: begun, interval, took: 0 };
    const took: Ms = outcome === 'timeout' ? timeout : 0;
    return { key, at: begun + took, interval, took, failure: outcome, detail: outcome };
  }
}
