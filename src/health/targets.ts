import type { CheckConfig } from '../config/types.js';
import { typeNumber } from '../dns/type-names.js';
import type { Target } from '../prober/feed.js';
import type { Row } from '../registry/registry.js';
import type { Ms } from '../system/clock.js';
import type { JudgeSettings } from './verdict-record.js';

/**
 * What to probe for a row under a check, and how often; undefined when it is not probed: UDP, a check of type none, or
 * no port to go to (R17).
 */
export function targetOf(row: Row, check: CheckConfig, interval = check.interval): Target | undefined {
  const { type, timeout } = check;
  if (type === 'none' || (row.protocol === 'udp' && !OF_UDP.has(type))) return undefined;
  const port = check.port ?? row.port;
  if (port === 0) return undefined;
  const base = { address: row.address, port, type, interval, timeout };
  const judged = `${check.rise}|${check.fall}|${check.longDead}`;
  const options = optionsOf(check, row);
  const told = options === undefined ? '' : `|${JSON.stringify(options)}`;
  return { key: `${type}|${row.address}|${port}|${timeout}|${judged}${told}`, ...base, ...options };
}

/** What is asked of a UDP service when its check is one of these; other checks are for TCP services. */
const OF_UDP: ReadonlySet<CheckConfig['type']> = new Set(['udp', 'dns', 'exec']);

/** R19: whether a pass says who answered. */
export function demandsIdentity({ type, identityHeader, identityBody, tlsName, grpcService }: CheckConfig): boolean {
  const named = tlsName !== undefined;
  if (type === 'http' || type === 'https')
    return identityHeader !== undefined || identityBody !== undefined || (type === 'https' && named);
  return (type === 'tls' && named) || (type === 'grpc' && (named || grpcService !== undefined));
}

/** The options that the type of check knows; undefined when none is set. */
function optionsOf(check: CheckConfig, row: Row): Partial<Target> | undefined {
  const { tlsName, expect, query } = check;
  switch (check.type) {
    case 'tcp':
      return expect === undefined && check.farewell === undefined
        ? undefined
        : present({ expect, farewell: check.farewell });
    case 'http':
    case 'https': {
      const { path, method, host, headers, status, body, identityHeader, identityBody, drainHeader } = check;
      const tls = check.type === 'https' ? tlsName : undefined;
      const who = { identityHeader, identityBody, tlsName: tls };
      return present({ path, method, host, headers, status, body, ...who, drainHeader });
    }
    case 'tls':
      return present({ tlsName, minValidity: check.minValidity });
    case 'grpc':
      return present({ tlsName, grpcService: check.grpcService });
    case 'dns':
      return present({
        query,
        queryType: typeNumber(check.queryType),
        protocol: row.protocol === 'udp' ? row.protocol : undefined,
      });
    case 'udp':
      return present({ send: check.send, expect });
    case 'exec':
      return present({ command: check.command });
    default:
      return undefined;
  }
}

