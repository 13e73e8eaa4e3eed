/**
 * Every check of a datacenter as it is known here, put together from the list of all, from the lists of those in a bad
 * state, and from what reads of services tell. Each has the index of its last change, so an older word never replaces
 * a newer one.
 */
import {
  type ConsulCheck,
  groupKey,
  indexOf,
  isCheck,
  sameTest,
  stateOf,
  testOf,
  type WholeCheck,
  worst,
} from './consul-checks.js';
import type { ListedCheck, RowState } from './registry.js';

/** The states whose lists are short in a healthy datacenter. */
export const BAD_STATUSES = ['critical', 'warning'] as const;
export type BadStatus = (typeof BAD_STATUSES)[number];

/** One check, as far as it counts for rows. */
export interface KnownCheck {
  readonly node: string;
  /** Empty for the node's own. */
  readonly serviceId: string;
  readonly service: string;
  readonly id: string;
  readonly status: string;
  readonly state: RowState;
  readonly newest: number;
  readonly test: ListedCheck | undefined;
}

/** What an answer said of checks. */
export interface CheckNews {
  /** Those that count differently now, or ask for another test; `gone` ones do not count any more. */
  readonly changed: readonly KnownCheck[];
  readonly gone: readonly KnownCheck[];
  /** Those that left the list of a bad state: they passed, or are there no more. Until that is known they stand. */
  readonly left: readonly KnownCheck[];
}

interface Entry {
  check: KnownCheck;
  /** The answer that had it last. */
  seen: number;
}

export class CheckTable {
  /** By node and instance. */
  readonly #groups = new Map<string, Entry[]>();
  readonly #bad = { critical: new Set<Entry>(), warning: new Set<Entry>() };
  /** With the index of the list that they were not in. */
  readonly #doubted = new Map<Entry, number>();
  #answers = 0;

  /** True while it is not known of some check whether it passed or went. */
  get doubtful(): boolean {
    return this.#doubted.size > 0;
  }

