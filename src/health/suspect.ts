/**
 * R16: when so much of what passed begins to time out at once that the fault is probably here, failures that say
 * nothing about the endpoint (timeout, no route) are void. Pure: fed with each probe's outcome, and the time of it.
 */
import type { FailureKind } from '../prober/feed.js';
import type { BootMs, Ms } from '../system/clock.js';
import { type Family, familyOf, isLoopback, networkOf } from './networks.js';

/** It begins at over this share, over so many services and networks, and ends below that one. */
const BEGIN_SHARE = 0.3;
const BEGIN_SERVICES = 3;
const BEGIN_NETWORKS = 3;
/** A family that fails as a whole: one service, or one network, that dies is no sign of a fault here. */
const FAMILY_SERVICES = 2;
const FAMILY_NETWORKS = 2;
const END_SHARE = 0.1;
/** From then on anything that passes ends it: so much for a real outage of a third. */
const TRUST_AFTER_MS: Ms = 120_000;
/** The longest gap between two probes of an endpoint, in intervals. */
const WINDOW_INTERVALS = 1.2;
/** A connection tracking table that is so full drops packets of its own: everything is suspected at once. */
const CONNTRACK_SHARE = 0.95;

export type SuspectEvent =
  /** `keys`: whose failures began in the window, and are void. */
  | {
      readonly kind: 'began';
      readonly family: Family;
      readonly why: 'failures' | 'conntrack';
      readonly keys: readonly string[];
      readonly failing: number;
      readonly of: number;
    }
  | {
      readonly kind: 'ended';
      readonly family: Family;
      readonly lasted: Ms;
      readonly why: 'recovered' | 'trusted' | 'silence';
    };

/** What failed after it had passed. */
interface Turned<Service> {
  readonly until: BootMs;
  /** By timeout or no route. Others prove the path; they count among those that passed. */
  readonly path: boolean;
  readonly network: string;
  readonly services: readonly Service[];
}

/** Keys of one family. Those whose latest result failed long ago, or was the first, are in neither. */
class Side<Service> {
  readonly passed = new Set<string>();
  readonly turned = new Map<string, Turned<Service>>();
  /** Of those that turned, by timeout or no route. */
  path = 0;
  since: BootMs | undefined;
}

const FAMILIES: readonly Family[] = [4, 6];
const NO_EVENTS: readonly SuspectEvent[] = [];

/** `servicesOf`: whom a key is probed for; equal services are equal values. */
export class Suspicion<Service> {
  readonly #servicesOf: (key: string) => Iterable<Service>;
  readonly #sides: Readonly<Record<Family, Side<Service>>> = { 4: new Side(), 6: new Side() };
  readonly #services = new Counts<Service>();
  readonly #networks = new Counts<string>();
  /** The connection tracking table is too full: nothing ends it. */
  #full = false;

  constructor(servicesOf: (key: string) => Iterable<Service>) {
    this.#servicesOf = servicesOf;
  }

  /** Since when results of this family are suspected. */
  since(family: Family): BootMs | undefined {
    return this.#sides[family].since;
  }

  /** Whether a failure of this kind, by this address, is void at present. */
  voids(address: string, failure: FailureKind): boolean {
    return isPathFailure(failure) && this.#sides[familyOf(address)].since !== undefined && !isLoopback(address);
  }