function present<T extends object>(options: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

/** A target that is held. */
export interface Held<Holder> {
  /** As it was last asked for. */
  readonly target: Target;
  /** How its results are judged. */
  readonly settings: JudgeSettings;
  readonly holders: Iterable<Holder>;
}

/** One target and who holds it. Nearly all have one holder, and a large zone has very many targets; some have thousands. */
class Entry<Holder> implements Held<Holder> {
  target: Target;
  settings: JudgeSettings;
  readonly first: { holder: Holder; interval: Ms };
  others: Others<Holder> | undefined;

  constructor(target: Target, settings: JudgeSettings, holder: Holder) {
    this.target = target;
    this.settings = settings;
    this.first = { holder, interval: target.interval };
  }

  get holders(): Iterable<Holder> {
    const { first, others } = this;
    return others === undefined ? [first.holder] : oneAndOthers(first.holder, others.holders);
  }
}

/** Further holders, with the interval that each asks for, and how many ask for each. */
class Others<Holder> {
  readonly #intervals = new Map<Holder, Ms>();
  readonly #counts = new Map<Ms, number>();

  get holders(): Iterable<Holder> {
    return this.#intervals.keys();
  }

  put(holder: Holder, interval: Ms): void {
    this.take(holder);
    this.#intervals.set(holder, interval);
    this.#counts.set(interval, (this.#counts.get(interval) ?? 0) + 1);
  }

  /** Returns the interval that it asked for; undefined when it was none of them. */
  take(holder: Holder): Ms | undefined {
    const interval = this.#intervals.get(holder);
    if (interval === undefined) return undefined;
    this.#intervals.delete(holder);
    const count = this.#counts.get(interval)! - 1;
    if (count === 0) this.#counts.delete(interval);
    else this.#counts.set(interval, count);
    return interval;
  }

  shortest(): Ms {
    return Math.min(...this.#counts.keys());
  }
}

/** Whose share of the prober's budget a holder's target is in. */
export interface Groups<Holder> {
  of(holder: Holder): string | undefined;
}

/** Probe targets and who holds them: equal settings are one target, whatever service or zone it is for (R13). */
export class TargetSet<Holder> {
  readonly #groups: Groups<Holder>;
  readonly #entries = new Map<string, Entry<Holder>>();
  readonly #changed = new Set<string>();

  constructor(groups: Groups<Holder> = { of: () => undefined }) {
    this.#groups = groups;
  }

  /** Returns true when it is the first holder of the key. */
  hold(target: Target, settings: JudgeSettings, holder: Holder): boolean {
    const entry = this.#entries.get(target.key);
    this.#changed.add(target.key);
    if (entry === undefined) {
      this.#entries.set(target.key, new Entry(target, settings, holder));
      return true;
    }
    entry.settings = settings;
    if (entry.first.holder === holder) entry.first.interval = target.interval;
    else {
      entry.others ??= new Others();
      entry.others.put(holder, target.interval);
    }
    return false;
  }

  /** Returns true when nobody holds the key any more. */
  drop(key: string, holder: Holder): boolean {
    const entry = this.#entries.get(key);
    if (entry === undefined) return false;
    if (entry.first.holder !== holder) {
      if (entry.others?.take(holder) !== undefined) this.#changed.add(key);
      return false;
    }
    this.#changed.add(key);
    for (const next of entry.others?.holders ?? []) {
      entry.first.holder = next;
      entry.first.interval = entry.others!.take(next)!;
      return false;
    }
    return this.#entries.delete(key);
  }

  /** Undefined when nobody holds it. */
  held(key: string): Held<Holder> | undefined {
    return this.#entries.get(key);
  }

  /** The interval that is asked for the key: the shortest of its holders'. */
  interval(key: string): Ms | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined ? undefined : shortest(entry);
  }

  /** The target as it was last asked for; undefined when nobody holds the key. */
  get(key: string): Target | undefined {
    return this.#entries.get(key)?.target;
  }

  holders(key: string): Iterable<Holder> {
    return this.#entries.get(key)?.holders ?? [];
  }

  all(): Target[] {
    return [...this.#entries.values()].map((entry) => this.#told(entry));
  }

  get size(): number {
    return this.#entries.size;
  }

  /** What changed since the last call, for the prober. */
  takeChanges(): { add: Target[]; remove: string[] } {
    const add: Target[] = [];
    const remove: string[] = [];
    for (const key of this.#changed) {
      const entry = this.#entries.get(key);
      if (entry === undefined) remove.push(key);
      else add.push(this.#told(entry));
    }
    this.#changed.clear();
    return { add, remove };
  }

  /** As the prober is told of it. */
  #told(entry: Entry<Holder>): Target {
    const interval = shortest(entry);
    const group = this.#groups.of(entry.first.holder);
    const { target } = entry;
    if (group === undefined) return interval === target.interval ? target : { ...target, interval };
    return { ...target, interval, group };
  }
}

function* oneAndOthers<T>(one: T, others: Iterable<T>): Iterable<T> {
  yield one;
  yield* others;
}

/** The shortest interval that a holder asks for. */
function shortest({ first, others }: Entry<unknown>): Ms {
  return Math.min(first.interval, others?.shortest() ?? first.interval);
}
