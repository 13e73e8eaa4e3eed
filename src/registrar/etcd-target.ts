/**
 * etcd: a key with a lease. The lease ends by itself when nobody keeps it alive, and takes the key with it; ending it
 * removes the key only while that still is on it, so that a successor's entry is never removed.
 */
import type { EtcdRegistryConfig } from '../config/types.js';
import type { Failure } from '../registry/adapter.js';
import { decode, EtcdCalls, encode, type KeyValue } from '../registry/etcd-gateway.js';
import { isFailure } from '../registry/http-failure.js';
import type { Ms } from '../system/clock.js';
import type { Entry } from './entry.js';
import { writeKey } from './etcd-write.js';
import { PlainHttp } from './http.js';
import { isYounger } from './owner.js';
import type { Gone, Kept, Target } from './target.js';

/** For one member to answer one call. */
const CALL_MS: Ms = 3_000;
const MAX_BODY = 1024 * 1024;
/** What etcd says of a lease that it does not know. */
const NO_LEASE = /lease not found/;

export interface EtcdTargetOptions {
  readonly ttl: Ms;
  /** See `owner.ts`. */
  readonly owner: string;
}

export class EtcdTarget implements Target {
  readonly #calls: EtcdCalls;
  readonly #config: EtcdRegistryConfig;
  readonly #options: EtcdTargetOptions;
  /** Members, the one that answered last first, those that did not last. */
  #endpoints: readonly string[];
  /** Leases that were given and may still be there; the newest is the one in use. */
  #leases: string[] = [];
  /** The key that was written last. */
  #key: string | undefined;

  constructor(config: EtcdRegistryConfig, options: EtcdTargetOptions) {
    this.#calls = new EtcdCalls(config, new PlainHttp(config), MAX_BODY);
    this.#config = config;
    this.#options = options;
    this.#endpoints = config.endpoints;
  }

  async keep(entry: Entry, signal: AbortSignal): Promise<Kept | Failure> {
    const { layout, prefix } = this.#config;
    const written = writeKey(layout, entry, this.#options.owner);
    // A layout without a word for the state says it by leaving the entry out.
    if (written === undefined) {
      const removed = await this.remove(signal);
      return removed.kind === 'gone' ? { kind: 'kept', wrote: false } : removed;
    }
    const key = `${prefix}/${written.key}`;
    if (this.#key !== undefined && this.#key !== key) {
      const removed = await this.remove(signal);
      if (removed.kind !== 'gone') return removed;
    }
    return await this.#atSomeMember(signal, (member) => this.#keepAt(member, key, written.value, signal));
  }

  async remove(signal: AbortSignal): Promise<Gone | Failure> {
    for (let lease = this.#leases[0]; lease !== undefined; lease = this.#leases[0]) {
      const ID = lease;
      const ended = await this.#atSomeMember(signal, (member) =>
        this.#calls.call(member, 'lease/revoke', { ID }, signal, CALL_MS),
      );
      if (isFailure(ended) && !NO_LEASE.test(ended.reason)) return ended;
      this.#leases.shift();
    }
    const key = this.#key;
    if (key !== undefined) {
      const removed = await this.#atSomeMember(signal, (member) => this.#removeAt(member, key, signal));
      if (isFailure(removed)) return removed;
    }
    this.#key = undefined;
    return { kind: 'gone' };
  }

  /** The key as it is now, if it is ours: in a store that was restored it is on a lease of before. */
  async #removeAt(member: string, key: string, signal: AbortSignal): Promise<object | Failure> {
    const range = await this.#calls.range(member, { key: encode(key) }, signal, CALL_MS);
    if (isFailure(range)) return range;
    const found = range.kvs?.[0];
    if (found === undefined || ownerOf(decode(found.value ?? '')) !== this.#options.owner) return {};
    const compare = { key: encode(key), target: 'MOD', mod_revision: found.mod_revision ?? '0' };
    const success = [{ request_delete_range: { key: encode(key) } }];
    return await this.#calls.call(member, 'kv/txn', { compare: [compare], success }, signal, CALL_MS);
  }

