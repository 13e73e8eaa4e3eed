/**
 * A zone on demand (R33): what is asked for and not known is looked up, so often a second; that there is no such
 * service is remembered for a while, so often; a service that nobody asks for is forgotten. Pure: time is passed in.
 */
import { LRUCache } from 'lru-cache';
import { isOnDemand } from '../config/on-demand.js';
import { serviceSettings } from '../config/service-settings.js';
import type { ZoneConfig } from '../config/types.js';
import { nameWithin } from '../registry/filter.js';
import type { LookUp } from '../registry/look-up.js';
import type { BootMs, Ms } from '../system/clock.js';
import { TokenBucket } from './token-bucket.js';

/** A look-up that the registry has not answered by then is given up: its worker may have died. */
const FLIGHT_MS: Ms = 7_000;
/** One that failed is tried again after so long, however often it is asked for. */
const FAILED_MS: Ms = 1_000;
/** While the registry is not heard, one is tried so often: it may be back sooner than its own reads find out. */
const OUTAGE_MS: Ms = 2_000;
/** A service has been looked at for being forgotten so often. */
const LOOK_MS: Ms = 60_000;
/** When a service was asked goes to its snapshot once in this part of `forget`, an hour at most. */
const SAVED_SHARE = 1 / 50;
const SAVED_MOST_MS: Ms = 3_600_000;

/** What to do with a question for a service that is not known. */
export type Seek =
  /** There is no such service. */
  | 'unknown'
  /** It cannot be told now. */
  | 'failed'
  /** A look-up is under way. */
  | 'wait'
  /** The caller has to begin one. */
  | 'begin';

export interface Remembered {
  readonly kind: 'unknown' | 'failed';
  readonly forMs: Ms;
}

export interface DemandCounts {
  found: number;
  unknown: number;
  failed: number;
  /** Questions that were answered by what was remembered, and that were not looked up: too many, or an outage. */
  remembered: number;
  refused: number;
}

export class ZoneDemand {
  readonly counts: DemandCounts = { found: 0, unknown: 0, failed: 0, remembered: 0, refused: 0 };
  #config: ZoneConfig;
  #bucket: TokenBucket;
  #outage = new TokenBucket(OUTAGE_MS, 1);
  /** Services that the registry has not, or that it said nothing about, each with when that ends. */
  #unknown: LRUCache<string, { readonly until: BootMs; readonly failed: boolean }>;
  readonly #flights = new Map<string, BootMs>();
  /** When services were asked last. */
  readonly #asked = new Map<string, BootMs>();
  readonly #saved = new Map<string, BootMs>();
  #lookAt: BootMs = 0;
  /** Services that the registry has not been told of yet. */
  #added = new Set<string>();
  #dropped = new Set<string>();
  /** Wanted, whatever is asked. */
  #configured: readonly string[] = [];

  /** Undefined: the zone is mirrored whole. */
  static of(config: ZoneConfig): ZoneDemand | undefined {
    return config.registries.some(isOnDemand) ? new ZoneDemand(config) : undefined;
  }

  private constructor(config: ZoneConfig) {
    this.#config = config;
    this.#bucket = bucketOf(config);
    this.#unknown = new LRUCache({ max: config.onDemand.maxUnknown });
    this.configure(config);
  }