  /** Takes an outcome in, in the order of time. Addresses of this host itself say nothing about the network. */
  note(
    key: string,
    address: string,
    failure: FailureKind | undefined,
    at: BootMs,
    interval: Ms,
  ): readonly SuspectEvent[] {
    if (isLoopback(address)) return NO_EVENTS;
    const family = familyOf(address);
    const side = this.#sides[family];
    if (failure === undefined) {
      this.#unturn(side, key);
      side.passed.add(key);
      const trusted = !this.#full && side.since !== undefined && at - side.since >= TRUST_AFTER_MS;
      return trusted ? [this.#end(family, at, 'trusted')] : this.#maybeRecover(family, at);
    }
    const path = isPathFailure(failure);
    const known = side.turned.get(key);
    if (side.passed.delete(key) || (known?.path && !path)) {
      this.#unturn(side, key);
      const until = at + WINDOW_INTERVALS * interval;
      const services = [...new Set(this.#servicesOf(key))];
      this.#turn(side, key, { until, path, network: networkOf(address), services });
      if (!path) return this.#maybeRecover(family, at);
      return side.since === undefined ? this.#maybeBegin(at) : NO_EVENTS;
    }
    return NO_EVENTS;
  }

  /** How full the host's connection tracking table is, 0 to 1. */
  conntrack(fill: number, now: BootMs): readonly SuspectEvent[] {
    const was = this.#full;
    this.#full = fill >= CONNTRACK_SHARE;
    if (!was && !this.#full) return NO_EVENTS;
    this.#prune(now);
    return FAMILIES.flatMap((family) =>
      !this.#full
        ? this.#maybeRecover(family, now)
        : this.#sides[family].since === undefined
          ? [this.#begin(family, now, 'conntrack')]
          : [],
    );
  }

  /** The key's last result before a restart passed. */
  seed(key: string, address: string): void {
    if (!isLoopback(address)) this.#sides[familyOf(address)].passed.add(key);
  }

  /** What is known of `from` goes to `to`: only its settings changed. */
  rename(from: string, to: string): void {
    for (const side of [this.#sides[4], this.#sides[6]]) {
      if (side.passed.has(from)) side.passed.add(to);
      const turned = side.turned.get(from);
      if (turned !== undefined && !side.passed.has(to) && !side.turned.has(to)) this.#turn(side, to, turned);
    }
  }

  /** Its word ran out. What failed under suspicion failed for nothing: its last result that counts passed. */
  silent(key: string, now: BootMs): readonly SuspectEvent[] {
    return this.#leave(key, now, true);
  }

  /** It is not probed any more. */
  forget(key: string, now: BootMs): readonly SuspectEvent[] {
    return this.#leave(key, now, false);
  }

  #leave(key: string, now: BootMs, stays: boolean): readonly SuspectEvent[] {
    const events: SuspectEvent[] = [];
    for (const family of [4, 6] as const) {
      const side = this.#sides[family];
      const turned = side.turned.get(key);
      this.#unturn(side, key);
      if (!stays) side.passed.delete(key);
      else if (turned?.path && side.since !== undefined) side.passed.add(key);
      if (turned !== undefined && side.since !== undefined && share(side) < END_SHARE)
        events.push(this.#end(family, now, 'silence'));
    }
    return events;
  }

  #maybeRecover(family: Family, now: BootMs): readonly SuspectEvent[] {
    const side = this.#sides[family];
    return !this.#full && side.since !== undefined && share(side) < END_SHARE
      ? [this.#end(family, now, 'recovered')]
      : NO_EVENTS;
  }

  #maybeBegin(now: BootMs): readonly SuspectEvent[] {
    if (!this.#looksBad()) return NO_EVENTS;
    this.#prune(now);
    if (!this.#looksBad()) return NO_EVENTS;
    const whole = this.#isWide(BEGIN_SERVICES, BEGIN_NETWORKS) && this.#overallShare() > BEGIN_SHARE;
    const events: SuspectEvent[] = [];
    for (const family of [4, 6] as const) {
      const side = this.#sides[family];
      if (side.since !== undefined || side.path === 0) continue;
      if (!(whole && share(side) >= END_SHARE) && !this.#failsWhole(side)) continue;
      events.push(this.#begin(family, now, 'failures'));
    }
    return events;
  }

  #begin(family: Family, now: BootMs, why: 'failures' | 'conntrack'): SuspectEvent {
    const side = this.#sides[family];
    side.since = now;
    const keys: string[] = [];
    for (const [key, { path }] of side.turned) if (path) keys.push(key);
    return { kind: 'began', family, why, keys, failing: keys.length, of: side.passed.size + side.turned.size };
  }

  /** Cheap, and never less than the truth: what has left the window may still be in the sums. */
  #looksBad(): boolean {
    const four = this.#sides[4];
    const six = this.#sides[6];
    if (this.#isWide(BEGIN_SERVICES, BEGIN_NETWORKS) && this.#overallShare() > BEGIN_SHARE) return true;
    return (
      [four, six].some((side) => side.since === undefined && side.path > 0 && side.passed.size === 0) &&
      this.#isWide(FAMILY_SERVICES, FAMILY_NETWORKS)
    );
  }

  #isWide(services: number, networks: number): boolean {
    return this.#services.size >= services && this.#networks.size >= networks;
  }

  #overallShare(): number {
    const four = this.#sides[4];
    const six = this.#sides[6];
    const failing = four.path + six.path;
    const all = four.passed.size + four.turned.size + six.passed.size + six.turned.size;
    return all === 0 ? 0 : failing / all;
  }

  #failsWhole(side: Side<Service>): boolean {
    if (side.passed.size > 0 || side.path < side.turned.size) return false;
    const services = new Set<Service>();
    const networks = new Set<string>();
    for (const turned of side.turned.values()) {
      networks.add(turned.network);
      for (const service of turned.services) services.add(service);
    }
    return services.size >= FAMILY_SERVICES && networks.size >= FAMILY_NETWORKS;
  }

  /** What turned longer ago than one interval is believed; under suspicion it stays in the sum until the end. */
  #prune(now: BootMs): void {
    for (const side of [this.#sides[4], this.#sides[6]]) {
      if (side.since !== undefined) continue;
      for (const [key, turned] of side.turned) {
        if (turned.until < now) this.#unturn(side, key);
      }
    }
  }

  #end(family: Family, now: BootMs, why: 'recovered' | 'trusted' | 'silence'): SuspectEvent {
    const side = this.#sides[family];
    const lasted = now - side.since!;
    side.since = undefined;
    for (const [key, turned] of [...side.turned]) {
      this.#unturn(side, key);
      if (why === 'silence' && turned.path) side.passed.add(key);
    }
    return { kind: 'ended', family, lasted, why };
  }

  #turn(side: Side<Service>, key: string, turned: Turned<Service>): void {
    side.turned.set(key, turned);
    if (!turned.path) return;
    side.path++;
    this.#networks.add(turned.network, 1);
    for (const service of turned.services) this.#services.add(service, 1);
  }

  #unturn(side: Side<Service>, key: string): void {
    const turned = side.turned.get(key);
    if (turned === undefined) return;
    side.turned.delete(key);
    if (!turned.path) return;
    side.path--;
    this.#networks.add(turned.network, -1);
    for (const service of turned.services) this.#services.add(service, -1);
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

function share<Service>({ path, passed, turned }: Side<Service>): number {
  const all = passed.size + turned.size;
  return all === 0 ? 0 : path / all;
}

function isPathFailure(failure: FailureKind): boolean {
  return failure === 'timeout' || failure === 'unroutable';
}
