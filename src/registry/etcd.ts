/**
 * etcd as a registry, by its v3 JSON gateway: everything below a prefix is read once and then watched. The cluster's
 * id is the epoch (R7). Members are asked in turn, beginning with the last that answered.
 */
import { isUtf8 } from 'node:buffer';
import type { LookupFunction } from 'node:net';
import type { Cidr, EtcdRegistryConfig, LimitsConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import type { Adapter, Delivery, Failure, Follower, Observation, PollContext, Presence } from './adapter.js';
import { sleep } from './consul-watch.js';
import { CredentialFiles } from './credential-files.js';
import { EtcdChanges } from './etcd-changes.js';
import { decode, EtcdGateway, encode, type RangeReply, rangeEnd, type WatchMessage } from './etcd-gateway.js';
import { ofPart } from './etcd-layout.js';
import { EtcdMirror } from './etcd-mirror.js';
import { plainLayout } from './etcd-plain.js';
import { skydnsLayout } from './etcd-skydns.js';
import { HttpClient } from './http-client.js';
import { isFailure, printable } from './http-failure.js';
import { registryIdentity } from './identity.js';
import { Members } from './members.js';
import { SHARED_PACE } from './pace.js';
import { AddressPolicy } from './rows.js';
import { within } from './within.js';

export interface EtcdRegistryOptions {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
  /** Services whose keys count. */
  readonly wanted?: (service: string) => boolean;
  /** Of host names of the registry itself, see registry-hosts.ts. */
  readonly lookup?: LookupFunction | undefined;
}

/** For one member to give a whole list. */
const LIST_MS: Ms = 10_000;
const LIVENESS_MS: Ms = 5_000;
/** Of the time for a liveness read: then the other members are asked, too, and so long each of them has to answer. */
const TURN_SHARE = 0.45;
/** Liveness reads come as often as this, however long `softTtl`. */
const MAX_INTERVAL_MS: Ms = 60_000;

/** Beside its endpoints, for settings and a release mark. */
const KEYS_A_SERVICE = 2;
/** That are none of ours, or wrong. */
const OTHER_KEYS = 1_000;

/** What was read last. */
interface Known {
  readonly endpoint: string;
  readonly epoch: string;
  /** Up to which everything was delivered. */
  revision: bigint;
  /** The newest write of a key that is or was below the prefix. */
  newest: bigint;
  readonly mirror: EtcdMirror;
}

export class EtcdRegistry implements Adapter, Follower {
  readonly identity: string;
  readonly interval: Ms;
  readonly deadline: Ms;
  readonly presenceDeadline: Ms;
  readonly pace = SHARED_PACE;
  readonly credentials: CredentialFiles;
  readonly follower = this;
  readonly #endpoints: readonly string[];
  readonly #prefix: string;
  readonly #newMirror: () => EtcdMirror;
  readonly #maxKeys: number;
  readonly #client: HttpClient;
  readonly #gateway: EtcdGateway;
  readonly #members: Members;
  #known: Known | undefined;

  constructor(config: EtcdRegistryConfig, options: EtcdRegistryOptions) {
    const { softTtl, limits, allowAddresses, wanted, lookup } = options;
    this.identity = registryIdentity(config);
    this.interval = Math.min(MAX_INTERVAL_MS, softTtl / 2);
    this.presenceDeadline = Math.min(LIVENESS_MS, this.interval);
    this.deadline = config.endpoints.length * LIST_MS + 1000;
    this.#endpoints = config.endpoints;
    this.#members = new Members(config.endpoints);
    this.#prefix = `${config.prefix}/`;
    const policy = new AddressPolicy(allowAddresses, false);
    const whole = (config.layout === 'skydns' ? skydnsLayout : plainLayout)(policy, config.port);
    const layout = wanted === undefined ? whole : ofPart(whole, wanted);
    this.#newMirror = () => new EtcdMirror(this.#prefix, layout);
    this.#maxKeys = limits.maxEndpoints + KEYS_A_SERVICE * limits.maxServices + OTHER_KEYS;
    this.#client = new HttpClient(config, lookup);
    this.#gateway = new EtcdGateway(config, this.#client, limits.maxBody);
    this.credentials = new CredentialFiles(config.passwordFile, config, () => this.#gateway.forgetToken());
  }

  close(): void {
    this.#client.close();
  }

  poll({ signal }: PollContext): Promise<Observation | Failure> {
    return this.#members.ask(signal, (index) => this.#list(this.#endpoints[index]!, signal));
  }

  async follow(signal: AbortSignal, deliver: (delivery: Delivery) => void): Promise<string> {
    const known = this.#known;
    if (known === undefined) return 'nothing was read yet';
    // A change would be believed for removals, too: until it is mended there are lists alone.
    const { doubt } = known.mirror;
    if (doubt !== undefined) return doubt;
    const watching = within(signal);
    const watch = await this.#gateway.watch(
      known.endpoint,
      { ...this.#range(), start_revision: String(known.revision + 1n), progress_notify: true },
      watching.signal,
      LIST_MS,
    );
    if (isFailure(watch)) return `${known.endpoint}: ${watch.reason}`;
    const { mirror, epoch } = known;
    const changes = new EtcdChanges(
      (services) => deliver({ kind: 'change', epoch, revision: String(known.revision), ...mirror.changes(services) }),
      () => watching.abort(),
    );
    try {
      for await (const message of watch.messages) {
        const told = take(known, this.#prefix, message);
        const end = told.kind === 'over' ? told.reason : this.#tooMany(mirror.size);
        if (end !== undefined) return `${known.endpoint}: ${end}`;
        if (told.kind === 'changed') changes.add(told.services);
        else if (told.kind === 'confirmed') {
          changes.flush();
          deliver({ kind: 'confirmed' });
        }
      }
      return `${known.endpoint}: the watch ended`;
    } finally {
      changes.flush();
    }
  }

  /**
   * The newest write below the prefix and the number of keys: where both are as they are here, nothing was missed. (A
   * key that went and another that came show by the write of that; a key that went alone by the number.)
   */
  async present(signal: AbortSignal): Promise<Presence> {
    const known = this.#known;
    if (known === undefined) return { kind: 'lost' };
    const several = this.#endpoints.length > 1;
    const deadline = (several ? 2 * TURN_SHARE : 1) * this.presenceDeadline;
    const first = this.#headAt(known.endpoint, deadline, signal);
    const soon = several ? await Promise.race([first, sleep(deadline / 2, signal)]) : await first;
    // It may be slow, as the others are then: where it answers in the end, they do not count.
    const others =
      several && (soon === undefined || 'reason' in soon) ? this.#others(known.endpoint, signal) : undefined;
    const head = await first;
    if ('reason' in head) return (await others)?.(head) ?? head;
    if (head.epoch !== known.epoch || head.revision < known.revision) return { kind: 'lost' };
    const missed = head.count !== known.mirror.size || head.newest > known.newest;
    return missed ? { kind: 'behind' } : { kind: 'same' };
  }

  /**
   * Asks the other members. Resolves with what it comes to when the one that is watched has failed: where another one
   * answers, the source is well, and is read and watched there.
   */
  async #others(endpoint: string, signal: AbortSignal): Promise<(failure: Failure) => Presence> {
    const watched = this.#endpoints.indexOf(endpoint);
    const failures = new Map<number, Failure>();
    const asked = this.#endpoints.map(async (other, index) => {
      if (index === watched) throw new Error('it is asked already');
      const head = await this.#headAt(other, TURN_SHARE * this.presenceDeadline, signal);
      if (!('reason' in head)) return index;
      failures.set(index, head);
      throw new Error(head.reason);
    });
    const answered = await Promise.any(asked).catch(() => undefined);
    return (failure) => {
      if (answered === undefined) return this.#members.together(failures.set(watched, failure));
      this.#members.answered(answered);
      return { kind: 'lost' };
    };
  }

  async #headAt(endpoint: string, deadline: Ms, signal: AbortSignal): Promise<Head | Failure> {
    const query = { ...this.#range(), limit: '1', sort_order: 'DESCEND', sort_target: 'MOD', keys_only: true };
    const reply = await this.#gateway.range(endpoint, query, signal, deadline);
    return isFailure(reply) ? reply : readHead(reply);
  }

  #range(): { readonly key: string; readonly range_end: string } {
    return { key: encode(this.#prefix), range_end: encode(rangeEnd(this.#prefix)) };
  }

  async #list(endpoint: string, signal: AbortSignal): Promise<Observation | Failure> {
    // So many are sent at most, whatever there is; and how many there are is told all the same.
    const limit = Number.isSafeInteger(this.#maxKeys) ? { limit: String(this.#maxKeys + 1) } : {};
    const reply = await this.#gateway.range(endpoint, { ...this.#range(), ...limit }, signal, LIST_MS);
    if (isFailure(reply)) return reply;
    const head = readHead(reply);
    if ('reason' in head) return head;
    const tooMany = this.#tooMany(head.count);
    if (tooMany !== undefined) return { kind: 'unbelievable', reason: tooMany };
    const { epoch, revision } = head;
    const mirror = this.#newMirror();
    const before = this.#known?.epoch === epoch ? this.#known.mirror : undefined;
    let newest = 0n;
    for (const kv of reply.kvs ?? []) {
      const written = readKey(kv, this.#prefix);
      if (written === undefined) return STRANGE;
      if (written.at > newest) newest = written.at;
      mirror.list(written.key, written.value, before);
    }
    if (mirror.size !== head.count) return { kind: 'unbelievable', reason: 'the list is not whole' };
    this.#known = { endpoint, epoch, revision, newest, mirror };
    const contents = mirror.contents();
    return {
      kind: 'list',
      epoch,
      revision: String(revision),
      ...contents,
      removalsBelievable: mirror.doubt === undefined,
    };
  }

  /** R6. An endpoint is a key at least. */
  #tooMany(keys: number): string | undefined {
    if (keys <= this.#maxKeys) return undefined;
    return `${keys} keys, more than limits.maxEndpoints and limits.maxServices have room for (${this.#maxKeys})`;
  }
}

const STRANGE: Failure = { kind: 'unbelievable', reason: 'the answer is not the JSON of etcd' };

interface Head {
  readonly epoch: string;
  readonly revision: bigint;
  readonly count: number;
  readonly newest: bigint;
}

function readHead({ header, kvs, count }: RangeReply): Head | Failure {
  const revision = toRevision(header?.revision);
  const newest = toRevision(kvs?.[0]?.mod_revision ?? '0');
  const epoch = header?.cluster_id;
  const keys = Number(count ?? 0);
  if (revision === undefined || newest === undefined || typeof epoch !== 'string' || !Number.isInteger(keys)) {
    return STRANGE;
  }
  if (kvs !== undefined && !Array.isArray(kvs)) return STRANGE;
  return { epoch, revision, newest, count: keys };
}

function toRevision(text: unknown): bigint | undefined {
  return typeof text === 'string' && /^\d{1,19}$/.test(text) ? BigInt(text) : undefined;
}

interface Written {
  readonly key: string;
  readonly value: string;
  readonly at: bigint;
}

/** Undefined when it is none of etcd's, or not below the prefix: nobody asked for it. */
function readKey(kv: unknown, prefix: string): Written | undefined {
  const { key, value = '', mod_revision } = (kv ?? {}) as Record<string, unknown>;
  const at = toRevision(mod_revision);
  if (typeof key !== 'string' || typeof value !== 'string' || at === undefined) return undefined;
  const path = pathOf(Buffer.from(key, 'base64'), prefix);
  return path === undefined ? undefined : { key: path, value: decode(value), at };
}

/** The text of a key below the prefix: another one for each key, also for those that are no text. */
function pathOf(key: Buffer, prefix: string): string | undefined {
  const text = isUtf8(key) ? key.toString('utf8') : escaped(key);
  if (text.startsWith(prefix)) return text;
  // The prefix itself may have what was escaped.
  const start = escaped(Buffer.from(prefix));
  return text.startsWith(start) ? prefix + text.slice(start.length) : undefined;
}

/** Bytes that are not ASCII as halves of characters, which no text has. */
function escaped(bytes: Buffer): string {
  return bytes.toString('latin1').replace(/[\x80-\xff]/g, (byte) => String.fromCharCode(0xdc00 + byte.charCodeAt(0)));
}

/** What a message of a watch says. */
type Told =
  | { readonly kind: 'over'; readonly reason: string }
  | { readonly kind: 'nothing' | 'confirmed' }
  /** These services, or what is none. */
  | { readonly kind: 'changed'; readonly services: readonly string[] };

/** Takes one message of a watch in, as a whole. */
function take(known: Known, prefix: string, message: WatchMessage): Told {
  const { header, events = [] } = message;
  const over = (reason: string): Told => ({ kind: 'over', reason });
  if (message.canceled) {
    if (message.compact_revision !== undefined)
      return over(`revisions before ${printable(String(message.compact_revision))} are gone`);
    return over(`the watch was canceled: ${printable(String(message.cancel_reason ?? 'no reason'))}`);
  }
  if (header?.cluster_id !== known.epoch) return over('another cluster answers');
  if (message.created) return { kind: 'nothing' };
  const revision = toRevision(header.revision);
  if (revision === undefined || !Array.isArray(events)) return over('the watch is not that of etcd');
  if (revision < known.revision) return over(`the revision went back from ${known.revision} to ${revision}`);
  const written: (Written & { readonly gone: boolean })[] = [];
  for (const event of events) {
    const one = readKey(event?.kv, prefix);
    if (one === undefined) return over('the watch is not that of etcd');
    written.push({ ...one, gone: event.type === 'DELETE' });
  }
  known.revision = revision;
  const services: string[] = [];
  for (const { key, value, at, gone } of written) {
    if (at > known.newest) known.newest = at;
    services.push(...(gone ? known.mirror.delete(key) : known.mirror.put(key, value)));
  }
  return events.length === 0 ? { kind: 'confirmed' } : { kind: 'changed', services };
}
