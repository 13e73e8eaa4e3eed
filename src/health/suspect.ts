/**
 * R16: when so much of what passed begins to time out at once that the fault is probably here, failures that say
 * nothing about the endpoint (timeout, no route) are void. Pure: fed with each probe's outcome, and the time of it.
 */
import type { FailureKind } from '../prober/feed.js';
import type { BootMs, Ms } from '../system/clock.js';
import { Chain, type Linked } from './chain.js';
import { type Family, familyOf, isLoopback, networkOf } from './networks.js';

/** It begins at over this share, over so many services and networks, and ends below that one. */
const BEGIN_SHARE = 0.3;
const BEGIN_SERVICES = 3;
const BEGIN_NETWORKS = 3;
/** A family that fails as a whole: one service, or one network, that dies is no sign of a fault here. */
const FAMILY_SERVICES = 2;
const FAMILY_NETWORKS = 2;
/** So many begin to fail, and nothing passes any more: even if the fault is not here, nobody is better to be answered. */
const LAST_FAILING = 2;
/** More than the longest gap between two passes, and less than the third failure of a row takes to come. */
const LAST_INTERVALS = 1.45;
const END_SHARE = 0.1;
/** From then on anything that passes ends it: so much for a real outage of a third. */
const TRUST_AFTER_MS: Ms = 120_000;
/** The longest gap between two probes of an endpoint, in intervals. */
const WINDOW_INTERVALS = 1.2;
/** After so many without any outcome it is looked at anew whether something passes. */
const SILENT_INTERVALS = 3;
/** A connection tracking table that is so full drops packets of its own: everything is suspected at once. */
const CONNTRACK_SHARE = 0.95;

export type SuspectEvent<One = string> =
  /** `keys`: whose failures began in the window, and are void. */
  | {
      readonly kind: 'began';
      readonly family: Family;
      readonly why: 'failures' | 'conntrack';
      readonly keys: readonly One[];
      readonly failing: number;
      readonly of: number;
    }
  | {
      readonly kind: 'ended';
      readonly family: Family;
      readonly lasted: Ms;
      readonly why: 'recovered' | 'trusted' | 'silence';
    };

/** What is probed. `stance` is kept here for it; undefined: its latest result failed long ago, or was the first. */
export interface Witness {
  stance: Passed | Turned | undefined;
}

/** Its last result passed. */
interface Passed {
  readonly family: Family;
  readonly turned: false;
}

/** It failed after it had passed. */
interface Turned extends Linked<Turned> {
  readonly family: Family;
  readonly turned: true;
  readonly one: Witness;
  readonly at: BootMs;
  readonly until: BootMs;
  /** By timeout or no route. Others prove the path; they count among those that passed. */
  readonly path: boolean;
  /** Of those by timeout or no route. */
  readonly network: string;
  readonly services: readonly unknown[];
}

const PASSED: Readonly<Record<Family, Passed>> = {
  4: { family: 4, turned: false },
  6: { family: 6, turned: false },
};

/** One family. */
class Side {
  passed = 0;
  readonly turned = new Chain<Turned>();
  /** Of those that turned, by timeout or no route. */
  path = 0;
  since: BootMs | undefined;
  /** It is suspected for no other reason than that nothing passes any more. */
  last = false;

  get all(): number {
    return this.passed + this.turned.size;
  }
}

const FAMILIES: readonly Family[] = [4, 6];
const NO_EVENTS: readonly never[] = [];
/** Of a failure that proves the path. */
const NOWHERE = { network: '', services: [] } as const;