  configure(config: ZoneConfig): void {
    const before = this.#config.onDemand;
    this.#config = config;
    if (before.lookUps !== config.onDemand.lookUps) this.#bucket = bucketOf(config);
    if (before.maxUnknown !== config.onDemand.maxUnknown)
      this.#unknown = new LRUCache({ max: config.onDemand.maxUnknown });
    const names = config.services.map(({ match }) => match).filter((match) => !/[*?]/.test(match));
    for (const name of names) if (!this.#configured.includes(name)) this.#added.add(name);
    this.#configured = names;
  }

  /** Services that the configuration names are known from the start. */
  get configured(): readonly string[] {
    return this.#configured;
  }

  /** Words of the registry that are remembered, and look-ups under way. */
  get size(): { readonly unknown: number; readonly flights: number } {
    return { unknown: this.#unknown.size, flights: this.#flights.size };
  }

  /** The name that a label stands for in the registry; undefined: it can have none that this zone sees. */
  serviceOf(label: string): string | undefined {
    const aliased = this.#config.services.find(({ settings }) => settings.alias === label);
    const name = aliased?.match ?? this.#configured.find((one) => one.toLowerCase() === label) ?? label;
    const { filter } = this.#config.registries[0]!;
    if (filter === undefined) return name;
    return nameWithin(filter, `${filter.prefix ?? ''}${name}`) === undefined ? undefined : name;
  }

  /**
   * Somebody asks for a service that is not known.
   * @param failing the registry's last word was a failure
   */
  seek(service: string, failing: boolean, now: BootMs): Seek {
    const started = this.#flights.get(service);
    if (started !== undefined && now - started < FLIGHT_MS) return 'wait';
    const word = this.remembered(service, failing, now);
    if (word !== undefined) {
      this.counts.remembered++;
      return word.kind;
    }
    if (!(failing ? this.#outage : this.#bucket).take(now)) {
      this.counts.refused++;
      return 'failed';
    }
    this.#flights.set(service, now);
    return 'begin';
  }

  /** What became of a look-up. */
  landed(service: string, found: LookUp['kind'], now: BootMs): void {
    this.#flights.delete(service);
    this.counts[found]++;
    if (found === 'found') this.#unknown.delete(service);
    else {
      const failed = found === 'failed';
      const until = now + (failed ? FAILED_MS : this.#config.onDemand.unknownTtl);
      this.#unknown.set(service, { until, failed });
    }
  }

  /** What `seek` would answer by what is remembered, and for how long; undefined: it would be looked up. */
  remembered(service: string, failing: boolean, now: BootMs): Remembered | undefined {
    const word = this.#unknown.get(service);
    if (word === undefined || now >= word.until || (failing && !word.failed)) return undefined;
    return { kind: word.failed ? 'failed' : 'unknown', forMs: word.until - now };
  }

  /** The service is asked for, or was, by a snapshot. Returns whether that is worth to be saved. */
  ask(service: string, at: BootMs): boolean {
    const before = this.#asked.get(service);
    if (before !== undefined && before >= at) return false;
    this.#asked.set(service, at);
    const saved = this.#saved.get(service);
    if (saved !== undefined && at - saved < Math.min(this.#config.forget * SAVED_SHARE, SAVED_MOST_MS)) return false;
    this.#saved.set(service, at);
    return true;
  }

  askedAt(service: string): BootMs | undefined {
    return this.#asked.get(service);
  }

  /** It is in the zone from now on, by a snapshot and not by the registry's own word. */
  restored(service: string, asked: BootMs): void {
    this.ask(service, asked);
    this.#added.add(service);
  }

  /** It is in the zone no more, or could not be taken in. */
  left(service: string): void {
    this.#asked.delete(service);
    this.#saved.delete(service);
    this.#unknown.delete(service);
    if (this.#configured.some((name) => name.toLowerCase() === service.toLowerCase())) return;
    this.#added.delete(service);
    this.#dropped.add(service);
  }

  /** Of these services those that nobody has asked for `forget`, once in a while; none while the registry is not heard. */
  forgotten(services: Iterable<string>, heard: boolean, now: BootMs): string[] {
    if (now < this.#lookAt) return [];
    this.#lookAt = now + LOOK_MS;
    if (!heard) return [];
    const gone: string[] = [];
    for (const service of services) {
      if (!this.#asked.has(service)) this.#asked.set(service, now);
      const due = this.#asked.get(service)! + this.#config.forget;
      if (due > now || this.#stays(service)) continue;
      gone.push(service);
    }
    return gone;
  }

  nextWake(): BootMs {
    return this.#lookAt;
  }

  /** What the registry has to be told; undefined: nothing. */
  takeKnown(): { readonly add: readonly string[]; readonly drop: readonly string[] } | undefined {
    if (this.#added.size + this.#dropped.size === 0) return undefined;
    const told = { add: [...this.#added], drop: [...this.#dropped] };
    this.#added.clear();
    this.#dropped.clear();
    return told;
  }

  /** These services and those that the configuration names, most recently asked first. */
  order(services: Iterable<string>): string[] {
    const at = (service: string): BootMs => this.#asked.get(service) ?? Number.NEGATIVE_INFINITY;
    return [...new Set([...services, ...this.#configured])].sort((a, b) => at(b) - at(a) || 0);
  }

  #stays(service: string): boolean {
    if (this.#configured.some((name) => name.toLowerCase() === service.toLowerCase())) return true;
    const { check } = serviceSettings(this.#config.services, service);
    return check?.pinned ?? this.#config.check.pinned;
  }
}

function bucketOf({ onDemand }: ZoneConfig): TokenBucket {
  return new TokenBucket(1_000 / onDemand.lookUps, onDemand.lookUps * 2);
}
