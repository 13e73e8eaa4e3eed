/** R28: when which host name is resolved again. Deterministic; what is found is for `SourceHosts`. */
import type { BootMs, Ms } from '../system/clock.js';

/** What a look-up of a name brought. `addresses` has one at least. */
export type HostResult =
  /** `unknown`: the family of which nothing could be learnt. */
  | { readonly kind: 'addresses'; readonly addresses: readonly string[]; readonly unknown?: 4 | 6 }
  | { readonly kind: 'failed'; readonly reason: string };

const LEAST_MS: Ms = 5_000;
const LONGEST_MS: Ms = 60_000;
/** After a failure; it doubles. */
const RETRY_MS: Ms = 2_000;
/** A look-up that nobody has heard of for so long is lost. */
const LOST_MS: Ms = 30_000;

interface Entry {
  /** `softTtl` of those who want it. */
  readonly wanted: Map<object, Ms>;
  dueAt: BootMs;
  retry: Ms;
  reason: string | undefined;
}

export class HostTable {
  readonly #hosts = new Map<string, Entry>();

  /** From now on the name is resolved, at once and then every `softTtl`, within bounds. */
  want(host: string, who: object, softTtl: Ms): void {
    let entry = this.#hosts.get(host);
    if (entry === undefined) {
      entry = { wanted: new Map(), dueAt: Number.NEGATIVE_INFINITY, retry: RETRY_MS, reason: undefined };
      this.#hosts.set(host, entry);
    }
    entry.wanted.set(who, softTtl);
  }

  unwant(host: string, who: object): void {
    const entry = this.#hosts.get(host);
    if (entry?.wanted.delete(who) && entry.wanted.size === 0) this.#hosts.delete(host);
  }

  /** Names to resolve now. Each is due again when nothing is heard of it. */
  takeDue(now: BootMs): string[] {
    const due: string[] = [];
    for (const [host, entry] of this.#hosts) {
      if (entry.dueAt > now) continue;
      entry.dueAt = now + LOST_MS;
      due.push(host);
    }
    return due;
  }

  nextDue(): BootMs {
    let next = Number.POSITIVE_INFINITY;
    for (const { dueAt } of this.#hosts.values()) next = Math.min(next, dueAt);
    return next;
  }

  /** Returns whether anybody still wants it. */
  heard(host: string, result: HostResult, now: BootMs): boolean {
    const entry = this.#hosts.get(host);
    if (entry === undefined) return false;
    if (result.kind === 'addresses') {
      entry.retry = RETRY_MS;
      entry.reason = undefined;
      const softTtl = Math.min(...entry.wanted.values());
      entry.dueAt = now + Math.min(LONGEST_MS, Math.max(LEAST_MS, softTtl));
    } else {
      entry.reason = result.reason;
      entry.dueAt = now + entry.retry;
      entry.retry = Math.min(LONGEST_MS, entry.retry * 2);
    }
    return true;
  }

  /** Why the last look-up brought nothing; undefined when it did, or when there was none yet. */
  reason(host: string): string | undefined {
    return this.#hosts.get(host)?.reason;
  }
}