  async #keepAt(member: string, key: string, value: string, signal: AbortSignal): Promise<Kept | Failure> {
    const range = await this.#calls.range(member, { key: encode(key) }, signal, CALL_MS);
    if (isFailure(range)) return range;
    const found = range.kvs?.[0];
    const { owner } = this.#options;
    const theirs = found === undefined ? undefined : ownerOf(decode(found.value ?? ''));
    if (isYounger(theirs, owner)) return { kind: 'taken', by: String(theirs) };
    const lease = this.#leases.at(-1);
    if (lease !== undefined) {
      const alive = await this.#keepAlive(member, lease, signal);
      if (typeof alive !== 'boolean') return alive;
      if (alive && found?.lease === lease && decode(found.value ?? '') === value) return { kind: 'kept', wrote: false };
      if (!alive) this.#leases = this.#leases.filter((other) => other !== lease);
    }
    return await this.#write(member, key, value, found, signal);
  }

  /** Whether the lease goes on for another TTL. One that is not known any more is answered without a TTL. */
  async #keepAlive(member: string, ID: string, signal: AbortSignal): Promise<boolean | Failure> {
    const reply = await this.#calls.call<{ result?: { TTL?: string } }>(
      member,
      'lease/keepalive',
      { ID },
      signal,
      CALL_MS,
    );
    return isFailure(reply) ? reply : Number(reply.result?.TTL ?? 0) > 0;
  }

  /** Writes the key on condition that it is as it was read. */
  async #write(
    member: string,
    key: string,
    value: string,
    found: KeyValue | undefined,
    signal: AbortSignal,
  ): Promise<Kept | Failure> {
    const lease = this.#leases.at(-1) ?? (await this.#grant(member, signal));
    if (typeof lease !== 'string') return lease;
    this.#key = key;
    const compare =
      found === undefined
        ? { key: encode(key), target: 'CREATE', create_revision: '0' }
        : { key: encode(key), target: 'MOD', mod_revision: found.mod_revision ?? '0' };
    const put = { request_put: { key: encode(key), value: encode(value), lease } };
    const reply = await this.#calls.call<{ succeeded?: boolean }>(
      member,
      'kv/txn',
      { compare: [compare], success: [put] },
      signal,
      CALL_MS,
    );
    if (isFailure(reply)) return reply;
    if (reply.succeeded === true) return { kind: 'kept', wrote: true };
    return { kind: 'unreachable', reason: 'somebody else wrote the key at the same time' };
  }

  async #grant(member: string, signal: AbortSignal): Promise<string | Failure> {
    const TTL = Math.ceil(this.#options.ttl / 1000);
    const reply = await this.#calls.call<{ ID?: string }>(member, 'lease/grant', { TTL }, signal, CALL_MS);
    if (isFailure(reply)) return reply;
    if (typeof reply.ID !== 'string') return { kind: 'unbelievable', reason: 'no lease in the answer to lease/grant' };
    this.#leases.push(reply.ID);
    return reply.ID;
  }

  /** The result of the first member that can be asked; what the others said, when none can. */
  async #atSomeMember<T extends object>(
    signal: AbortSignal,
    ask: (member: string) => Promise<T | Failure>,
  ): Promise<T | Failure> {
    let failure: Failure | undefined;
    for (const member of this.#endpoints) {
      const result = await ask(member);
      if (!isFailure(result)) {
        this.#endpoints = [member, ...this.#endpoints.filter((other) => other !== member)];
        return result;
      }
      this.#endpoints = [...this.#endpoints.filter((other) => other !== member), member];
      if (failure === undefined) failure = this.#of(member, result);
      else failure = { ...failure, reason: `${failure.reason}; ${this.#of(member, result).reason}` };
      if (signal.aborted) break;
    }
    return failure ?? { kind: 'unreachable', reason: 'no endpoints' };
  }

  #of(member: string, failure: Failure): Failure {
    return this.#config.endpoints.length === 1 ? failure : { ...failure, reason: `${member}: ${failure.reason}` };
  }
}

function ownerOf(value: string): unknown {
  try {
    return (JSON.parse(value) as { 'x-holdfast-owner'?: unknown } | null)?.['x-holdfast-owner'];
  } catch {
    return undefined;
  }
}