/** `servicesOf`: whom one is probed for; equal services are equal values. */
export class Suspicion<One extends Witness> {
  readonly #servicesOf: (one: One) => Iterable<unknown>;
  readonly #sides: Readonly<Record<Family, Side>> = { 4: new Side(), 6: new Side() };
  readonly #services = new Counts<unknown>();
  readonly #networks = new Counts<string>();
  /** Addresses of this host, besides loopback. */
  own: ReadonlySet<string> = new Set();
  /** The connection tracking table is too full: nothing ends it. */
  #full = false;
  /** When an outcome proved the path last, or since when there are outcomes; and the latest of any kind. */
  #provenAt: BootMs = Number.NEGATIVE_INFINITY;
  #notedAt: BootMs = Number.NEGATIVE_INFINITY;
  /** Since then so many turned, by timeout or no route. */
  #unproven = 0;

  constructor(servicesOf: (one: One) => Iterable<unknown>) {
    this.#servicesOf = servicesOf;
  }

  /** Since when results of this family are suspected. */
  since(family: Family): BootMs | undefined {
    return this.#sides[family].since;
  }

  /** Any family is suspected. */
  get some(): boolean {
    return this.#sides[4].since !== undefined || this.#sides[6].since !== undefined;
  }

  /** Whether a failure of this kind, by this address, is void at present. */
  voids(address: string, failure: FailureKind): boolean {
    return isPathFailure(failure) && this.#sides[familyOf(address)].since !== undefined && !this.#isHere(address);
  }