  /** The worst of an instance's own checks, or of its node's with an empty id. */
  state(node: string, serviceId: string): RowState {
    let state: RowState = 'passing';
    for (const { check } of this.#groups.get(groupKey(node, serviceId)) ?? []) state = worst(state, check.state);
    return state;
  }

  /** What the first of an instance's checks tests that says so. */
  test(node: string, serviceId: string): ListedCheck | undefined {
    for (const { check } of this.#groups.get(groupKey(node, serviceId)) ?? []) if (check.test) return check.test;
    return undefined;
  }

  /**
   * The list of all checks, or undefined when it is none.
   * @param index of it
   * @param filtered what is not in it may be hidden, and stands
   */
  takeAll(body: unknown, index: number, filtered: boolean): CheckNews | undefined {
    const changed = this.#takeListed(body, index);
    if (changed === undefined) return undefined;
    const gone: KnownCheck[] = [];
    for (const entries of this.#groups.values()) {
      for (const entry of [...entries]) {
        if (entry.seen === this.#answers || entry.check.newest > index) continue;
        // Hidden: it stands as it was last seen, and no more is to be learnt of it.
        if (filtered) this.#doubted.delete(entry);
        else gone.push(this.#remove(entry));
      }
    }
    return { changed, gone, left: [] };
  }

  /** The list of the checks in one bad state, or undefined when it is none. @param index of it */
  takeBad(status: BadStatus, body: unknown, index: number): CheckNews | undefined {
    const changed = this.#takeListed(body, index);
    if (changed === undefined) return undefined;
    const left: KnownCheck[] = [];
    for (const entry of this.#bad[status]) {
      if (entry.seen === this.#answers || entry.check.newest > index || this.#doubted.has(entry)) continue;
      this.#doubted.set(entry, index);
      left.push(entry.check);
    }
    return { changed, gone: [], left };
  }

  /**
   * All checks of some instances, and of their nodes, or undefined when there is one that is none.
   * @param keys of the instances and of the nodes, as `groupKey` gives them
   * @param index of the answer
   */
  takeGroups(keys: Iterable<string>, body: readonly unknown[], index: number): CheckNews | undefined {
    const changed = this.#takeListed(body, 0);
    if (changed === undefined) return undefined;
    const gone: KnownCheck[] = [];
    for (const key of keys) {
      for (const entry of [...(this.#groups.get(key) ?? [])]) {
        if (entry.seen !== this.#answers && entry.check.newest <= index) gone.push(this.#remove(entry));
      }
    }
    return { changed, gone, left: [] };
  }

  /** The instance of `service` has gone, and its checks with it. Without an id and a service: the node has. */
  drop(node: string, serviceId: string, service: string): void {
    for (const entry of [...(this.#groups.get(groupKey(node, serviceId)) ?? [])]) {
      if (entry.check.service === service) this.#remove(entry);
    }
  }

  /** Instances of which it is not known whether a check of theirs passed or went. */
  doubted(): KnownCheck[] {
    return [...this.#doubted.keys()].map(({ check }) => check);
  }

  /** Whether a check is new, or counts differently from what is known of it. */
  differs(check: WholeCheck): boolean {
    const before = this.#find(check)?.check;
    const now = known(check, indexOf(check.ModifyIndex));
    if (before === undefined) return true;
    return before.newest <= now.newest && (before.state !== now.state || !sameTest(before.test, now.test));
  }

  has(check: WholeCheck): boolean {
    return this.#find(check) !== undefined;
  }

  /** Whether a list of a bad state has the very checks that it had when it was last taken. Undefined when it is none. */
  agrees(status: BadStatus, body: unknown): boolean | undefined {
    if (!Array.isArray(body)) return undefined;
    const known = this.#bad[status];
    let same = 0;
    for (const check of body as (ConsulCheck | null)[]) {
      if (!isCheck(check)) return undefined;
      const entry = this.#find(check);
      if (entry?.check.status !== status || entry.check.newest !== indexOf(check.ModifyIndex)) return false;
      if (!this.#doubted.has(entry)) same++;
    }
    return same === [...known].filter((entry) => !this.#doubted.has(entry)).length;
  }

  /** @param index up to which the answer is the whole truth; 0: not known */
  #takeListed(body: unknown, index: number): KnownCheck[] | undefined {
    if (!Array.isArray(body) || !(body as (ConsulCheck | null)[]).every(isCheck)) return undefined;
    this.#answers++;
    const changed: KnownCheck[] = [];
    for (const check of body as WholeCheck[]) {
      const entry = this.#find(check);
      const newest = indexOf(check.ModifyIndex);
      if (entry === undefined) changed.push(this.#add(check, newest));
      else {
        entry.seen = this.#answers;
        if (entry.check.newest > newest || (entry.check.newest === newest && newest !== 0)) {
          if ((this.#doubted.get(entry) ?? Number.POSITIVE_INFINITY) <= index) this.#doubted.delete(entry);
          continue;
        }
        const before = entry.check;
        this.#set(entry, known(check, newest));
        const { state, test } = entry.check;
        if (before.state !== state || !sameTest(before.test, test)) changed.push(entry.check);
      }
    }
    return changed;
  }

  #find({ Node, ServiceID = '', CheckID }: WholeCheck): Entry | undefined {
    const entries = this.#groups.get(groupKey(Node, ServiceID));
    return entries?.find(({ check }) => check.id === CheckID);
  }

  #add(check: WholeCheck, newest: number): KnownCheck {
    const entry: Entry = { check: known(check, newest), seen: this.#answers };
    const key = groupKey(entry.check.node, entry.check.serviceId);
    const entries = this.#groups.get(key);
    if (entries === undefined) this.#groups.set(key, [entry]);
    else entries.push(entry);
    this.#badOf(entry.check)?.add(entry);
    return entry.check;
  }

  #set(entry: Entry, check: KnownCheck): void {
    this.#badOf(entry.check)?.delete(entry);
    entry.check = check;
    this.#badOf(check)?.add(entry);
    this.#doubted.delete(entry);
  }

  #remove(entry: Entry): KnownCheck {
    const { check } = entry;
    const key = groupKey(check.node, check.serviceId);
    const rest = (this.#groups.get(key) ?? []).filter((other) => other !== entry);
    if (rest.length > 0) this.#groups.set(key, rest);
    else this.#groups.delete(key);
    this.#badOf(check)?.delete(entry);
    this.#doubted.delete(entry);
    return check;
  }

  #badOf({ status }: KnownCheck): Set<Entry> | undefined {
    return status === 'critical' || status === 'warning' ? this.#bad[status] : undefined;
  }
}

function known(check: WholeCheck, newest: number): KnownCheck {
  const { Node: node, ServiceID: serviceId = '', ServiceName: service = '', CheckID: id, Status: status } = check;
  const test = serviceId === '' ? undefined : testOf(check);
  return { node, serviceId, service, id, status, state: stateOf(id, status), newest, test };
}