  /** Takes an outcome in, in the order of time. Addresses of this host itself say nothing about the network. */
  note(
    one: One,
    address: string,
    failure: FailureKind | undefined,
    at: BootMs,
    interval: Ms,
  ): readonly SuspectEvent<One>[] {
    if (this.#isHere(address)) {
      this.#clear(one);
      return NO_EVENTS;
    }
    const family = familyOf(address);
    const side = this.#sides[family];
    const path = failure !== undefined && isPathFailure(failure);
    if (!path || at - this.#notedAt > SILENT_INTERVALS * interval) {
      this.#provenAt = Math.max(this.#provenAt, at);
      this.#unproven = 0;
    }
    this.#notedAt = Math.max(this.#notedAt, at);
    if (failure === undefined) {
      // Whoever was cut off would have turned.
      const ended = one.stance?.turned ? NO_EVENTS : this.#endLast(at, false);
      this.#pass(one, family);
      if (ended.length > 0) return ended;
      const trusted = !this.#full && side.since !== undefined && at - side.since >= TRUST_AFTER_MS;
      return trusted ? [this.#end(family, at, 'trusted')] : this.#maybeRecover(family, at);
    }
    const ended = path ? NO_EVENTS : this.#endLast(at, true);
    const { stance } = one;
    // What failed before turns again only when it now proves the path.
    if (stance === undefined || (stance.turned && !(stance.path && !path)))
      return path && side.since === undefined ? this.#maybeBeginLast(at, interval) : ended;
    this.#clear(one);
    const until = at + WINDOW_INTERVALS * interval;
    const where = path ? { network: networkOf(address), services: [...new Set(this.#servicesOf(one))] } : NOWHERE;
    this.#turn({ family, turned: true, one, at, until, path, ...where, older: undefined, newer: undefined });
    if (!path) return [...ended, ...this.#maybeRecover(family, at)];
    this.#unproven++;
    // There is more reason by now, which does not end so soon.
    if (side.last && (this.#isWholeHost || this.#failsWhole(side))) side.last = false;
    if (side.since !== undefined) return NO_EVENTS;
    const last = this.#maybeBeginLast(at, interval);
    return last.length > 0 ? last : this.#maybeBegin(at);
  }

  /** How full the host's connection tracking table is, 0 to 1. */
  conntrack(fill: number, now: BootMs): readonly SuspectEvent<One>[] {
    const was = this.#full;
    this.#full = fill >= CONNTRACK_SHARE;
    if (!was && !this.#full) return NO_EVENTS;
    this.#prune(now);
    if (this.#full) for (const family of FAMILIES) this.#sides[family].last = false;
    return FAMILIES.flatMap((family) =>
      !this.#full
        ? this.#maybeRecover(family, now)
        : this.#sides[family].since === undefined
          ? [this.#begin(family, now, 'conntrack', false)]
          : [],
    );
  }

  /** Its last result before a restart passed. */
  seed(one: One, address: string): void {
    if (!this.#isHere(address) && one.stance === undefined) this.#pass(one, familyOf(address));
  }

  /** What is known of `from` goes to `to`: only its settings changed. */
  rename(from: One, to: One): void {
    const { stance } = from;
    if (stance === undefined || to.stance !== undefined) return;
    if (stance.turned) this.#turn({ ...stance, one: to, older: undefined, newer: undefined });
    else this.#pass(to, stance.family);
  }

  /** Its word ran out. What failed under suspicion failed for nothing: its last result that counts passed. */
  silent(one: One, now: BootMs): readonly SuspectEvent<One>[] {
    const { stance } = one;
    if (!stance?.turned) return NO_EVENTS;
    const { since } = this.#sides[stance.family];
    if (stance.path && since !== undefined) this.#pass(one, stance.family);
    else this.#clear(one);
    return this.#maybeFallSilent(stance.family, now);
  }

  /** It is not probed any more. */
  forget(one: One, now: BootMs): readonly SuspectEvent<One>[] {
    const { stance } = one;
    this.#clear(one);
    return stance?.turned ? this.#maybeFallSilent(stance.family, now) : NO_EVENTS;
  }

  /** On the way there is no network. */
  #isHere(address: string): boolean {
    return this.own.has(address) || isLoopback(address);
  }

  #maybeFallSilent(family: Family, now: BootMs): readonly SuspectEvent<One>[] {
    const side = this.#sides[family];
    return side.since !== undefined && share(side) < END_SHARE ? [this.#end(family, now, 'silence')] : NO_EVENTS;
  }

  #maybeRecover(family: Family, now: BootMs): readonly SuspectEvent<One>[] {
    const side = this.#sides[family];
    return !this.#full && side.since !== undefined && share(side) < (side.last ? BEGIN_SHARE : END_SHARE)
      ? [this.#end(family, now, 'recovered')]
      : NO_EVENTS;
  }

  /** Nothing has passed for a whole interval, in which all that is probed so often had its turn. */
  #maybeBeginLast(now: BootMs, interval: Ms): readonly SuspectEvent<One>[] {
    if (this.#unproven < LAST_FAILING || now - this.#provenAt <= LAST_INTERVALS * interval) return NO_EVENTS;
    this.#prune(now, this.#provenAt);
    return FAMILIES.flatMap((family) => {
      const { since, path } = this.#sides[family];
      return since === undefined && path > 0 ? [this.#begin(family, now, 'failures', true)] : [];
    });
  }

  /**
   * The path is proven, so there is another reason that nothing passes.
   * @param again by a failure, which may be one of this host all the same: what turned may turn again
   */
  #endLast(now: BootMs, again: boolean): readonly SuspectEvent<One>[] {
    return FAMILIES.flatMap((family) => (this.#sides[family].last ? [this.#end(family, now, 'recovered', again)] : []));
  }

  #maybeBegin(now: BootMs): readonly SuspectEvent<One>[] {
    if (!this.#looksBad()) return NO_EVENTS;
    this.#prune(now);
    if (!this.#looksBad()) return NO_EVENTS;
    const whole = this.#isWholeHost;
    const events: SuspectEvent<One>[] = [];
    for (const family of FAMILIES) {
      const side = this.#sides[family];
      if (side.since !== undefined) continue;
      if (!(whole && share(side) >= END_SHARE) && !this.#failsWhole(side)) continue;
      events.push(this.#begin(family, now, 'failures', false));
    }
    return events;
  }

  #begin(family: Family, now: BootMs, why: 'failures' | 'conntrack', last: boolean): SuspectEvent<One> {
    const side = this.#sides[family];
    side.since = now;
    side.last = last;
    const keys: One[] = [];
    for (const { path, one } of side.turned) if (path) keys.push(one as One);
    return { kind: 'began', family, why, keys, failing: keys.length, of: side.all };
  }

  /** Cheap, and never less than the truth: what has left the window may still be in the sums. */
  #looksBad(): boolean {
    if (this.#isWholeHost) return true;
    return (
      FAMILIES.some((family) => {
        const { since, path, passed } = this.#sides[family];
        return since === undefined && path > 0 && passed === 0;
      }) && this.#isWide(FAMILY_SERVICES, FAMILY_NETWORKS)
    );
  }

  get #isWholeHost(): boolean {
    return this.#isWide(BEGIN_SERVICES, BEGIN_NETWORKS) && this.#overallShare() > BEGIN_SHARE;
  }

  #isWide(services: number, networks: number): boolean {
    return this.#services.size >= services && this.#networks.size >= networks;
  }

  #overallShare(): number {
    const four = this.#sides[4];
    const six = this.#sides[6];
    const all = four.all + six.all;
    return all === 0 ? 0 : (four.path + six.path) / all;
  }

  #failsWhole(side: Side): boolean {
    if (side.passed > 0 || side.path < side.turned.size) return false;
    const services = new Set<unknown>();
    const networks = new Set<string>();
    for (const turned of side.turned) {
      networks.add(turned.network);
      for (const service of turned.services) services.add(service);
    }
    return services.size >= FAMILY_SERVICES && networks.size >= FAMILY_NETWORKS;
  }

  /**
   * What turned longer ago than one interval, and before `before`, is believed; under suspicion it stays in the sum
   * until the end.
   */
  #prune(now: BootMs, before: BootMs = Number.POSITIVE_INFINITY): void {
    for (const family of FAMILIES) {
      const side = this.#sides[family];
      if (side.since !== undefined) continue;
      for (const { at, until, one } of side.turned) if (until < now && at < before) this.#clear(one);
    }
  }

  /** @param again those that turned passed before, as far as is known */
  #end(
    family: Family,
    now: BootMs,
    why: 'recovered' | 'trusted' | 'silence',
    again = why === 'silence',
  ): SuspectEvent<One> {
    const side = this.#sides[family];
    const lasted = now - side.since!;
    side.since = undefined;
    side.last = false;
    this.#unproven = 0;
    for (const { one, path } of side.turned) {
      if (again && path) this.#pass(one, family);
      else this.#clear(one);
    }
    return { kind: 'ended', family, lasted, why };
  }

  #pass(one: Witness, family: Family): void {
    this.#clear(one);
    one.stance = PASSED[family];
    this.#sides[family].passed++;
  }

  #turn(turned: Turned): void {
    turned.one.stance = turned;
    const side = this.#sides[turned.family];
    side.turned.add(turned);
    if (!turned.path) return;
    side.path++;
    this.#networks.add(turned.network, 1);
    for (const service of turned.services) this.#services.add(service, 1);
  }

  #clear(one: Witness): void {
    const { stance } = one;
    if (stance === undefined) return;
    one.stance = undefined;
    const side = this.#sides[stance.family];
    if (!stance.turned) {
      side.passed--;
      return;
    }
    side.turned.remove(stance);
    if (!stance.path) return;
    side.path--;
    this.#networks.add(stance.network, -1);
    for (const service of stance.services) this.#services.add(service, -1);
  }
}

/** How many of each there are. */
class Counts<T> {
  readonly #counts = new Map<T, number>();

  get size(): number {
    return this.#counts.size;
  }

  add(item: T, by: number): void {
    const count = (this.#counts.get(item) ?? 0) + by;
    if (count === 0) this.#counts.delete(item);
    else this.#counts.set(item, count);
  }
}

function share({ path, all }: Side): number {
  return all === 0 ? 0 : path / all;
}

function isPathFailure(failure: FailureKind): boolean {
  return failure === 'timeout' || failure === 'unroutable';
}
